"""Timers that wake too early, and jobs that cannot be looked at: no firing starts before its time, none of another job is late."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from quarterjack.agenda import Agenda
from quarterjack.clock import ServerClock
from quarterjack.replica import Replica

from .engine import Scene, play
from .replica import Replica as Process
from .virtual import START, VirtualClock, in_virtual_time

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
EARLY = [0.001, 0.005, 0.9, 8.0]


@pytest.mark.parametrize("early", EARLY)
@in_virtual_time
async def test_a14_an_agenda_that_is_woken_early_sleeps_again(early: float) -> None:
    attended: list[tuple[str, float]] = []
    process, clock = Process("a"), ServerClock(VirtualClock())
    process.early_seconds = early
    agenda = Agenda(clock, lambda uid: attended.append((uid, clock.now())))
    for number in range(1, 4):
        agenda.set(f"job-{number}", START + 20 * number)

    process.start(agenda.run())
    await asyncio.sleep(70)

    assert [uid for uid, _ in attended] == ["job-1", "job-2", "job-3"]
    assert all(0 <= when - START - 20 * n < 0.001 for n, (_, when) in enumerate(attended, start=1))


@pytest.mark.parametrize("early", EARLY)
@pytest.mark.parametrize("policy", ["Allow", "Forbid"])
def test_a14_replicas_that_wake_early_start_no_firing_before_its_time_and_none_twice(early: float, policy: str) -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(concurrencyPolicy=policy)
        scene.start("a", "b", "c")
        for operator in scene.operators.values():
            operator.process.early_seconds = early

        await scene.at(DUE + 250)

        scene.witness.check()
        assert [firing - BEGIN for firing in scene.api.ledger.firings(uid)] == [DUE + 60 * n for n in range(5)]
        assert all(0 <= late < 0.5 for late in scene.api.ledger.lateness())
        assert sum(operator.running.claims.counts.fenced for operator in scene.operators.values()) == 0

    play(scenario, start=BEGIN)


class Exploding(Mapping[str, Any]):
    """The schedule of a job that no code can read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError(f"{key} cannot be read")

    def __iter__(self) -> Iterator[str]:
        raise RuntimeError("nothing can be read")

    def __len__(self) -> int:
        return 1


class Spoiler:
    """Once it is at work, the schedule of a job cannot be read, whatever a replica hears of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.at_work = False

    def __call__(self, engine: Replica) -> None:
        def spoil(uid: str) -> None:
            job = engine.store.jobs.get(uid)
            if self.at_work and job is not None and job.name == self.name:
                engine.store.jobs[uid] = replace(job, spec=replace(job.spec, timing=Exploding()))

        engine.store.on_job.insert(0, spoil)


@pytest.mark.parametrize(
    "served", [pytest.param(False, id="it never was served"), pytest.param(True, id="it was served until a restart")]
)
def test_a02_a_job_whose_schedule_cannot_be_evaluated_makes_its_neighbour_miss_no_minute(
    served: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        spoiler = Spoiler("bad")
        scene = Scene(prepare=spoiler)
        bad, good = scene.job("bad", schedule="20 */4 * * *"), scene.job("good")
        spoiler.at_work = not served
        scene.start("a")
        await scene.at(3)
        spoiler.at_work = True
        scene.crash()
        scene.start("b", "c")

        await scene.at(DUE + 605)

        scene.witness.check()
        assert [f - BEGIN for f in scene.api.ledger.firings(good)] == [DUE + 60 * n for n in range(11)]
        assert scene.api.ledger.firings(bad) == []
        assert all(0 <= late < 0.5 for late in scene.api.ledger.lateness())

    play(scenario, start=BEGIN)

    assert "schedule cannot be read" in caplog.text
