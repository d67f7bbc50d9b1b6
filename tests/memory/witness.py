"""What must hold in every scenario, judged from what the server saw: every Pod ever created, every status ever written."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from quarterjack.names import is_unit_key
from quarterjack.plan import plan_from_line

from .admission import rfc3339
from .resources import GROUP, JOBS, PODS
from .schema import _instant
from .server import MemoryApi
from .statuses import Document
from .store import Change

LIVE = ("Pending", "Running")
NOT_RUN = ("Missed", "Skipped")
NOT_RETRIED = ("LaunchUnknown", "PodInvalid", "Replaced", "DeadLetters", "LedgerLost")
# How long nobody has vouched for a Pod that has not ended when the next run may start beside it: a lease at least; its grace.
OVERLAP_SECONDS = {"Forbid": 60, "Replace": 0}


class Violation(AssertionError):
    """Something that must never be."""


@dataclass(slots=True)
class Segment:
    """A stretch of time in which a job had one schedule. Firings count after `begin`, up to and including `end`."""

    begin: int
    line: str
    fires: bool
    end: int | None = None


@dataclass(slots=True)
class Account:
    """All that the status of one job has ever said."""

    uid: str
    name: str
    policy: str = "Forbid"
    fans_out: bool = False
    watermark: int = 0
    lines: dict[str, Document] = field(default_factory=dict)
    given_up: set[str] = field(default_factory=set)  # the lines that were ever Stale: such a run is not tried again
    segments: list[Segment] = field(default_factory=list)
    retries: int = 10  # the least that it was ever allowed
    gone: bool = False

    def due(self, now: float, *, after: int = 0) -> Iterator[int]:
        """Every firing due by now (and after an instant), under the schedule that held at its time."""
        for segment in self.segments:
            plan = plan_from_line(segment.line, anchor=segment.begin) if segment.fires else None
            if plan is not None:
                until = int(now) if segment.end is None else min(segment.end, int(now))
                yield from plan.between(max(segment.begin, after), until)

    def rows(self) -> list[tuple[int, int, int]]:
        """The coalesced lines: first and last firing, and how many they say they are."""
        return [
            (epoch(line["firstScheduledTime"]), epoch(line["lastScheduledTime"]), line["count"])
            for line in self.lines.values()
            if line.get("count")
        ]


def epoch(text: str) -> int:
    """An RFC 3339 text as epoch second."""
    return int(_instant(text).timestamp())


class Witness:
    """Listens at the server from the beginning, and is asked at the end."""

    def __init__(self, api: MemoryApi) -> None:
        self.accounts: dict[str, Account] = {}
        self.problems: list[str] = []
        self.most_alive = 0
        self._api = api
        self._alive: dict[tuple[str, str], dict[str, Document]] = {}  # by job and unit
        api.store.tables[JOBS].listeners[id(self)] = self._on_job
        api.store.tables[PODS].listeners[id(self)] = self._on_pod

    # While the scenario runs

    def _complain(self, what: str) -> None:
        self.problems.append(f"{rfc3339(self._api.clock.wall())}: {what}")

    def _on_job(self, change: Change) -> None:
        document = change.after.document
        meta, spec, status = document["metadata"], document["spec"], document.get("status") or {}
        account = self.accounts.setdefault(meta["uid"], Account(meta["uid"], meta["name"]))
        account.policy = spec.get("concurrencyPolicy", "Forbid")
        account.fans_out = "fanOut" in spec
        account.retries = min(account.retries, (spec.get("retry") or {}).get("maxRetries", 0))
        if change.deleted:
            account.gone = True
            return
        if status.get("scheduledFrom"):
            self._follow(account, status)
        for line in status.get("history") or ():
            self._compare(account, line)
        self._follow_watermark(account, epoch(status["watermark"]) if "watermark" in status else 0)

    def _follow(self, account: Account, status: Document) -> None:
        begin = epoch(status["scheduledFrom"])
        ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())
        segment = Segment(begin, status["observedSchedule"], ready and status["state"] != "Suspended")
        last = account.segments[-1] if account.segments else None
        if last is None or (last.begin, last.line, last.fires) != (segment.begin, segment.line, segment.fires):
            if last is not None:
                last.end = begin
            account.segments.append(segment)

    def _compare(self, account: Account, line: Document) -> None:
        known = account.lines.get(line["id"])
        account.lines[line["id"]] = line
        if line["state"] == "Stale":
            account.given_up.add(line["id"])
        if known is not None and known["state"] not in (*LIVE, "Stale") and known["state"] != line["state"]:
            self._complain(f"the end of {line['id']} changed from {known['state']} to {line['state']}")

    def _follow_watermark(self, account: Account, watermark: int) -> None:
        if watermark < account.watermark:
            self._complain(f"the watermark of {account.name} fell to {rfc3339(watermark)}")
        rows = account.rows()
        for firing in account.due(watermark, after=account.watermark):
            if not _has_record(account, firing, rows):
                self._complain(f"the watermark of {account.name} passed {rfc3339(firing)}, which has no record")
        account.watermark = max(account.watermark, watermark)

    def _on_pod(self, change: Change) -> None:
        document = change.after.document
        uid = next((o["uid"] for o in document["metadata"].get("ownerReferences") or ()), "")
        unit = (document["metadata"].get("annotations") or {}).get(f"{GROUP}/unit", "")
        alive = self._alive.setdefault((uid, unit), {})
        name = document["metadata"]["name"]
        if change.deleted or document["status"].get("phase") in ("Succeeded", "Failed"):
            alive.pop(name, None)
        else:
            alive[name] = document
        account = self.accounts.get(uid)
        policy, now = account.policy if account is not None else "Allow", self._api.clock.wall()
        believed = [name for name, pod in alive.items() if not _is_lost(pod, now, OVERLAP_SECONDS.get(policy, 60))]
        self.most_alive = max(self.most_alive, len(believed))
        if policy in OVERLAP_SECONDS and len(believed) > 1:
            self._complain(f"under {policy} Pods are alive together: {', '.join(sorted(believed))}")

    # At the end

    def check(self, *, calm_seconds: float = 30, alive: bool = False) -> None:
        """Raise a Violation where a promise was broken. Firings older than `calm_seconds` must have their final record.

        `alive`: Pods are left running, and so are their records.
        """
        problems = [*self.problems, *self._doubles()]
        for account in self.accounts.values():
            problems += [*self._contradictions(account), *_lost_attempts(account)]
            if not account.gone:
                problems += self._gaps(account, self._api.clock.wall() - calm_seconds, alive=alive)
        if problems:
            raise Violation("\n".join(problems))

    def _doubles(self) -> Iterator[str]:
        for entry in self._api.ledger.doubles():
            yield f"launched more than once: {entry.name} of {rfc3339(entry.firing)}, at {rfc3339(entry.at)}"

    def _contradictions(self, account: Account) -> Iterator[str]:
        """What ran must not be recorded as not run, or as one of a row of missed ones."""
        rows = account.rows()
        for firing in self._api.ledger.firings(account.uid, of_units=account.fans_out):
            line = account.lines.get(str(firing))
            if line is not None and line["state"] in NOT_RUN:
                yield f"{rfc3339(firing)} ran, and is recorded as {line['state']}"
            elif line is None and any(first <= firing <= last for first, last, _ in rows):
                yield f"{rfc3339(firing)} ran, and is counted among the missed"

    def _gaps(self, account: Account, until: float, *, alive: bool) -> Iterator[str]:
        """Every firing that was due has its final record, and a row of missed ones counts right."""
        rows, ever = account.rows(), list(account.due(self._api.clock.wall()))
        due, told = ever[: bisect_right(ever, until)], {int(i) for i in account.lines if i.isdigit()}
        for firing in due:
            if not _has_record(account, firing, rows):
                yield f"{account.name}: {rfc3339(firing)} has no record"
        for line in account.lines.values():
            if line["state"] in LIVE and epoch(line["scheduledTime"]) <= until and not (alive and line.get("podName")):
                yield f"{account.name}: {line['scheduledTime']} never came to an end: {line}"
        for first, last, count in rows:
            within = ever[bisect_left(ever, first) : bisect_right(ever, last)]
            covered = len(within) - len(told.intersection(within))
            if covered != count:
                yield f"{account.name}: {count} firings are said to be missed from {rfc3339(first)}, not {covered}"
        if due and account.segments[-1].fires and account.watermark < due[-1]:
            yield f"the watermark of {account.name} stays at {rfc3339(account.watermark)}"


def _lost_attempts(account: Account) -> Iterator[str]:
    """Attempts follow on one another without a gap, each on a failure, as many as the job allows."""
    runs: dict[str, list[Document]] = {}
    for line in account.lines.values():
        if is_unit_key(line["id"]):
            continue  # the last attempt alone is shown of a dead letter
        runs.setdefault(line["id"].removesuffix(f"-{line['attempt']}"), []).append(line)
    for run, lines in runs.items():
        *earlier, last = sorted(lines, key=lambda line: int(line["attempt"]))
        if [line["attempt"] for line in (*earlier, last)] != list(range(1, len(lines) + 1)):
            yield f"{account.name}: attempts of {run} are missing: {lines}"
        if any(line["state"] != "Failed" for line in earlier):
            yield f"{account.name}: {run} was tried again though it had not failed: {earlier}"
        retried = last.get("reason") not in NOT_RETRIED and last["id"] not in account.given_up
        if last["state"] == "Failed" and last["attempt"] <= account.retries and retried:
            yield f"{account.name}: {run} was not tried again: {last}"


def _is_lost(pod: Document, now: float, seconds: int) -> bool:
    """Whether nobody vouches for a Pod that has not ended: its node was given up, or its deletion's grace is over, for a while."""
    conditions = pod["status"].get("conditions") or ()
    silent = [
        c["lastTransitionTime"]
        for c in conditions
        if c["type"] == "Ready" and c["status"] == "False" and not c.get("reason")
    ]
    silent += [pod["metadata"]["deletionTimestamp"]] if "deletionTimestamp" in pod["metadata"] else []
    return any(epoch(text) + seconds <= now for text in silent)


def _has_record(account: Account, firing: int, rows: list[tuple[int, int, int]]) -> bool:
    return str(firing) in account.lines or any(first <= firing <= last for first, last, _ in rows)
