"""Whole replicas over the nights on which clocks change, against the oracle that re-enacts cron; and the other kinds of schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from tests.unit.oracle import Oracle, utc

from .actors import edit_spec, objects
from .engine import Scene, play
from .resources import EVENTS, PODS
from .statuses import Document
from .virtual import START
from .witness import epoch

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

NIGHTS = {  # a zone, and the instant at which its clocks change
    "Berlin in spring": ("Europe/Berlin", "2026-03-29T01:00"),
    "Berlin in autumn": ("Europe/Berlin", "2026-10-25T01:00"),
    "New York in spring": ("America/New_York", "2026-03-08T07:00"),
    "New York in autumn": ("America/New_York", "2026-11-01T06:00"),
    "Lord Howe in spring, by half an hour": ("Australia/Lord_Howe", "2026-10-03T15:30"),
    "Lord Howe in autumn, by half an hour": ("Australia/Lord_Howe", "2026-04-04T15:00"),
    "Cairo in spring, at midnight": ("Africa/Cairo", "2026-04-23T22:00"),
    "Cairo in autumn, at midnight": ("Africa/Cairo", "2026-10-29T21:00"),
}
SCHEDULES = [
    "0 * * * *",  # every hour: in both copies of an hour
    "*/20 * * * *",
    "30 2 * * *",  # fixed times: once, whatever the clock does
    "0,15 1-2 * * *",
    "45 1,2,3 * * *",
    "0 0 * * *",
    "30 0 * * *",
    "59 23 * * *",
    "10 */2 * * *",
    "0 2 * * SUN",
]
BEFORE, AFTER = timedelta(hours=1, minutes=30), timedelta(hours=2, minutes=30)


def pods_of(scene: Scene, uid: str) -> list[Document]:
    """The job's Pods, in the order of their firings."""
    mine = [p for p in objects(scene.api, PODS) if p["metadata"]["labels"]["quarterjack.dev/job-uid"] == uid]
    return sorted(mine, key=lambda pod: int(pod["metadata"]["labels"]["quarterjack.dev/firing"]))


def told(pod: Document, name: str) -> str:
    """What the container of a Pod is told."""
    env = {line["name"]: line["value"] for line in pod["spec"]["containers"][0]["env"]}
    return str(env[name])


@pytest.mark.parametrize("night", NIGHTS)
def test_what_fires_in_a_night_on_which_clocks_change_is_what_the_oracle_says(night: str) -> None:
    zone, change = NIGHTS[night]
    begin = utc(change) - BEFORE
    oracles = [Oracle(schedule, zone) for schedule in SCHEDULES]
    expected = [oracle.firings(begin, begin + BEFORE + AFTER) for oracle in oracles]
    following = [oracle.firings(begin, begin + timedelta(days=8)) for oracle in oracles]

    def next_times(scene: Scene) -> None:
        """What the status says is next: the first firing after the watermark."""
        for n, firings in enumerate(following):
            status = scene.status(f"job-{n}")
            watermark = datetime.fromtimestamp(epoch(status["watermark"]), UTC)
            assert epoch(status["nextScheduleTime"]) == next(f for f in firings if f > watermark).timestamp(), (
                SCHEDULES[n]
            )

    async def scenario() -> None:
        scene = Scene()
        uids = [
            scene.job(f"job-{n}", schedule=schedule, timeZone=zone, concurrencyPolicy="Allow", podHistoryLimit=100)
            for n, schedule in enumerate(SCHEDULES)
        ]
        scene.start("a", "b")
        for hour in range(5):
            await scene.at(hour * 3600 + 130)
            next_times(scene)
        scene.witness.check()
        for schedule, uid, firings in zip(SCHEDULES, uids, expected, strict=True):
            at = [f"{firing:%Y-%m-%dT%H:%M:%SZ}" for firing in firings]
            assert [told(pod, "SCHEDULED_TIME") for pod in pods_of(scene, uid)] == at, schedule
            assert all(told(pod, "SCHEDULED_TIME_ZONE") == zone for pod in pods_of(scene, uid))
        assert all(0 <= late < 1 for late in scene.api.ledger.lateness())

    play(scenario, start=begin.timestamp())


def test_an_interval_counts_from_creation_and_does_not_drift_over_restarts() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule=None, interval="7m", concurrencyPolicy="Allow")
        scene.start("a")
        for restart in range(8):
            await scene.at(997.3 * (restart + 1))
            scene.crash()
            scene.restart()
        await scene.at(8400.5)
        scene.witness.check()
        assert [f - START for f in scene.api.ledger.firings(uid)] == [420.0 * n for n in range(1, 21)]
        assert max(scene.api.ledger.lateness()) < 1

    play(scenario)


def test_an_interval_counts_from_the_last_resume() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule=None, interval="10m", concurrencyPolicy="Allow")
        scene.start("a")
        await scene.at(700)
        edit_spec(scene.api, "job", suspend=True)
        await scene.at(1000)
        edit_spec(scene.api, "job", suspend=False)
        await scene.at(2300)
        scene.witness.check()
        assert [f - START for f in scene.api.ledger.firings(uid)] == [600, 1600, 2200]

    play(scenario)


def test_run_after_runs_once_and_again_only_after_a_resume() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule=None, runAfter="90s", concurrencyPolicy="Allow")
        scene.start("a", "b")
        await scene.at(60)
        assert scene.status()["state"] == "Scheduled"
        await scene.at(600)
        assert scene.status()["state"] == "Stopped"
        assert "nextScheduleTime" not in scene.status()
        edit_spec(scene.api, "job", suspend=True)
        await scene.at(700)
        edit_spec(scene.api, "job", suspend=False)
        await scene.at(900)
        scene.witness.check()
        assert [f - START for f in scene.api.ledger.firings(uid)] == [90, 790]
        assert scene.status()["state"] == "Stopped"

    play(scenario)


def test_several_zones_fire_once_for_each_distinct_instant_and_the_pod_is_told_its_zones() -> None:
    zones = ["Asia/Kolkata", "Asia/Tashkent", "Asia/Almaty", "Asia/Kathmandu", "UTC"]

    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule="30 10 * * *", timeZones=zones, concurrencyPolicy="Allow", podHistoryLimit=100)
        scene.start("a", "b")
        await scene.at(3600)
        scene.witness.check()
        assert [(told(p, "SCHEDULED_TIME")[11:16], told(p, "SCHEDULED_TIME_ZONES")) for p in pods_of(scene, uid)] == [
            ("04:45", "Asia/Kathmandu"),
            ("05:00", "Asia/Kolkata"),
            ("05:30", "Asia/Almaty,Asia/Tashkent"),
        ]

    play(scenario, start=START - 4 * 3600 - 1500)


def test_jitter_moves_starts_and_nothing_else_and_every_replica_means_the_same() -> None:
    async def starts(names: str) -> tuple[list[float], Scene]:
        scene = Scene()
        uid = scene.job(schedule="*/2 * * * *", jitter="100s", concurrencyPolicy="Allow", podHistoryLimit=100)
        scene.start(*names)
        await scene.at(3700)
        scene.witness.check(calm_seconds=130)
        assert [f - START for f in scene.api.ledger.firings(uid)][:30] == [120.0 * n for n in range(1, 31)]
        return [entry.at - entry.firing for entry in scene.api.ledger.pods][:30], scene

    async def alone() -> list[float]:
        return (await starts("x"))[0]

    async def together() -> list[float]:
        return (await starts("abc"))[0]

    first, second = play(alone), play(together)

    assert first == pytest.approx(second, abs=0.05)
    assert len({round(start) for start in first}) > 20
    assert 0 <= min(first) < 20
    assert 80 < max(first) < 100


@pytest.mark.parametrize(
    ("spec", "change", "after"),
    [
        pytest.param({"schedule": "0 12 * * *"}, {"timeZone": "Europe/Berlin"}, "2026-03-02T11:00:00Z", id="a zone"),
        pytest.param({"schedule": "0 12 * * *"}, {"schedule": "0 13 * * *"}, "2026-03-02T13:00:00Z", id="a schedule"),
        pytest.param(
            {"schedule": "0 8 * * *"}, {"schedule": "30 9 * * *"}, "2026-03-02T09:30:00Z", id="an earlier one"
        ),
        pytest.param({"schedule": "0 12 * * *"}, {"suspend": True}, None, id="suspended"),
        pytest.param(
            {"schedule": "0 12 * * *", "suspend": True}, {"suspend": False}, "2026-03-02T12:00:00Z", id="resumed"
        ),
        pytest.param({"schedule": "0 12 * * *"}, {"schedule": "0 0 30 2 *"}, None, id="one that never fires"),
    ],
)
def test_the_next_time_is_right_within_a_second_of_an_edit(
    spec: dict[str, Any], change: dict[str, Any], after: str | None
) -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(**spec)
        scene.start("a", "b", "c")
        await scene.at(30)
        edit_spec(scene.api, "job", **change)
        await scene.at(31)
        assert scene.status().get("nextScheduleTime") == after

    play(scenario)


@pytest.mark.parametrize(
    ("first_day", "utc_hours"),
    [
        pytest.param("2026-03-06T00:00", [13, 13, 12, 12], id="in spring"),
        pytest.param("2026-10-30T00:00", [12, 12, 13, 13], id="in autumn"),
    ],
)
def test_a10_a_daily_job_that_succeeds_stays_healthy_and_is_next_due_at_its_true_local_time_over_both_nights(
    first_day: str, utc_hours: list[int]
) -> None:
    begin = utc(first_day)
    firings = [begin + timedelta(days=day, hours=hour) for day, hour in enumerate(utc_hours)]

    async def scenario() -> None:
        scene = Scene()
        scene.job(schedule="0 5 * * *", timeZone="America/Los_Angeles")
        for firing, following in pairwise(firings):
            await scene.at((firing - begin).total_seconds() - 60)
            scene.restart()
            await scene.at((firing - begin).total_seconds() + 60)
            assert scene.status()["nextScheduleTime"] == f"{following:%Y-%m-%dT%H:%M:%SZ}"
            assert scene.status()["health"] == "Healthy"
            scene.crash()
        scene.witness.check()
        assert {event["reason"] for event in objects(scene.api, EVENTS)} == {"SuccessfulCreate", "SawCompletedJob"}
        assert {event["type"] for event in objects(scene.api, EVENTS)} == {"Normal"}
        assert len(scene.api.ledger.pods) == len(firings) - 1

    play(scenario, start=begin.timestamp())
