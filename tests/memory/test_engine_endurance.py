"""Nothing grows: neither what a cluster holds nor what a replica does, whatever fires, comes and goes."""

from __future__ import annotations

import asyncio
from collections import Counter

from .actors import annotate, delete
from .engine import Scene, play
from .growth import grown, holdings, kept, series
from .resources import JOBS

QUIET_SECONDS = 1000  # the sweep of what jobs that are gone have left behind comes after ten minutes, every five


def held(scene: Scene) -> Counter[str]:
    """What all replicas hold, and how many series each shows."""
    counts: Counter[str] = Counter()
    for name, operator in scene.operators.items():
        counts.update({f"{name}: {path}": count for path, count in holdings(operator.running).items()})
        counts[f"{name}: series"] = series(operator.running)
    return counts


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
        assert grown(cluster, more_cluster) == {}
        assert grown(replicas, more_replicas) == {}
        assert more_cluster == {"scheduledjobs": 0, "scheduledjobruns": 0, "leases": 2, "pods": 0, "events": 0}

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
