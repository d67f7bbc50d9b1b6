"""What is due, what is recorded, what a line says and which are kept: decided from values, with the time passed in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from dataclasses import replace

from .attempts import FAILED_CREATE, has_record, is_fanned, last_attempts, next_attempt
from .fan import PLANNED
from .model import Claim, Entry, Firings, Job, Outcome, PodSight, Policy, Spec, State, Trigger, newest_first
from .names import firing_of, firings_of, is_unit_key, parent_of, request_of, run_key
from .plan import Plan, start_delay_ms
from .text import safe
from .windows import LATE_SECONDS, commit_gap

UNRECORDED_MOST = 100
RUNS_MOST = 100
_HISTORY_MOST = 200  # as the CRD has it
_GATHER_SECONDS = 30.0
_WALK_MOST = 100_000


def is_full(job: Job) -> bool:
    """Whether so many runs are under way that the history has no room for more: their lines are never dropped."""
    return room_for_runs(job) == 0


def room_for_runs(job: Job) -> int:
    """How many more runs may be under way at once. Those that are to be caught up take their room where they run side by side."""
    waiting = job.status.waiting if job.spec.policy is Policy.ALLOW else 0
    return max(0, RUNS_MOST - job.status.active - waiting)


def start_time(job: Job, plan: Plan, firing: int) -> float:
    """When a firing starts: its scheduled instant, and the job's jitter for it. Epoch seconds."""
    if not job.spec.jitter_ms:
        return float(firing)
    following = plan.next_after(firing)
    gap_ms = None if following is None else (following - firing) * 1000
    return firing + start_delay_ms(job.uid, firing, job.spec.jitter_ms, gap_ms) / 1000


def late_until(job: Job, plan: Plan, now: float) -> int:
    """The instant up to which whatever is due, jitter included, has been so for a minute. Epoch seconds."""
    until = int(now) - LATE_SECONDS
    last = plan.previous(until)
    # None starts after the firing that follows it, so only the last may still wait.
    return until if last is None or start_time(job, plan, last) <= until else last - 1


def gathering_seconds(job: Job, late: int) -> float:
    """How long to wait for more to become late: those that follow upon a row of missed ones are a row, not a line each."""
    rows = [entry.scheduled for entry in job.status.entries() if entry.count]
    return _GATHER_SECONDS if rows and late - max(rows) <= _GATHER_SECONDS else 0.0


def is_foreign(job: Job, *, served_by: str) -> bool:
    """Whether an installation other than this one serves a job."""
    return job.status.served_by not in {"", served_by}


def is_served(job: Job, *, served_by: str) -> bool:
    """Whether a job is observed, and served by this installation."""
    return job.observed and job.status.served_by == served_by


def may_fire(job: Job, *, served_by: str) -> bool:
    """Whether a job's firings may start at all: observed, awake, valid, and served by this installation."""
    return (
        is_served(job, served_by=served_by)
        and not job.deleting
        and not job.spec.suspend
        and not job.spec.invalid
        and job.status.ready
    )


def is_recorded(job: Job, entries: Mapping[str, Entry], key: str) -> bool:
    """Whether a run must not be launched: it has a record, and not one that says that it is still to be claimed."""
    entry = entries.get(key)
    if entry is None:
        return has_record(job, entries, key, ended=False)
    return not entry.to_claim


def first_unclaimed(plan: Plan, *, after: int, until: int, known: Collection[str]) -> int | None:
    """The first firing in (after, until] that has neither a claim nor a record; `known` are the keys of what has."""
    firings = firings_of(known)
    return next((f for f in plan.between(after, until) if f not in firings), None)


def takeover_time(claim: Claim) -> int:
    """From when on no Pod of the claim's holders can still be committed; later after refusals, which are tried again slowly."""
    backoff = min(120, 5 << min(claim.takeovers, 8)) if claim.refusal else 0
    return claim.launch_before + commit_gap(claim.launch_timeout_seconds) + 1 + backoff


def untold(claim: Claim, pods: Collection[str], entries: Mapping[str, Entry]) -> bool:
    """Whether a claim has neither a Pod, nor an outcome, nor a record of a run."""
    entry = entries.get(claim.key)
    launched = entry is not None and not entry.to_claim
    return claim.outcome is None and claim.key not in pods and not launched


def in_time(spec: Spec, start: float, now: float) -> bool:
    """Whether what was to start at `start` (jitter included) still may, as far as `startingDeadlineSeconds` goes."""
    return spec.starting_deadline_seconds is None or now <= start + spec.starting_deadline_seconds


def pending(firing: int, trigger: Trigger, attempt: int = 1) -> Entry:
    """The line of a run that is to be claimed, or whose claim has no Pod yet."""
    return Entry(run_key(firing, attempt), firing, State.PENDING, trigger, attempt, reason="Starting")


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
    """The line of a firing, from the line that stands and what is seen of it. An end is final, but for Stale.

    A run that is in its units has no Pod of its own any more, whatever is seen of the one that listed them.
    """
    if entry is not None and (is_fanned(entry) or (entry.ended and not (pod is not None and is_late_end(entry, pod)))):
        return entry
    if pod is not None:
        return _with_plan(_with_stop(_from_pod(entry, pod), claim, pod), pod)
    if claim is None:
        return entry
    if entry is not None and not entry.to_claim:
        return entry
    line = pending(claim.firing, claim.trigger, claim.attempt) if entry is None else _anew(entry)
    if claim.outcome is not None:
        settled = claim.created if claim.outcome.settled is None else claim.outcome.settled
        told = _with(line, claim.outcome)
        return replace(told, completed=settled) if told.ended else replace(told, started=settled)
    if claim.waits_for:
        return replace(line, reason="Waiting", message=f"It waits for {claim.waits_for} to end")
    return replace(line, reason=FAILED_CREATE, message=claim.refusal) if claim.refusal else line


def _anew(entry: Entry) -> Entry:
    """The line of a run whose claim has no Pod yet, from the one that stands."""
    line = pending(entry.scheduled, entry.trigger, entry.attempt)
    return replace(line, id=entry.id, options=entry.options, unit=entry.unit)


def is_late_end(entry: Entry, pod: PodSight) -> bool:
    """Whether it is the end of a run that had been given up as Stale. That its Pod was deleted says nothing of its end.

    Nor does the end of a plan: the units that it lists are not run any more.
    """
    return entry.state is State.STALE and pod.ended and not pod.cut_short and not pod.plan


def _with_stop(line: Entry, claim: Claim | None, pod: PodSight) -> Entry:
    """The line of a run that was given up or stopped: it is what was said then, unless it had ended before it was deleted."""
    if pod.given_up is not None:
        return _with(line, pod.given_up)
    if claim is None or claim.stop is None:
        return line
    if not pod.ended:
        return replace(line, reason=claim.stop.reason, message=claim.stop.message)
    return _with(line, claim.stop) if pod.deleting or pod.cut_short else line


def _with_plan(line: Entry, pod: PodSight) -> Entry:
    """A plan that has succeeded is not the end of its run: the units that it lists are."""
    if not pod.plan or line.state is not State.SUCCEEDED:
        return line
    return replace(
        line, state=State.RUNNING, reason=PLANNED, message="Its units are about to be queued", completed=None
    )


def _with(line: Entry, outcome: Outcome) -> Entry:
    return replace(line, state=outcome.state, reason=outcome.reason, message=outcome.message)


def _from_pod(entry: Entry | None, pod: PodSight) -> Entry:
    return Entry(
        id=pod.key,
        scheduled=entry.scheduled if entry is not None else pod.firing,
        state=pod.state,
        trigger=entry.trigger if entry is not None else pod.trigger,
        attempt=pod.attempt,
        reason=pod.reason,
        message=_message(entry, pod),
        started=pod.started,
        completed=pod.completed,
        pod_name=pod.name,
        options=entry.options if entry is not None else (),
        unit=entry.unit if entry is not None else pod.unit,
    )


def _message(entry: Entry | None, pod: PodSight) -> str:
    """What a Pod says; of one that its deadline ended before it ran, also what it had waited for, which its end does not tell."""
    waited = entry is not None and entry.state is State.PENDING and bool(entry.pod_name)
    if entry is None or not waited or not entry.message or pod.reason != "DeadlineExceeded":
        return pod.message
    return safe(f"{pod.message}; {entry.message}")


def is_over(job: Job, entries: Mapping[str, Entry], firings: Firings, run: str) -> bool:
    """Whether a run has ended for good, as far as is seen: its last attempt has, and none follows.

    `run` is the key of its first attempt. An end that is on record holds, whatever `retry` has been edited to since. One that is in
    its units is over too, for the other runs of its job: each unit is on its own against its like.
    """
    last = last_attempts(line for line in entries.values() if line.run == run).get(run)
    if last is None and (request_of(run) or firing_of(run) <= job.recorded_until):
        return True  # only lines of runs that are over are dropped
    if last is not None and (last.ended or is_fanned(last)):
        return True
    key = run if last is None else last.id
    seen = sighted(last, firings.claims.get(key), firings.pods.get(key))
    if seen is None:
        return False
    return is_fanned(seen) or (seen.ended and next_attempt(seen, job.spec.retry) is None)


def prune(
    entries: Iterable[Entry], spec: Spec, *, watermark: int, now: int, awaited: Container[str] = ()
) -> list[Entry]:
    """The lines that are kept, the newest first.

    All runs that are not over or lie above the watermark, or are `awaited` by the requests for them, else those that ended last, as
    the limits say; of a run the last attempt, and the earlier ones and its dead letters as far as there is room.
    """
    runs: dict[str, list[Entry]] = {}
    letters: list[Entry] = []
    for entry in newest_first(entries):
        if is_unit_key(entry.id):
            letters.append(entry)
        else:
            runs.setdefault(entry.run, []).append(entry)
    needed = {run for run, (last, *_) in runs.items() if run in awaited or not is_settled(last, watermark)}
    spare = _HISTORY_MOST - len(needed)
    room = {True: spec.successful_limit, False: spec.failed_limit}
    kept = set(needed)
    for run in sorted(runs.keys() - needed, key=lambda run: (_end(runs[run][0]), run), reverse=True):
        last, good = runs[run][0], runs[run][0].state is State.SUCCEEDED
        if min(spare, room[good]) > 0 and _end(last) + spec.retention_seconds > now:
            spare -= 1
            room[good] -= 1
            kept.add(run)
    shown: list[Entry] = []
    for last, *earlier in (lines for run, lines in runs.items() if run in kept):
        shown += [last, *earlier[: max(0, spare)]]
        spare -= len(earlier)
    shown_letters = [letter for letter in letters if parent_of(letter.id) in kept][: max(0, spare)]
    return newest_first(shown + shown_letters) if shown_letters else shown


def is_settled(line: Entry, watermark: int) -> bool:
    """Whether it tells of an end at or below the watermark, which says nothing of runs by hand."""
    return line.ended and (line.trigger is Trigger.MANUAL or line.scheduled <= watermark)


def _end(line: Entry) -> int:
    return line.completed or line.scheduled


def surplus_pods(pods: Iterable[PodSight], limit: int) -> list[PodSight]:
    """The finished Pods beyond the `limit` that succeeded last and as many that failed."""
    room = {True: limit, False: limit}
    surplus = []
    for pod in sorted(pods, key=lambda p: (p.completed or p.firing, p.firing, p.attempt), reverse=True):
        if not pod.ended or pod.deleted:
            continue
        good = pod.state is State.SUCCEEDED
        if room[good] > 0:
            room[good] -= 1
        else:
            surplus.append(pod)
    return surplus
