"""A ScheduledJob, its status and what is seen of its firings, as values. Mappings end here.

Instants are whole epoch seconds on the API server's clock. A firing is the pair of a job's UID and such an instant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from . import names
from .clock import epoch_of
from .fan import FanOut

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


Options = tuple[tuple[str, str], ...]  # names and values


@dataclass(frozen=True, slots=True)
class Option:
    """Something that a run by hand may be passed."""

    name: str
    kind: str = "String"
    values: tuple[str, ...] = ()
    default: str | None = None
    required: bool = False


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
    options: Options = ()  # what a run by hand was passed, as far as it is shown
    unit: str = ""  # of a fan-out

    @property
    def firing(self) -> int:
        """What orders it among the runs: its scheduled time, or that at which it was asked for by hand."""
        return names.firing_of(self.id) if names.request_of(self.id) else self.scheduled

    @property
    def ended(self) -> bool:
        """Whether this state is final."""
        return self.state not in LIVE

    @property
    def to_claim(self) -> bool:
        """Whether it says that its run is still to be claimed, or to be launched by whoever has claimed it."""
        return self.state is State.PENDING and not self.pod_name

    @property
    def run(self) -> str:
        """What the attempts of one run have in common: the id of the first."""
        return self.id.removesuffix(f"-{self.attempt}") if self.attempt > 1 else self.id


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a failed run is tried again, and how long after: the delay doubles with each attempt, up to the longest."""

    most: int = 0
    delay_ms: int = 10_000
    longest_delay_ms: int = 600_000

    def wait_seconds(self, attempt: int) -> int:
        """From the end of an attempt to the start of the next, rounded up to whole seconds."""
        return -(-min(self.longest_delay_ms, self.delay_ms << (attempt - 1)) // 1000)


@dataclass(frozen=True, slots=True)
class Spec:
    """What the engine needs of a ScheduledJob's spec; the fields that make the plan stay raw, the template stays JSON."""

    timing: Raw
    template: bytes
    suspend: bool = False
    policy: Policy = Policy.FORBID
    misfire: Misfire = Misfire.RUN_ONCE
    catch_up_limit: int = 100
    retry: Retry = Retry()
    starting_deadline_seconds: int | None = None
    active_deadline_seconds: int | None = None
    lease_seconds: int = LEASE_SECONDS
    jitter_ms: int = 0
    successful_limit: int = 10
    failed_limit: int = 10
    retention_seconds: int = 30 * 86400
    pod_limit: int = 2
    options: tuple[Option, ...] = ()
    fan_out: FanOut | None = None
    without_success_seconds: int | None = None  # health.maxTimeWithoutSuccess
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
    oldest_end: int | None = None  # of the final lines
    active: int = 0
    waiting: int = 0  # runs to be caught up or asked for by hand that have no Pod yet
    by_hand: bool = False  # some line that is not final is of a run by hand
    fanned: bool = False  # some run is in its units
    next_time: int | None = None
    last_schedule_time: int | None = None
    last_success_time: int | None = None
    first_run_time: int | None = None
    last_missed_time: int | None = None
    active_since: int | None = None  # the oldest start of the runs under way
    last_duration_seconds: int | None = None
    failures: int = 0  # since the last success
    dead_letters: int = 0
    schedule_valid: bool = True
    stopped: bool = False
    health: str = ""
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
    """The end of a run that no Pod tells of, as the claim's annotation holds it."""

    state: State
    reason: str
    message: str = ""
    settled: int | None = None  # when: epoch second


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
    stop: Outcome | None = None  # its Pod is to be deleted: what the run is then
    waits_for: str = ""  # another run is in its way: no holder has sent its Pod
    refusal: str = ""
    refused_takeover: int | None = None  # which takeover's holder was refused last
    pods_revision: str = ""

    @property
    def key(self) -> str:
        """The run that it claims."""
        return names.key_of(self.name)

    @property
    def attempt(self) -> int:
        """Which attempt of its firing that is."""
        return names.attempt_of(self.key)


@dataclass(frozen=True, slots=True)
class PodSight:
    """What a Pod of a firing looks like. `deleted` marks the last sight of one that is gone.

    The instants below tell of its life, see `signs`: when it last came nearer to its start, since when its node is lost, by when its
    deletion and its deadline should have ended it.
    """

    name: str
    namespace: str
    uid: str
    job_uid: str
    firing: int
    state: State
    created: int
    trigger: Trigger = Trigger.SCHEDULE
    request: str = ""  # of a run by hand: the UID of its ScheduledJobRun
    unit: str = ""  # of a fan-out
    plan: str = ""  # the container that lists units
    attempt: int = 1
    reason: str = ""
    message: str = ""
    started: int | None = None
    completed: int | None = None
    deleting: bool = False
    deleted: bool = False
    cut_short: bool = False  # its deletion is all that is known of its end
    revision: int = 0
    begun: bool = False  # some container has started
    progressed: int = 0
    lost_since: int | None = None
    gone_by: int | None = None
    end_by: int | None = None
    deadline_seconds: int | None = None
    given_up: Outcome | None = None

    @property
    def key(self) -> str:
        """The run that it is of."""
        return names.run_key(self.firing, self.attempt, request=self.request, unit=self.unit)

    @property
    def ended(self) -> bool:
        """Whether its containers have ended for good."""
        return self.state not in LIVE


@dataclass(frozen=True, slots=True)
class Request:
    """A ScheduledJobRun: a run of a job that somebody asks for. `accepted`: None while it is not answered."""

    uid: str
    namespace: str
    name: str
    revision: int
    generation: int
    created: int
    job_name: str
    options: Options = ()
    scheduled: int | None = None
    unit: str = ""
    deleting: bool = False
    accepted: bool | None = None
    state: State | None = None
    begun: bool = False  # its status tells of a Pod, or of an end
    owner: str = ""  # the UID of the job that it was accepted for, and goes with
    owners: bytes = b"[]"  # all its ownerReferences
    raw: bytes = b"{}"  # the status

    @property
    def key(self) -> str:
        """Its run."""
        return names.run_key(self.created, request=self.uid)

    @property
    def ended(self) -> bool:
        """Whether its status tells of an end: nothing is done for it any more."""
        return self.state is not None and self.state not in LIVE

    def status(self) -> dict[str, Any]:
        """The status as the API has it."""
        document: dict[str, Any] = orjson.loads(self.raw)
        return document


@dataclass(slots=True)
class Firings:
    """All that is seen of one job's firings, by the key of their runs."""

    claims: dict[str, Claim] = field(default_factory=dict)
    pods: dict[str, PodSight] = field(default_factory=dict)


def instant(text: str | None) -> int | None:
    """An RFC 3339 text as epoch second, None where there is none."""
    return epoch_of(text) if text else None


def read_entry(raw: Raw) -> Entry:
    """A history line from the API's document."""
    scheduled = raw.get("lastScheduledTime") or raw.get("scheduledTime")
    return Entry(
        id=raw["id"],
        scheduled=instant(scheduled) or 0,
        state=State(raw["state"]),
        trigger=Trigger(raw.get("trigger", Trigger.SCHEDULE)),
        attempt=int(raw.get("attempt", 1)),
        reason=raw.get("reason", ""),
        message=raw.get("message", ""),
        started=instant(raw.get("startTime")),
        completed=instant(raw.get("completionTime")),
        pod_name=raw.get("podName", ""),
        count=int(raw.get("count", 0)),
        first_scheduled=instant(raw.get("firstScheduledTime")),
        options=tuple((raw.get("options") or {}).items()),
        unit=raw.get("unit", ""),
    )


def newest_first(entries: Iterable[Entry]) -> list[Entry]:
    """By scheduled time and attempt, the newest first."""
    return sorted(entries, key=lambda entry: (entry.firing, entry.attempt, entry.id), reverse=True)
