"""What is swept, and what a replica that is behind can still do after it."""

from __future__ import annotations

import pytest

from quarterjack.names import claim_name

from .actors import delete, edit_spec, objects
from .engine import Scene, play, states
from .faults import Fault, Point, Rule
from .resources import JOBS, LEASES, PODS
from .virtual import START

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
DAY = 86400


def claims(scene: Scene) -> list[str]:
    names = [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)]
    return [name for name in names if not name.startswith("member-")]


def test_a_claim_that_was_reaped_is_not_made_again_by_a_replica_that_slept_meanwhile() -> None:
    """Half of the jobs are deleted, and their claims and those of all others reaped, while it sleeps before its sends."""

    async def scenario() -> None:
        scene = Scene()
        scene.api.options.collect_seconds = 0.5
        uids = [scene.job(f"job-{number}", schedule="*/10 * * * * *", concurrencyPolicy="Allow") for number in range(8)]
        scene.start("a", "b", "c")
        await scene.at(DUE - 5)
        sleeper = scene.operators["c"]
        asleep = Rule(fault=Fault(stall=Point.BEFORE_SEND, stall_seconds=500), method="POST", resource="leases")
        sleeper.connection.plan.add(asleep)
        await scene.at(DUE + 50)
        assert sleeper.process.stopped
        for number in range(4):
            delete(scene.api, JOBS, f"job-{number}")
        await scene.at(DUE + 480)
        assert not [name for name in claims(scene) for uid in uids[4:] if name == claim_name(uid, str(FIRST))]

        await scene.at(DUE + 1300)

        scene.witness.check(calm_seconds=60)
        assert sleeper.running.claims.counts.fenced >= 1
        assert len(scene.api.ledger.firings(uids[-1])) == 130
        assert len(claims(scene)) < 4 * 6 * 5
        assert not [name for name in claims(scene) for uid in uids[:4] if name.startswith(claim_name(uid, ""))]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("suspend", [False, True], ids=["a job that fires once a year", "a suspended job"])
def test_records_of_a_job_that_rests_are_dropped_when_they_are_too_old(suspend: bool) -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(schedule="1 9 2 3 *", historyRetention="2h")
        scene.start("a", "b")
        await scene.at(DUE + 30)
        if suspend:
            edit_spec(scene.api, "job", suspend=True)
        await scene.at(7000)
        assert states(scene.status()) == ["Succeeded"]

        await scene.at(7800)

        status = scene.status()
        assert status["history"] == []
        assert status["lastSuccessfulTime"] == "2026-03-02T09:01:01Z"
        assert len(objects(scene.api, PODS)) == 1

    play(scenario, start=BEGIN)


def test_memberships_of_replicas_that_are_gone_are_swept_and_counted() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.start("a", "b", "c")
        await scene.at(20)
        scene.crash("b", "c")

        await scene.at(700)

        assert [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)] == ["member-a"]
        assert scene.operators["a"].running.janitor.reaped["members"] == 2

    play(scenario)


def test_the_sweep_of_what_gone_jobs_left_says_how_much_it_was(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.api.options.collect_seconds = 0.5
        scene.job(concurrencyPolicy="Forbid")
        scene.start("a")
        await scene.at(DUE + 3)
        delete(scene.api, JOBS, "job")

        await scene.at(1200)

        assert claims(scene) == []
        assert scene.operators["a"].running.janitor.reaped["leases"] == 2

    play(scenario, start=BEGIN)

    assert "swept 2 Leases of jobs that are gone" in caplog.text
