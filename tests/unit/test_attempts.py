"""Which failures are tried again and when, and which attempts have a record."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack.attempts import concluded, has_record, last_attempts, next_attempt, waits_until
from quarterjack.clock import rfc3339
from quarterjack.decision import pending
from quarterjack.model import Entry, Retry, State, Trigger
from quarterjack.names import run_key
from tests.unit.given import NOON, a_job, a_run, a_status

TWICE = Retry(most=2, delay_ms=10_000, longest_delay_ms=25_000)


def a_failure(attempt: int = 1, **fields: object) -> Entry:
    said = {"reason": "ExitCode", "message": "no such table", "completed": NOON + 30}
    return a_run(NOON, State.FAILED, attempt=attempt, **said | fields)


@pytest.mark.parametrize(
    ("attempt", "delay_ms", "longest_ms", "seconds"),
    [
        pytest.param(1, 10_000, 600_000, 10, id="the delay"),
        pytest.param(2, 10_000, 600_000, 20, id="twice the delay"),
        pytest.param(7, 10_000, 600_000, 600, id="the longest delay"),
        pytest.param(10, 365 * 86_400_000, 365 * 86_400_000, 365 * 86_400, id="the longest that there is"),
        pytest.param(1, 1, 600_000, 1, id="a millisecond is rounded up to a second"),
        pytest.param(1, 1_500, 600_000, 2, id="no sooner than asked for"),
        pytest.param(1, 20_000, 5_000, 5, id="a longest delay below the delay"),
    ],
)
def test_the_wait_doubles_up_to_the_longest(attempt: int, delay_ms: int, longest_ms: int, seconds: int) -> None:
    assert Retry(most=10, delay_ms=delay_ms, longest_delay_ms=longest_ms).wait_seconds(attempt) == seconds


def test_a_failure_is_followed_by_a_line_that_says_what_failed_and_when_the_next_attempt_starts() -> None:
    failed, waiting = concluded(a_failure(trigger=Trigger.CATCH_UP), TWICE)

    assert failed == a_failure(trigger=Trigger.CATCH_UP)
    assert (waiting.id, waiting.attempt, waiting.scheduled) == (f"{NOON}-2", 2, NOON)
    assert (waiting.state, waiting.reason, waiting.trigger) == (State.PENDING, "BackOff", Trigger.CATCH_UP)
    assert waiting.message == "Attempt 1 failed: no such table; attempt 2 at 2026-03-10T12:00:40Z"
    assert waits_until(waiting) == NOON + 40


def test_the_last_failure_says_that_no_attempt_follows_and_why_it_failed() -> None:
    (last,) = concluded(a_failure(3), TWICE)

    assert (last.state, last.message) == (State.FAILED, "Gave up after 3 attempts: no such table")


def test_a_failure_without_words_is_told_by_its_reason() -> None:
    _, waiting = concluded(a_failure(message="", reason="Evicted"), TWICE)

    assert waiting.message.startswith("Attempt 1 failed: Evicted;")


@pytest.mark.parametrize(
    ("line", "follows"),
    [
        *(
            pytest.param(a_failure(reason=reason), True, id=reason)
            for reason in (
                "ExitCode",
                "Evicted",
                "PodDeleted",
                "NodeLost",
                "DeadlineExceeded",
                "FailedCreate",
                "PodNameTaken",
            )
        ),
        *(pytest.param(a_failure(reason=reason), False, id=reason) for reason in ("PodInvalid", "LaunchUnknown")),
        *(
            pytest.param(replace(a_failure(), state=state), False, id=state)
            for state in State
            if state is not State.FAILED
        ),
        pytest.param(a_failure(2), True, id="the last retry"),
        pytest.param(a_failure(3), False, id="no retry left"),
    ],
)
def test_only_a_failed_attempt_is_followed_by_another(line: Entry, follows: bool) -> None:
    assert (next_attempt(line, TWICE) is not None) is follows


def test_without_retry_a_failure_stays_as_it_is() -> None:
    assert concluded(a_failure(), Retry()) == (a_failure(),)


@given(st.integers(0, 10), st.integers(1, 10**9), st.integers(1, 10**9))
def test_a_run_that_always_fails_has_one_attempt_more_than_retries_each_after_the_one_before(
    most: int, delay_ms: int, longest_ms: int
) -> None:
    retry = Retry(most=most, delay_ms=delay_ms, longest_delay_ms=longest_ms)
    line, starts = a_failure(), [NOON]

    while (following := next_attempt(line, retry)) is not None:
        starts.append(waits_until(following))
        line = replace(following, state=State.FAILED, completed=starts[-1])

    assert (line.attempt, line.run) == (most + 1, str(NOON))
    assert all(before < after for before, after in pairwise(starts))


@pytest.mark.parametrize(
    "line",
    [
        pytest.param(pending(NOON, Trigger.SCHEDULE), id="a firing that is to be claimed"),
        pytest.param(a_run(NOON, State.RUNNING, started=NOON + 900), id="a run with a start time"),
    ],
)
def test_nothing_but_a_retry_waits(line: Entry) -> None:
    assert waits_until(line) == 0


def test_the_last_attempt_tells_how_a_run_is() -> None:
    lines = [a_failure(2), a_failure(), a_run(NOON, State.RUNNING, attempt=10), a_run(NOON + 60)]

    assert last_attempts(lines) == {str(NOON): lines[2], str(NOON + 60): lines[3]}


WAITING = pending(NOON, Trigger.SCHEDULE, 2)


@pytest.mark.parametrize(
    ("lines", "attempt", "recorded", "ended"),
    [
        pytest.param([a_failure(), WAITING], 1, True, True, id="a failed attempt"),
        pytest.param([a_failure(), WAITING], 2, True, False, id="one that waits"),
        pytest.param([a_failure()], 2, False, False, id="one that is younger than the view of the job"),
        pytest.param([WAITING], 1, True, True, id="an earlier one whose line found no room"),
        pytest.param([], 2, True, True, id="one of a run whose lines are no longer kept"),
    ],
)
def test_an_attempt_has_its_record(lines: list[Entry], attempt: int, recorded: bool, ended: bool) -> None:
    job, entries = a_job(status=a_status(watermark=rfc3339(NOON))), {line.id: line for line in lines}

    assert has_record(job, entries, run_key(NOON, attempt), ended=False) is recorded
    assert has_record(job, entries, run_key(NOON, attempt), ended=True) is ended


def test_an_attempt_of_a_run_above_the_watermark_of_which_nothing_is_known_has_no_record() -> None:
    assert not has_record(a_job(), {}, run_key(NOON, 2), ended=False)


@pytest.mark.parametrize(
    ("attempt", "says"),
    [
        pytest.param(1, "Gave up after 1 attempt: no such tenant", id="never tried again"),
        pytest.param(3, "Gave up after 3 attempts: no such tenant", id="tried again twice"),
    ],
)
def test_the_last_failure_of_a_unit_is_a_dead_letter(attempt: int, says: str) -> None:
    line = a_run(NOON, State.FAILED, attempt=attempt, message="no such tenant", unit="acme")

    (letter,) = concluded(line, Retry(most=attempt - 1))

    assert (letter.state, letter.message, letter.unit) == (State.DEAD_LETTERED, says, "acme")


def test_the_next_attempt_of_a_unit_is_of_that_unit() -> None:
    line = a_run(NOON, State.FAILED, unit="acme")

    _, following = concluded(line, Retry(most=1))

    assert (following.unit, following.attempt) == ("acme", 2)


@pytest.mark.parametrize("reason", ["DeadLetters", "LedgerLost"])
def test_a_run_whose_units_have_failed_is_not_tried_again_as_a_whole(reason: str) -> None:
    line = a_run(NOON, State.FAILED, reason=reason)

    assert concluded(line, Retry(most=3)) == (line,)
