"""What the API's documents say of jobs and claims, as values."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from . import names
from .clock import epoch_of
from .durations import parse_duration, whole_seconds
from .fan import PLANNED, QUEUED, fan_out_of
from .model import (
    LEASE_SECONDS,
    LIVE,
    Claim,
    Job,
    Misfire,
    Option,
    Outcome,
    Policy,
    Raw,
    Request,
    Retry,
    Spec,
    State,
    Status,
    Trigger,
    instant,
)
from .windows import LAUNCH_SECONDS, REQUEST_SECONDS


def read_job(raw: Raw) -> Job:
    """A ScheduledJob from the API's document."""
    meta = raw["metadata"]
    status = read_status(raw.get("status") or {})
    created = epoch_of(meta["creationTimestamp"])
    generation = int(meta.get("generation", 1))
    return Job(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        revision=int(meta["resourceVersion"]),
        generation=generation,
        created=created,
        edited=created if status.observed_generation == generation else _edited(meta, created),
        spec=read_spec(raw.get("spec") or {}),
        status=status,
        deleting="deletionTimestamp" in meta,
    )


def _edited(meta: Raw, created: int) -> int:
    """The newest time at which somebody wrote the spec."""
    times = [
        epoch_of(entry["time"])
        for entry in meta.get("managedFields") or ()
        if not entry.get("subresource") and "time" in entry and "f:spec" in (entry.get("fieldsV1") or {})
    ]
    return max(times, default=created)


_TIMING = ("schedule", "interval", "runAfter", "timeZone", "timeZones")


def read_spec(raw: Raw) -> Spec:
    """A spec from the API's document. What cannot be read becomes `invalid`: the CRD refuses it, an older one may not."""
    template = raw.get("template") or {}
    try:
        return Spec(
            timing={key: raw[key] for key in _TIMING if raw.get(key) is not None},
            template=orjson.dumps(template),
            suspend=bool(raw.get("suspend", False)),
            policy=Policy(raw.get("concurrencyPolicy", Policy.FORBID)),
            misfire=Misfire(raw.get("misfirePolicy", Misfire.RUN_ONCE)),
            catch_up_limit=int(raw.get("catchUpLimit", 100)),
            retry=_retry(raw.get("retry") or {}),
            starting_deadline_seconds=raw.get("startingDeadlineSeconds"),
            active_deadline_seconds=raw.get("activeDeadlineSeconds"),
            lease_seconds=_duration_ms(raw.get("leaseDuration")) // 1000 or LEASE_SECONDS,
            jitter_ms=_duration_ms(raw.get("jitter")),
            successful_limit=int(raw.get("successfulRunsHistoryLimit", 10)),
            failed_limit=int(raw.get("failedRunsHistoryLimit", 10)),
            retention_seconds=_duration_ms(raw.get("historyRetention", "30d")) // 1000,
            pod_limit=int(raw.get("podHistoryLimit", 2)),
            options=tuple(_option(option) for option in raw.get("options") or ()),
            fan_out=fan_out_of(raw.get("fanOut")),
            without_success_seconds=_seconds((raw.get("health") or {}).get("maxTimeWithoutSuccess")),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return Spec(timing={}, template=orjson.dumps(template), invalid=str(error))


def _option(raw: Raw) -> Option:
    return Option(
        name=str(raw["name"]),
        kind=str(raw.get("type", "String")),
        values=tuple(raw.get("values") or ()),
        default=raw.get("default"),
        required=bool(raw.get("required", False)),
    )


def read_request(raw: Raw) -> Request:
    """A ScheduledJobRun from the API's document."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    accepted = {c["type"]: c.get("status") == "True" for c in status.get("conditions") or ()}.get("Accepted")
    state = State(status["state"]) if status.get("state") else None
    job_name, owners = str(spec.get("scheduledJobName", "")), meta.get("ownerReferences") or []
    return Request(
        uid=meta["uid"],
        namespace=meta["namespace"],
        name=meta["name"],
        revision=int(meta["resourceVersion"]),
        generation=int(meta.get("generation", 1)),
        created=epoch_of(meta["creationTimestamp"]),
        job_name=job_name,
        options=tuple((spec.get("options") or {}).items()),
        scheduled=instant(spec.get("scheduledTime")),
        unit=str(spec.get("unit", "")),
        deleting="deletionTimestamp" in meta,
        accepted=accepted,
        state=state,
        begun=bool(status.get("podName")) or (state is not None and state is not State.PENDING),
        owner=next((o["uid"] for o in owners if (o.get("kind"), o.get("name")) == (names.KIND, job_name)), ""),
        owners=orjson.dumps(owners),
        raw=orjson.dumps(status),
    )


def _retry(raw: Raw) -> Retry:
    usual = Retry()
    return Retry(
        most=int(raw.get("maxRetries", usual.most)),
        delay_ms=_duration_ms(raw.get("delay")) or usual.delay_ms,
        longest_delay_ms=_duration_ms(raw.get("maxDelay")) or usual.longest_delay_ms,
    )


def _duration_ms(text: str | None) -> int:
    return parse_duration(text) if text and text != "0" else 0


def _seconds(text: str | None) -> int | None:
    return None if text is None else whole_seconds(text)


_BOTH_ENDS = {"startTime", "completionTime"}


def read_status(raw: Raw) -> Status:
    """A status from the API's document."""
    conditions = {c["type"]: c.get("status") for c in raw.get("conditions") or ()}
    history = raw.get("history") or ()
    missed = [
        line.get("lastScheduledTime") or line["scheduledTime"] for line in history if line["state"] == State.MISSED
    ]
    starts = [run["startTime"] for run in raw.get("active") or () if "startTime" in run]
    return Status(
        observed_generation=int(raw.get("observedGeneration") or 0),
        watermark=instant(raw.get("watermark")),
        scheduled_from=instant(raw.get("scheduledFrom")),
        observed_schedule=raw.get("observedSchedule") or "",
        served_by=raw.get("servedBy") or "",
        suspended=raw.get("state") == "Suspended",
        ready=conditions.get("Ready") == "True",
        active=int(raw.get("activeCount") or 0),
        waiting=sum(1 for line in history if _is_waiting(line)),
        next_time=instant(raw.get("nextScheduleTime")),
        last_schedule_time=instant(raw.get("lastScheduleTime")),
        last_success_time=instant(raw.get("lastSuccessfulTime")),
        first_run_time=instant(raw.get("firstRunTime")),
        health=raw.get("health") or "",
        last_missed_time=instant(max(missed, default="")),
        active_since=instant(min(starts, default="")),
        last_duration_seconds=_last_duration(history),
        failures=int(raw.get("consecutiveFailures") or 0),
        dead_letters=sum(line["state"] == State.DEAD_LETTERED for line in history),
        schedule_valid=conditions.get("ScheduleValid") != "False",
        stopped=raw.get("state") == "Stopped",
        live=any(line["state"] in LIVE for line in history),
        fanned=any(line["state"] == State.RUNNING and line.get("reason") in _IN_UNITS for line in history),
        by_hand=any(line["state"] in LIVE and line.get("trigger") == Trigger.MANUAL for line in history),
        oldest_end=instant(min((_ended(line) for line in history if line["state"] not in LIVE), default="")),
        raw=orjson.dumps(raw),
    )


def _ended(line: Raw) -> str:
    """When a final line came to its end. RFC 3339 texts of one form compare as their instants do."""
    return str(line.get("completionTime") or line.get("lastScheduledTime") or line.get("scheduledTime") or "")


_IN_UNITS = frozenset({PLANNED, QUEUED})
_WAIT = frozenset({Trigger.CATCH_UP, Trigger.MANUAL})


def _is_waiting(line: Raw) -> bool:
    return line["state"] == State.PENDING and line.get("trigger") in _WAIT and not line.get("podName")


def _last_duration(history: Iterable[Raw]) -> int | None:
    """How long the run took that ended last."""
    runs = (line for line in history if line.keys() >= _BOTH_ENDS and not names.is_unit_key(line["id"]))
    ended = ((line["completionTime"], line["startTime"]) for line in runs)
    completed, started = max(ended, default=("", ""))
    return epoch_of(completed) - epoch_of(started) if completed else None


def read_claim(raw: Raw) -> Claim | None:
    """A claim from a Lease's metadata, None where it is none of ours or was tampered with beyond reading."""
    meta = raw["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    try:
        created = epoch_of(meta["creationTimestamp"])
        namespace, _, name = notes[names.JOB_REF].partition("/")
        return Claim(
            name=meta["name"],
            uid=meta["uid"],
            revision=int(meta["resourceVersion"]),
            created=created,
            job_uid=labels[names.LABEL_JOB_UID],
            job_namespace=namespace,
            job_name=name,
            firing=int(labels[names.LABEL_FIRING]),
            holder=notes.get(names.HOLDER, ""),
            trigger=Trigger(labels.get(names.LABEL_TRIGGER, Trigger.SCHEDULE)),
            bucket=int(labels[names.LABEL_BUCKET]),
            launch_before=int(notes.get(names.LAUNCH_BEFORE, created + LAUNCH_SECONDS)),
            launch_timeout_seconds=int(notes.get(names.LAUNCH_TIMEOUT, REQUEST_SECONDS)),
            takeovers=int(notes.get(names.TAKEOVERS, 0)),
            outcome=_outcome(notes.get(names.OUTCOME)),
            stop=_outcome(notes.get(names.STOP)),
            waits_for=notes.get(names.WAITS_FOR, ""),
            refusal=notes.get(names.REFUSAL, ""),
            refused_takeover=int(notes[names.REFUSED_TAKEOVER]) if names.REFUSED_TAKEOVER in notes else None,
            pods_revision=notes.get(names.PODS_REVISION, ""),
        )
    except (KeyError, ValueError, TypeError):
        return None


def _outcome(text: str | None) -> Outcome | None:
    if not text:
        return None
    raw = orjson.loads(text)
    return Outcome(State(raw["state"]), str(raw["reason"]), str(raw.get("message", "")), raw.get("settled"))


def outcome_text(outcome: Outcome) -> str:
    """The annotation that `read_claim` reads."""
    return orjson.dumps(outcome).decode()
