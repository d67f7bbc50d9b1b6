"""Everything at once, by chance: the same chances for the same seed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

import pytest

from .actors import End, delete_pod, edit_spec, objects
from .engine import MINUTELY, Operator, Scene, play
from .faults import Break, Chances, Outcome, Plan
from .resources import PODS
from .statuses import Document
from .virtual import later
from .witness import Violation

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

CHANCES = {
    Outcome.NOT_SENT: 0.02,
    Outcome.LOST: 0.02,
    Outcome.UNANSWERED: 0.03,
    Outcome.REFUSED: 0.03,
    Outcome.BROKEN: 0.02,
}
JOBS: dict[str, dict[str, Any]] = {
    "allow": {"concurrencyPolicy": "Allow"},
    "forbid": {"concurrencyPolicy": "Forbid"},
    "often": {"schedule": "*/20 * * * * *", "concurrencyPolicy": "Allow", "misfirePolicy": "Skip"},
    "jitter": {"schedule": "*/30 * * * * *", "concurrencyPolicy": "Allow", "jitter": "20s"},
    "deadline": {"startingDeadlineSeconds": 20},
    "retry-replace": {
        "schedule": "*/30 * * * * *",
        "concurrencyPolicy": "Replace",
        "retry": {"maxRetries": 2, "delay": "3s"},
    },
    "retry": {"concurrencyPolicy": "Forbid", "retry": {"maxRetries": 2, "delay": "3s"}},
    "catch-up": {"misfirePolicy": "CatchUp", "catchUpLimit": 5, "concurrencyPolicy": "Forbid"},
    "retry-catch-up": {
        "schedule": "*/30 * * * * *",
        "misfirePolicy": "CatchUp",
        "concurrencyPolicy": "Forbid",
        "retry": {"maxRetries": 1, "delay": "5s"},
    },
    "retry-allow": {"schedule": "*/30 * * * * *", "concurrencyPolicy": "Allow", "retry": {"maxRetries": 2}},
}
CALM_SECONDS = 330
STREAMS = ("", "leases", "pods", "scheduledjobs")


class Disturber:
    """Does something bad every few seconds."""

    def __init__(self, scene: Scene, seed: int, jobs: Iterable[str] = JOBS) -> None:
        self.scene = scene
        self.jobs = list(jobs)
        self.random = random.Random(seed)
        commit = self.random.choice([0.0, 0.5, 1.9])
        self.plan: Plan = Chances(seed, chances=CHANCES, arrival_seconds=0.3, commit_seconds=commit, answer_seconds=0.3)
        self.done: list[str] = []
        scene.start("a", "b", "c", plan=self.plan)

    async def disturb(self, seconds: float) -> None:
        """Go on for so long."""
        acts: list[Callable[[], object]] = [
            *[self.crash] * 3,
            *[self.stall] * 4,
            *[self.delay] * 3,
            *[self.spoil] * 2,
            *[self.delete_pod] * 3,
        ]
        acts += [self.compact, self.outage, self.lose_node, self.partition, self.shift_clock, self.edit, self.suspend]
        left = seconds
        while left > 0:
            pause = self.random.uniform(0.5, 15)
            await asyncio.sleep(pause)
            left -= pause
            act = self.random.choice(acts)
            self.done.append(f"{self.scene.now:.1f} {act.__name__} {act()}")

    def one(self) -> Operator:
        return self.random.choice(list(self.scene.operators.values()))

    def crash(self) -> str:
        name = self.one().name
        self.scene.crash(name)
        later(self.random.uniform(0.1, 20), self.restart)
        if not self.scene.operators:
            self.restart()
        return name

    def restart(self) -> None:
        self.scene.restart(plan=self.plan)

    def stall(self) -> str:
        victim, seconds = self.one(), self.random.choice([0.5, 2, 4, 8, 20, 60, 240])
        victim.process.stall(seconds)
        return f"{victim.name} {seconds}"

    def delay(self) -> str:
        victim, seconds, stream = self.one(), self.random.choice([0, 1, 5, 30, 120]), self.random.choice(STREAMS)
        victim.connection.delay_watches(seconds, stream)
        return f"{victim.name} {stream} {seconds}"

    def spoil(self) -> str:
        victim, how, stream = self.one(), self.random.choice(list(Break)), self.random.choice(STREAMS)
        victim.connection.spoil(how, stream)
        return f"{victim.name} {stream} {how}"

    def compact(self) -> None:
        self.scene.api.compact()

    def outage(self) -> float:
        seconds = self.random.choice([1.0, 10.0, 100.0])
        self.scene.api.options.up = False
        for operator in self.scene.operators.values():
            operator.connection.break_off()
        later(seconds, setattr, self.scene.api.options, "up", True)
        return seconds

    def partition(self) -> str:
        victim, seconds, silent = self.one(), self.random.choice([1.0, 10.0, 100.0]), self.random.random() < 0.5
        victim.connection.partition(silent=silent)
        later(seconds, victim.connection.heal)
        return f"{victim.name} {seconds} {silent}"

    def shift_clock(self) -> str:
        victim, seconds = self.one(), self.random.choice([-300.0, -3.0, 0.0, 3.0, 300.0])
        victim.clock.offset_seconds = seconds
        return f"{victim.name} {seconds}"

    def lose_node(self) -> str:
        kubelet, seconds = self.scene.kubelet, self.random.choice([30.0, 90.0, 200.0])
        if kubelet.lost:
            return ""
        lost, kubelet.node = kubelet.node, f"node-{len(self.done)}"
        kubelet.lose_node(lost)
        later(seconds, kubelet.find_node, lost)
        return f"{lost} {seconds}"

    def delete_pod(self) -> str:
        pods = objects(self.scene.api, PODS)
        if not pods:
            return ""
        name: str = self.random.choice(pods)["metadata"]["name"]
        delete_pod(self.scene.api, name, now=self.random.random() < 0.5)
        return name

    def edit(self) -> str:
        name = self.random.choice(self.jobs)
        schedule = self.random.choice([MINUTELY, "*/15 * * * * *", "*/30 * * * * *"])
        edit_spec(self.scene.api, name, schedule=schedule)
        return f"{name} {schedule}"

    def suspend(self) -> str:
        name, suspended = self.random.choice(self.jobs), self.random.random() < 0.4
        edit_spec(self.scene.api, name, suspend=suspended)
        return f"{name} {suspended}"

    def relent(self) -> None:
        """All is well again."""
        self.plan = Plan()
        self.scene.api.options.up = True
        for operator in self.scene.operators.values():
            operator.connection.plan = Plan()
            operator.connection.heal()
            operator.connection.delays.clear()
            operator.connection.spoil(Break.CUT)
            operator.clock.offset_seconds = 0


def fails(meta: Document) -> bool:
    """Half of the attempts of the jobs that try again."""
    return meta["name"].startswith("retry") and crc32(meta["name"].encode()) % 2 == 0


async def chaos(seed: int) -> None:
    scene = Scene()
    seconds = random.Random(seed).choice([1.0, 8.0, 70.0])
    scene.kubelet.ends = lambda pod: End(seconds, "Failed" if fails(pod["metadata"]) else "Succeeded")
    for name, spec in JOBS.items():
        scene.job(name, leaseDuration="1m", **spec)
    disturber = Disturber(scene, seed)
    await disturber.disturb(600)
    disturber.relent()
    await asyncio.sleep(CALM_SECONDS)
    try:
        scene.witness.check(calm_seconds=90 + 3 * seconds)  # a run may take three attempts
    except Violation as error:
        raise Violation(f"seed {seed}: {error}\nafter\n" + "\n".join(disturber.done)) from None


@pytest.mark.parametrize("seed", range(8))
def test_nothing_doubles_and_nothing_is_lost_whatever_goes_wrong(seed: int) -> None:
    play(lambda: chaos(seed))
