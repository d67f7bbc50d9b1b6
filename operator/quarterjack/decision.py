"""What is due, what is late, what becomes of missed firings: decided from values, with the time passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from .attempts import has_record, last_attempts, next_attempt
from .clock import rfc3339
from .model import Claim, Entry, Firings, Job, Misfire, PodSight, Spec, State, Trigger, newest_first
from .names import firing_of, run_key
from .plan import Plan, start_delay_ms
from .windows import LATE_SECONDS, commit_gap

UNRECORDED_MOST = 100
RUNS_MOST = 100
_HISTORY_MOST = 200  # as the CRD has it
_WALK_MOST = 100_000
_COUNT_MOST = 2**31 - 1


def is_full(job: Job) -> bool:
    """Whether so many runs are under way that the history has no room for more: their lines are never dropped."""
    return job.status.active >= RUNS_MOST


def start_time(job: Job, plan: Plan, firing: int) -> float:
    """When a firing starts: its scheduled instant, and the job's jitter for it. Epoch seconds."""
    if not job.spec.jitter_ms:
        return float(firing)
    following = plan.next_after(firing)
    gap_ms = None if following is None else (following - firing) * 1000
    return firing + start_delay_ms(job.uid, firing, job.spec.jitter_ms, gap_ms) / 1000


def may_fire(job: Job, *, served_by: str) -> bool:
    """Whether a job's firings may start at all: observed, awake, valid, and served by this installation."""
    return (
        job.observed
        and not job.deleting
        and not job.spec.suspend
        and not job.spec.unserved
        and not job.spec.invalid
        and job.status.ready
        and job.status.served_by == served_by
    )


def is_recorded(job: Job, entries: Mapping[str, Entry], key: str) -> bool:
    """Whether a run must not be launched: it has a record, and not one that says that it is still to be claimed."""
    entry = entries.get(key)
    if entry is None:
        return has_record(job, entries, key, ended=False)
    return not entry.to_claim


def first_unclaimed(
    plan: Plan, *, after: int, until: int, claims: Collection[str], entries: Collection[str]
) -> int | None:
    """The first firing in (after, until] that has neither a claim nor a record."""
    known = {firing_of(key) for key in (*claims, *entries)}
    return next((f for f in plan.between(after, until) if f not in known), None)


def takeover_time(claim: Claim) -> int:
    """From when on no Pod of the claim's holders can still be committed; later after refusals, which are tried again slowly."""
    backoff = min(300, 5 << min(claim.takeovers, 8)) if claim.refusal else 0
    return claim.launch_before + commit_gap(claim.launch_timeout_seconds) + 1 + backoff


def untold(claim: Claim, pods: Collection[str], entries: Mapping[str, Entry]) -> bool:
    """Whether a claim has neither a Pod, nor an outcome, nor a record of a run."""
    entry = entries.get(claim.key)
    launched = entry is not None and not entry.to_claim
    return claim.outcome is None and claim.key not in pods and not launched


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
    missed, but for the one that RunOnce runs; one that still can becomes pending, and is claimed like any other, so it still runs
    once. `latest`: no later firing makes up for those missed, so RunOnce runs the last of them.
    """
    known = {firing_of(key) for key in (*claims, *entries)}
    lines = [
        pending(claim.firing, claim.trigger, claim.attempt)
        for key, claim in sorted(claims.items())
        if job.recorded_until < claim.firing <= until and key not in entries
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
    once = (
        missed.count > 0
        and latest
        and not is_full(job)
        and job.spec.misfire is Misfire.RUN_ONCE
        and in_time(job.spec, missed.last, now)
        and all(line.scheduled < missed.last for line in lines)
    )
    if once:
        lines.append(pending(missed.last, Trigger.CATCH_UP))
        missed = missed.without_last(plan, known)
    return Settlement((*_missed_lines(job, missed, now, once=once), *lines), max(until, job.recorded_until))


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


def in_time(spec: Spec, firing: int, now: float) -> bool:
    """Whether a firing may still start, as far as `startingDeadlineSeconds` goes."""
    return spec.starting_deadline_seconds is None or now <= firing + spec.starting_deadline_seconds


def pending(firing: int, trigger: Trigger, attempt: int = 1) -> Entry:
    """The line of a run that is to be claimed, or whose claim has no Pod yet."""
    return Entry(run_key(firing, attempt), firing, State.PENDING, trigger, attempt, reason="Starting")


def _missed_lines(job: Job, missed: Missed, now: int, *, once: bool) -> list[Entry]:
    """One line for all that were missed together."""
    spec = job.spec
    if not missed.count:
        return []
    why = "nothing could start it in time" if missed.count == 1 else "nothing could start them in time"
    reason = "Misfire"
    if is_full(job):
        why += f", for {RUNS_MOST} runs of the job were under way"
        reason = "TooManyRuns"
    elif spec.misfire is Misfire.SKIP:
        why += ", and misfirePolicy is Skip"
    elif not in_time(spec, missed.last, now):
        why += f", and startingDeadlineSeconds is {spec.starting_deadline_seconds}"
        reason = "StartingDeadlineExceeded"
    elif once:
        why += ", and misfirePolicy RunOnce runs only the latest"
    else:
        why += ", and a later firing makes up for them"
    span = rfc3339(missed.first) if missed.count == 1 else f"{rfc3339(missed.first)} to {rfc3339(missed.last)}"
    return [
        Entry(
            id=f"missed-{missed.last}",
            scheduled=missed.last,
            state=State.MISSED,
            reason=reason,
            message=f"{missed.count} missed ({span}): {why}",
            count=missed.count,
            first_scheduled=missed.first,
        )
    ]


def advance(plan: Plan, watermark: int, *, now: int, recorded: Callable[[int], bool]) -> int:
    """The watermark, moved over every firing that has its record, up to the first that has none."""
    following = plan.next_after(watermark)
    for _ in range(_WALK_MOST):
        if following is None or following > now or not recorded(following):
            break
        watermark = following
        following = plan.next_after(watermark)
    return watermark


def sighted(entry: Entry | None, claim: Claim | None, pod: PodSight | None) -> Entry | None:
    """The line of a firing, from the line that stands and what is seen of it. An end is final, but for Stale."""
    if entry is not None and entry.ended and entry.state is not State.STALE:
        return entry
    if pod is not None:
        return _from_pod(entry, pod)
    if claim is None:
        return entry
    if entry is not None and not entry.to_claim:
        return entry
    line = pending(claim.firing, entry.trigger if entry is not None else claim.trigger, claim.attempt)
    if claim.outcome is not None:
        outcome = claim.outcome
        completed = claim.created if outcome.settled is None else outcome.settled
        return replace(line, state=outcome.state, reason=outcome.reason, message=outcome.message, completed=completed)
    return replace(line, reason="FailedCreate", message=claim.refusal) if claim.refusal else line


def _from_pod(entry: Entry | None, pod: PodSight) -> Entry:
    return Entry(
        id=pod.key,
        scheduled=pod.firing,
        state=pod.state,
        trigger=entry.trigger if entry is not None else pod.trigger,
        attempt=pod.attempt,
        reason=pod.reason,
        message=pod.message,
        started=pod.started,
        completed=pod.completed,
        pod_name=pod.name,
    )


def is_over(job: Job, entries: Mapping[str, Entry], firings: Firings, run: str) -> bool:
    """Whether a run has ended for good, as far as is seen: its last attempt has, and none follows.

    `run` is the key of its first attempt. An end that is on record holds, whatever `retry` has been edited to since.
    """
    last = last_attempts(line for line in entries.values() if line.run == run).get(run)
    if last is None and firing_of(run) <= job.recorded_until:
        return True  # only lines of runs that are over are dropped
    if last is not None and last.ended:
        return True
    key = run if last is None else last.id
    seen = sighted(last, firings.claims.get(key), firings.pods.get(key))
    return seen is not None and seen.ended and next_attempt(seen, job.spec.retry) is None


def prune(entries: Iterable[Entry], spec: Spec, *, watermark: int, now: int) -> list[Entry]:
    """The lines that are kept, the newest first.

    All runs that are not over or lie above the watermark, else as the limits say; of a run the last attempt, and the earlier ones
    as far as there is room.
    """
    runs: dict[str, list[Entry]] = {}
    for entry in newest_first(entries):
        runs.setdefault(entry.run, []).append(entry)
    needed = {run for run, (last, *_) in runs.items() if not last.ended or last.scheduled > watermark}
    spare = _HISTORY_MOST - len(needed)
    room = {True: spec.successful_limit, False: spec.failed_limit}
    kept: list[list[Entry]] = []
    for run, lines in runs.items():
        last, good = lines[0], lines[0].state is State.SUCCEEDED
        if run not in needed:
            if min(spare, room[good]) <= 0 or (last.completed or last.scheduled) + spec.retention_seconds <= now:
                continue
            spare -= 1
            room[good] -= 1
        kept.append(lines)
    shown: list[Entry] = []
    for last, *earlier in kept:
        shown += [last, *earlier[: max(0, spare)]]
        spare -= len(earlier)
    return shown


def surplus_pods(pods: Iterable[PodSight], limit: int) -> list[PodSight]:
    """The finished Pods beyond the newest `limit` that succeeded and as many that failed."""
    room = {True: limit, False: limit}
    surplus = []
    for pod in sorted(pods, key=lambda p: (p.firing, p.attempt), reverse=True):
        if not pod.ended or pod.deleted:
            continue
        good = pod.state is State.SUCCEEDED
        if room[good] > 0:
            room[good] -= 1
        else:
            surplus.append(pod)
    return surplus
