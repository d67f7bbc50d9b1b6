"""Replicas that are killed and stopped between their steps."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator

import pytest

from .replica import Replica
from .virtual import ScenarioError, in_virtual_time, later, run_virtual, virtual_loop


def now() -> float:
    return round(virtual_loop().time(), 3)


async def note_each_second(seen: list[float]) -> None:
    while True:
        seen.append(now())
        await asyncio.sleep(1)


@in_virtual_time
async def test_a_step_is_one_resume() -> None:
    replica = Replica("a")

    await replica.start(note(3, []))

    assert replica.steps == 4


async def note(times: int, seen: list[float]) -> None:
    for _ in range(times):
        await asyncio.sleep(1)
        seen.append(now())


@in_virtual_time
async def test_the_steps_of_tasks_within_tasks_are_counted() -> None:
    async def parent() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(note(1, []))
            group.create_task(note(1, []))

    replica = Replica("a")

    await replica.start(parent())

    assert replica.steps == 2 + 2 * 2


@pytest.mark.parametrize("step", range(1, 6))
@in_virtual_time
async def test_no_code_runs_from_the_step_of_the_crash_on(step: int) -> None:
    seen: list[float] = []
    replica = Replica("a")
    replica.crash_at(step)
    replica.start(note_each_second(seen))

    await asyncio.sleep(10)

    assert replica.crashed
    assert seen == [float(second) for second in range(step - 1)]


def test_no_finally_runs_within_the_scenario_of_a_crash() -> None:
    ends: list[str] = []

    async def main() -> None:
        try:
            await asyncio.sleep(1_000)
        finally:
            ends.append("finally")

    async def scenario() -> list[str]:
        replica = Replica("a")
        replica.start(main())
        await asyncio.sleep(1)
        replica.crash()
        await asyncio.sleep(2_000)
        gc.collect()
        return list(ends)

    assert run_virtual(scenario()) == []


def test_a_dead_replica_with_awaits_in_its_finally_is_buried_without_a_word() -> None:
    async def last_words() -> None:
        await asyncio.sleep(5)

    async def lines() -> AsyncIterator[int]:
        try:
            for i in range(10):
                yield i
                await asyncio.sleep(1)
        finally:
            await last_words()

    async def main() -> None:
        try:
            async with asyncio.timeout(600), asyncio.TaskGroup() as group:
                group.create_task(note_each_second([]))
                async for _ in lines():
                    await asyncio.sleep(0.5)
        finally:
            await asyncio.wait_for(last_words(), 10)
            await asyncio.create_task(last_words())

    async def scenario(step: int) -> None:
        replica = Replica("a")
        replica.crash_at(step)
        replica.start(main())
        await asyncio.sleep(20)

    for step in range(1, 30):
        run_virtual(scenario(step))
    gc.collect()


def test_a_dead_replica_that_gathers_is_buried_too() -> None:
    async def main() -> None:
        while True:
            await asyncio.gather(note(3, []), note(5, []))

    async def scenario() -> None:
        replica = Replica("a")
        replica.start(main())
        later(2.5, replica.crash)
        await asyncio.sleep(20)

    run_virtual(scenario())


@in_virtual_time
async def test_its_timers_and_callbacks_die_with_it() -> None:
    fired: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.call_later(5, fired.append, "timer")
        loop.create_task(asyncio.sleep(5)).add_done_callback(lambda _: fired.append("callback"))
        await asyncio.sleep(1_000)

    replica = Replica("a")
    replica.start(main())
    later(1, replica.crash)

    await asyncio.sleep(100)

    assert fired == []


@in_virtual_time
async def test_nothing_runs_while_it_is_stalled_and_everything_afterwards() -> None:
    seen: list[float] = []
    replica = Replica("a")
    replica.start(note_each_second(seen))
    later(2.5, replica.stall, 60)

    await asyncio.sleep(65)

    assert seen == [0, 1, 2, 62.5, 63.5, 64.5]


@in_virtual_time
async def test_it_can_be_stalled_before_a_step_more_than_once() -> None:
    seen: list[float] = []
    replica = Replica("a")
    replica.stall_at(2, 10)
    replica.stall_at(3, 10)
    replica.start(note_each_second(seen))

    await asyncio.sleep(22.5)

    assert seen == [0, 11, 22]


@in_virtual_time
async def test_what_came_during_a_stall_is_there_when_it_ends_before_what_has_timed_out() -> None:
    answers: list[str] = []
    answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def main() -> None:
        try:
            async with asyncio.timeout(5):
                answers.append(await answer)
        except TimeoutError:
            answers.append(f"late at {now()}")

    replica = Replica("a")
    replica.start(main())
    later(1, replica.stall, 60)
    later(3, answer.set_result, "answer")

    await asyncio.sleep(100)

    assert answers == ["answer"]


@in_virtual_time
async def test_a_timer_that_is_cancelled_right_after_a_stall_does_not_fire() -> None:
    fired: list[str] = []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        second = loop.call_later(3, fired.append, "second")
        loop.call_later(2, second.cancel)
        await asyncio.sleep(1_000)

    replica = Replica("a")
    replica.start(main())
    later(1, replica.stall, 60)

    await asyncio.sleep(100)

    assert fired == []


@in_virtual_time
async def test_stalls_that_overlap_last_until_the_later_end() -> None:
    seen: list[float] = []
    replica = Replica("a")
    replica.start(note_each_second(seen))
    later(0.5, replica.stall, 10)
    later(5, replica.stall, 10)

    await asyncio.sleep(15.5)

    assert seen == [0, 15]


@in_virtual_time
async def test_one_replica_stopped_does_not_stop_another() -> None:
    seen: list[float] = []
    first, second = Replica("a"), Replica("b")
    first.start(note_each_second([]))
    second.start(note_each_second(seen))
    first.crash()

    await asyncio.sleep(2.5)

    assert seen == [0, 1, 2]


def test_a_replica_that_fails_unnoticed_fails_the_scenario() -> None:
    async def main() -> None:
        await asyncio.sleep(1)
        raise LookupError("gone")

    async def scenario() -> None:
        Replica("a").start(main())
        await asyncio.sleep(10)

    with pytest.raises(ScenarioError, match="replica a failed") as caught:
        run_virtual(scenario())

    assert isinstance(caught.value.__cause__, LookupError)


@in_virtual_time
async def test_over_tells_of_a_crash_and_of_an_end() -> None:
    crashed, ended = Replica("a"), Replica("b")
    crashed.crash_at(3)
    crashed.start(note_each_second([]))
    ended.start(note(1, []))

    await ended.over()
    await crashed.over()

    assert (crashed.crashed, ended.crashed, now()) == (True, False, 2)
