"""The rights that the chart gives: the operator's, and those of people."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.chart.helm import CHART, NAMESPACE, Document, Helm, installed, of_kind, the
from tests.chart.matrix import CASES
from tests.up.rights import rights

EACH = pytest.mark.parametrize("values", CASES.values(), ids=CASES)
ROLES = ("Role", "ClusterRole")
NEVER = {"secrets", "pods/exec", "pods/attach", "pods/ephemeralcontainers", "serviceaccounts/token"}


def rules(documents: list[Document]) -> list[dict[str, Any]]:
    """All rules of some roles."""
    return [rule for document in documents for rule in document["rules"]]


def bound(documents: list[Document], account: str) -> list[Document]:
    """The roles that are bound to the operator's ServiceAccount."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}
    bindings = [d for d in of_kind(documents, "RoleBinding", "ClusterRoleBinding") if subject in d["subjects"]]
    wanted = [(d["roleRef"]["kind"], d["metadata"].get("namespace"), d["roleRef"]["name"]) for d in bindings]
    roles = {(d["kind"], d["metadata"].get("namespace"), d["metadata"]["name"]): d for d in of_kind(documents, *ROLES)}
    return [roles[key] for key in wanted]


@EACH
def test_there_is_no_wildcard_no_secret_and_no_way_up(helm: Helm, values: dict[str, Any]) -> None:
    for rule in rules(of_kind(helm.rendered(values), *ROLES)):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]
        assert not NEVER & {*rule["resources"]}
        assert not {"escalate", "bind", "impersonate"} & {*rule["verbs"]}
        assert not {"rbac.authorization.k8s.io", "admissionregistration.k8s.io"} & {*rule["apiGroups"]}


def test_claims_are_written_in_its_own_namespace_only(helm: Helm) -> None:
    for values in ({}, CASES["some namespaces only"]):
        places = {
            (role["kind"], role["metadata"].get("namespace"))
            for role in of_kind(helm.rendered(values), *ROLES)
            if any("leases" in rule["resources"] for rule in role["rules"])
        }

        assert places == {("Role", NAMESPACE)}


def test_with_namespaces_it_has_the_same_rights_there_and_none_elsewhere(helm: Helm) -> None:
    everywhere = bound(installed(helm.rendered()), "quarterjack")
    somewhere = bound(installed(helm.rendered(CASES["some namespaces only"])), "quarterjack")

    places = {role["metadata"].get("namespace", ""): role["rules"] for role in somewhere}
    of_the_cluster = the(everywhere, "ClusterRole")["rules"]
    assert places.keys() == {NAMESPACE, "team-a", "team-b"}
    assert places["team-a"] == places["team-b"] == of_the_cluster
    assert places[NAMESPACE] == the(everywhere, "Role")["rules"]


def test_without_rbac_nothing_is_bound(helm: Helm) -> None:
    documents = installed(helm.rendered(CASES["an account and rights of somebody else's"]))

    assert of_kind(documents, "ServiceAccount", "RoleBinding", "ClusterRoleBinding", *ROLES) == []
    assert the(documents, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "made-before"


@pytest.mark.parametrize(
    ("role", "joins", "may"),
    [
        pytest.param("view", {"view", "edit", "admin"}, {"get", "list", "watch"}, id="see"),
        pytest.param("edit", {"edit", "admin"}, {"create", "update", "patch", "delete", "deletecollection"}, id="edit"),
        pytest.param("run", {"edit", "admin"}, {"create", "delete", "deletecollection"}, id="run"),
    ],
)
def test_people_get_what_a_role_is_called_and_no_status(helm: Helm, role: str, joins: set[str], may: set[str]) -> None:
    name = f"{NAMESPACE}:quarterjack:{role}"

    def found(values: Any) -> Document:
        return {d["metadata"]["name"]: d for d in of_kind(helm.rendered(values), "ClusterRole")}[name]

    prefix = "rbac.authorization.k8s.io/aggregate-to-"
    [rule] = found({})["rules"]
    aggregated = {key.removeprefix(prefix) for key in found({})["metadata"]["labels"] if key.startswith(prefix)}
    assert aggregated == joins
    assert {*rule["verbs"]} == may
    assert not [resource for resource in rule["resources"] if "/" in resource]
    apart = found(CASES["roles that are not aggregated"])["metadata"]["labels"]
    assert not [key for key in apart if key.startswith(prefix)]


def test_what_make_up_starts_has_the_rights_that_the_chart_gives(helm: Helm) -> None:
    def granted(documents: list[Document]) -> dict[str, list[dict[str, Any]]]:
        return {role["kind"]: role["rules"] for role in bound(documents, "quarterjack")}

    assert granted(rights()) == granted(installed(helm.rendered()))
    assert granted(rights()).keys() == {*ROLES}


def test_the_readme_of_the_chart_names_each_right_of_the_operator(helm: Helm) -> None:
    table = (CHART / "README.md").read_text().partition("\n## Permissions\n")[2].partition("\n## ")[0]
    told = [
        line.split("|")[2].partition(":")[2] for line in table.splitlines() if line.startswith("| ") and "`" in line
    ]

    granted = rules(bound(installed(helm.rendered()), "quarterjack"))

    assert {tuple(re.findall("`([a-z]+)`", verbs)) for verbs in told} == {tuple(rule["verbs"]) for rule in granted}
    assert len(told) == len(granted)
