"""The attempts of a run: which failure is tried again, when, and whether an attempt has a record. Pure.

A run is over when its last attempt has ended and no other follows. The line of the next attempt is added by the very write that
records the failure, so in every stored history the last line of a run says whether it is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from .clock import rfc3339
from .fan import PLANNED, QUEUED
from .model import Entry, Job, Retry, State, Trigger
from .names import attempt_of, firing_of, request_of, run_of

BACK_OFF = "BackOff"
FAILED_CREATE = "FailedCreate"
DEAD_LETTERS = "DeadLetters"
LEDGER_LOST = "LedgerLost"
# The same template makes no Pod the next time either; where it is not known whether a Pod runs, another may be the second; and what
# was replaced has its successor. Units have been tried again on their own.
_NOT_RETRIED = frozenset({"PodInvalid", "LaunchUnknown", "Replaced", DEAD_LETTERS, LEDGER_LOST})


def next_attempt(line: Entry, retry: Retry) -> Entry | None:
    """The line of the attempt that follows on a failed one, with its start time; None where none does."""
    if line.state is not State.FAILED or line.reason in _NOT_RETRIED or line.attempt > retry.most:
        return None
    start = (line.completed or line.scheduled) + retry.wait_seconds(line.attempt)
    following = line.attempt + 1
    return Entry(
        id=f"{line.run}-{following}",
        scheduled=line.scheduled,
        state=State.PENDING,
        trigger=line.trigger,
        attempt=following,
        reason=BACK_OFF,
        message=f"Attempt {line.attempt} failed: {_said(line)}; attempt {following} at {rfc3339(start)}",
        started=start,
        options=line.options,
        unit=line.unit,
    )


def concluded(line: Entry, retry: Retry) -> tuple[Entry, ...]:
    """The lines that the end of an attempt makes: its own, and that of the attempt that follows. A unit's last is a dead letter."""
    following = next_attempt(line, retry)
    if following is not None:
        return line, following
    if line.state is State.FAILED and line.unit:
        return (replace(line, state=State.DEAD_LETTERED, message=_gave_up(line)),)
    if line.state is State.FAILED and line.attempt > 1:
        return (replace(line, message=_gave_up(line)),)
    return (line,)


def is_fanned(line: Entry) -> bool:
    """Whether a run is in its units: its plan is over, and it has no Pod of its own any more that would tell of its end."""
    return line.state is State.RUNNING and line.reason in {PLANNED, QUEUED}


def _gave_up(line: Entry) -> str:
    return f"Gave up after {line.attempt} attempt{'' if line.attempt == 1 else 's'}: {_said(line)}"


def _said(line: Entry) -> str:
    return line.message or line.reason


def waits_until(line: Entry) -> int:
    """When a line that is to be claimed may be: a retry once its wait is over, all others at once."""
    return line.started or 0 if line.reason == BACK_OFF else 0


def waits_for_others(attempt: int, trigger: Trigger) -> bool:
    """Whether a run that finds another of its job alive waits for its end; a firing that falls due then is skipped."""
    return attempt > 1 or trigger is Trigger.CATCH_UP


def last_attempts(lines: Iterable[Entry]) -> dict[str, Entry]:
    """The line of each run that tells how it is: its last attempt's."""
    last: dict[str, Entry] = {}
    for line in lines:
        known = last.get(line.run)
        if known is None or known.attempt < line.attempt:
            last[line.run] = line
    return last


def has_record(job: Job, entries: Mapping[str, Entry], key: str, *, ended: bool) -> bool:
    """Whether an attempt has its record (and, with `ended`, its final one).

    Lines of a run are dropped together, or those of its earlier attempts before the last. So where only earlier ones are known, the
    attempt is younger than this view of the job; where a later one is, it has ended; where none is, the watermark tells. It tells
    nothing of runs by hand: those have their line before they have a claim, so where there is none it has been dropped.
    """
    entry = entries.get(key)
    if entry is not None:
        return entry.ended or not ended
    run = run_of(key)
    known = [line.attempt for line in entries.values() if line.run == run]
    if known:
        return max(known) > attempt_of(key)
    return bool(request_of(key)) or firing_of(key) <= job.recorded_until
