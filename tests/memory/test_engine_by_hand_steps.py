"""A replica is killed or stopped between any two of its steps of a run by hand, and a ScheduledJobRun is deleted at any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import pytest

from .actors import End, attempt_of, delete, objects, start_run
from .by_hand import by_hand, run_of, state_of
from .engine import Operator, Scene, play
from .resources import PODS, RUNS
from .steps import at_each, die, steps_since
from .virtual import START

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

BEGIN = START + 50
POLICIES = ("Allow", "Forbid")
REPLICAS = ("a", "d")  # one comes first for the job, the other for the ScheduledJobRun


@dataclass(frozen=True)
class Situation:
    """What is asked for, and of which replica the steps count."""

    policy: str
    victim: str
    fails: int = 0  # so many attempts
    runs: tuple[str, ...] = ("run",)
    seconds: float | None = 1.5  # that the last one takes; None: it never ends

    async def begin(self) -> tuple[Scene, Operator]:
        """A scene in which the runs have just been asked for."""
        scene = Scene()
        retry: dict[str, Any] = {"retry": {"maxRetries": 3, "delay": "2s"}} if self.fails else {}
        scene.job(schedule=None, concurrencyPolicy=self.policy, **retry)
        failure, end = End(1.5, "Failed", 1), End(self.seconds)
        scene.kubelet.ends = lambda pod: failure if attempt_of(pod) <= self.fails else end
        scene.start(*REPLICAS)
        await scene.at(5)
        for name in self.runs:
            start_run(scene.api, name, "job")
        return scene, scene.operators[self.victim]

    @property
    def attempts(self) -> list[int]:
        """All that are made, in their order."""
        return list(range(1, self.fails + 2))


def is_over(scene: Scene, situation: Situation) -> bool:
    """Whether each run is told of its end; where they have none, whether its beginning is told."""
    told = "completionTime" if situation.seconds else "podName"
    return all(run_of(scene, name).get(told) for name in situation.runs)


@cache
def steps_of(situation: Situation) -> tuple[range, tuple[int, ...]]:
    """The steps of an undisturbed run, from what is asked for to what is told; and those around each request."""

    async def undisturbed() -> tuple[range, tuple[int, ...]]:
        scene, victim = await situation.begin()
        begin = victim.process.steps
        await scene.until(lambda: is_over(scene, situation), at_most=120)
        await asyncio.sleep(0.1)
        return steps_since(victim, begin)

    return play(undisturbed, start=BEGIN)


Played = Callable[[Situation, int], Coroutine[Any, Any, None]]


def around_each_request(situation: Situation, scenario: Played) -> None:
    """Play it once for each step around a request."""
    steps, around = steps_of(situation)
    at_each(around, partial(scenario, situation), start=BEGIN, what=str(situation), of=steps)


def check_one_run(scene: Scene, situation: Situation) -> None:
    """One Pod for each attempt, one line for each, and the end where it was asked for."""
    scene.witness.check(calm_seconds=20)
    assert [pod.attempt for pod in scene.api.ledger.pods] == situation.attempts
    assert [line["state"] for line in by_hand(scene)] == ["Failed"] * situation.fails + ["Succeeded"]
    assert run_of(scene)["state"] == "Succeeded"
    assert run_of(scene)["podName"] == by_hand(scene)[-1]["podName"]
    assert run_of(scene)["completionTime"] == by_hand(scene)[-1]["completionTime"]


async def killed(situation: Situation, step: int) -> None:
    scene, victim = await situation.begin()
    await die(scene, victim, step, at_most=120)
    await scene.at(80)
    check_one_run(scene, situation)


def stalled(seconds: float) -> Played:
    async def scenario(situation: Situation, step: int) -> None:
        scene, victim = await situation.begin()
        victim.process.stall_at(step, seconds)
        await scene.at(max(80, seconds + 60))
        assert victim.process.stalled_until >= seconds
        check_one_run(scene, situation)

    return scenario


each_policy = pytest.mark.parametrize("policy", POLICIES)
each_replica = pytest.mark.parametrize("victim", REPLICAS)
retried_or_not = pytest.mark.parametrize(
    "fails", [pytest.param(0, id="it succeeds"), pytest.param(1, id="its first attempt fails")]
)


@each_policy
@each_replica
@retried_or_not
def test_a_crash_at_any_step_costs_no_run_by_hand_and_doubles_none(policy: str, victim: str, fails: int) -> None:
    situation = Situation(policy, victim, fails)

    around_each_request(situation, killed)


@pytest.mark.parametrize(
    ("fails", "seconds"),
    [
        pytest.param(0, 4.0, id="it succeeds-4.0"),
        pytest.param(0, 70.0, id="it succeeds-70.0"),
        pytest.param(1, 4.0, id="its first attempt fails-4.0"),
        pytest.param(1, 600.0, id="its first attempt fails-600.0"),
    ],
)
@each_policy
@each_replica
def test_a_stall_at_any_step_costs_no_run_by_hand_and_doubles_none(
    policy: str, victim: str, fails: int, seconds: float
) -> None:
    situation = Situation(policy, victim, fails)

    around_each_request(situation, stalled(seconds))


async def killed_among_two(situation: Situation, step: int) -> None:
    scene, victim = await situation.begin()
    await die(scene, victim, step, at_most=120)
    await scene.at(120)
    scene.witness.check(calm_seconds=20)
    assert sorted(state_of(scene, name) for name in situation.runs) == ["Skipped", "Succeeded"]
    assert (len(scene.api.ledger.pods), scene.witness.most_alive) == (1, 1)


@each_replica
def test_of_two_that_are_asked_for_in_the_same_instant_one_runs_whoever_dies(victim: str) -> None:
    situation = Situation("Forbid", victim, runs=("one", "two"), seconds=60)

    around_each_request(situation, killed_among_two)


# Deletion


async def deleted(situation: Situation, step: int) -> None:
    scene, victim = await situation.begin()
    victim.process.interrupt_at(step, lambda: delete(scene.api, RUNS, "run"))
    await scene.at(60)
    check_none_runs(scene, situation)


async def deleted_and_killed(situation: Situation, step: int) -> None:
    scene, victim = await situation.begin()

    def on_crash() -> None:
        delete(scene.api, RUNS, "run")

    victim.process.when_crashed(on_crash)
    await die(scene, victim, step, at_most=120)
    await scene.at(90)
    check_none_runs(scene, situation)


def check_none_runs(scene: Scene, situation: Situation) -> None:
    """It was stopped, or has never started; of the attempt that was due nothing was made again."""
    scene.witness.check(calm_seconds=20)
    assert objects(scene.api, RUNS) == []
    assert [pod.attempt for pod in scene.api.ledger.pods] in [
        situation.attempts[:n] for n in range(situation.fails + 2)
    ]
    assert all(pod["status"]["phase"] == "Failed" for pod in objects(scene.api, PODS))
    assert [line["reason"] for line in by_hand(scene)[situation.fails :]] in ([], ["RunDeleted"])
    assert scene.status().get("activeCount", 0) == 0


@each_policy
@each_replica
@pytest.mark.parametrize("scenario", [deleted, deleted_and_killed])
@retried_or_not
def test_one_that_is_deleted_at_any_step_is_stopped_or_never_starts(
    policy: str, victim: str, fails: int, scenario: Played
) -> None:
    situation = Situation(policy, victim, fails, seconds=None)

    around_each_request(situation, scenario)
