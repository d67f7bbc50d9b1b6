"""Replicas that leave, die and misjudge the time."""

from __future__ import annotations

from typing import Any

import pytest

from .actors import objects
from .engine import Operator, Scene, play
from .faults import Fault, Request, Rule
from .resources import LEASES, PODS
from .virtual import START, VirtualClock, later

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)


async def scene_of(*, names: str = "abc", **spec: Any) -> tuple[Scene, str]:
    scene = Scene()
    uid = scene.job(**{"concurrencyPolicy": "Allow"} | spec)
    scene.start(*names)
    await scene.at(5)
    return scene, uid


def test_claims_and_surplus_pods_are_reaped_and_nothing_grows() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(podHistoryLimit=2)
        await scene.at(DUE + 1801)
        scene.witness.check()
        assert len(scene.api.ledger.firings(uid)) == 31
        claims = [
            lease for lease in objects(scene.api, LEASES) if "quarterjack.dev/firing" in lease["metadata"]["labels"]
        ]
        assert len(claims) <= 5
        assert len(objects(scene.api, PODS)) <= 5
        assert all(len(o.running.store.firings.get(uid).claims) <= 5 for o in scene.operators.values())  # type: ignore[union-attr]

    play(scenario, start=BEGIN)


def test_a_replica_that_is_told_to_leave_finishes_and_gives_up_its_membership() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of()
        first = scene.first(uid)
        await scene.at(DUE + 0.0005)
        leaving = first.process.start(first.running.shut_down())
        await leaving
        first.process.crash()
        assert leaving.result() == []
        assert f"member-{first.name}" not in [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)]
        await scene.at(DUE + 60.5)
        assert scene.api.ledger.firings(uid) == [FIRST, FIRST + 60]
        await scene.at(DUE + 80)
        scene.witness.check(calm_seconds=15)

    play(scenario, start=BEGIN)


def test_with_no_schedule_nothing_fires_by_itself() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job(concurrencyPolicy="Allow")
        scene.start("a", "b", schedule=False)
        await scene.at(DUE + 130)
        assert scene.api.ledger.pods == []
        assert scene.status()["nextScheduleTime"]

    play(scenario, start=BEGIN)


def test_a_replica_that_dies_costs_its_firings_a_second_at_most() -> None:
    async def scenario() -> None:
        scene = Scene()
        uids = [scene.job(f"job-{n}", concurrencyPolicy="Allow") for n in range(30)]
        scene.start("a", "b", "c")
        await scene.at(DUE - 1)
        scene.crash("a")
        await scene.at(DUE + 30)
        scene.witness.check(calm_seconds=25)
        assert len(scene.api.ledger.pods) == len(uids)
        assert max(scene.api.ledger.lateness()) < 1.5

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("offset", [-600.0, -20.0, -1.5, 1.5, 20.0, 600.0])
def test_a_replica_whose_clock_is_wrong_fires_when_the_server_says(offset: float) -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(concurrencyPolicy="Allow")
        operator = Operator(scene.api, "a")
        operator.clock = VirtualClock(offset)
        scene.operators["a"] = operator.start()
        await scene.at(DUE + 190)
        scene.witness.check(calm_seconds=65)
        assert scene.api.ledger.firings(uid)[:3] == [FIRST, FIRST + 60, FIRST + 120]
        assert all(0 <= late < 1.1 for late in scene.api.ledger.lateness())
        assert bool(operator.running.unready()) == (abs(offset) > 30)

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("step", [-300.0, 300.0])
def test_a_clock_that_is_set_while_it_runs_doubles_nothing(step: float) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(names="ab")
        await scene.at(DUE + 30)
        scene.first(uid).clock.offset_seconds = step
        await scene.at(DUE + 370)
        scene.witness.check(calm_seconds=130)
        assert [f - FIRST for f in scene.api.ledger.firings(uid)][-3:] == [240, 300, 360]

    play(scenario, start=BEGIN)


def test_an_api_server_whose_clock_is_behind_that_of_another_does_not_delay_a_launch() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of()

        def goes_to_the_other_server(_: Request) -> bool:
            scene.api.clock.offset_seconds = -0.5
            later(0.01, setattr, scene.api.clock, "offset_seconds", 0.0)
            return False

        for operator in scene.operators.values():
            operator.connection.plan.add(
                Rule(fault=Fault(), method="POST", resource="pods", where=goes_to_the_other_server)
            )
        await scene.at(DUE + 100)
        scene.witness.check()
        assert scene.api.ledger.firings(uid) == [FIRST, FIRST + 60]
        assert max(scene.api.ledger.lateness()) < 1

    play(scenario, start=BEGIN)
