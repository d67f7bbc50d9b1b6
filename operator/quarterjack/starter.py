"""One firing's way from due to launched: claim, decide, launch, and the takeover of what another left half-way.

Whatever ends here without a result (a lost answer, a crash, a fence refusal) leaves a claim without Pod or outcome, or no claim: both
are seen by every replica, and taken up from there by `take_over`, `pending` or the late path. Nothing here sends a Pod twice.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Protocol

from . import logs
from .api import JOBS, Api, Ending, object_path
from .attempts import FAILED_CREATE, waits_for_others, waits_until
from .clock import ServerClock
from .decision import in_time, is_foreign, is_recorded, may_fire, start_time
from .fan import PLANNED
from .launcher import Launch, Launched, Launcher, Trace, Traced
from .lease import Claims
from .manifests import Run, Window
from .model import Claim, Entry, Job, Outcome, PodSight, State, Trigger
from .names import attempt_of, firing_of, is_unit_key, request_of, run_key
from .overlap import Overlap
from .plan import Plan, given_zones
from .pod import lost_pod
from .reading import read_claim, read_job
from .runs import Held, Taken
from .signs import PLAN_LOST, RUN_DELETED, start_limit_seconds
from .store import Store
from .waiting import comes_after_others
from .windows import COMMIT_SECONDS, ON_TIME_SECONDS, PENDING_SECONDS, commit_gap

log = logging.getLogger(__name__)

_PODLESS = Outcome(State.RUNNING, PLANNED, "Its units are about to be queued")


class Plans(Protocol):
    """Knows when a job fires."""

    def __call__(self, job: Job) -> Plan | None:
        """The plan of a job, None where its schedule is not valid."""
        ...


class Starter:
    """Starts firings. `pods_revision` is the Pod view's revision, `fenced` whether the fence is known to stand.

    `unit_line`: that of a unit, where a read of its ledger shows that it is still to be launched.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        claims: Claims,
        launcher: Launcher,
        overlap: Overlap,
        plans: Plans,
        *,
        pods_revision: Callable[[], str],
        fenced: Callable[[], bool],
        served_by: Callable[[], str],
        claimed: Callable[[float], None],
        launched: Callable[[float], None],
        warn: Callable[[Job, str, str], None],
        unit_line: Callable[[Job, str], Awaitable[Entry | None]],
    ) -> None:
        self._api = api
        self._store = store
        self._claims = claims
        self._launcher = launcher
        self._overlap = overlap
        self._plans = plans
        self._pods_revision = pods_revision
        self._fenced = fenced
        self._served_by = served_by
        self._claimed = claimed
        self._launched = launched
        self._warn = warn
        self._unit_line = unit_line
        self._reading: dict[str, tuple[float, asyncio.Future[int | None]]] = {}  # by job: when it began

    @property
    def _clock(self) -> ServerClock:
        return self._api.clock

    async def on_time(self, uid: str, firing: int, start: float, *, generation: int, careful: bool) -> bool:
        """Claim a firing that is due and launch it. True where it was not decided and may be tried again.

        `careful`: others may know better of the job; a read that began once it was due has shown all that could keep it from firing.
        """
        if careful and not await self._read_since(uid, start):
            return uid in self._store.jobs
        job = self._store.jobs.get(uid)
        if job is None:
            return False
        if job.generation != generation or not may_fire(job, served_by=self._served_by()):
            return False
        if careful and self._store.recorded(uid, run_key(firing), ended=False):
            return False
        window = Window(int(start), int(start) + ON_TIME_SECONDS)
        return await self._claim(self._run(job, Entry(run_key(firing), firing, State.PENDING)), window)

    async def _read_since(self, uid: str, start: float) -> bool:
        """Whether the job was read since an instant: before, by now, or by a read that is under way for others of its firings."""
        if self._store.read_times.get(uid, 0.0) >= start:
            return True
        began, reading = self._reading.get(uid, (-math.inf, None))
        if reading is None or began < start:
            began, reading = self._clock.now(), asyncio.ensure_future(self.read_job(uid))
            self._reading[uid] = began, reading
            reading.add_done_callback(lambda done: self._read(uid, done))
        return await asyncio.shield(reading) is not None

    def _read(self, uid: str, reading: asyncio.Future[int | None]) -> None:
        if self._reading.get(uid, (0.0, None))[1] is reading:
            del self._reading[uid]

    async def pending(self, uid: str, key: str) -> None:
        """Claim a run whose record says that it is still to be claimed, within a few seconds of reading so.

        One that must not be skipped for another first makes sure that there is none: it takes the run lease before its claim.
        """
        date = await self.read_job(uid)
        job = self._store.jobs.get(uid)
        if date is None or job is None or not job.observed or job.deleting or not self._is_ours(job):
            return
        entry = self._store.entries(uid).get(key)
        if entry is None or not entry.to_claim or date < waits_until(entry) or not self._is_told(key):
            return
        run = self._run(job, entry)
        if waits_for_others(run.attempt, run.trigger) and not run.podless and self._why_skip(run) is None:
            verdict = await self._overlap.verdict(run)
            if verdict is Taken.DOUBT or isinstance(verdict, Held):
                return
        # the window counts from the read, by the server's clock: a stall after it must not move it
        await self._claim(run, Window(date - COMMIT_SECONDS, date + PENDING_SECONDS))

    async def unit(self, job: Job, line: Entry, *, date: int) -> None:
        """Claim the run of a unit and launch it, within a few seconds of a read that shows its line."""
        await self._claim(self._run(job, line), Window(date - COMMIT_SECONDS, date + PENDING_SECONDS))

    async def _claim(self, run: Run, window: Window) -> bool:
        claim = await self._claims.create(run, window, pods_revision=self._pods_revision())
        if isinstance(claim, Ending):
            return claim in {Ending.THROTTLED, Ending.NOT_SENT, Ending.DOUBT, Ending.REFUSED}
        self._tell(self._claimed, run)
        self._store.put_claim(claim)
        await self._proceed(run, claim, not_before=claim.created)
        return False

    def _tell(self, hears: Callable[[float], None], run: Run) -> None:
        """Tell how late a firing is, counted from its start time; only of those that the schedule starts."""
        if run.attempt == 1 and run.trigger is Trigger.SCHEDULE and not run.unit:
            hears(max(0.0, self._clock.now() - self._start_time(run)))

    def _start_time(self, run: Run) -> float:
        """When it was to start; without jitter where its schedule cannot be read any more."""
        plan = self._plans(run.job)
        return float(run.firing) if plan is None else start_time(run.job, plan, run.firing)

    async def take_over(self, seen: Claim) -> None:
        """Take over a claim without Pod or outcome, once nothing of its holders can be committed any more.

        1. Read the claim: still without outcome, and the server's clock is past its window and the commit gap.
        2. Read the job: no record says that it ran. 3. Prove that no Pod of the name ever was. 4. Take the claim at the revision
        of step 1, with a new window; decide and launch as its holder.

        Where its holder has noted that its one create was refused, that is the proof: what came before it was traced when it took
        the claim. Events of a name are not kept for as long as a quota may be used up.
        """
        answer = await self._claims.read(seen)
        claim = read_claim(answer.document) if answer.done else None
        if claim is None or answer.date is None:
            if answer.ending is Ending.ABSENT:
                self._store.drop_claim(seen.job_uid, seen.key, seen.uid)
            return
        self._store.put_claim(claim)
        holders_end = claim.launch_before + commit_gap(claim.launch_timeout_seconds)
        if claim.outcome is not None or (answer.date <= holders_end and not claim.waits_for):
            return
        read = await self.read_job(seen.job_uid)
        job = self._store.jobs.get(seen.job_uid)
        if read is None or job is None or job.deleting or not self._is_ours(job):
            return
        run = await self._to_launch(job, claim)
        if run is None:
            return
        pods_revision = self._pods_revision()
        if claim.waits_for:
            await self._resume(run, claim, pods_revision, date=answer.date)
            return
        refused = claim.refused_takeover == claim.takeovers
        trace = Trace(Traced.NEVER) if refused else await self._launcher.trace(run, claim)
        outcome = self._outcome(job, claim, trace, now=answer.date)
        if outcome is None:
            return
        if isinstance(outcome, Outcome):
            await self._settle(claim, outcome)
            return
        taken = await self._claims.take(claim, now=int(self._clock.now()), pods_revision=pods_revision)
        if taken is not None:
            self._store.put_claim(taken)
            log.info("took its claim over from %s", claim.holder, extra=logs.of_run(run))
            await self._proceed(run, taken, not_before=answer.date)

    async def _to_launch(self, job: Job, claim: Claim) -> Run | None:
        """The run of a claim, where no record says that it has been launched, or has ended."""
        if not self._is_told(claim.key):
            return None
        entries = self._store.entries(job.uid)
        if is_unit_key(claim.key):
            line = await self._unit_line(job, claim.key)
            return None if line is None else self._run(job, line)
        if is_recorded(job, entries, claim.key):
            return None
        return self._run(job, entries.get(claim.key) or Entry(claim.key, claim.firing, State.PENDING, claim.trigger))

    async def _resume(self, run: Run, claim: Claim, pods_revision: str, *, date: int) -> None:
        """Launch what has waited for others, if it need not any more. Nothing of it can have been launched while it did."""
        verdict = self._why_skip(run) or await self._overlap.verdict(run)
        if isinstance(verdict, Outcome):
            await self._settle(claim, verdict)
        if verdict is not Taken.YES:
            return
        taken = await self._claims.resume(claim, now=int(self._clock.now()), pods_revision=pods_revision)
        if taken is not None:
            self._store.put_claim(taken)
            await self._proceed(run, taken, not_before=date)

    def _outcome(self, job: Job, claim: Claim, trace: Trace, *, now: int) -> Outcome | bool | None:
        """What a trace means: an outcome to record, True to launch, None to leave it for now."""
        match trace.traced:
            case Traced.PRESENT:
                if trace.sight is not None:
                    self._store.put_pod(trace.sight)
                    return None
                return Outcome(State.FAILED, "PodNameTaken", "A Pod of another owner has the run's name")
            case Traced.GONE if trace.sight is not None:
                self._store.put_pod(trace.sight)
                if trace.sight.plan and trace.sight.state is State.SUCCEEDED:
                    return PLAN_LOST
                return Outcome(trace.sight.state, trace.sight.reason, trace.sight.message)
            case Traced.GONE | Traced.UNKNOWN:
                return _launch_unknown("the events of its Pod's name are no longer kept")
            case Traced.UNREAD:
                return None
        if not self._fenced():
            return _launch_unknown("the fence policy is not installed, so a late Pod cannot be excluded")
        if claim.refusal and now > claim.created + start_limit_seconds(job.spec):
            return Outcome(State.FAILED, FAILED_CREATE, claim.refusal)
        return True

    async def _proceed(self, run: Run, claim: Claim, *, not_before: int) -> None:
        """As the claim's holder: skip, wait, or launch."""
        verdict = self._why_skip(run) or await self._verdict(run)
        if isinstance(verdict, Outcome):
            await self._settle(claim, verdict)
        elif isinstance(verdict, Held):
            await self._wait(claim, verdict)
        if verdict is not Taken.YES:
            return
        result = await self._launcher.create(
            run, Window(not_before - COMMIT_SECONDS, claim.launch_before), timeout_seconds=claim.launch_timeout_seconds
        )
        await self._after(run, claim, result)

    async def _verdict(self, run: Run) -> Outcome | Held | Taken:
        """Whether others are in its way. Of a unit its ledger has told; and where there are only units, there is nothing to start."""
        if run.podless:
            return _PODLESS
        return Taken.YES if run.unit else await self._overlap.verdict(run)

    def _why_skip(self, run: Run) -> Outcome | None:
        """Why a run does not start at all. One that has begun goes on, as the retries of a Job do; and one by hand is wanted now."""
        if self._store.asked.is_canceled(run.key):
            return RUN_DELETED
        if run.attempt > 1 or run.trigger is Trigger.MANUAL or run.unit:
            return None
        spec = run.job.spec
        if spec.suspend:
            return Outcome(State.SKIPPED, "Suspended", "The job was suspended before this firing could start")
        start, now = self._start_time(run), self._clock.now()
        if not in_time(spec, start, now):
            deadline = f"within startingDeadlineSeconds ({spec.starting_deadline_seconds})"
            why = f"It could not start {deadline}: it was {now - start:.1f} s late"
            return Outcome(State.MISSED, "StartingDeadlineExceeded", why)
        due = run.trigger is Trigger.SCHEDULE
        if due and comes_after_others(run.job, self._store.entries(run.job.uid), run.firing):
            return Outcome(
                State.SKIPPED, "Overlap", "concurrencyPolicy is Forbid and missed firings are caught up first"
            )
        return None

    async def _after(self, run: Run, claim: Claim, result: Launched) -> None:
        match result.launch:
            case Launch.LAUNCHED:
                self._tell(self._launched, run)
                log.info("launched %s", run.pod_name, extra=logs.of_run(run))
            case Launch.INVALID:
                await self._settle(claim, Outcome(State.FAILED, "PodInvalid", result.message))
            case Launch.TAKEN:
                await self._settle(claim, Outcome(State.FAILED, "PodNameTaken", result.message))
            case Launch.LEAVING:
                log.info("it fires no more: %s", result.message, extra=logs.of_run(run))
                self._store.mark_deleting(run.job.uid)
            case Launch.REFUSED:
                log.warning("Pod %s was refused: %s", run.pod_name, result.message, extra=logs.of_run(run))
                changed = await self._claims.refuse(claim, result.message)
                if changed is not None:
                    self._store.put_claim(changed)
                self._warn(run.job, FAILED_CREATE, result.message)
            case Launch.UNKNOWN:
                log.warning("Pod %s is in doubt: %s", run.pod_name, result.message, extra=logs.of_run(run))

    async def _wait(self, claim: Claim, held: Held) -> None:
        changed = await self._claims.wait(claim, held.name)
        if changed is not None:
            self._store.put_claim(changed)
            log.info("waits for %s", held.name, extra=logs.of_claim(claim))

    async def _settle(self, claim: Claim, outcome: Outcome) -> None:
        changed = await self._claims.settle(claim, outcome)
        if changed is not None:
            self._store.put_claim(changed)
            log.info("%s, %s: %s", outcome.state, outcome.reason, outcome.message, extra=logs.of_claim(claim))

    async def read_job(self, uid: str) -> int | None:
        """Bring the store's job up to date by a quorum read: the server's clock at that read.

        None where it could not be read; the store drops it where it is gone or another has its name.
        """
        known = self._store.jobs.get(uid)
        if known is None:
            return None
        began = self._clock.now()
        answer = await self._api.get(object_path(JOBS, known.namespace, known.name))
        if answer.ending is Ending.ABSENT:
            self._store.bury_job(uid)
            return None
        if not answer.done:
            return None
        job = read_job(answer.document)
        if job.uid != uid:
            self._store.bury_job(uid)
            return None
        self._store.put_job(job)
        if uid in self._store.jobs:
            self._store.read_times[uid] = began
        return answer.date

    async def verify(self, job: Job, entry: Entry) -> None:
        """Read the Pod of a run whose record is open and whose Pod no view shows."""
        run = self._run(job, entry)
        found = await self._launcher.read(run)
        if isinstance(found, PodSight):
            self._store.put_pod(found)
        elif found in {Ending.ABSENT, Ending.EXISTS}:
            self._store.put_pod(lost_pod(job, entry, now=int(self._clock.now())))

    def _is_ours(self, job: Job) -> bool:
        """Whether no other installation serves the job by now: its claims are elsewhere, where ours do not count."""
        return not is_foreign(job, served_by=self._served_by())

    def _is_told(self, key: str) -> bool:
        """Whether all is known that a run is to be told: one by hand is told what its request says, or is cancelled."""
        asked = self._store.asked
        return not request_of(key) or asked.of_run(key) is not None or asked.is_canceled(key)

    def _run(self, job: Job, line: Entry) -> Run:
        key, of_unit, fan_out = line.id, is_unit_key(line.id), job.spec.fan_out
        plan, request = self._plans(job), self._store.asked.of_run(key)
        run = Run(job, firing_of(key), line.trigger, attempt_of(key), request=request_of(key))
        if of_unit:
            run = replace(run, unit=line.unit)
        elif fan_out is not None or line.unit:
            planned = fan_out is not None and fan_out.plan is not None and not line.unit
            run = replace(run, plan=planned, podless=not planned)
        if request is not None:
            run = replace(run, scheduled=request.scheduled, options=request.options)
        zones = plan.zones_at(run.scheduled_time) if plan is not None else ()
        return replace(run, zones=zones or (given_zones(job.spec.timing) if run.request else ()))


def _launch_unknown(why: str) -> Outcome:
    return Outcome(State.FAILED, "LaunchUnknown", f"Whether it was launched is not known: {why}; not launched again")
