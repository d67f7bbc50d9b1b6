"""A job's story: what a write of its status adds to its history, in the words of its Events. Pure.

The reasons are CronJob's, and a Job's, where those have one for the same. Of a run that has ended since the last write only its end
is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .attempts import BACK_OFF, FAILED_CREATE, last_attempts
from .clock import rfc3339
from .fan import QUEUED
from .model import Entry, State, Trigger
from .names import is_unit_key

# What nobody has decided, but what has happened.
LOGGED = frozenset({"SawCompletedJob", BACK_OFF, "BackoffLimitExceeded", "MissSchedule"})


class Told(NamedTuple):
    """Something to tell of a job. Two of one reason and subject are the same, whatever their messages."""

    reason: str
    message: str
    warning: bool = False
    subject: str = ""
    line: str = ""  # of the history: its id


def story(before: Iterable[Entry], lines: Mapping[str, Entry]) -> list[Told]:
    """What is new in `lines`, the oldest first."""
    known = {line.id: line for line in before}
    last = last_attempts(lines.values())
    ordered = sorted(lines.values(), key=lambda line: (line.scheduled, line.attempt))
    newest = [line for line in ordered if line.attempt >= last[line.run].attempt]
    turns = [(line, _turn(line, known.get(line.id))) for line in newest]
    return [told._replace(line=line.id) for line, told in turns if told is not None]


def _turn(line: Entry, known: Entry | None) -> Told | None:
    if known is not None and (known.state, known.reason, known.pod_name) == (line.state, line.reason, line.pod_name):
        return None
    if line.ended:
        return None if known is not None and known.state is line.state else _end(line)
    if line.reason == BACK_OFF:
        return Told(BACK_OFF, f"{_run(line)}: {line.message}", warning=True)
    if line.reason == QUEUED and line.state is State.RUNNING:
        return Told(QUEUED, f"{_run(line)}: {line.message}")
    if not line.pod_name:
        return None
    if line.state is State.PENDING and line.reason:
        return _warning(FAILED_CREATE, line, f"does not start: {_said(line)}: Pod {line.pod_name}")
    if known is None or not known.pod_name:
        return Told("SuccessfulCreate", f"{_run(line)}: created Pod {line.pod_name}")
    return None


def _end(line: Entry) -> Told:
    match line.state:
        case State.SUCCEEDED:
            said = f": {line.message}" if line.message else ""
            return Told("SawCompletedJob", f"{_run(line)} succeeded{said}: Pod {line.pod_name}")
        case State.SKIPPED:
            reason = "JobAlreadyActive" if line.reason == "Overlap" else "Skipped"
            return Told(reason, f"{_run(line)} was skipped: {line.message}", subject=line.reason)
        case State.CANCELED:
            return Told("SuccessfulDelete", f"{_run(line)} was stopped: {line.message}: Pod {line.pod_name}")
        case State.MISSED if line.count:
            return Told("MissSchedule", line.message, warning=True, subject=line.reason)
        case State.MISSED:
            return _warning("MissSchedule", line, f"was missed: {line.message}")
        case State.STALE:
            return _warning("Stale", line, f"was given up: {_said(line)}: Pod {line.pod_name}")
        case State.FAILED if line.attempt == 1 and not line.pod_name:
            return _warning(FAILED_CREATE, line, f"failed without a Pod: {_said(line)}")
        case State.FAILED if line.attempt == 1:
            return _warning("SawCompletedJob", line, f"failed: {_said(line)}: Pod {line.pod_name}")
    return _warning("BackoffLimitExceeded", line, f"failed: {_said(line)}")


def _warning(reason: str, line: Entry, said: str) -> Told:
    return Told(reason, f"{_run(line)} {said}", warning=True, subject=line.reason)


def _said(line: Entry) -> str:
    return ": ".join(filter(None, [line.reason, line.message]))


def _run(line: Entry) -> str:
    what = "The run by hand" if line.trigger is Trigger.MANUAL else "The firing"
    unit = f", unit {line.unit}," if is_unit_key(line.id) else ""
    return f"{what} of {rfc3339(line.scheduled)}{unit}"
