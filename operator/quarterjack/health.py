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
from .model import Job
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
class Vitals:
    """What a job's health is read from: epoch seconds, None for what has not been.

    `last_success` is that of a scheduled run, or of one by hand without options. `counts_from` is where the schedule's firings
    begin: creation, its last change, the last resume. `limit_seconds` is `health.maxTimeWithoutSuccess`.
    """

    first_run: int | None
    last_success: int | None
    counts_from: int
    suspended: bool = False
    limit_seconds: int | None = None


def vitals_of(job: Job) -> Vitals:
    """What a job's status says of it."""
    status = job.status
    return Vitals(
        status.first_run_time,
        status.last_success_time,
        job.created if status.scheduled_from is None else status.scheduled_from,
        job.spec.suspend,
        job.spec.without_success_seconds,
    )


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a job is, and why; and the instant from which it is otherwise, if nothing happens until then."""

    health: Health
    reason: str
    message: str
    turns: int | None = None


def judge(plan: Plan | None, vitals: Vitals, *, now: float) -> Verdict:
    """The verdict now; `plan` is None where the schedule cannot be read."""
    if vitals.suspended:
        return Verdict(Health.SUSPENDED, SUSPENDED, "spec.suspend is true: health is not reported")
    if plan is None:
        return Verdict(Health.UNKNOWN, INVALID_SCHEDULE, "The schedule is not valid, so no success can be expected")
    if vitals.first_run is None and vitals.last_success is None:
        return Verdict(Health.UNKNOWN, NOT_RUN_YET, "The job has not run yet")
    overdue = overdue_time(plan, vitals)
    if overdue is not None and now >= overdue:
        return _overdue(plan, vitals, overdue)
    if vitals.last_success is None:
        return _awaited(vitals, overdue)
    stands_until = vitals.last_success + allowance(plan, vitals)
    if vitals.last_success >= vitals.counts_from or overdue is None:
        return _succeeding(plan, vitals, turns=overdue)
    return _succeeding(plan, vitals, turns=stands_until) if now < stands_until else _awaited(vitals, overdue)


def overdue_time(plan: Plan, vitals: Vitals) -> int | None:
    """From when on the job is Unhealthy unless it succeeds; None where it never is.

    Whatever the plan's pace, the next firing has an hour: gaps longer than any that was measured may come, such as the eight years
    around 2100.
    """
    owed = _owed(plan, vitals)
    if owed is None:
        return None
    overdue = _since(vitals) + allowance(plan, vitals)
    return overdue if vitals.limit_seconds is not None else max(overdue, owed + HOUR)


def surely_healthy_until(plan: Plan, vitals: Vitals) -> int | None:
    """No later than a healthy job turns, and found without the plan's pace, which may take a millisecond to measure.

    None where it takes a look at all of it.
    """
    if vitals.suspended or vitals.last_success is None or vitals.last_success < vitals.counts_from:
        return None
    owed = _owed(plan, vitals)
    if owed is None or vitals.limit_seconds is not None:
        return overdue_time(plan, vitals)
    return owed + HOUR


def allowance(plan: Plan, vitals: Vitals) -> int:
    """How long a job may go without a success, in seconds."""
    return usual_allowance(plan.pace()) if vitals.limit_seconds is None else vitals.limit_seconds


def usual_allowance(pace: Pace) -> int:
    """Four periods, to the minute for clocks that are changed, at most a day; at least the longest gap and an hour."""
    periods = (4 * pace.period_seconds + MINUTE // 2) // MINUTE * MINUTE
    return max(min(periods, DAY), pace.longest_gap_seconds + HOUR)


def _since(vitals: Vitals) -> int:
    """Since when the job has gone without a success, as far as that counts."""
    last = vitals.last_success if vitals.last_success is not None else vitals.first_run
    return max(last or 0, vitals.counts_from)


def _owed(plan: Plan, vitals: Vitals) -> int | None:
    """The firing that is to bring the next success, None where all have brought theirs.

    It is the next one, or where a plan has ended without a success its first. A job by hand that has a limit always owes one.
    """
    owed = plan.next_after(vitals.last_success or plan.anchor)
    if owed is None:
        by_hand = plan.next_after(plan.anchor) is None
        return _since(vitals) if by_hand and vitals.limit_seconds is not None else None
    following = plan.next_after(_since(vitals)) if vitals.last_success is None else None
    return owed if following is None else following


def _succeeding(plan: Plan, vitals: Vitals, *, turns: int | None) -> Verdict:
    if turns is None:
        return Verdict(Health.HEALTHY, NOTHING_DUE, "It has succeeded, and no scheduled firing is to follow")
    allowed = shown_duration(allowance(plan, vitals))
    return Verdict(Health.HEALTHY, SUCCEEDING, f"Its last success is not longer ago than {allowed}", turns)


def _awaited(vitals: Vitals, overdue: int | None) -> Verdict:
    if overdue is None:
        return Verdict(Health.UNKNOWN, NOTHING_DUE, "It has not succeeded yet, and no scheduled firing is to follow")
    message = f"No success yet {_counted(vitals)}; it has until {rfc3339(overdue)}"
    return Verdict(Health.UNKNOWN, NO_SUCCESS_YET, message, overdue)


def _overdue(plan: Plan, vitals: Vitals, overdue: int) -> Verdict:
    allowed, last = shown_duration(allowance(plan, vitals)), vitals.last_success
    start = f"Unhealthy since {rfc3339(overdue)}: no success for longer than {allowed}"
    if last is None:
        return Verdict(Health.UNHEALTHY, NEVER_SUCCEEDED, f"{start} {_counted(vitals)}; it never succeeded")
    counted = "" if last >= vitals.counts_from else f" {_counted(vitals)}"
    return Verdict(Health.UNHEALTHY, NO_RECENT_SUCCESS, f"{start}{counted}; the last was at {rfc3339(last)}")


def _counted(vitals: Vitals) -> str:
    """From where a job's time without a success is counted, where that is not its last success."""
    since = _since(vitals)
    start = "its first run" if since == vitals.first_run and vitals.last_success is None else "it was edited or resumed"
    return f"since {start} at {rfc3339(since)}"
