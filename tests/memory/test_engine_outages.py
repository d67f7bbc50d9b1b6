"""Nothing could run for a while: the server was down, or every replica. Each missed firing is settled once, as the policy says."""

from __future__ import annotations

import math
from typing import Any

import pytest

from .actors import TEMPLATE, edit_spec, objects
from .engine import Scene, firing_lines, play, states
from .faults import Fault, Outcome, Point, Request, Rule
from .resources import PODS
from .virtual import START
from .witness import epoch

BEGIN = START + 50  # the first minute begins ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
MINUTE, HOUR, DAY = 60, 3600, 86_400
OTHER_IMAGE = {"spec": {"containers": [{"name": "main", "image": "other"}], "restartPolicy": "Never"}}


async def scene_of(**spec: Any) -> tuple[Scene, str]:
    scene = Scene()
    uid = scene.job(**{"concurrencyPolicy": "Allow"} | spec)
    scene.start("a", "b", "c")
    await scene.at(5)
    return scene, uid


async def all_down(scene: Scene, *, since: float, until: float) -> None:
    """No replica runs from the one time to the other."""
    await scene.at(since)
    scene.crash()
    await scene.at(until)
    scene.start("d", "e", "f")


def missed(scene: Scene) -> list[tuple[int, int, int]]:
    """The coalesced lines, as firings relative to the first: from, to, and how many."""
    return [(a - FIRST, b - FIRST, n) for account in scene.witness.accounts.values() for a, b, n in account.rows()]


def test_firings_missed_while_the_server_was_down_are_recorded_and_the_next_ones_run() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of()
        await scene.at(DUE + 20)
        scene.take_down(120)
        await scene.at(DUE + 250)
        scene.witness.check(calm_seconds=60)
        assert missed(scene) == [(60, 60, 1)]
        assert [f - FIRST for f in scene.api.ledger.firings(uid)] == [0, 120, 180, 240]

    play(scenario, start=BEGIN)


def test_a_server_that_refuses_all_writes_while_it_starts_up_makes_firings_late_and_leaves_the_fence_trusted() -> None:
    launches: list[str] = []

    def is_first_launch(request: Request) -> bool:
        if request.resource != "pods" or "dryRun" in request.query:
            return False
        launches.append(request.replica)
        return len(launches) == 1

    async def scenario() -> None:
        scene, uid = await scene_of()
        await scene.at(50)
        for operator in scene.operators.values():
            for method in ("POST", "PATCH"):
                refused = Fault(outcome=Outcome.REFUSED, status=403)
                operator.connection.plan.add(Rule(fault=refused, method=method, times=math.inf))
        await scene.at(DUE + MINUTE + 5)  # the fence is probed each minute, so it was meanwhile
        for operator in scene.operators.values():
            operator.connection.plan.rules.clear()
            dies = Fault(crash=Point.BEFORE_SEND)
            operator.connection.plan.add(Rule(fault=dies, method="POST", where=is_first_launch))

        await scene.at(DUE + 250)

        scene.witness.check(calm_seconds=60)
        assert [f - FIRST for f in scene.api.ledger.firings(uid)] == [0, 60, 120, 180, 240]
        assert 5 < max(scene.api.ledger.lateness()) < 25

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("policy", "ran", "rows"),
    [
        pytest.param("RunOnce", [0, 3600, 4200], [(600, 3000, 5)], id="RunOnce runs the latest"),
        pytest.param("Skip", [0, 4200], [(600, 3600, 6)], id="Skip runs none"),
    ],
)
def test_an_hour_without_any_replica(policy: str, ran: list[int], rows: list[tuple[int, int, int]]) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="1/10 * * * *", misfirePolicy=policy)
        await all_down(scene, since=DUE + 60, until=DUE + HOUR + 100)
        await scene.at(DUE + HOUR + 800)
        scene.witness.check(calm_seconds=60)
        assert missed(scene) == rows
        assert [f - FIRST for f in scene.api.ledger.firings(uid)] == ran

    play(scenario, start=BEGIN)


def test_the_run_that_makes_up_for_an_outage_is_told_the_time_it_was_scheduled_for() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1/10 * * * *")
        await all_down(scene, since=5, until=DUE + HOUR + 100)
        await scene.at(DUE + HOUR + 110)
        (pod,) = objects(scene.api, PODS)
        env = {line["name"]: line["value"] for line in pod["spec"]["containers"][0]["env"]}
        assert (env["SCHEDULED_TIME"], env["RUN_TRIGGER"]) == ("2026-03-02T10:01:00Z", "CatchUp")

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("policy", ["RunOnce", "Skip"])
def test_three_days_of_missed_minutes_cost_one_list_and_a_few_writes(policy: str) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(misfirePolicy=policy)
        await all_down(scene, since=5, until=DUE + 3 * DAY + 45)
        before = scene.api.counts["PATCH", "scheduledjobs"]
        await scene.at(DUE + 3 * DAY + 300)
        scene.witness.check(calm_seconds=60)
        assert sum(n for _, _, n in missed(scene)) == 3 * DAY // MINUTE + 1
        assert scene.api.ledger.firings(uid)[0] == FIRST + 3 * DAY + 60
        assert scene.api.counts["PATCH", "scheduledjobs"] - before < 20

    play(scenario, start=BEGIN)


def test_an_hour_of_a_job_that_fires_each_second_is_one_line() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="* * * * * *")
        await all_down(scene, since=15, until=HOUR)
        await scene.at(HOUR + 200)
        scene.witness.check(calm_seconds=100)
        assert sum(n for _, _, n in missed(scene)) > 3500
        assert len(missed(scene)) <= 3
        assert len(scene.api.ledger.firings(uid)) > 200

    play(scenario, start=BEGIN)


def test_fifty_jobs_of_which_one_is_edited_and_one_suspended_meanwhile() -> None:
    async def scenario() -> None:
        scene = Scene()
        uids = [scene.job(f"job-{n}", concurrencyPolicy="Allow") for n in range(50)]
        scene.start("a", "b", "c")
        await scene.at(DUE + 20)
        scene.crash()
        await scene.at(DUE + 70)
        edit_spec(scene.api, "job-7", schedule="*/20 * * * * *")
        edit_spec(scene.api, "job-8", suspend=True)
        await scene.at(DUE + 150)
        scene.start("d", "e", "f")
        await scene.at(DUE + 330)
        scene.witness.check(calm_seconds=60)
        for n, uid in enumerate(uids):
            ran = [f - FIRST for f in scene.api.ledger.firings(uid) if f <= FIRST + 180]
            if n == 8:
                assert (ran, states(scene.status("job-8"))) == ([0], ["Succeeded", "Missed x 1"])
            elif n != 7:
                assert ran in ([0, 120, 180], [0, 180])
        status = scene.status("job-7")
        assert epoch(status["scheduledFrom"]) == FIRST + 70
        assert status["observedSchedule"] == "*/20 * * * * *"

    play(scenario, start=BEGIN)


def test_an_edit_during_an_outage_settles_the_old_schedule_up_to_the_edit() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(misfirePolicy="Skip")
        await scene.at(DUE + 20)
        scene.crash()
        await scene.at(DUE + 310)
        edit_spec(scene.api, "job", schedule="0 0 1 1 *")
        await scene.at(DUE + 700)
        scene.start("d", "e")
        await scene.at(DUE + 800)
        scene.witness.check(calm_seconds=60)
        assert missed(scene) == [(60, 300, 5)]
        assert scene.api.ledger.firings(uid) == [FIRST]

    play(scenario, start=BEGIN)


def test_a_job_is_resumed_without_its_past() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of()
        await scene.at(DUE + 20)
        edit_spec(scene.api, "job", suspend=True)
        await scene.at(DUE + 310)
        assert scene.status()["state"] == "Suspended"
        assert "nextScheduleTime" not in scene.status()
        edit_spec(scene.api, "job", suspend=False)
        await scene.at(DUE + 312)
        assert epoch(scene.status()["nextScheduleTime"]) == FIRST + 360
        await scene.at(DUE + 400)
        scene.witness.check(calm_seconds=35)
        assert [f - FIRST for f in scene.api.ledger.firings(uid)] == [0, 360]
        assert missed(scene) == []

    play(scenario, start=BEGIN)


def test_a_job_suspended_and_resumed_while_no_replica_ran_does_not_run_its_past() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of()
        await scene.at(DUE + 20)
        scene.crash()
        await scene.at(DUE + 130)
        edit_spec(scene.api, "job", suspend=True)
        await scene.at(DUE + 500)
        edit_spec(scene.api, "job", suspend=False)
        await scene.at(DUE + 510)
        scene.start("d")
        await scene.at(DUE + 620)
        scene.witness.check(calm_seconds=35)
        assert FIRST + 540 in scene.api.ledger.firings(uid)

    play(scenario, start=BEGIN)


def test_a_new_job_does_not_fire_what_was_due_before_it_was_made() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        await scene.at(DUE + 61)
        uid = scene.job("new", concurrencyPolicy="Allow")
        await scene.at(DUE + 125)
        assert scene.api.ledger.firings(uid) == [FIRST + 120]

    play(scenario, start=BEGIN)


def test_an_edit_of_the_image_loses_no_firing_that_is_due_and_delayed_by_jitter() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1 9 * * *", jitter="40s")
        await scene.at(DUE + 0.5)
        assert scene.api.ledger.pods == []
        edit_spec(scene.api, "job", template=OTHER_IMAGE)
        await scene.at(DUE + 60)
        scene.witness.check(calm_seconds=10)
        (launch,) = scene.api.ledger.pods
        assert launch.firing == FIRST
        assert DUE + 0.5 < launch.at - BEGIN < DUE + 40
        (pod,) = objects(scene.api, PODS)
        assert pod["spec"]["containers"][0]["image"] == "other"
        assert firing_lines(scene.status())[FIRST]["scheduledTime"] == "2026-03-02T09:01:00Z"

    play(scenario, start=BEGIN)


def test_a_change_of_schedule_starts_a_jittered_firing_that_was_already_due() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="1 9 * * *", jitter="40s")
        await scene.at(DUE + 1.5)
        assert scene.api.ledger.pods == []
        edit_spec(scene.api, "job", schedule="0 0 1 1 *")
        await scene.at(DUE + 90)
        scene.witness.check(calm_seconds=30)
        assert scene.api.ledger.firings(uid) == [FIRST]

    play(scenario, start=BEGIN)


def test_a_firing_that_missed_its_deadline_is_recorded_as_missed_for_that() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="1 9 * * *", startingDeadlineSeconds=30)
        await all_down(scene, since=5, until=DUE + 45)
        await scene.at(DUE + 150)
        scene.witness.check(calm_seconds=60)
        assert scene.api.ledger.firings(uid) == []
        (line,) = scene.status()["history"]
        assert (line["state"], line["reason"]) == ("Missed", "StartingDeadlineExceeded")

    play(scenario, start=BEGIN)


def test_a_template_that_was_edited_is_that_of_the_next_firing_alone() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(podHistoryLimit=10)
        await scene.at(DUE + 30)
        edit_spec(scene.api, "job", template=OTHER_IMAGE)
        await scene.at(DUE + 70)
        pods = sorted(objects(scene.api, PODS), key=lambda pod: pod["metadata"]["labels"]["quarterjack.dev/firing"])
        images = [pod["spec"]["containers"][0]["image"] for pod in pods]
        assert images == [TEMPLATE["spec"]["containers"][0]["image"], "other"]

    play(scenario, start=BEGIN)


def test_a_jitter_longer_than_the_period_does_not_put_off_what_an_outage_missed() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(interval="1m", schedule=None, jitter="10m", concurrencyPolicy="Allow")
        scene.start("a", "b")
        await scene.at(130)
        scene.crash("a", "b")
        await scene.at(330)

        scene.start("c")
        await scene.at(530)

        scene.witness.check(calm_seconds=150)
        assert epoch(scene.status()["watermark"]) > scene.now - 150
        assert epoch(scene.status()["nextScheduleTime"]) > scene.now - 5

    play(scenario, start=START)
