"""A replica is told to end (SIGTERM), or told not to schedule."""

from __future__ import annotations

import pytest

from .actors import objects
from .engine import Operator, Scene, firing_lines, play, states
from .faults import Fault, Plan, Point, Rule
from .resources import LEASES, PODS
from .virtual import START, virtual_loop

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
ONCE_A_DAY = "1 9 * * *"


async def end(operator: Operator) -> tuple[list[str], float]:
    """What SIGTERM does to a replica, up to the end of its process: what it left undone, and how long it took."""
    began = virtual_loop().time()
    left = await operator.process.start(operator.running.shut_down())
    operator.process.crash()
    return left, virtual_loop().time() - began


def members(scene: Scene) -> list[str]:
    names = [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)]
    return [name for name in names if name.startswith("member-")]


def firings_of(scene: Scene, *, kind: str) -> set[tuple[str, int]]:
    entries = scene.api.ledger.pods if kind == "Pod" else scene.api.ledger.leases
    return {(entry.job_uid, entry.firing) for entry in entries if entry.firing >= 0}


# SIGTERM


def test_a_replica_that_ends_launches_what_it_has_claimed_reports_it_and_claims_no_more() -> None:
    async def scenario() -> None:
        scene = Scene()
        for number in range(30):
            scene.job(f"job-{number}", concurrencyPolicy="Allow", schedule=ONCE_A_DAY)
        scene.start("a", plan=Plan(answer_seconds=0.1), in_flight=4)
        await scene.at(DUE + 0.35)

        left, took = await end(scene.operators["a"])

        claimed = firings_of(scene, kind="Lease")
        assert left == []
        assert took < 3
        assert 4 <= len(claimed) < 12
        assert firings_of(scene, kind="Pod") == claimed
        told = [number for number in range(30) if firing_lines(scene.status(f"job-{number}"))]
        assert len(told) == len(claimed)
        assert members(scene) == []
        await scene.at(DUE + 8)
        assert firings_of(scene, kind="Lease") == claimed

    play(scenario, start=BEGIN)


def test_the_firings_of_a_replica_that_ends_are_started_by_another() -> None:
    async def scenario() -> None:
        scene = Scene()
        for number in range(30):
            scene.job(f"job-{number}", concurrencyPolicy="Allow")
        scene.start("a", "b", plan=Plan(answer_seconds=0.1), in_flight=4)
        await scene.at(DUE + 0.35)
        await end(scene.operators.pop("a"))
        await scene.at(DUE + 100)

        assert len(scene.api.ledger.pods) == 60
        assert max(scene.api.ledger.lateness()) < 3
        assert members(scene) == ["member-b"]
        scene.witness.check(calm_seconds=20)

    play(scenario, start=BEGIN)


def test_a_replica_that_ends_reports_what_it_had_put_off() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(concurrencyPolicy="Allow", schedule="* * * * * *", successfulRunsHistoryLimit=100)
        scene.start("a")
        await scene.at(DUE + 25.5)
        before = len(scene.status()["history"])

        await end(scene.operators["a"])

        lines = firing_lines(scene.status())
        assert before < len(lines)
        assert sorted(lines) == scene.api.ledger.firings(uid)

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("grace", [10.0, 2.0])
def test_a_replica_that_cannot_finish_names_what_it_left_and_ends_within_its_grace(grace: float) -> None:
    async def scenario() -> None:
        scene = Scene()
        for number in range(3):
            scene.job(f"job-{number}", concurrencyPolicy="Allow", schedule=ONCE_A_DAY)
        scene.start("a", grace_seconds=grace)
        await scene.at(DUE - 1)
        scene.operators["a"].connection.partition(silent=True)
        await scene.at(DUE + 0.5)

        left, took = await end(scene.operators["a"])

        assert took == pytest.approx(grace)
        assert left[0] == "3 launches under way"
        assert left[-1] == "the membership, which expires"

    play(scenario, start=BEGIN)


def test_pods_run_on_when_all_replicas_have_ended_and_their_ends_are_recorded_by_the_next() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.end.after_seconds = 30
        scene.job(schedule=ONCE_A_DAY)
        scene.start("a")
        await scene.at(DUE + 5)
        await end(scene.operators.pop("a"))

        await scene.at(DUE + 15)

        (pod,) = objects(scene.api, PODS)
        assert (pod["status"]["phase"], "deletionTimestamp" in pod["metadata"]) == ("Running", False)
        scene.start("b")
        await scene.at(DUE + 50)
        assert states(scene.status()) == ["Succeeded"]

    play(scenario, start=BEGIN)


# --no-schedule


def test_without_scheduling_jobs_are_shown_and_nothing_fires_or_is_missed() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(concurrencyPolicy="Allow")
        scene.start("a", "b", schedule=False)
        await scene.at(DUE + 300)

        status = scene.status()

        assert (status["state"], status["history"]) == ("Scheduled", [])
        assert status["nextScheduleTime"] == "2026-03-02T09:01:00Z"
        assert scene.condition("Ready")["status"] == "True"
        assert firings_of(scene, kind="Lease") == set()

    play(scenario, start=BEGIN)


def test_what_fell_due_without_scheduling_is_settled_once_scheduling_is_back() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(concurrencyPolicy="Allow")
        scene.start("a", schedule=False)
        await scene.at(DUE + 300)
        scene.crash()
        scene.start("b")
        await scene.at(DUE + 400)

        assert states(scene.status())[:2] == ["Missed x 5", "Succeeded"]
        assert scene.api.ledger.firings(uid)[0] == FIRST + 300
        scene.witness.check(calm_seconds=30)

    play(scenario, start=BEGIN)


def test_without_scheduling_a_claim_that_a_dead_replica_left_is_not_launched() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(concurrencyPolicy="Allow", schedule=ONCE_A_DAY)
        scene.start("a")
        await scene.at(5)
        victim = scene.operators["a"]
        victim.connection.plan.add(Rule(fault=Fault(crash=Point.BEFORE_SEND), method="POST", resource="pods"))
        await scene.at(DUE + 1)
        del scene.operators["a"]
        scene.start("b", schedule=False)

        await scene.at(DUE + 300)

        assert len(firings_of(scene, kind="Lease")) == 1
        assert scene.api.ledger.pods == []

    play(scenario, start=BEGIN)


def test_without_scheduling_the_ends_of_runs_under_way_are_recorded() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.end.after_seconds = 30
        scene.job(schedule=ONCE_A_DAY)
        scene.start("a")
        await scene.at(DUE + 5)
        scene.crash()
        scene.start("b", schedule=False)
        await scene.at(DUE + 60)

        assert states(scene.status()) == ["Succeeded"]

    play(scenario, start=BEGIN)
