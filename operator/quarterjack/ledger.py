"""The ledger of a fan-out: what became of each unit that a run has planned, in ConfigMaps owned by the job. Pure.

Its head says which units there are (how many, digests of them, the plan's note); its parts hold a line for each. The parts are
written first, under names that carry a digest, then the head: who creates it decides which plan holds. The head never changes, so
its revision tells which of two ledgers came first, and its digests whether somebody has taken a unit out of a part, put one in or
renamed one. A part changes only at the revision that was read, and the line of a unit only forward: see `merged`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import orjson

from . import names
from .attempts import DEAD_LETTERS, LEDGER_LOST, waits_until
from .clock import rfc3339
from .fan import QUEUED
from .model import Entry, Job, Raw, State, instant
from .report import entry_document
from .signs import RUN_DELETED
from .text import shortened
from .units import Units

PART_UNITS = 250  # of the longest units with the longest messages, they stay below the 1 MiB of a ConfigMap
MESSAGE_MOST = 300
_KEPT = ("unit", "state", "attempt", "reason", "message", "startTime", "completionTime", "podName")
_FINAL = frozenset({State.SUCCEEDED, State.CANCELED, State.DEAD_LETTERED, State.SKIPPED})
_USUAL = {"state": State.PENDING.value, "attempt": 1}
_HEAD, _LINES = "plan", "units"


@dataclass(frozen=True, slots=True)
class Head:
    """Which units a run has. `digests`: of the units of each part; `repeated`: how many the plan named again."""

    count: int
    digests: tuple[str, ...]
    note: str = ""
    repeated: int = 0

    @property
    def parts(self) -> int:
        """How many ConfigMaps hold its units."""
        return len(self.digests)

    @property
    def summary(self) -> str:
        """Such as `Queued 12 units`."""
        text = f"Queued {self.count} unit{'' if self.count == 1 else 's'}"
        text += f" ({self.repeated} named more than once)" if self.repeated else ""
        return f"{text}: {self.note}" if self.note else text


def head_of(units: Units) -> Head:
    """The head of the ledger of a plan."""
    digests = tuple(
        _digest(units.units[place : place + PART_UNITS]) for place in range(0, len(units.units), PART_UNITS)
    )
    return Head(len(units.units), digests, units.note, units.repeated)


def _digest(units: Iterable[str]) -> str:
    """The same whatever their order is."""
    return hashlib.sha256(orjson.dumps(sorted(units))).hexdigest()[:10]


def head_name(job: Job, parent: Entry) -> str:
    """The name of the head. `parent`: the line of the attempt that has planned the units."""
    return names.ledger_name(job.name, job.uid, parent.id)


def part_name(job: Job, parent: Entry, head: Head, number: int) -> str:
    """The name of one of the parts."""
    return names.ledger_name(job.name, job.uid, parent.id, f"{head.digests[number]}-{number}")


def queued(parent: Entry, units: Sequence[str], number: int) -> list[Entry]:
    """The lines of a part as it is made: none of its units has been claimed."""
    return [
        Entry(
            names.unit_key(parent.id, unit), parent.scheduled, State.PENDING, parent.trigger, reason=QUEUED, unit=unit
        )
        for unit in units[number * PART_UNITS : (number + 1) * PART_UNITS]
    ]


def head_manifest(job: Job, parent: Entry, head: Head) -> dict[str, Any]:
    """The ConfigMap of a head."""
    told = {"count": head.count, "digests": head.digests, "note": head.note, "repeated": head.repeated}
    told |= {"trigger": parent.trigger.value, "scheduledTime": rfc3339(parent.scheduled)}
    data = {_HEAD: orjson.dumps(told).decode()}
    return _manifest(job, parent, head_name(job, parent), names.ROLE_LEDGER, data) | {"immutable": True}


def part_manifest(job: Job, parent: Entry, head: Head, number: int, lines: Iterable[Entry]) -> dict[str, Any]:
    """The ConfigMap of a part."""
    return _manifest(job, parent, part_name(job, parent, head, number), names.ROLE_LEDGER_PART, part_data(lines))


def part_data(lines: Iterable[Entry]) -> dict[str, str]:
    """What the ConfigMap of a part says: a JSON object a line, so that people can read it too."""
    return {_LINES: "".join(orjson.dumps(_kept(line)).decode() + "\n" for line in lines)}


def _kept(line: Entry) -> dict[str, Any]:
    document = entry_document(replace(line, message=shortened(line.message, MESSAGE_MOST)))
    return {key: document[key] for key in _KEPT if key in document and document[key] != _USUAL.get(key)}


def _manifest(job: Job, parent: Entry, name: str, role: str, data: Mapping[str, str]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "namespace": job.namespace,
            "labels": {
                names.LABEL_MANAGED_BY: names.MANAGER,
                names.LABEL_JOB: job.name,
                names.LABEL_JOB_UID: job.uid,
                names.LABEL_ROLE: role,
                names.LABEL_LEDGER: parent.id,
            },
            "ownerReferences": [names.owner(job.name, job.uid, controller=True)],
        },
        "data": dict(data),
    }


def read_head(document: Raw) -> Head | None:
    """A head from its ConfigMap; None where somebody has damaged it."""
    try:
        told = orjson.loads(document["data"][_HEAD])
        count, digests = int(told["count"]), tuple(str(digest) for digest in told["digests"])
        head = Head(count, digests, str(told.get("note", "")), int(told.get("repeated", 0)))
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return head if head.parts == -(-count // PART_UNITS) else None


def read_part(document: Raw, parent: Entry, head: Head, number: int) -> list[Entry] | None:
    """The lines of a part from its ConfigMap; None where somebody has damaged it: it has other units than its head says."""
    try:
        lines = [_line(orjson.loads(text), parent) for text in document["data"][_LINES].splitlines()]
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return lines if _digest(line.unit for line in lines) == head.digests[number] else None


def _line(raw: Raw, parent: Entry) -> Entry:
    told: dict[str, Any] = {**_USUAL, **raw}
    attempt = int(told["attempt"])
    return Entry(
        id=names.unit_key(parent.id, told["unit"], attempt),
        scheduled=parent.scheduled,
        state=State(told["state"]),
        trigger=parent.trigger,
        attempt=attempt,
        reason=told.get("reason", ""),
        message=told.get("message", ""),
        started=instant(told.get("startTime")),
        completed=instant(told.get("completionTime")),
        pod_name=told.get("podName", ""),
        unit=told["unit"],
    )


def merged(stored: Entry, known: Entry) -> Entry:
    """Of two lines of a unit the one that knows more: of a later attempt that has begun, else the end of the unit.

    Else that of a later attempt, else its end, its Pod, that it runs. Of two ends of the unit the one that is stored is final. To have
    failed is no end of the unit: another attempt follows. One that has begun although an earlier was the last is followed to its end.
    """
    return known if _knowledge(known) > _knowledge(stored) else stored


def _knowledge(line: Entry) -> tuple[int, bool, int, int, bool, bool]:
    begun = line.attempt - 1 if line.to_claim else line.attempt
    if line.state in _FINAL:
        return begun, True, 0, 0, True, True
    end = 0 if not line.ended else 1 if line.state is State.STALE else 2
    return begun, False, line.attempt, end, bool(line.pod_name), line.state is State.RUNNING


def startable(lines: Iterable[Entry], claimed: Container[str], *, most: int, now: float) -> list[Entry]:
    """The units that are to be claimed now, in the plan's order, retries first: so many that at most `most` are under way.

    `claimed`: the keys of the runs that have a claim. A unit that waits to be tried again is not under way.
    """
    live = [line for line in lines if not line.ended]
    under_way = sum(1 for line in live if not line.to_claim or line.id in claimed)
    ready = [line for line in live if line.to_claim and line.id not in claimed and waits_until(line) <= now]
    ready.sort(key=lambda line: line.attempt == 1)
    return ready[: max(0, most - under_way)]


@dataclass(frozen=True, slots=True)
class Count:
    """How many of a run's units are how far. `lost`: parts of the ledger that are damaged or gone."""

    succeeded: int = 0
    skipped: int = 0
    dead: int = 0
    canceled: int = 0
    open: int = 0
    lost: int = 0

    @classmethod
    def of(cls, lines: Iterable[Entry], *, lost: int = 0) -> Count:
        """Counted."""
        kinds = {State.SUCCEEDED: "succeeded", State.SKIPPED: "skipped", State.CANCELED: "canceled"}
        counts = dict.fromkeys((*kinds.values(), "dead", "open"), 0)
        for line in lines:
            counts[kinds.get(line.state, "dead") if line.ended else "open"] += 1
        return cls(**counts, lost=lost)

    @property
    def total(self) -> int:
        """All of them."""
        return self.succeeded + self.skipped + self.dead + self.canceled + self.open

    @property
    def summary(self) -> str:
        """Such as `49 of 50 units succeeded, 1 dead letter`."""
        parts = [
            f"{self.succeeded} of {self.total} unit{'' if self.total == 1 else 's'} succeeded",
            f"{self.dead} dead letter{'' if self.dead == 1 else 's'}" if self.dead else "",
            f"{self.skipped} skipped" if self.skipped else "",
            f"{self.canceled} canceled" if self.canceled else "",
            f"{self.lost} part{'' if self.lost == 1 else 's'} of the ledger damaged or gone" if self.lost else "",
        ]
        return ", ".join(part for part in parts if part)

    @property
    def state(self) -> State:
        """What the whole is, once none is open: a dead letter fails it, and it is skipped where every unit was."""
        if self.canceled and not self.lost:
            return State.CANCELED
        if self.dead or self.lost:
            return State.FAILED
        return State.SKIPPED if self.skipped and not self.succeeded else State.SUCCEEDED

    @property
    def reason(self) -> str:
        """Why, in one word."""
        if self.lost:
            return LEDGER_LOST
        if self.canceled:
            return RUN_DELETED.reason
        if self.dead:
            return DEAD_LETTERS
        return "Overlap" if self.state is State.SKIPPED else ""
