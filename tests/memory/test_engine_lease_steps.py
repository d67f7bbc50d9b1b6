"""A replica is killed or stopped around each request by which it renews or releases a lease, gives up, ends or replaces a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest

from .actors import objects, read
from .engine import Operator, Scene, last_lines, play
from .resources import LEASES, PODS
from .statuses import Document
from .steps import at_each, die
from .virtual import START
from .witness import epoch

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
EVERY_TWO_MINUTES = "1/2 * * * *"
TWICE = "1,3 9 * * *"


async def scene_at(seconds: float, *, runs: float, **spec: Any) -> tuple[Scene, Operator]:
    """A scene some seconds after the first firing, and the replica that acts first."""
    scene = Scene()
    scene.end.after_seconds = runs
    uid = scene.job(**{"schedule": EVERY_TWO_MINUTES, "leaseDuration": "1m"} | spec)
    scene.start("a", "b", "c")
    await scene.at(DUE + seconds)
    return scene, scene.first(uid)


def run_lease(scene: Scene) -> Document | None:
    return read(scene.api, LEASES, next(iter(scene.witness.accounts)), "quarterjack")


def ends(scene: Scene) -> list[str]:
    """The states of the firings, the first one first."""
    return [line["state"] for _, line in sorted(last_lines(scene.status().get("history") or ()).items())]


# What a replica is stopped in: where it begins, when it is over, and what holds two minutes later


@dataclass(frozen=True)
class Course:
    begin: Callable[[], Awaitable[tuple[Scene, Operator]]]
    is_over: Callable[[Scene], bool]
    holds: Callable[[Scene], bool]


async def before_a_release() -> tuple[Scene, Operator]:
    return await scene_at(30, runs=1.5)


async def before_a_renewal() -> tuple[Scene, Operator]:
    return await scene_at(19, runs=400)


async def lost(until: float) -> tuple[Scene, Operator]:
    scene, first = await scene_at(5, runs=1000)
    scene.kubelet.lose_node()  # given up 55 s after the firing, and a minute later the run is Stale
    scene.kubelet.node = "node-2"
    await scene.at(DUE + until)
    return scene, first


async def before_it_is_stale() -> tuple[Scene, Operator]:
    return await lost(114)


async def before_its_lease_is_taken() -> tuple[Scene, Operator]:
    return await lost(119.5)


async def before_what_does_not_start_is_ended() -> tuple[Scene, Operator]:
    scene = Scene()
    scene.kubelet.missing = ("busybox:1.36",)
    uid = scene.job(schedule=EVERY_TWO_MINUTES, leaseDuration="1m", failedRunsHistoryLimit=50)
    scene.start("a", "b", "c")
    await scene.at(DUE + 59)
    return scene, scene.first(uid)


async def before_it_replaces() -> tuple[Scene, Operator]:
    scene, first = await scene_at(119.5, runs=1000, concurrencyPolicy="Replace", schedule=TWICE)
    scene.kubelet.stop_seconds = 5
    return scene, first


async def before_the_grace_of_the_replaced_has_passed() -> tuple[Scene, Operator]:
    scene, first = await scene_at(100, runs=1000, concurrencyPolicy="Replace", schedule=TWICE)
    scene.kubelet.lose_node()
    scene.kubelet.node = "node-2"
    await scene.at(DUE + 159)  # replaced at 120 s, with 30 s of grace
    return scene, first


def is_renewed(scene: Scene) -> bool:
    lease = run_lease(scene)
    return lease is not None and epoch(lease["spec"]["renewTime"]) > FIRST + 10


COURSES = {
    "a release": Course(
        before_a_release,
        lambda scene: run_lease(scene) is None,
        lambda scene: ends(scene)[:2] == ["Succeeded"] * 2,
    ),
    "a renewal": Course(
        before_a_renewal,
        is_renewed,
        lambda scene: ends(scene)[:2] == ["Running", "Skipped"] and scene.witness.most_alive == 1,
    ),
    "giving a run up": Course(
        before_it_is_stale,
        lambda scene: ends(scene)[0] == "Stale",
        lambda scene: ends(scene)[:2] == ["Stale", "Running"] and scene.witness.most_alive == 1,
    ),
    "taking the lease of a run that is given up": Course(
        before_its_lease_is_taken,
        lambda scene: ends(scene)[1:2] == ["Running"],
        lambda scene: ends(scene)[:2] == ["Stale", "Running"] and scene.witness.most_alive == 1,
    ),
    "replacing a run": Course(
        before_it_replaces,
        lambda scene: ends(scene)[1:2] == ["Running"],
        lambda scene: ends(scene)[:2] == ["Canceled", "Running"] and scene.witness.most_alive == 1,
    ),
    "replacing a run on a lost node": Course(
        before_the_grace_of_the_replaced_has_passed,
        lambda scene: ends(scene)[1:2] == ["Running"],
        lambda scene: ends(scene)[:2] == ["Canceled", "Running"],
    ),
    "ending what does not start": Course(
        before_what_does_not_start_is_ended,
        lambda scene: ends(scene)[0] == "Failed",
        lambda scene: ends(scene)[0] == "Failed" and len(objects(scene.api, PODS)) <= 1,
    ),
}


@cache
def steps_of(name: str) -> tuple[int, ...]:
    """The steps that send a request, and those that come right after, while nothing goes wrong."""

    async def undisturbed() -> tuple[int, ...]:
        scene, victim = await COURSES[name].begin()
        process, begin = victim.process, victim.process.steps
        await scene.until(lambda: COURSES[name].is_over(scene))
        return tuple(step for step in process.crash_steps if step > begin)

    return play(undisturbed, start=BEGIN)


async def stopped(name: str, step: int, *, stall: float | None) -> None:
    scene, victim = await COURSES[name].begin()
    began = scene.now - BEGIN
    if stall is None:
        await die(scene, victim, step)
    else:
        victim.process.stall_at(step, stall)
    await scene.at(began + 150)
    scene.witness.check(calm_seconds=60, alive=True)
    assert COURSES[name].holds(scene), ends(scene)


@pytest.mark.parametrize("name", COURSES)
@pytest.mark.parametrize(
    "stall",
    [
        pytest.param(None, id="it dies"),
        pytest.param(4.0, id="it stops for 4 s"),
        pytest.param(70.0, id="it stops for 70 s"),
    ],
)
def test_a_replica_stopped_around_any_request_harms_no_run_and_lets_none_overlap(
    name: str, stall: float | None
) -> None:
    assert len(steps_of(name)) >= 4
    at_each(steps_of(name), partial(stopped, name, stall=stall), start=BEGIN, what=name, of=steps_of(name))
