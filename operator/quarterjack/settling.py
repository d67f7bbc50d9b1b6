"""The late path: what becomes of firings that nobody has claimed in time. Pure.

A claimed firing gets a pending line, an unclaimed one is missed; some of the missed run after all, as `misfirePolicy` says. However
many were missed, they are counted, not listed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from .clock import rfc3339
from .decision import RUNS_MOST, in_time, is_full, pending, room_for_runs, start_time
from .model import Claim, Entry, Job, Misfire, PodSight, Spec, State, Trigger
from .names import firings_of, is_unit_key, request_of
from .plan import Plan
from .windows import LATE_SECONDS

_COUNT_MOST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Settlement:
    """What a settling write adds: lines of history, and how far the watermark may go."""

    entries: tuple[Entry, ...]
    watermark: int


def settle(
    job: Job,
    plan: Plan,
    *,
    until: int,
    claims: Mapping[str, Claim | PodSight],
    entries: Collection[str],
    now: int,
    latest: bool,
) -> Settlement:
    """Settle all firings in (recorded_until, until]: `claims` and `entries` are quorum reads, `now` the server's clock.

    A Pod among the claims counts as one: it may have been claimed elsewhere, or its claim been deleted.
    A claimed firing becomes a pending line (its Pod or outcome follows); an unclaimed one that can no longer be claimed on time is
    missed, but for those that `misfirePolicy` runs; one that still can becomes pending, and is claimed like any other, so it still
    runs once. `latest`: no later firing makes up for those missed, so RunOnce runs the last of them.
    """
    known = firings_of((*claims, *entries))
    lines = [
        pending(claim.firing, claim.trigger, claim.attempt)
        for key, claim in sorted(claims.items())
        if job.recorded_until < claim.firing <= until and key not in entries and not _is_of_no_firing(key)
    ]
    old = _surely_late(job, plan, now)
    missed = Missed.among(plan, known, after=job.recorded_until, until=min(until, old))
    for firing in plan.between(max(job.recorded_until, old), until):
        if firing in known:
            continue
        if start_time(job, plan, firing) > now - LATE_SECONDS:
            lines.append(pending(firing, Trigger.SCHEDULE))
        else:
            missed = missed.with_later(firing)
    latest = latest and all(line.scheduled < missed.last for line in lines)
    asked = _asked_for(job.spec, latest=latest)
    most = min(asked, _room(job) - len(lines))
    caught: list[Entry] = []
    while missed.count and len(caught) < most and in_time(job.spec, start_time(job, plan, missed.last), now):
        caught.append(pending(missed.last, Trigger.CATCH_UP))
        missed = missed.without_last(plan, known)
    return Settlement(
        (*_missed_lines(job, plan, missed, now, asked=asked, caught=len(caught)), *lines, *reversed(caught)),
        max(until, job.recorded_until),
    )


def _is_of_no_firing(key: str) -> bool:
    """Whether a run has its line from elsewhere, or a ledger: one by hand, or a unit of one that has its line."""
    return bool(request_of(key)) or is_unit_key(key)


def _asked_for(spec: Spec, *, latest: bool) -> int:
    """How many missed firings `misfirePolicy` runs at most: the latest so many."""
    if spec.suspend or spec.misfire is Misfire.SKIP:
        return 0
    if spec.misfire is Misfire.CATCH_UP:
        return spec.catch_up_limit
    return int(latest)


def _room(job: Job) -> int:
    """How many lines the history has room for that are to be caught up: none of them is dropped before it has run."""
    return max(0, min(room_for_runs(job), RUNS_MOST - job.status.waiting))


@dataclass(frozen=True, slots=True)
class Missed:
    """Firings that nobody claimed: counted, not listed, for a year of seconds has 31 million."""

    first: int = 0
    last: int = 0
    count: int = 0

    @classmethod
    def among(cls, plan: Plan, known: Collection[int], *, after: int, until: int) -> Missed:
        """All firings in (after, until] but the known ones."""
        count = plan.count_between(after, until, limit=_COUNT_MOST)
        count -= sum(1 for f in known if after < f <= until and plan.previous(f) == f)
        if count <= 0:
            return cls()
        first = plan.next_after(after)
        while first in known and first is not None:
            first = plan.next_after(first)
        last = plan.previous(until)
        while last in known and last is not None:
            last = plan.previous(last - 1)
        return cls(first or 0, last or 0, count)

    def with_later(self, firing: int) -> Missed:
        """These, and one more that follows them."""
        return Missed(self.first if self.count else firing, firing, self.count + 1)

    def without_last(self, plan: Plan, known: Collection[int]) -> Missed:
        """These, but for the last."""
        if self.count <= 1:
            return Missed()
        last = plan.previous(self.last - 1)
        while last in known and last is not None:
            last = plan.previous(last - 1)
        return Missed(self.first, last or 0, self.count - 1)


def _surely_late(job: Job, plan: Plan, now: int) -> int:
    """Whatever is due by then is late, its jitter included: that ends, and none starts after the firing that follows it."""
    last = plan.previous(now - LATE_SECONDS)
    by_jitter = now - LATE_SECONDS - job.spec.jitter_ms // 1000 - 1
    return by_jitter if last is None else max(by_jitter, last - 1)


def _missed_lines(job: Job, plan: Plan, missed: Missed, now: int, *, asked: int, caught: int) -> list[Entry]:
    """One line for all that were missed together, and do not run."""
    if not missed.count:
        return []
    reason, why = _why_missed(job, plan, missed, now, asked=asked, caught=caught)
    what = "nothing could start it in time" if missed.count == 1 else "nothing could start them in time"
    span = rfc3339(missed.first) if missed.count == 1 else f"{rfc3339(missed.first)} to {rfc3339(missed.last)}"
    return [
        Entry(
            id=f"missed-{missed.last}",
            scheduled=missed.last,
            state=State.MISSED,
            reason=reason,
            message=f"{missed.count} missed ({span}): {what}, {why}",
            count=missed.count,
            first_scheduled=missed.first,
        )
    ]


def _why_missed(job: Job, plan: Plan, missed: Missed, now: int, *, asked: int, caught: int) -> tuple[str, str]:
    """The reason why the last of them does not run, and so none before it."""
    spec = job.spec
    if is_full(job):
        return "TooManyRuns", f"for {RUNS_MOST} runs of the job were under way"
    if spec.suspend:
        return "Misfire", "and the job was suspended"
    if spec.misfire is Misfire.SKIP:
        return "Misfire", "and misfirePolicy is Skip"
    if not in_time(spec, start_time(job, plan, missed.last), now):
        return "StartingDeadlineExceeded", f"and startingDeadlineSeconds is {spec.starting_deadline_seconds}"
    if caught < asked:
        return "TooManyRuns", f"for at most {RUNS_MOST} runs of a job are under way or wait to be caught up"
    if spec.misfire is Misfire.CATCH_UP:
        return "Misfire", f"and catchUpLimit is {spec.catch_up_limit}"
    if caught:
        return "Misfire", "and misfirePolicy RunOnce runs only the latest"
    return "Misfire", "and misfirePolicy RunOnce runs none of them where a later firing has come due"
