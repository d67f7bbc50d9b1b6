"""The chart, rendered over a matrix of values: what every rendering has in common, and what each value does."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterjack.settings import Settings, parser, read_settings
from tests.chart.helm import CHART, NAMESPACE, Document, Helm, installed, of_kind, the
from tests.chart.matrix import CASES
from tests.house.pages import ROOT

EACH = pytest.mark.parametrize("values", CASES.values(), ids=CASES)
OF_NO_NAMESPACE = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "FlowSchema",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}


def pods(documents: list[Document]) -> list[Document]:
    """The specs of all Pods that come of the objects."""
    specs = [document["spec"] for document in of_kind(documents, "Pod")]
    return specs + [d["spec"]["template"]["spec"] for d in of_kind(documents, "Deployment", "ScheduledJob")]


def settings(documents: list[Document]) -> Settings:
    """What the operator makes of the arguments of its container."""
    [container] = the(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    return read_settings(container["args"], {})


@EACH
def test_the_linter_finds_nothing(helm: Helm, values: dict[str, Any]) -> None:
    printed = helm.out("lint", "--strict", str(CHART), values=values)

    assert "[WARNING]" not in printed
    assert "[ERROR]" not in printed


@EACH
def test_each_object_comes_once_with_its_namespace_and_labels(helm: Helm, values: dict[str, Any]) -> None:
    documents = [d for d in helm.rendered(values) if d["metadata"]["name"] not in {"text", "quarterjack-map"}]
    owner = values.get("commonLabels", {})

    keys = Counter((d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]) for d in documents)
    assert [key for key, count in keys.items() if count > 1] == []
    for document in documents:
        assert ("namespace" in document["metadata"]) == (document["kind"] not in OF_NO_NAMESPACE), document
        labels = document["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "quarterjack"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels.items() >= owner.items()


@EACH
def test_each_pod_is_restricted(helm: Helm, values: dict[str, Any]) -> None:
    found = pods(helm.rendered(values))

    assert len(found) == (1 if values.get("schedule") is False else 3)
    for pod in found:
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] == 65532
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            context = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True}
            assert container["securityContext"] == {**context, "capabilities": {"drop": ["ALL"]}}
            assert pod.get("tolerations", []) == values.get("tolerations", [])


@EACH
def test_the_operator_understands_its_arguments(helm: Helm, values: dict[str, Any]) -> None:
    told = settings(helm.rendered(values))

    assert told.namespace == NAMESPACE
    assert list(told.watch_namespaces) == values.get("watchNamespaces", [])
    assert told.schedule == values.get("schedule", True)
    assert told.insecure == values.get("insecureAPIServer", False)
    assert told.grace_seconds == values.get("graceSeconds", 10)
    assert (told.log_format, told.log_level) == tuple(values.get("logs", {"format": "json", "level": "info"}).values())


def test_every_flag_can_be_given_but_those_that_a_pod_has_no_use_for(helm: Helm) -> None:
    given = {
        "watchNamespaces": ["a"],
        "schedule": False,
        "insecureAPIServer": True,
        "defaultTimeZone": "Asia/Tokyo",
        "inFlight": 7,
    }

    [container] = the(helm.rendered(given), "Deployment")["spec"]["template"]["spec"]["containers"]

    flags = {argument.partition("=")[0] for argument in container["args"]}
    known = {option for action in parser()._actions for option in action.option_strings if option.startswith("--")}
    assert known - flags == {"--help", "--replica-name", "--listen", "--kubeconfig", "--context"}
    assert settings(helm.rendered(given)).default_time_zone == "Asia/Tokyo"
    assert settings(helm.rendered(given)).in_flight == 7


def test_the_crds_and_the_fence_are_those_of_the_repository_and_kept(helm: Helm) -> None:
    kinds = ("CustomResourceDefinition", "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    documents = of_kind(helm.rendered(), *kinds)
    sources = [d for path in sorted((ROOT / "crds").glob("*.yaml")) for d in yaml.safe_load_all(path.read_text())]

    assert all(d["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"} for d in documents)
    assert all(d["metadata"].pop("labels") for d in documents)
    assert sorted(documents, key=_key) == sorted(sources, key=_key)


def _key(document: Document) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def test_they_are_not_kept_where_that_is_said(helm: Helm) -> None:
    documents = helm.rendered(CASES["nothing kept"])

    assert not [d for d in installed(documents) if "annotations" in d["metadata"]]
    assert len(of_kind(documents, "CustomResourceDefinition")) == 2


def test_a_second_installation_brings_neither_crds_nor_fence_and_shares_no_name(helm: Helm) -> None:
    first = installed(helm.rendered(CASES["all that is optional"] | {"serviceAccountAllowList": {"install": False}}))
    second = installed(helm.rendered(CASES["a second installation"] | {"flowSchema": {"enabled": True}}, namespace="b"))

    def names(documents: list[Document]) -> set[tuple[str, str]]:
        return {_key(d) for d in documents if d["kind"] in OF_NO_NAMESPACE}

    assert not names(first) & names(second)
    assert {kind for kind, _ in names(second)} == {"ClusterRole", "ClusterRoleBinding", "FlowSchema"}


@pytest.mark.parametrize(
    ("values", "image"),
    [
        pytest.param({}, "ghcr.io/quarterjack/quarterjack:0.1.0", id="the version of the chart's app"),
        pytest.param({"image": {"tag": "edge"}}, "ghcr.io/quarterjack/quarterjack:edge", id="a tag"),
        pytest.param(CASES["an image by digest"], "registry.example:5000/a/b@sha256:" + "0" * 64, id="a digest"),
    ],
)
def test_all_pods_have_the_image(helm: Helm, values: dict[str, Any], image: str) -> None:
    images = {container["image"] for pod in pods(helm.rendered(values)) for container in pod["containers"]}

    assert images == {image}


def test_replicas_are_found_by_labels_that_no_other_pod_has(helm: Helm) -> None:
    documents = helm.rendered(CASES["all that is optional"])
    selector = the(documents, "Deployment")["spec"]["selector"]["matchLabels"]

    assert the(documents, "Deployment")["spec"]["template"]["metadata"]["labels"].items() >= selector.items()
    assert not the(documents, "Pod")["metadata"]["labels"].items() >= selector.items()
    assert the(documents, "Service")["spec"]["selector"] == selector
    assert the(documents, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == selector
    monitored = the(documents, "ServiceMonitor")["spec"]["selector"]["matchLabels"]
    assert the(documents, "Service")["metadata"]["labels"].items() >= monitored.items()


def test_a_replica_is_given_longer_to_end_than_it_takes(helm: Helm) -> None:
    documents = helm.rendered({"graceSeconds": 25})

    assert the(documents, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"] == 30


def test_constraints_of_spread_mean_the_replicas_unless_they_say_whom(helm: Helm) -> None:
    own, theirs = helm.rendered(), helm.rendered(CASES["places and names"])

    def selectors(documents: list[Document]) -> list[dict[str, str]]:
        constraints = the(documents, "Deployment")["spec"]["template"]["spec"]["topologySpreadConstraints"]
        return [each["labelSelector"]["matchLabels"] for each in constraints]

    assert selectors(own) == [the(own, "Deployment")["spec"]["selector"]["matchLabels"]] * 2
    assert selectors(theirs) == [{"rack": "yes"}]


def test_rules_and_dashboards_are_taken_from_the_files_of_the_chart(helm: Helm, tmp_path: Path) -> None:
    chart = shutil.copytree(CHART, tmp_path / "chart")
    for path, text in {
        "files/rules/more.yaml": "groups:\n- name: more\n  rules:\n  - {alert: More, expr: up == 0, "
        "annotations: {summary: '{{ $labels.job }}'}}\n",
        "files/dashboards/more.json": '{"title": "More {{ job }}"}\n',
    }.items():
        (chart / path).parent.mkdir(parents=True, exist_ok=True)
        (chart / path).write_text(text)
    values = {"prometheusRule": {"enabled": True}, "dashboards": {"enabled": True}}

    documents = helm.rendered(values, chart=chart)

    rule = {d["metadata"]["name"]: d for d in of_kind(documents, "PrometheusRule")}["quarterjack-more"]
    [alert] = rule["spec"]["groups"][0]["rules"]
    assert alert["annotations"] == {"summary": "{{ $labels.job }}"}
    shown = {d["metadata"]["name"]: d for d in of_kind(documents, "ConfigMap")}["quarterjack-dashboard-more"]
    assert shown["data"] == {"more.json": '{"title": "More {{ job }}"}\n'}
    assert shown["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert not of_kind(helm.rendered(chart=chart), "PrometheusRule", "ConfigMap")


def test_helm_test_looks_in_a_namespace_that_is_served(helm: Helm) -> None:
    def place(name: str) -> str:
        return str(the(helm.rendered(CASES[name]), "ScheduledJob")["metadata"]["namespace"])

    assert place("as it comes") == NAMESPACE
    assert place("some namespaces only") == "team-a"
    assert place("some namespaces and its own") == NAMESPACE
