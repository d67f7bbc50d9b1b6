"""Nothing grows: neither what a cluster holds nor what a replica does, whatever fires, comes and goes."""

from __future__ import annotations

import asyncio
from collections import Counter

import orjson
import pytest

from .actors import End, annotate, delete, objects
from .engine import Scene, play
from .growth import grown, holdings, kept, series
from .resources import JOBS, LEASES, PODS
from .statuses import Document
from .virtual import virtual_loop
from .witness import epoch

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

HOUR = 3600
DAY = 24 * HOUR
QUIET_SECONDS = 1000  # the sweep of what jobs that are gone have left behind comes after ten minutes, every five


def long_scene(*, ends: End | None = None) -> Scene:
    """A cluster that forgets what it has been sooner than others, so that a test of days fits in memory."""
    scene = Scene(ends=ends)
    scene.api.store.history = 2000
    return scene


def held(scene: Scene) -> Counter[str]:
    """What all replicas hold, and how many series each shows."""
    counts: Counter[str] = Counter()
    for name, operator in scene.operators.items():
        counts.update({f"{name}: {path}": count for path, count in holdings(operator.running).items()})
        counts[f"{name}: series"] = series(operator.running)
    return counts


def sizes(scene: Scene) -> list[int]:
    """The bytes of each job's status."""
    return [len(orjson.dumps(job["status"])) for job in objects(scene.api, JOBS)]


def failing_hourly(pod: Document) -> End:
    """Every hour a run fails and has much to say."""
    firing = int(pod["metadata"]["labels"]["quarterjack.dev/firing"])
    return End(1.5) if firing % HOUR else End(1.5, "Failed", exit_code=1, message="no route to host " * 20)


def test_twenty_five_minutes_of_seconds_leave_no_more_behind_than_the_first_ten() -> None:
    async def scenario() -> None:
        scene = long_scene(ends=End(after_seconds=1.5))
        scene.job(schedule="* * * * * *", concurrencyPolicy="Allow")
        scene.start("a")
        await scene.at(600)
        replicas, cluster, size = held(scene), kept(scene.api), max(sizes(scene))

        await scene.at(1500)

        assert len(scene.api.ledger.pods) > 1480
        assert grown(replicas, held(scene), give=60) == {}  # as many firings as one sweep may be behind
        assert grown(cluster, kept(scene.api), give=60) == {}
        assert max(sizes(scene)) < size + 1000
        scene.witness.check(calm_seconds=60)

    play(scenario)


def test_eight_hours_of_minutes_leave_no_more_behind_than_the_first_three() -> None:
    async def scenario() -> None:
        scene = long_scene()
        scene.kubelet.ends = failing_hourly
        scene.job(concurrencyPolicy="Forbid")
        scene.start("a")
        await scene.at(3 * HOUR)
        replicas, cluster, size = held(scene), kept(scene.api), max(sizes(scene))

        await scene.at(8 * HOUR)

        assert len(scene.api.ledger.pods) in {8 * 60 - 1, 8 * 60}
        assert grown(replicas, held(scene)) == {}
        assert grown(cluster, kept(scene.api)) == {}
        assert len(objects(scene.api, PODS)) <= 2 * 2 + 4
        assert len(objects(scene.api, LEASES)) <= 2 + 6
        history = [line["state"] for line in scene.status()["history"]]
        assert (history.count("Succeeded"), history.count("Failed")) == (10, 7)
        assert max(sizes(scene)) < size + 4000
        scene.witness.check(calm_seconds=60)

    play(scenario)


def test_a_month_in_which_the_operator_runs_two_minutes_a_day_leaves_a_bounded_cluster_and_replica() -> None:
    """Of a firing each 5 s some 25 a day run, the others are a line. One replica sleeps, the other is new each day."""

    async def scenario() -> None:
        scene = long_scene(ends=End(after_seconds=1.5))
        scene.job(schedule="*/5 * * * * *", concurrencyPolicy="Allow", historyRetention="3d")
        scene.start("sleeper")
        sleeper, most = scene.operators["sleeper"], Counter[str]()
        first: Counter[str] = Counter()
        for day in range(30):
            await scene.at(day * DAY + 5)
            fresh = scene.restart()
            await scene.at(day * DAY + 125)
            scene.crash(fresh)
            most |= Counter(kept(scene.api)) | Counter(status=max(sizes(scene)))
            if day == 2:
                first = held(scene)
            sleeper.process.stall((day + 1) * DAY - 1 - virtual_loop().time())
        await scene.at(30 * DAY + 300)

        history = scene.status()["history"]
        rows = [line for line in history if line["state"] == "Missed"]
        assert sum(line["count"] for line in rows) > 2 * 17_000
        assert len(rows) <= 10
        assert all(epoch(line["scheduledTime"]) > scene.now - 5 * DAY for line in history)
        assert most["status"] < 20_000
        assert max(most["leases"], most["pods"]) < 250
        assert most["events"] <= 8 * 31  # kept for an hour where they are not in memory
        assert grown(first, held(scene), give=60) == {}
        scene.witness.check(calm_seconds=120)

    play(scenario)


def test_jobs_that_come_fire_and_go_leave_nothing_behind() -> None:
    async def rounds(scene: Scene, numbers: range) -> tuple[Counter[str], dict[str, int]]:
        for number in numbers:
            names = {f"forbid-{number}": "Forbid", f"allow-{number}": "Allow"}
            for name, policy in names.items():
                scene.job(name, schedule="*/2 * * * * *", concurrencyPolicy=policy)
            await asyncio.sleep(13)
            for name in names:
                delete(scene.api, JOBS, name)
            await asyncio.sleep(1.3)
        await asyncio.sleep(QUIET_SECONDS)
        scene.job("last")
        await asyncio.sleep(5)
        delete(scene.api, JOBS, "last")
        await asyncio.sleep(5)
        return held(scene), kept(scene.api)

    async def scenario() -> None:
        scene = Scene()
        scene.api.options.collect_seconds = 0.5
        scene.start("a", "b")
        await scene.at(5)
        replicas, cluster = await rounds(scene, range(2))

        more_replicas, more_cluster = await rounds(scene, range(2, 22))

        assert len(scene.api.ledger.pods) > 200
        assert cluster.pop("events") <= 6 * 2 + 1
        assert more_cluster.pop("events") <= 6 * 22 + 2  # kept for an hour where they are not in memory
        assert grown(cluster, more_cluster) == {}
        assert grown(replicas, more_replicas) == {}
        assert more_cluster == {"scheduledjobs": 0, "scheduledjobruns": 0, "leases": 2, "pods": 0}

    play(scenario)


def test_a_job_that_fires_in_a_year_and_is_touched_all_the_time_costs_no_memory() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(schedule="0 0 1 1 *")
        scene.start("a")
        await scene.at(5)
        before = held(scene)

        for number in range(3000):
            annotate(scene.api, JOBS, "job", touched=str(number))
            await asyncio.sleep(0.2)

        assert grown(before, held(scene), give=1100) == {}

    play(scenario)
