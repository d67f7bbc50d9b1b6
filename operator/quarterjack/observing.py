"""The observing write: what a job's status becomes when a new generation of its spec is first seen. Pure.

It stores the instant from which the schedule counts, so that no replica has to guess it, and says whether the job can be served.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from .clock import rfc3339
from .model import Entry, Job
from .plan import Plan, ScheduleError, plan_from_line, plan_of
from .report import bounded, condition, next_time, reported, schedule_state, with_conditions, with_health
from .text import safe
from .windows import RESCUE_SECONDS

NO_FIRINGS = "NoFutureFiring"
SHORT_DEADLINE = "ShortStartingDeadline"


class Trial(NamedTuple):
    """What the API server said to a Pod of the template: it never can be one, or not now (a quota, a missing account)."""

    error: str = ""
    doubt: str = ""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a spec turns out to be: its plan, or why there is none; and what the API server says to its Pod."""

    plan: Plan
    line: str
    schedule_error: str = ""
    template_error: str = ""
    template_doubt: str = ""

    @property
    def problem(self) -> tuple[str, str] | None:
        """Reason and message of the first thing that keeps the job from being served."""
        if self.schedule_error:
            return "InvalidSchedule", self.schedule_error
        if self.template_error:
            return "InvalidPodTemplate", self.template_error
        return None


def observe(job: Job, trial: Trial, *, anchor: int, default_zone: str) -> Observation:
    """Read the spec of a job whose firings count from `anchor`; `trial` is what the API server says to a Pod of it."""
    by_hand = plan_of({}, anchor=anchor)
    if job.spec.invalid:
        return Observation(by_hand, "", safe(f"spec: {job.spec.invalid}"), *trial)
    try:
        plan = plan_of(job.spec.timing, anchor=anchor, default_zone=default_zone)
    except ScheduleError as error:
        return Observation(by_hand, shown_schedule(job), safe(f"spec.{error}"), *trial)
    return Observation(plan, plan.line(), "", *trial)


def shown_schedule(job: Job) -> str:
    """The schedule as its author wrote it, for the column, where it cannot be read."""
    timing = job.spec.timing
    return safe(str(timing.get("schedule") or timing.get("interval") or timing.get("runAfter") or ""), 200)


def is_rescheduled(job: Job, line: str) -> bool:
    """Whether this generation changes when the job fires: another schedule, suspended, resumed, or no schedule until now.

    What falls due while no Pod can be made of the template is missed, as where no replica runs: it is settled once that is mended.
    """
    status = job.status
    return (
        status.scheduled_from is None
        or status.observed_schedule != line
        or status.suspended != job.spec.suspend
        or not status.schedule_valid
    )


def edit_instant(job: Job, *, now: int) -> int:
    """The instant from which a changed schedule counts: never in the future, never before the one that it follows."""
    if job.status.scheduled_from is None:
        return min(job.edited, now)
    return max(min(job.edited, now), job.recorded_until if job.status.suspended else job.status.scheduled_from)


def old_plan(job: Job) -> Plan | None:
    """The plan that held until this generation; None where it fired nothing."""
    status = job.status
    if status.scheduled_from is None or status.suspended or not status.schedule_valid:
        return None
    return plan_from_line(status.observed_schedule, anchor=status.scheduled_from)


def observed_status(
    job: Job,
    seen: Observation,
    *,
    now: int,
    served_by: str,
    namespace: str,
    scheduled_from: int,
    watermark: int,
    lines: Mapping[str, Entry],
    awaited: Container[str] = (),
) -> dict[str, Any]:
    """The status with this generation observed; `lines` are with those that the old schedule's firings still get.

    `served_by` is the UID of the installation's namespace, `namespace` its name, by which people know it.
    """
    old = job.status.document()
    status = reported(job, plan_of({}, anchor=scheduled_from), lines, now=now, awaited=awaited)
    status["observedGeneration"] = job.generation
    status["scheduledFrom"] = rfc3339(scheduled_from)
    status["observedSchedule"] = seen.line
    status["servedBy"] = served_by
    status["watermark"] = rfc3339(watermark)
    status["state"] = schedule_state(job, seen.plan, watermark=watermark)
    status["nextScheduleTime"] = next_time(job, seen.plan, after=max(watermark, now))
    served = f"The job is served by the installation in namespace {namespace} (UID {served_by})"
    conditions = _conditions(job, old, seen, now=now, state=status["state"], served=served)
    status["conditions"] = with_conditions(old, conditions)
    plan = None if seen.schedule_error else seen.plan
    shown = {k: v for k, v in status.items() if v is not None}
    return bounded(with_health(job, plan, shown, now=now), awaited)


def _conditions(
    job: Job, old: Mapping[str, Any], seen: Observation, *, now: int, state: str, served: str
) -> list[dict[str, Any]]:
    def line(kind: str, status: str, reason: str, message: str) -> dict[str, Any]:
        return condition(old, kind, status, reason, message, generation=job.generation, now=now)

    if seen.schedule_error:
        schedule = line("ScheduleValid", "False", "InvalidSchedule", seen.schedule_error)
    elif state == "Stopped" and job.spec.timing:
        schedule = line("ScheduleValid", "True", NO_FIRINGS, f"No firing will follow: {seen.line}")
    elif job.spec.timing and (deadline := job.spec.starting_deadline_seconds or RESCUE_SECONDS) < RESCUE_SECONDS:
        schedule = line("ScheduleValid", "True", SHORT_DEADLINE, _short_deadline(seen.line, deadline))
    else:
        schedule = line("ScheduleValid", "True", "Valid", seen.line)
    if seen.template_error:
        template = line("PodTemplateValid", "False", "InvalidPodTemplate", seen.template_error)
    elif seen.template_doubt:
        template = line("PodTemplateValid", "Unknown", "Refused", seen.template_doubt)
    else:
        template = line("PodTemplateValid", "True", "Valid", "The API server accepts a Pod of this template")
    return [
        line("Ready", *_ready(job, seen, served)),
        schedule,
        template,
    ]


def _short_deadline(schedule: str, seconds: int) -> str:
    late = f"a firing whose replica dies as it launches it is up to {RESCUE_SECONDS} s late, and then missed"
    return f"{schedule}; spec.startingDeadlineSeconds: {seconds} is short: {late}"


def _ready(job: Job, seen: Observation, served: str) -> tuple[str, str, str]:
    if seen.problem is not None:
        return "False", *seen.problem
    if job.spec.suspend:
        return "True", "Suspended", f"spec.suspend is true: no scheduled firing starts. {served}"
    return "True", "Served", served
