"""Virtual time."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from .virtual import (
    ScenarioError,
    VirtualClock,
    VirtualDeadlock,
    VirtualLivelock,
    in_virtual_time,
    later,
    run_virtual,
    virtual_loop,
)

NEW_YEAR = 1_767_225_600.0


def test_a_year_of_waiting_takes_no_time() -> None:
    began = time.monotonic()

    run_virtual(asyncio.sleep(365 * 86_400))

    assert time.monotonic() - began < 5


def test_the_clock_begins_at_the_start_and_goes_on_with_the_loop() -> None:
    async def scenario() -> tuple[float, float]:
        clock = VirtualClock()
        before = clock.wall()
        await asyncio.sleep(90)
        return before, clock.wall()

    assert run_virtual(scenario(), start=NEW_YEAR) == (NEW_YEAR, NEW_YEAR + 90)


@in_virtual_time
async def test_a_clock_may_be_off_and_may_be_set() -> None:
    true, wrong = VirtualClock(), VirtualClock(offset_seconds=-300)

    wrong.offset_seconds += 3_600

    assert wrong.wall() - true.wall() == 3_300


@in_virtual_time
async def test_timers_fire_in_the_order_of_their_times_and_at_them() -> None:
    fired: list[tuple[str, float]] = []
    for name, seconds in (("c", 3.0), ("a", 0.001), ("b", 1.5)):
        later(seconds, lambda name=name: fired.append((name, round(virtual_loop().time(), 6))))

    await asyncio.sleep(10)

    assert fired == [("a", 0.001), ("b", 1.5), ("c", 3.0)]


@in_virtual_time
async def test_asyncio_timeouts_are_virtual_too() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(3_600):
            await asyncio.sleep(86_400)

    assert virtual_loop().time() == 3_600


def test_a_wait_that_nothing_ends_is_an_error() -> None:
    async def scenario() -> None:
        await asyncio.get_running_loop().create_future()

    with pytest.raises(VirtualDeadlock, match="nothing is due"):
        run_virtual(scenario())


def test_a_loop_that_polls_without_waiting_is_an_error() -> None:
    async def look() -> None:
        await asyncio.sleep(0)

    async def scenario() -> None:
        while True:
            await look()

    with pytest.raises(VirtualLivelock, match="without time going on"):
        run_virtual(scenario())


def test_threads_are_refused() -> None:
    with pytest.raises(RuntimeError, match="no threads"):
        run_virtual(asyncio.to_thread(time.time))


def test_a_callback_that_fails_in_the_background_fails_the_scenario() -> None:
    async def scenario() -> None:
        later(1, lambda: 1 // 0)
        await asyncio.sleep(2)

    with pytest.raises(ScenarioError):
        run_virtual(scenario())


def test_what_the_scenario_raises_comes_out() -> None:
    async def scenario() -> None:
        await asyncio.sleep(1)
        raise LookupError("gone")

    with pytest.raises(LookupError, match="gone"):
        run_virtual(scenario())


def test_tasks_that_the_scenario_forgot_are_cancelled() -> None:
    ends: list[str] = []

    async def forgotten() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ends.append("cancelled")

    async def scenario() -> None:
        scenario.task = asyncio.create_task(forgotten())  # type: ignore[attr-defined]
        await asyncio.sleep(1)

    run_virtual(scenario())

    assert ends == ["cancelled"]


def test_what_is_drawn_at_random_is_the_same_each_time_and_leaves_no_trace() -> None:
    async def scenario() -> float:
        return random.random()

    random.seed(7)
    before = random.getstate()

    assert run_virtual(scenario()) == run_virtual(scenario())
    assert run_virtual(scenario(), seed=1) != run_virtual(scenario(), seed=2)
    assert random.getstate() == before
