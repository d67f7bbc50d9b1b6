"""Whether a job succeeds as often as it should: a reading of a few instants, with the time passed in.

A job is Unhealthy once it has gone without a success for longer than it may: four of its scheduled periods, at most a day, but
never less than its longest gap between firings plus an hour, or `health.maxTimeWithoutSuccess`. Time in which it was suspended,
not served, or had another schedule does not count.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .clock import rfc3339
from .durations import shown_duration
from .plan import Pace, Plan

DAY, HOUR, MINUTE = 86_400, 3600, 60

SUCCEEDING = "Succeeding"
NO_RECENT_SUCCESS = "NoRecentSuccess"
NEVER_SUCCEEDED = "NeverSucceeded"
NO_SUCCESS_YET = "NoSuccessYet"
NOT_RUN_YET = "NotRunYet"
NOTHING_DUE = "NothingDue"
SUSPENDED = "Suspended"
INVALID_SCHEDULE = "InvalidSchedule"


class Health(StrEnum):
    """The verdict, as `status.health` has it."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    UNKNOWN = "Unknown"
    SUSPENDED = "Suspended"


@dataclass(frozen=True, slots=True)
class Signs:
    """What a job's health is read from: epoch seconds, None for what has not been.

    `last_success` is that of a scheduled run, or of one by hand without options. `counts_from` is where the schedule's firings
    begin: creation, its last change, the last resume. `limit_seconds` is `health.maxTimeWithoutSuccess`.
    """

    first_run: int | None
    last_success: int | None
    counts_from: int
    suspended: bool = False
    limit_seconds: int | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a job is, and why; and the instant from which it is otherwise, if nothing happens until then."""

    health: Health
    reason: str
    message: str
    turns: int | None = None


def judge(plan: Plan | None, signs: Signs, *, now: float) -> Verdict:
    """The verdict now; `plan` is None where the schedule cannot be read."""
    if signs.suspended:
        return Verdict(Health.SUSPENDED, SUSPENDED, "spec.suspend is true: health is not reported")
    if plan is None:
        return Verdict(Health.UNKNOWN, INVALID_SCHEDULE, "The schedule is not valid, so no success can be expected")
    if signs.first_run is None and signs.last_success is None:
        return Verdict(Health.UNKNOWN, NOT_RUN_YET, "The job has not run yet")
    overdue = overdue_time(plan, signs)
    if overdue is not None and now >= overdue:
        return _overdue(plan, signs, overdue)
    if signs.last_success is None:
        return _awaited(signs, overdue)
    stands_until = signs.last_success + allowance(plan, signs)
    if signs.last_success >= signs.counts_from or overdue is None:
        return _succeeding(plan, signs, turns=overdue)
    return _succeeding(plan, signs, turns=stands_until) if now < stands_until else _awaited(signs, overdue)


def overdue_time(plan: Plan, signs: Signs) -> int | None:
    """From when on the job is Unhealthy unless it succeeds; None where it never is.

    Whatever the plan's pace, the next firing has an hour: gaps longer than any that was measured may come, such as the eight years
    around 2100.
    """
    owed = _owed(plan, signs)
    if owed is None:
        return None
    overdue = _since(signs) + allowance(plan, signs)
    return overdue if signs.limit_seconds is not None else max(overdue, owed + HOUR)


def soonest_overdue(plan: Plan, signs: Signs) -> int | None:
    """No later than `overdue_time`, and found without the plan's pace, which may take a millisecond to measure."""
    owed = _owed(plan, signs)
    if owed is None or signs.limit_seconds is not None:
        return overdue_time(plan, signs)
    return max(_since(signs), owed) + HOUR


def allowance(plan: Plan, signs: Signs) -> int:
    """How long a job may go without a success, in seconds."""
    return usual_allowance(plan.pace()) if signs.limit_seconds is None else signs.limit_seconds


def usual_allowance(pace: Pace) -> int:
    """Four periods, to the minute for clocks that are changed, at most a day; at least the longest gap and an hour."""
    periods = (4 * pace.period_seconds + MINUTE // 2) // MINUTE * MINUTE
    return max(min(periods, DAY), pace.longest_gap_seconds + HOUR)


def _since(signs: Signs) -> int:
    """Since when the job has gone without a success, as far as that counts."""
    last = signs.last_success if signs.last_success is not None else signs.first_run
    return max(last or 0, signs.counts_from)


def _owed(plan: Plan, signs: Signs) -> int | None:
    """The firing that is to bring the next success, None where all have brought theirs.

    It is the next one, or where a plan has ended without a success its first. A job by hand that has a limit always owes one.
    """
    owed = plan.next_after(signs.last_success or plan.anchor)
    if owed is None:
        by_hand = plan.next_after(plan.anchor) is None
        return _since(signs) if by_hand and signs.limit_seconds is not None else None
    following = plan.next_after(_since(signs)) if signs.last_success is None else None
    return owed if following is None else following


def _succeeding(plan: Plan, signs: Signs, *, turns: int | None) -> Verdict:
    if turns is None:
        return Verdict(Health.HEALTHY, NOTHING_DUE, "It has succeeded, and no scheduled firing is to follow")
    allowed = shown_duration(allowance(plan, signs))
    return Verdict(Health.HEALTHY, SUCCEEDING, f"Its last success is not longer ago than {allowed}", turns)


def _awaited(signs: Signs, overdue: int | None) -> Verdict:
    if overdue is None:
        return Verdict(Health.UNKNOWN, NOTHING_DUE, "It has not succeeded yet, and no scheduled firing is to follow")
    message = f"No success yet {_counted(signs)}; it has until {rfc3339(overdue)}"
    return Verdict(Health.UNKNOWN, NO_SUCCESS_YET, message, overdue)


def _overdue(plan: Plan, signs: Signs, overdue: int) -> Verdict:
    allowed, last = shown_duration(allowance(plan, signs)), signs.last_success
    start = f"Unhealthy since {rfc3339(overdue)}: no success for longer than {allowed}"
    if last is None:
        return Verdict(Health.UNHEALTHY, NEVER_SUCCEEDED, f"{start} {_counted(signs)}; it never succeeded")
    counted = "" if last >= signs.counts_from else f" {_counted(signs)}"
    return Verdict(Health.UNHEALTHY, NO_RECENT_SUCCESS, f"{start}{counted}; the last was at {rfc3339(last)}")


def _counted(signs: Signs) -> str:
    """From where a job's time without a success is counted, where that is not its last success."""
    since = _since(signs)
    start = "its first run" if since == signs.first_run and signs.last_success is None else "it was edited or resumed"
    return f"since {start} at {rfc3339(since)}"
