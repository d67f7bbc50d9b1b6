"""The fence on the real API server: a create passes inside its window, and nowhere else."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.api import Answer
from tests.cluster.processes import wait_until
from tests.crds.kubectl import Kubectl

pytestmark = pytest.mark.api

PREFIX = (
    "ValidatingAdmissionPolicy 'quarterjack-fence' with binding 'quarterjack-fence' denied request: quarterjack fence: "
)
PATHS = {
    "Lease": "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "Pod": "/api/v1/namespaces/{}/pods",
}
KINDS = pytest.mark.parametrize("kind", ["Lease", "Pod"])


def stamp(seconds: int) -> str:
    """A time so many seconds from now, as the annotations have it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def window(first: int, last: int) -> dict[str, str]:
    """The annotations of a window, in seconds from now."""
    return {"quarterjack.dev/not-before": stamp(first), "quarterjack.dev/not-after": stamp(last)}


def fenced(kind: str, annotations: dict[str, str] | None, *, label: bool = True) -> dict[str, Any]:
    """A Lease or a Pod."""
    metadata: dict[str, Any] = {"generateName": "fenced-"}
    if label:
        metadata["labels"] = {"quarterjack.dev/firing": "1769850000"}
    if annotations is not None:
        metadata["annotations"] = annotations
    if kind == "Lease":
        return {"apiVersion": "coordination.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": {}}
    spec = {"containers": [{"name": "main", "image": "busybox:1.36"}], "automountServiceAccountToken": False}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


def create(kubectl: Kubectl, document: dict[str, Any], query: str = "") -> Answer:
    """Send it, once Pods may be created at all: a new namespace gets its ServiceAccount a little later."""
    path = PATHS[document["kind"]].format(kubectl.namespace)
    account = f"/api/v1/namespaces/{kubectl.namespace}/serviceaccounts/default"
    api = kubectl.cluster.api
    wait_until("the namespace is ready", lambda: api.get(account).status == 200, within_seconds=90)
    return api.post(path + query, document)


def refusal(answer: Answer) -> str:
    """What the fence said, after the API server's own words."""
    assert answer.status == 422, answer.text
    message: str = answer.json()["message"]
    _, found, said = message.partition(PREFIX)
    assert found, message
    return said


@KINDS
def test_a_create_inside_its_window_passes(kubectl: Kubectl, kind: str) -> None:
    assert create(kubectl, fenced(kind, window(-5, 25))).status == 201


@KINDS
@pytest.mark.parametrize(
    ("first", "last"),
    [
        pytest.param(60, 90, id="too early"),
        pytest.param(-90, -60, id="too late"),
        pytest.param(60, -60, id="a window that ends before it begins"),
    ],
)
def test_a_create_outside_its_window_is_refused(kubectl: Kubectl, kind: str, first: int, last: int) -> None:
    bounds = window(first, last)

    said = refusal(create(kubectl, fenced(kind, bounds)))

    assert said.startswith("created at 2")
    not_before, not_after = bounds.values()
    assert said.endswith(f"Z, outside its window from {not_before} to {not_after}")


@KINDS
@pytest.mark.parametrize(
    "annotations",
    [
        pytest.param(None, id="no annotations"),
        pytest.param({"other": "one"}, id="another annotation"),
        pytest.param({"quarterjack.dev/not-before": "2020-01-01T00:00:00Z"}, id="no end"),
        pytest.param({"quarterjack.dev/not-after": "2099-01-01T00:00:00Z"}, id="no beginning"),
        pytest.param(
            {"quarterjack.dev/not-before": "", "quarterjack.dev/not-after": "2099-01-01T00:00:00Z"}, id="empty"
        ),
        pytest.param(
            {"quarterjack.dev/not-before": "2020-01-01", "quarterjack.dev/not-after": "2099-01-01T00:00:00Z"},
            id="no time of day",
        ),
        pytest.param(
            {
                "quarterjack.dev/not-before": "2020-01-01T00:00:00Z",
                "quarterjack.dev/not-after": "2099-01-01T00:00:00.5Z",
            },
            id="half a second",
        ),
        pytest.param(
            {
                "quarterjack.dev/not-before": "2020-01-01T00:00:00Z",
                "quarterjack.dev/not-after": "2099-01-01T00:00:00+00:00",
            },
            id="an offset for Z",
        ),
        pytest.param(
            {"quarterjack.dev/not-before": "2020-01-01T00:00:00Z", "quarterjack.dev/not-after": "2099-13-01T00:00:00Z"},
            id="no such month",
        ),
        pytest.param(
            {"quarterjack.dev/not-before": "2020-01-01T00:00:00Z", "quarterjack.dev/not-after": "never\nZ"}, id="words"
        ),
    ],
)
def test_a_create_without_a_proper_window_is_refused(
    kubectl: Kubectl, kind: str, annotations: dict[str, str] | None
) -> None:
    said = refusal(create(kubectl, fenced(kind, annotations)))

    assert "quarterjack.dev/not-before" in said
    assert "quarterjack.dev/not-after" in said
    assert "must be times such as" in said


@KINDS
def test_both_bounds_of_a_window_are_inside_it(kubectl: Kubectl, kind: str) -> None:
    """A window of one second: creates until it is hit, each either stamped with that second or refused."""
    second = stamp(2)
    bounds = {"quarterjack.dev/not-before": second, "quarterjack.dev/not-after": second}
    passed = []

    def past_it() -> bool:
        answer = create(kubectl, fenced(kind, bounds))
        if answer.status == 201:
            passed.append(answer.json()["metadata"]["creationTimestamp"])
        else:
            refusal(answer)
        return stamp(-1) > second

    wait_until("the second is over", past_it, within_seconds=90)

    assert set(passed) == {second}


@KINDS
def test_a_dry_run_is_fenced_too(kubectl: Kubectl, kind: str) -> None:
    inside = create(kubectl, fenced(kind, window(-5, 25)), "?dryRun=All")
    outside = create(kubectl, fenced(kind, window(-90, -60)), "?dryRun=All")

    assert inside.status == 201
    assert "outside its window" in refusal(outside)


@KINDS
def test_what_does_not_bear_the_label_is_left_alone(kubectl: Kubectl, kind: str) -> None:
    assert create(kubectl, fenced(kind, window(-90, -60), label=False)).status == 201


@KINDS
def test_a_create_that_lies_about_its_stamp_is_refused_all_the_same(kubectl: Kubectl, kind: str) -> None:
    document = fenced(kind, window(-90, -60))
    document["metadata"]["creationTimestamp"] = stamp(-75)

    assert "outside its window" in refusal(create(kubectl, document))


def test_server_side_apply_is_fenced_when_it_creates(kubectl: Kubectl) -> None:
    late, timely = fenced("Lease", window(-90, -60)), fenced("Lease", window(-5, 25))
    for document in (late, timely):
        document["metadata"]["name"] = "applied"

    refused = kubectl.apply(late, "--server-side")
    created = kubectl.apply(timely, "--server-side")

    assert PREFIX in refused.error
    assert created.code == 0, created.error


def test_a_lease_that_exists_is_not_fenced(kubectl: Kubectl) -> None:
    created = create(kubectl, fenced("Lease", window(-5, 25))).json()
    name = created["metadata"]["name"]

    result = kubectl.run("annotate", "lease", name, "--overwrite", "quarterjack.dev/not-after=2020-01-01T00:00:00Z")

    assert result.code == 0, result.error


def test_no_namespace_is_left_out(served: Cluster) -> None:
    answer = create(Kubectl(served, "kube-system"), fenced("Lease", window(-90, -60)))

    assert "outside its window" in refusal(answer)


def test_the_policy_passes_the_servers_type_check(served: Cluster) -> None:
    path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies/quarterjack-fence"

    def status() -> dict[str, Any]:
        checked: dict[str, Any] = served.api.get(path).json().get("status", {})
        return checked

    wait_until("the policy is checked", lambda: "observedGeneration" in status(), within_seconds=90)

    assert status().get("typeChecking", {}).get("expressionWarnings", []) == []
