"""A ScheduledJob, its status and what is seen of its firings, as values. Mappings end here.

Instants are whole epoch seconds on the API server's clock. A firing is the pair of a job's UID and such an instant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from . import names
from .clock import epoch_of
from .durations import parse_duration
from .windows import LAUNCH_SECONDS, REQUEST_SECONDS

Raw = Mapping[str, Any]

LEASE_SECONDS = 900


class State(StrEnum):
    """What became of a firing, as `status.history[].state` has it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    SKIPPED = "Skipped"
    MISSED = "Missed"
    STALE = "Stale"
    DEAD_LETTERED = "DeadLettered"
    CANCELED = "Canceled"


LIVE = frozenset({State.PENDING, State.RUNNING})


class Trigger(StrEnum):
    """Why a run started."""

    SCHEDULE = "Schedule"
    MANUAL = "Manual"
    CATCH_UP = "CatchUp"


class Policy(StrEnum):
    """What to do with a firing that falls due while a run of its job is alive."""

    ALLOW = "Allow"
    FORBID = "Forbid"
    REPLACE = "Replace"


class Misfire(StrEnum):
    """What to do with firings missed while nothing could run."""

    SKIP = "Skip"
    RUN_ONCE = "RunOnce"
    CATCH_UP = "CatchUp"


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of `status.history`: one run, or with `count` a row of neighbouring firings that all were missed."""

    id: str
    scheduled: int
    state: State
    trigger: Trigger = Trigger.SCHEDULE
    attempt: int = 1
    reason: str = ""
    message: str = ""
    started: int | None = None
    completed: int | None = None
    pod_name: str = ""
    count: int = 0
    first_scheduled: int | None = None

    @property
    def ended(self) -> bool:
        """Whether this state is final."""
        return self.state not in LIVE


@dataclass(frozen=True, slots=True)
class Spec:
    """What the engine needs of a ScheduledJob's spec; the fields that make the plan stay raw, the template stays JSON."""

    timing: Raw
    template: bytes
    suspend: bool = False
    policy: Policy = Policy.FORBID
    misfire: Misfire = Misfire.RUN_ONCE
    starting_deadline_seconds: int | None = None
    active_deadline_seconds: int | None = None
    jitter_ms: int = 0
    successful_limit: int = 10
    failed_limit: int = 10
    retention_seconds: int = 30 * 86400
    pod_limit: int = 2
    options: tuple[str, ...] = ()
    unserved: tuple[str, ...] = ()
    invalid: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """What the engine needs of a ScheduledJob's status at every event; the rest is read from `raw` when it is needed."""

    observed_generation: int = 0
    watermark: int | None = None
    scheduled_from: int | None = None
    observed_schedule: str = ""
    served_by: str = ""
    suspended: bool = False
    ready: bool = False
    live: bool = False  # some line of the history is not final
    active: int = 0
    next_time: int | None = None
    last_schedule_time: int | None = None
    last_success_time: int | None = None
    raw: bytes = b"{}"

    def document(self) -> dict[str, Any]:
        """The status as the API has it."""
        document: dict[str, Any] = orjson.loads(self.raw)
        return document

    def entries(self) -> tuple[Entry, ...]:
        """The history."""
        return tuple(read_entry(line) for line in self.document().get("history", ()))


@dataclass(frozen=True, slots=True)
class Job:
    """A ScheduledJob as some answer or event of the API server showed it."""

    uid: str
    namespace: str
    name: str
    revision: int
    generation: int
    created: int
    edited: int
    spec: Spec
    status: Status
    deleting: bool = False

    @property
    def observed(self) -> bool:
        """Whether this generation's observing write is done: only then may it fire."""
        return self.status.observed_generation == self.generation

    @property
    def recorded_until(self) -> int:
        """Every firing at or before this instant has its record."""
        start = self.status.scheduled_from if self.status.scheduled_from is not None else self.created
        return max(start, self.status.watermark or start)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of a firing that no Pod tells of, as the claim's annotation holds it."""

    state: State
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim Lease's metadata."""

    name: str
    uid: str
    revision: int
    created: int
    job_uid: str
    job_namespace: str
    job_name: str
    firing: int
    holder: str
    trigger: Trigger
    bucket: int
    launch_before: int
    launch_timeout_seconds: int
    takeovers: int = 0
    outcome: Outcome | None = None
    refusal: str = ""
    pods_revision: str = ""

    @property
    def key(self) -> str:
        """The run that it claims."""
        return names.key_of(self.name)


@dataclass(frozen=True, slots=True)
class PodSight:
    """What a Pod of a firing looks like. `deleted` marks the last sight of one that is gone."""

    name: str
    namespace: str
    uid: str
    job_uid: str
    firing: int
    state: State
    created: int
    trigger: Trigger = Trigger.SCHEDULE
    attempt: int = 1
    reason: str = ""
    message: str = ""
    started: int | None = None
    completed: int | None = None
    deleting: bool = False
    deleted: bool = False

    @property
    def key(self) -> str:
        """The run that it is of."""
        return names.run_key(self.firing, self.attempt)

    @property
    def ended(self) -> bool:
        """Whether its containers have ended for good."""
        return self.state not in LIVE


@dataclass(slots=True)
class Firings:
    """All that is seen of one job's firings, by the key of their runs."""

    claims: dict[str, Claim] = field(default_factory=dict)
    pods: dict[str, PodSight] = field(default_factory=dict)


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
            starting_deadline_seconds=raw.get("startingDeadlineSeconds"),
            active_deadline_seconds=raw.get("activeDeadlineSeconds"),
            jitter_ms=_duration_ms(raw.get("jitter")),
            successful_limit=int(raw.get("successfulRunsHistoryLimit", 10)),
            failed_limit=int(raw.get("failedRunsHistoryLimit", 10)),
            retention_seconds=_duration_ms(raw.get("historyRetention", "30d")) // 1000,
            pod_limit=int(raw.get("podHistoryLimit", 2)),
            options=tuple(str(option.get("name")) for option in raw.get("options") or ()),
            unserved=unserved_fields(raw),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        return Spec(timing={}, template=orjson.dumps(template), invalid=str(error))


def _duration_ms(text: str | None) -> int:
    return parse_duration(text) if text and text != "0" else 0


def unserved_fields(raw: Raw) -> tuple[str, ...]:
    """The fields in use whose behaviour this version does not have."""
    asked = {
        "spec.concurrencyPolicy": raw.get("concurrencyPolicy") == Policy.REPLACE,
        "spec.misfirePolicy": raw.get("misfirePolicy") == Misfire.CATCH_UP,
        "spec.leaseDuration": _duration_ms(raw.get("leaseDuration")) not in {0, LEASE_SECONDS * 1000},
        "spec.retry.maxRetries": bool((raw.get("retry") or {}).get("maxRetries")),
        "spec.options": bool(raw.get("options")),
        "spec.fanOut": bool(raw.get("fanOut")),
        "spec.health.maxTimeWithoutSuccess": bool((raw.get("health") or {}).get("maxTimeWithoutSuccess")),
    }
    return tuple(name for name, used in asked.items() if used)


def read_status(raw: Raw) -> Status:
    """A status from the API's document."""
    ready = next((c.get("status") for c in raw.get("conditions") or () if c["type"] == "Ready"), "")
    return Status(
        observed_generation=int(raw.get("observedGeneration") or 0),
        watermark=_instant(raw.get("watermark")),
        scheduled_from=_instant(raw.get("scheduledFrom")),
        observed_schedule=raw.get("observedSchedule") or "",
        served_by=raw.get("servedBy") or "",
        suspended=raw.get("state") == "Suspended",
        ready=ready == "True",
        active=int(raw.get("activeCount") or 0),
        next_time=_instant(raw.get("nextScheduleTime")),
        last_schedule_time=_instant(raw.get("lastScheduleTime")),
        last_success_time=_instant(raw.get("lastSuccessfulTime")),
        live=any(line["state"] in LIVE for line in raw.get("history") or ()),
        raw=orjson.dumps(raw),
    )


def _instant(text: str | None) -> int | None:
    return epoch_of(text) if text else None


def read_entry(raw: Raw) -> Entry:
    """A history line from the API's document."""
    scheduled = raw.get("lastScheduledTime") or raw.get("scheduledTime")
    return Entry(
        id=raw["id"],
        scheduled=_instant(scheduled) or 0,
        state=State(raw["state"]),
        trigger=Trigger(raw.get("trigger", Trigger.SCHEDULE)),
        attempt=int(raw.get("attempt", 1)),
        reason=raw.get("reason", ""),
        message=raw.get("message", ""),
        started=_instant(raw.get("startTime")),
        completed=_instant(raw.get("completionTime")),
        pod_name=raw.get("podName", ""),
        count=int(raw.get("count", 0)),
        first_scheduled=_instant(raw.get("firstScheduledTime")),
    )


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
            refusal=notes.get(names.REFUSAL, ""),
            pods_revision=notes.get(names.PODS_REVISION, ""),
        )
    except (KeyError, ValueError, TypeError):
        return None


def _outcome(text: str | None) -> Outcome | None:
    if not text:
        return None
    raw = orjson.loads(text)
    return Outcome(State(raw["state"]), str(raw["reason"]), str(raw.get("message", "")))


def outcome_text(outcome: Outcome) -> str:
    """The annotation that `read_claim` reads."""
    return orjson.dumps({"state": outcome.state, "reason": outcome.reason, "message": outcome.message}).decode()


def newest_first(entries: Sequence[Entry]) -> list[Entry]:
    """By scheduled time, the newest first."""
    return sorted(entries, key=lambda entry: (entry.scheduled, entry.attempt), reverse=True)
