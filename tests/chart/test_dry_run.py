"""What a real API server makes of the chart: it takes every rendering, and the policy of ServiceAccounts holds."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.chart.helm import Document, Helm, of_kind, the
from tests.chart.matrix import CASES
from tests.cluster import Cluster
from tests.cluster.processes import wait_until
from tests.crds.kubectl import Kubectl, Result
from tests.crds.serving import serve

pytestmark = pytest.mark.node

# Their kinds are the Prometheus operator's.
NOT_SERVED = ("ServiceMonitor", "PrometheusRule")
ON_THE_SERVER = ("--server-side", "--force-conflicts")
LIST = "quarterjack.dev/allowed-service-accounts"


@pytest.fixture(scope="module")
def kubectl(node_cluster: Cluster) -> Iterator[Kubectl]:
    """kubectl in a namespace that takes restricted Pods only, where our kinds are served."""
    serve(node_cluster, *ON_THE_SERVER)
    namespace = f"chart-{time.monotonic_ns()}"
    labels = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}
    node_cluster.api.post("/api/v1/namespaces", {"metadata": {"name": namespace, "labels": labels}})
    account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
    wait_until("the namespace is ready", lambda: node_cluster.api.get(account).status == 200, within_seconds=90)
    yield Kubectl(node_cluster, namespace)
    node_cluster.api.request("DELETE", f"/api/v1/namespaces/{namespace}")


def applied(kubectl: Kubectl, documents: list[Document], *flags: str) -> Result:
    """Apply them on the server, in one call."""
    listed = {"apiVersion": "v1", "kind": "List", "items": documents}
    return kubectl.run("apply", *ON_THE_SERVER, *flags, "-f", "-", stdin=json.dumps(listed))


def test_the_api_server_takes_every_rendering_without_a_warning(helm: Helm, kubectl: Kubectl) -> None:
    """In one call, what several of them have in common once: a call costs more than its objects."""
    documents = [document for values in CASES.values() for document in rendered(helm, kubectl.namespace, values)]
    distinct = list({json.dumps(document): document for document in documents}.values())
    # A Pod, such as that of helm test, is taken only where its account is there already.
    assert applied(kubectl, of_kind(distinct, "ServiceAccount")).code == 0

    result = applied(kubectl, distinct, "--dry-run=server")

    assert (result.code, result.error) == (0, "")
    assert len(result.out.splitlines()) == len(distinct) > len(CASES)


def rendered(helm: Helm, namespace: str, values: dict[str, Any]) -> list[Document]:
    """What may be applied of a rendering; it serves its own namespace where it would serve some that are not there."""
    place = {"watchNamespaces": [namespace]} if "watchNamespaces" in values else {}
    return [d for d in helm.rendered({**values, **place}, namespace=namespace) if d["kind"] not in NOT_SERVED]


def test_a_replica_is_let_into_a_restricted_namespace(helm: Helm, kubectl: Kubectl) -> None:
    documents = helm.rendered(namespace=kubectl.namespace)
    pod = the(documents, "Deployment")["spec"]["template"] | {"apiVersion": "v1", "kind": "Pod"}
    pod["metadata"] = pod["metadata"] | {"name": "replica"}
    assert applied(kubectl, of_kind(documents, "ServiceAccount")).code == 0

    result = kubectl.apply(pod, "--dry-run=server")

    assert (result.code, result.error) == (0, "")


@pytest.fixture(scope="module")
def listed(helm: Helm, kubectl: Kubectl) -> Iterator[Kubectl]:
    """The namespace, once it allows two accounts by name and the policy is in force."""
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policy = [
        document
        for document in of_kind(helm.rendered(CASES["all that is optional"]), *kinds)
        if document["metadata"]["name"] == "quarterjack-service-accounts"
    ]
    assert applied(kubectl, policy).code == 0
    kubectl.out("annotate", "namespace", kubectl.namespace, f"{LIST}=default, reports")
    kubectl.out("create", "serviceaccount", "strong")
    wait_until("the policy is in force", lambda: dry_run(kubectl, job("strong")).code != 0, within_seconds=90)
    yield kubectl
    kubectl.out("delete", ",".join(kinds), "quarterjack-service-accounts")


def dry_run(kubectl: Kubectl, document: Document) -> Result:
    """Apply it without effect."""
    return kubectl.apply(document, "--dry-run=server")


def pod_spec(account: str | None) -> Document:
    """A restricted Pod that uses an account."""
    context = {"allowPrivilegeEscalation": False, "runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}}
    security = context | {"seccompProfile": {"type": "RuntimeDefault"}}
    container = {"name": "main", "image": "busybox:1.36", "securityContext": security}
    return {"containers": [container]} | ({"serviceAccountName": account} if account else {})


def job(account: str | None) -> Document:
    """A job whose Pods use an account."""
    spec = {"template": {"spec": pod_spec(account)}}
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJob",
        "metadata": {"name": "job"},
        "spec": spec,
    }


@pytest.mark.parametrize("account", [None, "default", "reports"])
def test_a_job_may_use_an_account_that_its_namespace_names(listed: Kubectl, account: str | None) -> None:
    result = dry_run(listed, job(account))

    assert result.code == 0, result.error


def test_a_job_that_uses_another_is_refused_by_name(listed: Kubectl) -> None:
    result = dry_run(listed, job("strong"))

    assert result.code != 0
    assert "spec.template.spec.serviceAccountName: strong is not among those that the namespace allows" in result.error


def test_a_job_may_use_any_account_where_its_namespace_names_none(listed: Kubectl) -> None:
    result = dry_run(Kubectl(listed.cluster, "default"), job("strong"))

    assert result.code == 0, result.error


@pytest.mark.parametrize(
    ("labels", "refused"),
    [
        pytest.param({"quarterjack.dev/job": "job"}, True, id="the Pod of a job that was there before the list"),
        pytest.param({}, False, id="a Pod of somebody else's"),
    ],
)
def test_pods_are_looked_at_where_they_are_of_a_job(listed: Kubectl, labels: dict[str, str], refused: bool) -> None:
    metadata = {"name": "pod", "labels": labels}

    result = dry_run(listed, {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec("strong")})

    assert ("strong is not among those that the namespace allows" in result.error) == refused
    assert (result.code != 0) == refused
