"""Missed firings are caught up: oldest first, each with its own scheduled time, once, and beside other runs as the policy says."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from .actors import End, edit_spec, objects
from .engine import Scene, firing_lines, play, states
from .resources import PODS
from .statuses import Document
from .virtual import START
from .witness import epoch

BEGIN = START + 50  # the first minute begins ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
MINUTE, HOUR, DAY, YEAR = 60, 3600, 86_400, 365 * 86_400
EVERY_TEN = "1/10 * * * *"  # the first of them is the first minute


async def scene_of(*names: str, **spec: Any) -> tuple[Scene, str]:
    scene = Scene()
    usual = {"misfirePolicy": "CatchUp", "concurrencyPolicy": "Allow", "schedule": EVERY_TEN}
    limits = {"successfulRunsHistoryLimit": 100, "failedRunsHistoryLimit": 100, "podHistoryLimit": 10}
    uid = scene.job(**usual | limits | spec)
    scene.start(*(names or "abc"))
    await scene.at(5)
    return scene, uid


async def all_down(scene: Scene, *, since: float, until: float) -> None:
    """No replica runs from the one time to the other."""
    await scene.at(since)
    scene.crash()
    await scene.at(until)
    scene.start("d", "e", "f")


def launched(scene: Scene) -> list[int]:
    """The firings that ran, relative to the first, in the order in which they were launched."""
    return [pod.firing - FIRST for pod in scene.api.ledger.pods]


def of_state(scene: Scene, state: str) -> list[int]:
    """The firings that have this state, relative to the first."""
    return sorted(f - FIRST for f, line in firing_lines(scene.status()).items() if line["state"] == state)


def missed(scene: Scene) -> list[tuple[int, int, int, str]]:
    """The coalesced lines: first and last firing relative to the first, how many, and why."""
    rows = [line for line in scene.status()["history"] if line.get("count")]
    return [
        (epoch(r["firstScheduledTime"]) - FIRST, epoch(r["lastScheduledTime"]) - FIRST, r["count"], r["reason"])
        for r in rows
    ]


def told(pod: Document, name: str) -> str:
    return next(str(line["value"]) for line in pod["spec"]["containers"][0]["env"] if line["name"] == name)


# After an outage


@pytest.mark.parametrize("policy", ["Allow", "Forbid"])
def test_an_hour_without_any_replica_is_made_up_for_oldest_first(policy: str) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy=policy)
        await all_down(scene, since=DUE + 60, until=DUE + HOUR + 100)
        await scene.at(DUE + HOUR + 800)
        scene.witness.check(calm_seconds=60)
        assert launched(scene) == [0, 600, 1200, 1800, 2400, 3000, 3600, 4200]
        assert missed(scene) == []
        assert {line["trigger"] for line in scene.status()["history"]} == {"Schedule", "CatchUp"}

    play(scenario, start=BEGIN)


def test_each_run_is_told_the_time_it_stands_for() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        await all_down(scene, since=5, until=DUE + 1300)
        await scene.at(DUE + 1310)
        pods = objects(scene.api, PODS)
        times = sorted((told(pod, "SCHEDULED_TIME"), told(pod, "RUN_TRIGGER")) for pod in pods)
        assert times == [(f"2026-03-02T09:{minute}:00Z", "CatchUp") for minute in ("01", "11", "21")]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(("up_after", "operator_too"), [(1300.0, False), (1300.0, True)])
def test_an_outage_of_the_server_is_made_up_for_as_one_of_the_operator_is(up_after: float, operator_too: bool) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        await scene.at(DUE + 60)
        scene.take_down(up_after)
        if operator_too:
            await all_down(scene, since=DUE + 300, until=DUE + 700)
        await scene.at(DUE + 2000)
        scene.witness.check(calm_seconds=60)
        assert launched(scene) == [0, 600, 1200, 1800]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("span", "policy", "caught"),
    [
        pytest.param(12 * HOUR, "Skip", 0, id="12 hours, Skip"),
        pytest.param(3 * DAY, "RunOnce", 1, id="three days, RunOnce"),
        pytest.param(3 * DAY, "CatchUp", 100, id="three days, CatchUp"),
        pytest.param(YEAR, "CatchUp", 100, id="a year, CatchUp"),
    ],
)
def test_a_long_absence_costs_a_few_writes_and_runs_a_bounded_number(span: int, policy: str, caught: int) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1-59/2 * * * *", misfirePolicy=policy)
        await all_down(scene, since=5, until=DUE + span + 100)
        written = scene.api.counts["PATCH", "scheduledjobs"]
        await scene.at(DUE + span + 118)
        late = list(range(0, span + 1, 120))
        assert launched(scene) == late[len(late) - caught :]
        assert sum(count for _, _, count, _ in missed(scene)) == len(late) - caught
        assert scene.api.counts["PATCH", "scheduledjobs"] - written < 20

    play(scenario, start=BEGIN)


def test_of_more_than_the_limit_the_latest_run_and_the_older_ones_are_one_record() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(catchUpLimit=2)
        await all_down(scene, since=5, until=DUE + HOUR + 100)
        await scene.at(DUE + HOUR + 200)
        scene.witness.check(calm_seconds=60)
        assert launched(scene) == [3000, 3600]
        assert missed(scene) == [(0, 2400, 5, "Misfire")]
        (row,) = [line for line in scene.status()["history"] if line.get("count")]
        assert row["message"].endswith("and catchUpLimit is 2")

    play(scenario, start=BEGIN)


def test_what_could_not_start_in_time_is_not_caught_up() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(startingDeadlineSeconds=1500)
        await all_down(scene, since=5, until=DUE + HOUR + 100)
        await scene.at(DUE + HOUR + 200)
        scene.witness.check(calm_seconds=60)
        assert launched(scene) == [2400, 3000, 3600]
        assert missed(scene) == [(0, 1800, 4, "StartingDeadlineExceeded")]

    play(scenario, start=BEGIN)


def test_an_hour_of_a_job_that_fires_each_second_is_caught_up_within_its_bounds() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="* 1-30 9 * * *")
        await all_down(scene, since=5, until=HOUR)
        await scene.at(HOUR + 200)
        scene.witness.check(calm_seconds=100)
        assert launched(scene) == list(range(1700, 1800))
        assert missed(scene) == [(0, 1699, 1700, "Misfire")]
        assert scene.witness.most_alive <= 100

    play(scenario, start=BEGIN)


# Beside other runs


def test_under_forbid_one_runs_after_the_other_without_a_pause_and_none_is_skipped() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy="Forbid")
        scene.end = End(20)
        await all_down(scene, since=5, until=DUE + HOUR + 100)
        await scene.at(DUE + HOUR + 350)
        scene.witness.check(calm_seconds=300)
        assert scene.witness.most_alive == 1
        assert launched(scene) == [0, 600, 1200, 1800, 2400, 3000, 3600]
        starts = [pod.at for pod in scene.api.ledger.pods]
        assert all(20 <= after - before < 22 for before, after in pairwise(starts))

    play(scenario, start=BEGIN)


def test_a_firing_that_falls_due_while_older_ones_are_caught_up_is_skipped_under_forbid() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy="Forbid")
        scene.end = End(200)
        await all_down(scene, since=5, until=DUE + 1300)
        await scene.at(DUE + 3100)
        scene.witness.check(calm_seconds=400, alive=True)
        assert launched(scene) == [0, 600, 1200, 2400, 3000]
        assert of_state(scene, "Skipped") == [1800]

    play(scenario, start=BEGIN)


def test_between_two_that_are_caught_up_no_younger_firing_starts() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy="Forbid", schedule="* * * * * *")
        scene.end = End(1.2)
        await all_down(scene, since=20, until=100)
        await scene.at(400)
        scene.witness.check(calm_seconds=60)
        caught = [pod for pod in scene.api.ledger.pods if pod.trigger == "CatchUp"]
        others = [pod for pod in scene.api.ledger.pods if pod.trigger == "Schedule" and pod.at > BEGIN + 100]
        assert len(caught) > 10
        assert [pod.firing for pod in caught] == sorted(pod.firing for pod in caught)
        assert [pod for pod in others if caught[0].at < pod.at < caught[-1].at] == []

    play(scenario, start=BEGIN)


def test_under_allow_a_firing_that_falls_due_runs_on_time_beside_those_that_are_caught_up() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.end = End(400)
        await all_down(scene, since=5, until=DUE + 1500)
        await scene.at(DUE + 1890)
        scene.witness.check(calm_seconds=650, alive=True)
        assert launched(scene) == [0, 600, 1200, 1800]
        assert scene.witness.most_alive == 4
        assert scene.api.ledger.pods[-1].at < BEGIN + DUE + 1801

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("misfire", ["Skip", "CatchUp"])
def test_runs_that_outlast_their_period_skip_firings_and_nothing_is_missed(misfire: str) -> None:
    """A dropped firing is in the history whatever the misfire policy: nothing kept it from starting but the run before it."""

    async def scenario() -> None:
        scene, _ = await scene_of(misfirePolicy=misfire, concurrencyPolicy="Forbid", schedule="* * * * *")
        scene.end = End(150)
        await scene.at(DUE + 470)
        scene.witness.check(calm_seconds=170, alive=True)
        assert launched(scene) == [0, 180, 360]
        assert of_state(scene, "Skipped") == [60, 120, 240, 300, 420]
        assert missed(scene) == []
        assert all(told(pod, "SCHEDULED_TIME").endswith(":00Z") for pod in objects(scene.api, PODS))

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("deadline", [None, 120])
def test_a_run_of_three_quarters_of_an_hour_skips_what_falls_due_meanwhile(deadline: int | None) -> None:
    async def scenario() -> None:
        limit: dict[str, Any] = {} if deadline is None else {"startingDeadlineSeconds": deadline}
        scene, _ = await scene_of(concurrencyPolicy="Forbid", **limit)
        scene.end = End(48 * MINUTE)
        await scene.at(DUE + HOUR)
        scene.witness.check(calm_seconds=3000, alive=True)
        assert launched(scene)[:2] == [0, 3000]
        assert of_state(scene, "Skipped")[:4] == [600, 1200, 1800, 2400]

    play(scenario, start=BEGIN)


def test_a_caught_up_firing_that_waits_past_its_deadline_is_missed_and_told_so() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy="Forbid", startingDeadlineSeconds=900)
        scene.end = End(800)
        await all_down(scene, since=5, until=DUE + 750)
        await scene.at(DUE + 2500)
        scene.witness.check(calm_seconds=800, alive=True)
        assert launched(scene)[:1] == [0]
        line = firing_lines(scene.status())[FIRST + 600]
        assert (line["state"], line["reason"]) == ("Missed", "StartingDeadlineExceeded")

    play(scenario, start=BEGIN)


# Edits and suspension


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"schedule": "1 8 * * *"}, id="another time"),
        pytest.param({"timeZone": "Etc/GMT-1"}, id="another zone"),
    ],
)
def test_the_past_of_an_edited_schedule_is_not_caught_up(edit: dict[str, str]) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1 9 * * *", startingDeadlineSeconds=DAY)
        await scene.at(DUE + 600)
        edit_spec(scene.api, "job", **edit)
        await scene.at(DUE + 900)
        assert launched(scene) == [0]
        await all_down(scene, since=DUE + 910, until=DUE + DAY - HOUR - 300)
        await scene.at(DUE + DAY - HOUR + 100)
        scene.witness.check(calm_seconds=60)
        assert launched(scene) == [0, DAY - HOUR]

    play(scenario, start=BEGIN)


def test_an_edit_while_no_replica_runs_catches_up_the_old_schedule_up_to_the_edit_and_no_further() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        await scene.at(DUE + 60)
        scene.crash()
        await scene.at(DUE + 1500)
        edit_spec(scene.api, "job", schedule="0 0 1 1 *")
        await scene.at(DUE + HOUR)
        scene.start("d", "e")
        await scene.at(DUE + HOUR + 200)
        scene.witness.check(calm_seconds=60)
        assert launched(scene) == [0, 600, 1200]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("misfire", ["Skip", "CatchUp"])
def test_a_resumed_job_has_nothing_to_catch_up(misfire: str) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="* * * * *", misfirePolicy=misfire)
        await scene.at(DUE + 20)
        edit_spec(scene.api, "job", suspend=True)
        await scene.at(DUE + 3 * HOUR + 30)
        edit_spec(scene.api, "job", suspend=False)
        await scene.at(DUE + 3 * HOUR + 95)
        scene.witness.check(calm_seconds=30)
        assert launched(scene) == [0, 3 * HOUR + 60]
        assert missed(scene) == []

    play(scenario, start=BEGIN)


def test_what_waits_to_be_caught_up_is_skipped_when_its_job_is_suspended() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy="Forbid")
        scene.end = End(100)
        await all_down(scene, since=5, until=DUE + HOUR + 100)
        await scene.at(DUE + HOUR + 150)
        edit_spec(scene.api, "job", suspend=True)
        await scene.at(DUE + HOUR + 180)
        edit_spec(scene.api, "job", suspend=False)
        await scene.at(DUE + HOUR + 400)
        scene.witness.check(calm_seconds=250, alive=True)
        assert launched(scene) == [0]
        assert of_state(scene, "Skipped") == [600, 1200, 1800, 2400, 3000, 3600]

    play(scenario, start=BEGIN)


# Crashes on the way


@pytest.mark.parametrize("policy", ["Allow", "Forbid"])
@pytest.mark.parametrize("after", [0.3, 2.0, 4.0, 7.0, 11.0, 20.0])
def test_replicas_that_die_while_they_catch_up_leave_the_rest_to_others(policy: str, after: float) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy=policy)
        await all_down(scene, since=5, until=DUE + HOUR + 100)
        await scene.at(DUE + HOUR + 100 + after)
        scene.crash("d", "e")
        await scene.at(DUE + HOUR + 500)
        scene.witness.check(calm_seconds=300)
        assert sorted(launched(scene)) == [0, 600, 1200, 1800, 2400, 3000, 3600]
        assert policy == "Allow" or launched(scene) == sorted(launched(scene))
        assert states(scene.status()) == ["Succeeded"] * 7

    play(scenario, start=BEGIN)


# Everything at once


@pytest.mark.parametrize("seconds", [4.0, 25.0, 70.0])
@pytest.mark.parametrize("delay", ["1s", "30s", "2m"])
def test_under_forbid_a_mix_of_retries_and_what_is_caught_up_never_overlaps(seconds: float, delay: str) -> None:
    """Half of the attempts fail; the operator is away twice, once while a run waits for its next attempt."""

    async def scenario() -> None:
        scene, _ = await scene_of(
            schedule="* * * * *", concurrencyPolicy="Forbid", retry={"maxRetries": 2, "delay": delay}, catchUpLimit=5
        )
        scene.kubelet.ends = lambda pod: End(seconds, "Failed" if pod["metadata"]["uid"] < "8" else "Succeeded")
        await all_down(scene, since=DUE + 65, until=DUE + 400)
        await scene.at(DUE + 600)
        scene.crash()
        await scene.at(DUE + 1200)
        scene.start("g", "h")
        await scene.at(DUE + 1500)
        edit_spec(scene.api, "job", schedule="0 0 1 1 *")
        await scene.at(DUE + 6000)
        scene.witness.check(calm_seconds=60)
        assert scene.witness.most_alive == 1
        assert any(pod.attempt > 1 for pod in scene.api.ledger.pods)
        caught = [pod.firing for pod in scene.api.ledger.pods if pod.trigger == "CatchUp" and pod.attempt == 1]
        assert caught == sorted(caught)

    play(scenario, start=BEGIN)
