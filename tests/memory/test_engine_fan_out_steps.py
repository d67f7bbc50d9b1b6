"""A replica is killed or stopped between any two of its steps of a fan-out: of reading its plan, of its ledger, of its units."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest

from .actors import End, attempt_of, delete, objects, start_run
from .engine import Operator, Scene, play
from .fan_out import (
    Crowd,
    are_over,
    ends,
    fan_out,
    letters,
    made,
    planned,
    plans,
    runs,
    times_made,
    unit_of,
    unit_states,
)
from .growth import holdings
from .resources import CONFIG_MAPS, JOBS, PODS, RUNS
from .steps import at_each, die, steps_since
from .virtual import START

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

BEGIN = START + 50  # the firing is due ten seconds later
DUE = 10.0


@dataclass(frozen=True)
class Situation:
    """How the units come to be, and whether the run is one by hand, which is deleted."""

    by_plan: bool
    by_hand: bool = False

    async def begin(self) -> tuple[Scene, Operator]:
        """A scene shortly before the firing; the replica that comes first for the job."""
        scene = Scene()
        ends(scene, End(None if self.by_hand else 1.5))
        if not self.by_hand:
            usual = scene.kubelet.ends
            failure = End(1.0, "Failed", 1, "no such tenant")
            fails = {("bad", 1), ("bad", 2), ("flaky", 1)}
            scene.kubelet.ends = lambda pod: failure if (unit_of(pod), attempt_of(pod)) in fails else usual(pod)
        spec: dict[str, Any] = {"retry": {"maxRetries": 1, "delay": "2s"}, "parallel": 3}
        spec |= {"schedule": None} if self.by_hand else {}
        if self.by_plan:
            uid = planned(scene, "acme\nbad\nflaky\nglobex\n", **spec)
        else:
            uid = fan_out(scene, "acme", "bad", "flaky", "globex", **spec)
        scene.start("a", "b")
        await scene.at(DUE - 1)
        if self.by_hand:
            start_run(scene.api, "run", "job")
        return scene, scene.first(uid)


@cache
def steps_of(situation: Situation) -> tuple[range, tuple[int, ...]]:
    """The steps of an undisturbed run, up to its end or to when all units that may run do; and those around each request."""

    async def undisturbed() -> tuple[range, tuple[int, ...]]:
        scene, victim = await situation.begin()
        begin = victim.process.steps
        if situation.by_hand:
            await scene.until(lambda: len(made(scene)) == 3)
        else:
            await scene.until(lambda: are_over(scene))
        await asyncio.sleep(0.1)
        return steps_since(victim, begin)

    return play(undisturbed, start=BEGIN)


Played = Callable[[Situation, int], Coroutine[Any, Any, None]]


def around_each_request(situation: Situation, scenario: Played) -> None:
    """Play it once for each step around a request."""
    steps, around = steps_of(situation)
    at_each(around, partial(scenario, situation), start=BEGIN, what=str(situation), of=steps)


def check_each_unit_once(scene: Scene, situation: Situation, crowd: Crowd) -> None:
    """One plan, one Pod for each attempt of each unit, none lost, and a record that says so."""
    scene.witness.check(calm_seconds=20)
    assert len(plans(scene)) == situation.by_plan
    assert times_made(scene) == {"acme": 1, "bad": 2, "flaky": 2, "globex": 1}
    assert unit_states(scene) == {
        "acme": "Succeeded",
        "bad": "DeadLettered",
        "flaky": "Succeeded",
        "globex": "Succeeded",
    }
    [run] = runs(scene)
    assert (run["state"], run["message"]) == ("Failed", "3 of 4 units succeeded, 1 dead letter")
    assert [letter["unit"] for letter in letters(scene)] == ["bad"]
    assert crowd.most <= 3
    assert crowd.most_of_one == 1


async def killed(situation: Situation, step: int) -> None:
    scene, victim = await situation.begin()
    crowd = Crowd(scene)
    await die(scene, victim, step, at_most=120)
    await scene.until(lambda: are_over(scene), at_most=90)
    await asyncio.sleep(20)
    check_each_unit_once(scene, situation, crowd)


def stalled(seconds: float) -> Played:
    async def scenario(situation: Situation, step: int) -> None:
        scene, victim = await situation.begin()
        crowd = Crowd(scene)
        victim.process.stall_at(step, seconds)
        await scene.at(max(60, seconds + 40))
        assert victim.process.stalled_until >= seconds
        check_each_unit_once(scene, situation, crowd)

    return scenario


each_kind = pytest.mark.parametrize("by_plan", [True, False], ids=["a plan", "units"])


@each_kind
def test_a_crash_at_any_step_loses_no_unit_and_doubles_none(by_plan: bool) -> None:
    situation = Situation(by_plan)

    around_each_request(situation, killed)


@pytest.mark.parametrize("seconds", [4.0, 70.0, 600.0])
@each_kind
def test_a_stall_at_any_step_loses_no_unit_and_doubles_none(by_plan: bool, seconds: float) -> None:
    situation = Situation(by_plan)

    around_each_request(situation, stalled(seconds))


async def deleted(situation: Situation, step: int) -> None:
    scene, victim = await situation.begin()
    victim.process.interrupt_at(step, lambda: delete(scene.api, RUNS, "run"))
    await scene.at(70)
    scene.witness.check(calm_seconds=20)
    assert set(times_made(scene).values()) <= {1}
    assert all(pod["status"]["phase"] in ("Succeeded", "Failed") for pod in objects(scene.api, PODS))
    assert [run["reason"] for run in runs(scene)] in ([], ["RunDeleted"])
    assert scene.status().get("activeCount", 0) == 0


@each_kind
def test_one_by_hand_that_is_deleted_at_any_step_ends_all_its_units(by_plan: bool) -> None:
    situation = Situation(by_plan, by_hand=True)

    around_each_request(situation, deleted)


async def job_gone(situation: Situation, step: int) -> None:
    scene, victim = await situation.begin()
    scene.api.options.collect_seconds = 0.5
    victim.process.interrupt_at(step, lambda: delete(scene.api, JOBS, "job"))
    await scene.at(70)
    scene.witness.check()
    assert set(times_made(scene).values()) <= {1, 2}
    assert objects(scene.api, PODS) == objects(scene.api, CONFIG_MAPS) == []
    for operator in scene.operators.values():
        held = holdings(operator.running)
        assert [path for path in held if ".unit_ends" in path or "._fans" in path] == []


@each_kind
def test_a_job_that_is_deleted_at_any_step_leaves_nothing_of_its_units_behind(by_plan: bool) -> None:
    situation = Situation(by_plan)

    around_each_request(situation, job_gone)
