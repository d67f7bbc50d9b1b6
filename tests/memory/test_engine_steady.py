"""What must not matter: restarts, labels, odd times on Leases, a replica whose timer is early, a process that slept."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from quarterjack import names

from .actors import annotate, ask, edit_spec, objects, start_run, succeed
from .engine import MINUTELY, Scene, firing_lines, play, states
from .resources import EVENTS, JOBS, LEASES, PODS
from .scrape import value
from .statuses import Document, no_pods
from .virtual import START
from .witness import epoch

BEGIN = START + 50  # the first minute begins ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
MINUTE, HOUR, DAY = 60, 3600, 86_400


def instant(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


# Restarts


@pytest.mark.parametrize(
    ("schedule", "first"),
    [
        pytest.param("0,15,30,45 6-22 * * *", "2023-10-29T05:00", id="each quarter of an hour by day"),
        pytest.param("15 7,8,13,19 * * *", "2023-10-29T06:15", id="four times a day"),
    ],
)
def test_a04_a_restart_in_the_night_in_which_clocks_are_set_back_moves_no_firing(schedule: str, first: str) -> None:
    begin = instant("2023-10-28T23:55")

    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule=schedule, timeZone="Europe/Brussels", concurrencyPolicy="Allow")
        scene.start("a", "b")
        await scene.at(120)
        for restart in ("2023-10-29T00:30", "2023-10-29T01:10"):
            scene.crash()
            await scene.at(instant(restart) - begin)
            scene.start("a", "b")
            await scene.at(instant(restart) - begin + 120)
        scene.crash()
        await scene.at(instant(first) - begin - 120)
        scene.start("a", "b")
        await scene.at(instant(first) - begin + 60)
        scene.witness.check(calm_seconds=30)
        assert scene.api.ledger.firings(uid) == [instant(first)]

    play(scenario, start=begin)


def test_b17_ten_restarts_of_all_replicas_fire_nothing_serve_no_run_again_and_tell_nothing_new() -> None:
    async def scenario() -> None:
        scene = Scene()
        for number in range(30):
            scene.job(f"job-{number}", schedule="0 0 1 1 *")
        scene.start("a", "b", "c")
        await scene.at(5)
        start_run(scene.api, "by-hand", "job-7")
        await scene.at(15)
        told = len(objects(scene.api, EVENTS))
        for restart in range(10):
            await scene.at(20 + 6 * restart)
            scene.crash()
            for _ in range(3):
                scene.restart()
        await scene.at(120)
        assert [pod["metadata"]["labels"]["quarterjack.dev/job"] for pod in objects(scene.api, PODS)] == ["job-7"]
        assert len(objects(scene.api, EVENTS)) <= told + 1

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("schedule", [MINUTELY, f"{datetime.fromtimestamp(FIRST, UTC):%M %H %d %m} *"])
def test_c16_a_restart_between_a_start_that_jitter_delays_and_the_end_of_the_jitter_neither_repeats_nor_skips(
    schedule: str,
) -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule=schedule, jitter="50s", concurrencyPolicy="Allow")
        scene.start("a", "b")
        ledger = scene.api.ledger
        await scene.until(lambda: ledger.pods, at_most=70)
        scene.crash()
        scene.start("c", "d")
        await scene.at(DUE + 115)
        expected = [FIRST, FIRST + MINUTE] if schedule == MINUTELY else [FIRST]
        assert ledger.firings(uid) == expected
        assert all(0 <= late < 51 for late in ledger.lateness())

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("jitter", ["119s", "10m", "30d"])
def test_c15_jitter_longer_than_the_period_keeps_one_run_for_each_firing(jitter: str) -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule="*/2 * * * *", jitter=jitter, concurrencyPolicy="Allow", podHistoryLimit=50)
        scene.start("a", "b")
        await scene.at(DUE + 20 * MINUTE + 2 * MINUTE)
        fired = scene.api.ledger.firings(uid)
        due = [f for f in range(FIRST, FIRST + 20 * MINUTE + 1, MINUTE) if f % 120 == 0]
        assert fired[: len(due)] == due
        assert all(0 <= late <= 120.5 for late in scene.api.ledger.lateness())

    play(scenario, start=BEGIN)


# What people see


def test_a23_status_metric_and_firing_agree_on_what_is_next_in_a_zone() -> None:
    begin, next_time = instant("2026-03-02T16:58"), instant("2026-03-02T17:00")

    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule="0 10 * * *", timeZone="America/Phoenix")
        scene.start("a", "b")
        await scene.at(30)
        assert epoch(scene.status()["nextScheduleTime"]) == next_time
        for operator in scene.operators.values():
            assert value(operator.running, "scheduledjob_next_schedule_time_seconds", scheduledjob="job") == next_time
        await scene.at(130)
        assert scene.api.ledger.firings(uid) == [next_time]

    play(scenario, start=begin)


def test_c02_a_label_changes_nothing_of_what_is_due() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule="1 9 * * *", misfirePolicy="CatchUp", startingDeadlineSeconds=DAY)
        scene.start("a", "b")
        await scene.at(DUE + 600)
        before = scene.status()
        succeed(ask(scene.api, "PATCH", JOBS.path("default", "job"), {"metadata": {"labels": {"team": "billing"}}}))
        annotate(scene.api, JOBS, "job", owner="billing")
        await scene.at(DUE + 900)
        assert scene.api.ledger.firings(uid) == [FIRST]
        assert scene.status() == before

    play(scenario, start=BEGIN)


# Clocks and timers


def test_b16_one_replica_whose_timer_is_early_starts_no_firing_early_and_none_twice() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(concurrencyPolicy="Allow")
        scene.start("a", "b", "c")
        scene.first(uid).process.early_seconds = 0.2
        await scene.at(DUE + 190)
        scene.witness.check()
        assert scene.api.ledger.firings(uid) == [FIRST + MINUTE * n for n in range(4)]
        assert all(0 <= late < 0.5 for late in scene.api.ledger.lateness())

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("deadline", [30, 300])
def test_a15_a_lone_replica_that_slept_over_a_firing_runs_it_late_within_its_deadline_or_says_that_it_is_missed(
    deadline: int,
) -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule="1 9 * * *", startingDeadlineSeconds=deadline)
        scene.start("a")
        await scene.at(DUE - 2)
        scene.operators["a"].process.stall(90)
        await scene.at(DUE + 200)
        scene.witness.check(calm_seconds=60)
        [line] = firing_lines(scene.status()).values() if deadline == 300 else scene.status()["history"]
        if deadline == 300:
            assert (line["state"], line["scheduledTime"]) == ("Succeeded", "2026-03-02T09:01:00Z")
            assert scene.api.ledger.firings(uid) == [FIRST]
        else:
            assert line["state"] == "Missed"
            assert line["reason"]
            assert scene.api.ledger.firings(uid) == []

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    "times",
    [
        pytest.param({"renewTime": None}, id="never renewed"),
        pytest.param({"renewTime": "2031-01-01T00:00:00.000000Z"}, id="renewed in years to come"),
        pytest.param({"leaseDurationSeconds": 60}, id="another version's duration"),
    ],
)
def test_b09_odd_times_on_a_membership_cost_no_firing_whether_its_replica_lives_or_not(times: dict[str, Any]) -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(concurrencyPolicy="Allow")
        scene.start("a", "b", "c")
        await scene.at(DUE - 5)
        [member] = [lease for lease in members(scene) if lease["spec"]["holderIdentity"] == scene.first(uid).name]
        path = LEASES.path(member["metadata"]["namespace"], member["metadata"]["name"])
        succeed(ask(scene.api, "PATCH", path, {"spec": times}))
        await scene.at(DUE + 5)
        scene.crash(scene.first(uid).name)
        succeed(ask(scene.api, "PATCH", path, {"spec": times}))
        await scene.at(DUE + 130)
        scene.witness.check()
        assert scene.api.ledger.firings(uid) == [FIRST + MINUTE * n for n in range(3)]
        assert max(scene.api.ledger.lateness()) < 1.5

    play(scenario, start=BEGIN)


def members(scene: Scene) -> list[Document]:
    found = objects(scene.api, LEASES)
    return [lease for lease in found if lease["metadata"]["labels"].get(names.LABEL_ROLE) == names.ROLE_MEMBER]


# A namespace without room


def test_c10_while_there_is_no_room_for_a_pod_one_run_waits_and_the_others_are_skipped() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(concurrencyPolicy="Forbid", failedRunsHistoryLimit=100)
        scene.start("a", "b")
        await scene.at(DUE - 2)
        scene.api.options.refuse.append(no_pods)
        await scene.at(DUE + 9 * MINUTE + 30)
        assert states(scene.status()) == ["Pending"] + ["Skipped"] * 9
        scene.api.options.refuse.clear()
        edit_spec(scene.api, "job", description="there is room again")
        await scene.at(DUE + 14 * MINUTE + 30)
        scene.witness.check(calm_seconds=25)
        assert scene.witness.most_alive == 1
        assert states(scene.status())[-2:] == ["Succeeded", "Succeeded"]

    play(scenario, start=BEGIN)
