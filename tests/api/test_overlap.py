"""Runs that must not overlap, on a real API server: replaced, ended because they do not start, and their lease given back."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.api.installation import Document, Install, Installation, job, runs
from tests.api.observer import PodObserver

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
PODS = "/api/v1/namespaces/{}/pods"

pytestmark = [pytest.mark.api, pytest.mark.patient]


def pods_of(installation: Installation, name: str) -> list[Document]:
    path = f"{PODS.format(installation.namespace)}?labelSelector=quarterjack.dev/job={name}"
    found: list[Document] = installation.cluster.api.get(path).json()["items"]
    return found


def ends(installation: Installation, name: str) -> list[tuple[str, str]]:
    """State and reason of each firing, the first one first."""
    lines = sorted(runs(installation.read(name)).items())
    return [(line["state"], line.get("reason", "")) for _, line in lines]


@dataclass(frozen=True)
class Runs:
    """What became of three jobs."""

    ends: dict[str, list[tuple[str, str]]]
    overlaps: list[tuple[str, str]]
    lease: Document


def three_jobs(install: Install) -> Runs:
    """One replaces its runs, a run of one does not start, and one runs once."""
    installation = install()
    with installation.fleet(replicas=2), PodObserver(installation.cluster, installation.namespace) as observer:
        installation.apply(
            [
                job("newest", "*/10 * * * * *", concurrencyPolicy="Replace"),
                job("stuck", "*/20 * * * * *", concurrencyPolicy="Forbid", leaseDuration="1m"),
                job("once", None, runAfter="3s", concurrencyPolicy="Forbid"),
            ]
        )
        lease = end_once(installation)
        installation.wait_for("the stuck one has made way", lambda: ends(installation, "stuck")[4:], seconds=140)
        told = {name: ends(installation, name) for name in ("newest", "stuck", "once")}
        return Runs(told, observer.overlaps, lease)


def end_once(installation: Installation) -> Document:
    """The lease of a run, which is given back as soon as the run has ended."""
    installation.wait_for("it runs", lambda: pods_of(installation, "once"), seconds=90)
    uid = installation.read("once")["metadata"]["uid"]
    path = f"{LEASES.format(installation.own_namespace)}/{uid}"
    lease: Document = installation.cluster.api.get(path).json()
    end = ("--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Succeeded"}}')
    installation.kubectl.out("patch", "pod", pods_of(installation, "once")[0]["metadata"]["name"], *end)
    installation.wait_for("it is released", lambda: installation.cluster.api.get(path).status == 404, seconds=60)
    return lease


told_of_three_jobs = pytest.mark.parametrize("told", [three_jobs], indirect=True)


@told_of_three_jobs
def test_each_firing_replaces_the_run_before_it(told: Runs) -> None:
    assert told.ends["newest"][:3] == [("Canceled", "Replaced")] * 3
    assert told.overlaps == []


@told_of_three_jobs
def test_a_run_that_does_not_start_makes_way_after_its_lease(told: Runs) -> None:
    stuck = told.ends["stuck"]

    assert stuck[0] == ("Failed", "NotStarted")
    assert set(stuck[1:3]) == {("Skipped", "Overlap")}
    assert [end for end in stuck[3:] if end[0] in {"Pending", "Running"}]


@told_of_three_jobs
def test_a_run_that_has_ended_gives_its_lease_back(told: Runs) -> None:
    assert told.lease["spec"]["leaseDurationSeconds"] == 900
    assert told.lease["spec"]["renewTime"]
    assert told.ends["once"] == [("Succeeded", "")]
