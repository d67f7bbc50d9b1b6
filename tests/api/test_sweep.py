"""What has served is swept on a real API server: claims, Pods beyond the limit, the lease of a run, members that died."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.api.installation import Document, Install, Installation, job, simulated_template

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases?labelSelector=quarterjack.dev/role"
PODS = "/api/v1/namespaces/{}/pods"
SUSPENDED = '{"spec":{"suspend":true}}'

pytestmark = [pytest.mark.api, pytest.mark.patient]


@dataclass(frozen=True)
class Swept:
    """What was there while the jobs fired, and what is left."""

    claims: set[str]
    pods: set[str]
    members_left: set[str]
    leases_left: set[str]
    pods_left: set[str]
    ends: list[str]


def leases(installation: Installation, role: str) -> set[str]:
    path = LEASES.format(installation.own_namespace)
    return {lease["metadata"]["name"] for lease in installation.cluster.api.get(f"{path}={role}").json()["items"]}


def pods(installation: Installation) -> set[str]:
    found = installation.cluster.api.get(PODS.format(installation.namespace)).json()["items"]
    return {pod["metadata"]["name"] for pod in found}


def ends(installation: Installation) -> list[str]:
    history: list[Document] = (installation.read("often").get("status") or {}).get("history") or []
    return [line["state"] for line in history]


def a_job_comes_to_rest(install: Install) -> Swept:
    """It fires for a while, and a replica dies meanwhile; then it is suspended. Members are looked for when a replica starts."""
    installation = install()
    with installation.fleet(replicas=2) as fleet:
        spec = {"concurrencyPolicy": "Forbid", "podHistoryLimit": 1, "template": simulated_template()}
        installation.apply([job("often", "*/4 * * * * *", **spec)])
        installation.wait_for("it fires", lambda: len(pods(installation)) >= 2, seconds=60)
        fleet.replicas[1].kill()
        fleet.start()
        installation.wait_for("it has fired often", lambda: ends(installation).count("Succeeded") >= 6, seconds=90)
        installation.kubectl.out("patch", "scheduledjob", "often", "--type=merge", "-p", SUSPENDED)
        before = leases(installation, "claim"), pods(installation)
        installation.wait_for("its claims are reaped", lambda: not leases(installation, "claim"), seconds=300)
        installation.wait_for("its Pods too", lambda: len(pods(installation)) == 1, seconds=60)
        for replica in fleet.replicas:
            replica.stop()
        fleet.start()
        now = {"member-replica-0-2", "member-replica-1-3"}
        installation.wait_for("the dead are swept", lambda: leases(installation, "member") == now, seconds=60)
        return Swept(
            *before,
            members_left=leases(installation, "member"),
            leases_left=leases(installation, "run"),
            pods_left=pods(installation),
            ends=ends(installation),
        )


@pytest.mark.parametrize("told", [a_job_comes_to_rest], indirect=True)
def test_of_a_job_that_has_come_to_rest_its_records_and_the_pods_of_its_limit_are_left(told: Swept) -> None:
    assert len(told.claims) >= 6
    assert len(told.pods) >= 6
    assert len(told.pods_left) == 1
    assert told.leases_left == set()
    assert told.ends.count("Succeeded") >= 6
