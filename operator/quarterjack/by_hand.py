"""Runs by hand: whether one is accepted, its line in the job's history, and what its own status says by that line. Pure.

The line is written before anything is started, as that of a missed firing that is to be caught up; from there on it is a run like
any other. It stays in the history at least until the status of its ScheduledJobRun tells how it ended: so one that is accepted and
has no line has not begun, and is given one, once.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, NamedTuple

from .attempts import is_fanned
from .clock import rfc3339
from .decision import RUNS_MOST, room_for_runs
from .invalid import quoted
from .model import Entry, Job, Request, State, Trigger
from .names import request_of
from .options import problem_of, shown_options
from .report import condition, with_conditions
from .text import safe
from .units import Units, units_of

UNSEEN_SECONDS = 600  # a run whose request no view shows may still have one that is to be told of its end


class Refusal(NamedTuple):
    """Why a run is not accepted."""

    reason: str
    message: str


def refusal_of(request: Request, job: Job | None) -> Refusal | None:
    """Why a request is not accepted, naming the field and the value; None where it is. `job`: None where it is not there."""
    if job is None:
        name = quoted(request.job_name)
        return Refusal("NotFound", f"spec.scheduledJobName: there is no ScheduledJob {name} in this namespace")
    if job.spec.invalid:
        return Refusal("InvalidJob", f"ScheduledJob {job.name} cannot be read: spec: {job.spec.invalid}")
    if request.unit and job.spec.fan_out is None:
        return Refusal("InvalidUnit", f"spec.unit: {quoted(request.unit)} is given and the job has no fanOut")
    problem = problem_of(job.spec.options, request.options, unit_option=_unit_option(job))
    return Refusal("InvalidOptions", problem) if problem else _unit_refusal(request, job)


def _unit_option(job: Job) -> str:
    return job.spec.fan_out.unit_option if job.spec.fan_out is not None else ""


def _unit_refusal(request: Request, job: Job) -> Refusal | None:
    passed = dict(request.options).get(_unit_option(job), "")
    if request.unit and passed and request.unit != passed:
        both = f"spec.unit: {quoted(request.unit)} is given, and {quoted(passed)} as option {_unit_option(job)}"
        return Refusal("InvalidUnit", both)
    unit = unit_of(request, job)
    read = units_of([unit]) if unit or _unit_option(job) in dict(request.options) else Units(())
    return None if isinstance(read, Units) else Refusal("InvalidUnit", read.message)


def unit_of(request: Request, job: Job) -> str:
    """The one unit that a request is for; empty where it is for the job as a whole."""
    return request.unit or dict(request.options).get(_unit_option(job), "")


def line_of(request: Request, job: Job) -> Entry:
    """The line with which an accepted run begins."""
    return Entry(
        id=request.key,
        scheduled=request.created if request.scheduled is None else request.scheduled,
        state=State.PENDING,
        trigger=Trigger.MANUAL,
        reason="Starting",
        options=shown_options(request.options),
        unit=unit_of(request, job),
    )


def is_to_begin(request: Request, job: Job, entries: Container[str]) -> bool:
    """Whether a run that is accepted for this job has no line yet, and needs one."""
    fresh = bool(request.accepted) and not request.begun and not request.deleting
    return fresh and request.owner == job.uid and request.key not in entries


def room_to_begin(job: Job, kept: int) -> int:
    """How many more runs by hand may get their line. `kept`: how many runs that are over keep theirs for their requests."""
    return max(0, min(room_for_runs(job), RUNS_MOST - job.status.waiting - kept))


def awaited(
    lines: Iterable[Entry], requests: Mapping[str, Request], gone: Container[str], *, now: float
) -> frozenset[str]:
    """The runs by hand whose lines must stay, though they are over: their requests do not tell of their end yet.

    By UIDs without dashes. `gone`: the requests that are surely deleted.
    """
    kept = set()
    for line in lines:
        uid = request_of(line.id)
        if not uid or uid in gone:
            continue
        request = requests.get(uid)
        late = (line.completed or line.firing) + UNSEEN_SECONDS > now
        if late if request is None else not request.ended:
            kept.add(line.run)
    return frozenset(kept)


def last_line(request: Request, entries: Iterable[Entry]) -> Entry | None:
    """The line of the request's last attempt."""
    lines = [line for line in entries if line.run == request.key]
    return max(lines, key=lambda line: line.attempt, default=None)


def accepted_status(request: Request, *, now: int) -> dict[str, Any]:
    """The status of a run that is accepted and has not begun."""
    told = _conditions(request, [("Accepted", "True", "Accepted", "The job is there and takes these options")], now)
    return {
        **request.status(),
        "observedGeneration": request.generation,
        "state": State.PENDING.value,
        "message": "Accepted; about to start",
        "conditions": told,
    }


def refused_status(request: Request, refusal: Refusal, *, now: int) -> dict[str, Any]:
    """The status of a run that is not accepted, and never starts."""
    said = safe(refusal.message)
    told = [("Accepted", "False", refusal.reason, said), ("Succeeded", "False", refusal.reason, said)]
    return {
        **request.status(),
        "observedGeneration": request.generation,
        "state": State.FAILED.value,
        "message": said,
        "completionTime": rfc3339(now),
        "conditions": _conditions(request, told, now),
    }


def told_status(request: Request, line: Entry, *, now: int) -> dict[str, Any]:
    """The status of a run, by its last line in the job's history."""
    fields = {
        "observedGeneration": request.generation,
        "state": line.state.value,
        "podName": line.pod_name,
        "startTime": rfc3339(line.started) if line.started is not None and _has_begun(line) else "",
        "completionTime": rfc3339(line.completed or now) if line.ended else "",
        "conditions": _conditions(request, [("Succeeded", *_succeeded(line))], now),
    }
    told = {key: value for key, value in fields.items() if value}
    return request.status() | told | {"message": line.message or line.reason}


def _has_begun(line: Entry) -> bool:
    """Whether it has a Pod, or is in its units; what is told of a start once stays told."""
    return bool(line.pod_name) or is_fanned(line)


def over_status(request: Request, reason: str, why: str, *, now: int) -> dict[str, Any]:
    """The status of a run of which nothing will ever be told: with its job its record is gone."""
    return {
        **request.status(),
        "observedGeneration": request.generation,
        "state": State.CANCELED.value,
        "message": why,
        "completionTime": rfc3339(now),
        "conditions": _conditions(request, [("Succeeded", "False", reason, why)], now),
    }


def _succeeded(line: Entry) -> tuple[str, str, str]:
    if not line.ended:
        return "Unknown", line.reason or line.state.value, line.message
    return str(line.state is State.SUCCEEDED), line.reason or line.state.value, line.message


def _conditions(request: Request, told: list[tuple[str, str, str, str]], now: int) -> list[Mapping[str, Any]]:
    old = request.status()
    return with_conditions(old, [condition(old, *line, generation=request.generation, now=now) for line in told])
