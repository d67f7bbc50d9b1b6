"""Whose turn it is, where many are due and replicas die."""

from __future__ import annotations

import asyncio

import pytest

from quarterjack.clock import ServerClock
from quarterjack.store import EXPIRE_SECONDS, Store
from quarterjack.turns import Due, Turns

from .actors import objects
from .engine import Scene, play
from .resources import PODS
from .virtual import START, VirtualClock

BEGIN = START + 50  # the first firings are due ten seconds later
DUE = 10.0
NOW = int(START)


class Started:
    """Firings that were started, and have not ended."""

    def __init__(self, *, members: tuple[str, ...] = (), create_seconds: float = 0.0) -> None:
        self.firings: list[int] = []
        self.store = Store()
        self.begun = asyncio.Event()
        self.end = asyncio.Event()
        self.turns = Turns(
            "ours",
            self.store,
            ServerClock(VirtualClock()),
            ranks=lambda _: (*members, "ours"),
            start=self._start,
            create_seconds=lambda: create_seconds,
            lost=lambda: 0,
            in_flight=32,
        )

    async def _start(self, due: Due) -> bool:
        self.firings.append(due.firing)
        self.begun.set()
        await self.end.wait()
        return False

    def due(self, firing: int) -> None:
        self.turns.add(Due("job", firing, float(firing), generation=1))


@pytest.mark.parametrize(
    ("create_seconds", "together"),
    [
        pytest.param(0.0, 32, id="an API server that nothing is known of yet"),
        pytest.param(0.25, 32, id="one that is calm"),
        pytest.param(1.0, 8, id="one that takes a second for each"),
        pytest.param(60.0, 4, id="one that answers hardly at all"),
    ],
)
def test_fewer_launches_are_under_way_where_the_api_server_is_slow(create_seconds: float, together: int) -> None:
    async def scenario() -> None:
        started = Started(create_seconds=create_seconds)

        for second in range(40):
            started.due(NOW + second)
        await asyncio.sleep(0.01)

        assert len(started.firings) == together
        started.end.set()

    play(scenario, start=START + 20)


def test_those_that_have_waited_longest_go_first() -> None:
    async def scenario() -> None:
        started = Started(create_seconds=1000.0)
        for second in (9, 8, 7, 6, 5, 1, 3, 2):
            started.due(NOW + second)
        await asyncio.sleep(0.01)

        started.end.set()
        await asyncio.sleep(0.01)

        assert [firing - NOW for firing in started.firings] == [9, 8, 7, 6, 1, 2, 3, 5]

    play(scenario, start=START + 10)


@pytest.mark.parametrize(
    ("age_seconds", "waited"),
    [
        pytest.param(0.0, 0.3, id="one that has just renewed"),
        pytest.param(4.0, 0.3, id="one that is about to renew"),
        pytest.param(6.0, 0.0, id="one that has missed a renewal"),
        pytest.param(EXPIRE_SECONDS + 1, 0.0, id="one that is gone"),
    ],
)
def test_a_replica_that_comes_before_us_is_waited_for(age_seconds: float, waited: float) -> None:
    async def scenario() -> None:
        started = Started(members=("theirs",))
        started.store.renew_member("theirs", revision=1, age_seconds=age_seconds)
        began = asyncio.get_running_loop().time()

        started.due(NOW)
        await started.begun.wait()

        assert asyncio.get_running_loop().time() - began == pytest.approx(waited, abs=0.11)
        started.end.set()

    play(scenario, start=START)


def test_a_replica_that_starts_where_many_have_died_does_not_wait_for_the_dead() -> None:
    async def scenario() -> None:
        scene = Scene()
        for number in range(30):
            scene.job(f"job-{number}", concurrencyPolicy="Allow")
        dead = [f"dead-{number}" for number in range(8)]
        scene.start(*dead)
        await scene.at(DUE - 8)
        scene.crash(*dead)
        await scene.at(DUE - 1)

        scene.start("new")
        await scene.at(DUE + 30)

        scene.witness.check(calm_seconds=25)
        assert len(objects(scene.api, PODS)) == 30
        assert max(scene.api.ledger.lateness()) < 0.5

    play(scenario, start=BEGIN)


def test_one_read_of_the_job_serves_all_its_firings_that_were_due_before_it() -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule="* * * * * *", concurrencyPolicy="Allow", successfulRunsHistoryLimit=100)
        scene.start("a")
        await scene.at(DUE)
        operator = scene.first(uid)
        operator.process.stall(12)
        read_before = len(operator.connection.requests)

        await scene.at(DUE + 40)

        scene.witness.check(calm_seconds=20)
        reads = [
            request
            for request in operator.connection.requests[read_before:]
            if request.method == "GET" and request.path.endswith("/scheduledjobs/job")
        ]
        assert len(scene.api.ledger.firings(uid)) >= 40
        assert len(reads) <= 3

    play(scenario, start=BEGIN)
