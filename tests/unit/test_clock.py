"""The API server's clock, estimated from its answers; and the texts of instants."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack.clock import MEMORY_SECONDS, ServerClock, SystemClock, epoch_of, http_date_epoch, rfc3339
from tests.memory.virtual import VirtualClock, in_virtual_time, run_virtual, virtual_loop
from tests.unit.given import NOON


def server_time() -> float:
    loop = virtual_loop()
    return loop.start + loop.time()


async def answer(clock: ServerClock, *, there: float = 0.01, back: float = 0.01) -> None:
    """A request, stamped by the server when it arrives."""
    sent = clock.wall()
    await asyncio.sleep(there)
    date = formatdate(int(server_time()), usegmt=True)
    await asyncio.sleep(back)
    clock.learn(date, sent=sent, received=clock.wall())


OFFSETS = st.floats(-3600, 3600)
PAUSES = st.lists(st.floats(0, 400), min_size=1, max_size=20)
DELAYS = st.floats(0, 3)


@given(OFFSETS, PAUSES, DELAYS, DELAYS)
def test_the_servers_time_is_known_to_a_second_and_the_time_of_an_answer(
    offset: float, pauses: list[float], there: float, back: float
) -> None:
    async def scenario() -> None:
        clock = ServerClock(VirtualClock(offset))
        for pause in pauses:
            await asyncio.sleep(pause)
            await answer(clock, there=there, back=back)
            assert abs(clock.now() - server_time()) <= 1 + there + back + 1e-3

    run_virtual(scenario())


@given(PAUSES, DELAYS, DELAYS)
def test_a_clock_that_agrees_with_the_servers_is_not_corrected(pauses: list[float], there: float, back: float) -> None:
    async def scenario() -> None:
        clock = ServerClock(VirtualClock())
        for pause in pauses:
            await asyncio.sleep(pause)
            await answer(clock, there=there, back=back)
        assert clock.offset_seconds == pytest.approx(0, abs=1e-6)

    run_virtual(scenario())


@pytest.mark.parametrize("step_seconds", [-3600.0, -10.0, 10.0, 3600.0])
def test_a_clock_that_is_set_is_believed_at_the_next_answer(step_seconds: float) -> None:
    async def scenario() -> None:
        own = VirtualClock()
        clock = ServerClock(own)
        await answer(clock)
        own.offset_seconds += step_seconds

        await answer(clock)

        assert abs(clock.now() - server_time()) <= 1.03

    run_virtual(scenario())


@in_virtual_time
async def test_what_the_server_showed_bounds_the_offset_until_it_is_forgotten() -> None:
    clock = ServerClock(VirtualClock())

    clock.at_most(-0.4)
    assert clock.now() == pytest.approx(server_time() - 0.4)

    await asyncio.sleep(MEMORY_SECONDS + 1.5)
    await answer(clock)
    assert clock.offset_seconds == pytest.approx(0)


@in_virtual_time
async def test_a_bound_below_what_answers_allow_is_raised_to_it() -> None:
    clock = ServerClock(VirtualClock())
    await answer(clock)

    clock.at_most(-100)

    assert abs(clock.now() - server_time()) <= 1.03


@pytest.mark.parametrize("date", [None, "", "noon", "Tue, 99 Mar 2026 12:00:00 GMT"])
def test_an_answer_without_a_readable_date_teaches_nothing(date: str | None) -> None:
    async def scenario() -> None:
        clock = ServerClock(VirtualClock(5))
        clock.learn(date, sent=0, received=0)
        assert clock.offset_seconds == 0

    run_virtual(scenario())
    assert http_date_epoch(date) is None


def test_the_systems_clock_is_the_wall_clock() -> None:
    before = time.time()

    assert before <= SystemClock().wall() <= time.time()


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("2026-03-10T12:00:00Z", id="as the API writes it"),
        pytest.param("2026-03-10T12:00:00.999999Z", id="with microseconds"),
        pytest.param("2026-03-10T17:30:00+05:30", id="of another zone"),
    ],
)
def test_an_instant_is_read_to_the_whole_second(text: str) -> None:
    assert epoch_of(text) == NOON


@pytest.mark.parametrize("text", ["", "noon", "2026-03-10", "2026-03-10T12:00:00", "2026-02-30T12:00:00Z"])
def test_a_text_that_is_no_instant_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        epoch_of(text)


@given(st.integers(0, 253_402_300_799))
def test_an_instant_is_read_as_it_was_written(instant: int) -> None:
    assert epoch_of(rfc3339(instant)) == instant
    assert http_date_epoch(formatdate(instant, usegmt=True)) == instant
