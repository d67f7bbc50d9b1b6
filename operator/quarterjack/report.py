"""A ScheduledJob's status, rendered from what is known: a pure function, so that every replica writes the same."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import orjson

from .attempts import BACK_OFF, concluded, has_record, is_fanned, last_attempts
from .clock import rfc3339
from .decision import advance, is_settled, prune, sighted
from .health import Health, judge, vitals_of
from .model import Entry, Firings, Job, State, Trigger, instant, newest_first, read_entry
from .names import is_unit_key, parent_of, run_key
from .plan import ByHandPlan, Plan
from .text import shortened

SIZE_MOST = 100_000
_ACTIVE_MOST = 100
_REASON_MOST = 128  # as the CRD has it
_CONDITION_MOST = 1000
_FINAL_LEAST = 10  # so many ends are kept as long as messages can be cut instead
_SHORTER = (250, 100, 40, 1)
_ACTIVE_FIELDS = ("id", "scheduledTime", "trigger", "attempt", "state", "startTime", "podName")
_FAILURES = frozenset({State.FAILED, State.STALE, State.DEAD_LETTERED})
_NOT_RUN = frozenset({State.SKIPPED, State.MISSED})
HEALTHY = "Healthy"  # the condition
_CONDITION_OF = {Health.HEALTHY: "True", Health.UNHEALTHY: "False"}


def entry_document(entry: Entry) -> dict[str, Any]:
    """A history line as the API has it."""
    document: dict[str, Any] = {
        "id": entry.id,
        "scheduledTime": rfc3339(entry.first_scheduled if entry.first_scheduled is not None else entry.scheduled),
        "trigger": entry.trigger.value,
        "attempt": entry.attempt,
        "state": entry.state.value,
    }
    optional = {
        "reason": shortened(entry.reason, _REASON_MOST),
        "message": entry.message,
        "startTime": rfc3339(entry.started) if entry.started is not None else "",
        "completionTime": rfc3339(entry.completed) if entry.completed is not None else "",
        "podName": entry.pod_name,
        "unit": entry.unit,
        "count": entry.count,
        "options": dict(entry.options),
        "firstScheduledTime": rfc3339(entry.first_scheduled) if entry.first_scheduled is not None else "",
        "lastScheduledTime": rfc3339(entry.scheduled) if entry.first_scheduled is not None else "",
    }
    return document | {key: value for key, value in optional.items() if value}


def report(
    job: Job, plan: Plan | None, lines: Mapping[str, Entry], *, now: int, awaited: Container[str] = ()
) -> dict[str, Any]:
    """The status as it should be now, from the one that stands and all the lines that there are now, see `lines_of`.

    `awaited`: the runs whose lines must stay, see `by_hand`. `plan` is None where an edit made the schedule invalid: it fires nothing,
    but what had started still ends.
    """
    status = reported(job, plan or ByHandPlan(job.recorded_until), lines, now=now, awaited=awaited)
    return bounded(with_health(job, plan, status, now=now), awaited)


def reported(
    job: Job, plan: Plan, lines: Mapping[str, Entry], *, now: int, awaited: Container[str] = ()
) -> dict[str, Any]:
    """The status but for the job's health."""
    old = job.status.document()
    settled = max((entry.scheduled for entry in lines.values() if entry.count), default=0)
    runs = last_attempts(lines.values())
    watermark = advance(plan, max(job.recorded_until, settled), now=now, recorded=lambda f: run_key(f) in runs)
    kept = prune(lines.values(), job.spec, watermark=watermark, now=now, awaited=awaited)
    fresh = fresh_ends(job.status.entries(), runs)
    status = old | _summary(old, job, plan, lines.values(), runs, fresh=fresh, watermark=watermark, now=now)
    status["watermark"] = rfc3339(watermark)
    status["history"] = [entry_document(entry) for entry in kept]
    return {key: value for key, value in status.items() if value is not None}


def with_health(job: Job, plan: Plan | None, status: Mapping[str, Any], *, now: int) -> dict[str, Any]:
    """The status with what its own times say of the job's health."""
    vitals = replace(
        vitals_of(job),
        first_run=instant(status.get("firstRunTime")),
        last_success=instant(status.get("lastSuccessfulTime")),
        counts_from=instant(status.get("scheduledFrom")) or job.created,
    )
    verdict = judge(plan, vitals, now=now)
    known = _CONDITION_OF.get(verdict.health, "Unknown")
    healthy = condition(status, HEALTHY, known, verdict.reason, verdict.message, generation=job.generation, now=now)
    return {**status, "health": verdict.health.value, "conditions": with_conditions(status, [healthy])}


def lines_of(job: Job, firings: Firings, added: Iterable[Entry] = (), told: Iterable[Entry] = ()) -> dict[str, Entry]:
    """All lines, by id: those that stand and those to add, brought up to what is seen, and the attempts that follow on failures.

    `told`: what is known of runs that are in their units, from elsewhere; and their dead letters.
    """
    known = {entry.id: entry for entry in (*job.status.entries(), *added)}
    lines = dict(known)
    for key in firings.claims.keys() | firings.pods.keys():
        line = known.get(key)
        if line is None and has_record(job, known, key, ended=False):
            continue  # it has had its record, and the record its time
        seen = sighted(line, firings.claims.get(key), firings.pods.get(key))
        if seen is None:
            continue
        fresh = seen.ended and (line is None or not line.ended)
        for made in concluded(seen, job.spec.retry) if fresh else [seen]:
            if made.id == key or made.id not in lines:
                lines[made.id] = made
    for line in told:
        lines |= _told(job, lines, line)
    return lines


def _told(job: Job, lines: Mapping[str, Entry], line: Entry) -> dict[str, Entry]:
    """The lines that something told of units makes: as long as their run is in its units, and in no other attempt."""
    if is_unit_key(line.id):
        stands = any(known.run == parent_of(line.id) for known in lines.values())
        return {line.id: line} if stands and line.id not in lines else {}
    if line.id not in lines or not is_fanned(lines[line.id]):
        return {}
    made = concluded(line, job.spec.retry) if line.ended else (line,)
    return {entry.id: entry for entry in made}


def fresh_ends(before: Iterable[Entry], after: Mapping[str, Entry]) -> list[Entry]:
    """The last lines of the runs whose end was not on record before, in the order of their ends. Units do not count."""
    known = last_attempts(before)
    runs = ((run, line) for run, line in after.items() if line.ended and not is_unit_key(line.id))
    fresh = [line for run, line in runs if _is_news(line, known.get(run))]
    return sorted(fresh, key=lambda line: (line.completed or line.scheduled, line.scheduled))


def _is_news(line: Entry, known: Entry | None) -> bool:
    """Whether a run's end was not on record: also that of one which had been given up, where it ended well after all."""
    if known is None or not known.ended:
        return True
    return known.state is State.STALE and line.state is State.SUCCEEDED


def _summary(
    old: Mapping[str, Any],
    job: Job,
    plan: Plan,
    lines: Iterable[Entry],
    runs: Mapping[str, Entry],
    *,
    fresh: Sequence[Entry],
    watermark: int,
    now: int,
) -> dict[str, Any]:
    active = newest_first(line for line in runs.values() if is_active(line))
    by_itself = [line for line in lines if line.trigger is not Trigger.MANUAL]
    run = [e.scheduled for e in by_itself if e.state not in _NOT_RUN and _has_begun(e)]
    counted = [line for line in fresh if _counts(line)]
    summary: dict[str, Any] = {
        "active": [_active(e) for e in active[:_ACTIVE_MOST]],
        "activeCount": len(active),
        "state": schedule_state(job, plan, watermark=watermark),
        "nextScheduleTime": next_time(job, plan, after=max(watermark, now)),
        "lastScheduleTime": _latest(old.get("lastScheduleTime"), run),
        "lastSuccessfulTime": _latest(
            old.get("lastSuccessfulTime"),
            [e.completed for e in runs.values() if e.state is State.SUCCEEDED and e.completed and _counts(e)],
        ),
        "lastFailureTime": _latest(
            old.get("lastFailureTime"), [e.completed for e in counted if e.state in _FAILURES and e.completed]
        ),
        "consecutiveFailures": _consecutive(old.get("consecutiveFailures", 0), counted),
        "lastResult": next(
            (e.state.value for e in reversed(counted) if e.state not in _NOT_RUN), old.get("lastResult")
        ),
    }
    begun = [begin for line in by_itself if (begin := _begin(line)) is not None]
    if begun and "firstRunTime" not in old:
        summary["firstRunTime"] = rfc3339(min(begun))
    return summary


def _counts(line: Entry) -> bool:
    """Whether a run tells how its job is. One by hand does by a success, where it did what the job always does."""
    return line.trigger is not Trigger.MANUAL or (line.state is State.SUCCEEDED and not line.options and not line.unit)


def _has_begun(line: Entry) -> bool:
    """Whether it has a Pod, or units; one that waits to be tried again has a start time, and neither."""
    return bool(line.pod_name) or (line.started is not None and line.reason != BACK_OFF)


def _begin(line: Entry) -> int | None:
    """When a run began, as far as it did; one that failed without a start counts as one, or nothing would ever tell of it."""
    if line.started is not None and _has_begun(line):
        return line.started
    return (line.completed or line.scheduled) if line.state in _FAILURES else None


def is_active(line: Entry) -> bool:
    """Whether a run is under way, by its last line: it has a Pod, or had one and waits for its next attempt, or is in its units."""
    return not line.ended and (bool(line.pod_name) or line.attempt > 1 or is_fanned(line))


def _active(entry: Entry) -> dict[str, Any]:
    document = entry_document(entry)
    return {key: document[key] for key in _ACTIVE_FIELDS if key in document}


def schedule_state(job: Job, plan: Plan, *, watermark: int) -> str:
    """Scheduled, Suspended, or Stopped where no firing follows the last that is on record."""
    if job.spec.suspend:
        return "Suspended"
    return "Scheduled" if plan.next_after(watermark) is not None else "Stopped"


def next_time(job: Job, plan: Plan, *, after: int) -> str | None:
    """The first firing that is yet to come, as the API writes it."""
    following = None if job.spec.suspend else plan.next_after(after)
    return rfc3339(following) if following is not None else None


def _latest(known: str | None, times: Sequence[int]) -> str | None:
    """RFC 3339 texts of one form compare as their instants do."""
    return max([rfc3339(t) for t in times] + ([known] if known else []), default=None)


def _consecutive(known: int, fresh: Sequence[Entry]) -> int:
    for entry in fresh:
        if entry.state is State.SUCCEEDED:
            known = 0
        elif entry.state in _FAILURES:
            known += 1
    return known


def bounded(status: dict[str, Any], awaited: Container[str] = ()) -> dict[str, Any]:
    """The status within 100 KB: without the oldest of its final lines, and with shorter messages where that is not enough.

    What is under way, what is above the watermark, and what is `awaited`, keeps its line: nothing else says of it that it was. Of a
    run the earlier attempts go before the last.
    """
    over = size_of(status) - SIZE_MOST
    if over <= 0:
        return status
    lines, over = _without_oldest(status, over, awaited, keep=_FINAL_LEAST)
    for limit in _SHORTER:
        if over <= 0:
            break
        before = size_of(lines)
        lines = [_with_message_of(line, limit) for line in lines]
        over += size_of(lines) - before
    shorter = status | {"history": lines}
    lines, over = _without_oldest(shorter, over, awaited, keep=0)
    return shorter | {"history": lines} | ({"active": []} if over > 0 else {})


def size_of(document: object) -> int:
    """Bytes of a document's JSON, as the API server writes it: <, > and & become escapes of six characters."""
    text = orjson.dumps(document)
    return len(text) + 5 * sum(text.count(character) for character in (b"<", b">", b"&"))


def _without_oldest(
    status: Mapping[str, Any], over: int, awaited: Container[str], *, keep: int
) -> tuple[list[dict[str, Any]], int]:
    """The history without as many of its oldest final lines as are too much, and what is still too much then."""
    lines: list[dict[str, Any]] = list(status["history"])
    watermark = instant(status["watermark"]) or 0
    ends = ((line, read_entry(line)) for line in lines)
    final = [line for line, end in ends if is_settled(end, watermark) and end.run not in awaited]
    gone = set()
    while over > 0 and len(final) > keep:
        oldest = final.pop()
        gone.add(oldest["id"])
        over -= size_of(oldest) + 1
    return [line for line in lines if line["id"] not in gone], over


def _with_message_of(line: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The line with its message cut, and at last its options. It is cut once and for all: the line of an end stays as it is."""
    cut = {**line, "message": shortened(line["message"], limit)} if line.get("message") else {**line}
    return cut | {"options": {"…": "…"}} if limit == _SHORTER[-1] and line.get("options") else cut


def condition(
    old: Mapping[str, Any], kind: str, status: str, reason: str, message: str, *, generation: int, now: int
) -> dict[str, Any]:
    """A condition; its transition time stays while its status stays."""
    known: Mapping[str, Any] = next((c for c in old.get("conditions") or () if c["type"] == kind), {})
    same = known.get("status") == status
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": shortened(message, _CONDITION_MOST),
        "observedGeneration": generation,
        "lastTransitionTime": known.get("lastTransitionTime", rfc3339(now)) if same else rfc3339(now),
    }


def with_conditions(old: Mapping[str, Any], conditions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The conditions, those given in the place of those that stand."""
    given = {c["type"]: c for c in conditions}
    kept = {c["type"]: c for c in old.get("conditions") or ()}
    return list((kept | given).values())


def merge_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """What turns the old status into the new one: changed fields, and null for those that went."""
    changed = {key: value for key, value in new.items() if old.get(key) != value}
    return changed | {key: None for key in old if key not in new}
