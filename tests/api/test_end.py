"""Replicas that are told to end, as every rollout and every drained node tells them; and replicas that must not schedule."""

from __future__ import annotations

import time

import pytest

from tests.api.installation import Document, Installation, job, runs
from tests.api.observer import PodObserver

JOBS = 20
SCHEDULE = "*/2 * * * * *"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"

pytestmark = pytest.mark.api


def leases(installation: Installation, role: str) -> list[Document]:
    path = LEASES.format(installation.own_namespace)
    items: list[Document] = installation.cluster.api.get(f"{path}?labelSelector=quarterjack.dev/role={role}").json()[
        "items"
    ]
    return items


def test_a_rolling_restart_under_load_costs_no_firing_and_leaves_no_claim_undecided(installation: Installation) -> None:
    """Each replica ends by SIGTERM, in its own time and with nothing left undone, and is replaced."""
    names = [f"job-{i}" for i in range(JOBS)]

    with (
        installation.fleet() as fleet,
        PodObserver(installation.cluster, installation.namespace) as observer,
    ):
        installation.apply(job(name, SCHEDULE) for name in names)
        installation.wait_for("all fire", lambda: {j for j, _ in observer.counts()} >= set(names), seconds=60)
        first = int(time.time()) // 2 * 2
        codes = []
        for replica in fleet.replicas:
            time.sleep(2.5)
            codes.append(replica.stop())
            replica.start()
            replica.await_ready()
        last = int(time.time()) // 2 * 2
        due = {(name, second) for name in names for second in range(first, last, 2)}
        observer.wait(lambda counts: counts.keys() >= due, seconds=60)
        members = sorted(lease["metadata"]["name"] for lease in leases(installation, "member"))

    assert codes == [0, 0, 0]
    assert "left undone" not in "".join(replica.log_path.read_text() for replica in fleet.replicas)
    assert members == ["member-replica-0-2", "member-replica-1-2", "member-replica-2-2"]
    counts = observer.counts()
    assert due - counts.keys() == set(), installation.last_words()
    assert {firing: n for firing, n in counts.items() if n > 1} == {}
    late = {s.name: s.lateness_seconds for s in observer.sightings.values() if s.scheduled >= first}
    assert max(late.values()) < 10, late


def test_without_scheduling_jobs_are_shown_and_nothing_fires(installation: Installation) -> None:
    fleet = installation.fleet(replicas=2)
    for replica in fleet.replicas:
        replica.flags += ("--no-schedule",)

    with fleet:
        installation.apply([job("shown", SCHEDULE)])
        installation.wait_for("it is shown", lambda: "nextScheduleTime" in status(installation), seconds=60)
        time.sleep(6)
        shown = status(installation)

    assert (shown["state"], runs({"status": shown})) == ("Scheduled", {})
    assert {c["type"]: c["status"] for c in shown["conditions"]}["Ready"] == "True"
    assert leases(installation, "claim") == []


def status(installation: Installation) -> Document:
    found: Document = installation.read("shown").get("status") or {}
    return found
