"""Jobs that are deleted, and jobs that are made again."""

from __future__ import annotations

from .actors import delete
from .engine import Scene, play
from .faults import Fault, Rule
from .resources import JOBS
from .virtual import START

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)


def test_an_answer_from_before_its_deletion_does_not_bring_a_job_back() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule="*/20 * * * * *", concurrencyPolicy="Allow")
        scene.start("a")
        operator = scene.operators["a"]
        await scene.at(DUE - 2)
        slow = Rule(fault=Fault(answer_seconds=3), method="PATCH", resource="scheduledjobs")
        operator.connection.plan.add(slow)
        await scene.until(lambda: "watermark" in scene.status() and scene.status()["history"])
        delete(scene.api, JOBS, "job")
        await scene.until(lambda: uid not in operator.running.store.jobs)

        await scene.at(DUE + 70)

        assert scene.api.ledger.firings(uid) == [FIRST]
        assert operator.running.store.jobs == {}

    play(scenario, start=BEGIN)
