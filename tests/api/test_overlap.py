"""Runs that must not overlap, on a real API server: replaced, ended because they do not start, and their lease given back."""

from __future__ import annotations

import time

import pytest

from tests.api.installation import Document, Installation, job, runs

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
PODS = "/api/v1/namespaces/{}/pods"

pytestmark = [pytest.mark.api, pytest.mark.patient]


def pods(installation: Installation) -> list[Document]:
    found: list[Document] = installation.cluster.api.get(PODS.format(installation.namespace)).json()["items"]
    return found


def ends(installation: Installation, name: str) -> list[tuple[str, str]]:
    """State and reason of each firing, the first one first."""
    lines = sorted(runs(installation.read(name)).items())
    return [(line["state"], line.get("reason", "")) for _, line in lines]


def test_each_firing_replaces_the_run_before_it(installation: Installation) -> None:
    most = 0
    with installation.fleet():
        installation.apply([job("newest", "*/10 * * * * *", concurrencyPolicy="Replace")])
        until = time.monotonic() + 45
        while time.monotonic() < until:
            most = max(most, len(pods(installation)))
            time.sleep(0.05)
        installation.wait_for(
            "three are replaced",
            lambda: ends(installation, "newest")[:3] == [("Canceled", "Replaced")] * 3,
            seconds=20,
        )
        assert most == 1


def test_a_run_that_does_not_start_makes_way_after_its_lease(installation: Installation) -> None:
    with installation.fleet():
        installation.apply([job("stuck", "*/20 * * * * *", concurrencyPolicy="Forbid", leaseDuration="1m")])
        installation.wait_for("it runs", lambda: ends(installation, "stuck"), seconds=40)
        installation.wait_for(
            "the next one runs", lambda: ends(installation, "stuck")[3:] and len(pods(installation)) == 1, seconds=100
        )
        installation.wait_for(
            "it has failed", lambda: ends(installation, "stuck")[0] == ("Failed", "NotStarted"), seconds=20
        )
        assert set(ends(installation, "stuck")[1:3]) == {("Skipped", "Overlap")}


def test_a_run_that_has_ended_gives_its_lease_back(installation: Installation) -> None:
    with installation.fleet():
        installation.apply([job("once", None, runAfter="3s", concurrencyPolicy="Forbid")])
        installation.wait_for("it runs", lambda: pods(installation), seconds=20)
        uid = installation.read("once")["metadata"]["uid"]
        path = f"{LEASES.format(installation.own_namespace)}/{uid}"
        lease = installation.cluster.api.get(path).json()
        name = pods(installation)[0]["metadata"]["name"]
        installation.kubectl.out(
            "patch", "pod", name, "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Succeeded"}}'
        )
        installation.wait_for("it is released", lambda: installation.cluster.api.get(path).status == 404, seconds=60)
        assert lease["spec"]["leaseDurationSeconds"] == 900
        assert lease["spec"]["renewTime"]
        assert ends(installation, "once") == [("Succeeded", "")]
