"""What each job wants now, looked at whenever something about it changed or its next instant has come.

A look is quick and writes nothing: it hands due firings to `Turns`, writes to `StatusWriter`, and loose ends (a claim without a Pod,
a firing to be claimed, a run whose Pod is in no view) to `Starter`. What it hands out may be lost on the way: the next look finds
it again, here or on another replica, which looks a little later the lower it ranks.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import partial
from typing import Any

from . import logs
from .adoptions import Adoptions
from .agenda import STALL_SECONDS, Agenda
from .attempts import waits_until
from .clock import ServerClock
from .decision import (
    UNRECORDED_MOST,
    first_unclaimed,
    gathering_seconds,
    is_foreign,
    is_full,
    late_until,
    may_fire,
    start_time,
    takeover_time,
    untold,
)
from .health import Health, judge, surely_healthy_until, vitals_of
from .membership import Membership
from .model import Claim, Job, PodSight, State, Trigger
from .names import run_key
from .plan import Plan
from .plans import PlanBook
from .starter import Starter
from .status import Need, StatusWriter
from .store import Store
from .turns import Due, Turns
from .upkeep import Upkeep
from .waiting import loose_lines
from .windows import LATE_SECONDS, ON_TIME_SECONDS

log = logging.getLogger(__name__)

_SOON_SECONDS = 0.1  # events about a job that come together are one look
_REPORT_SECONDS = 2.0  # a job's reports are so far apart
_STARTING_SECONDS = 3.0  # a run that starts is reported once it runs, or by then
_BUSY_REPORT_SECONDS = 10.0  # where it fires so often that one report tells of many firings
_MANY_FIRINGS = 4
_OBSERVE_STEP_SECONDS = 0.3  # by rank
_REPORT_STEP_SECONDS = 5.0
_TAKEOVER_STEP_SECONDS = 1.0
_LATE_STEP_SECONDS = 2.0
_VERIFY_SECONDS = 3.0
_LOOSE_ENDS_TOGETHER = 16
_LOOSE_SECONDS = 1.0
_AGAIN_SECONDS = 2.0
_MANY_CLAIMS = 10
_NEVER = math.inf


class Desk:
    """Looks at jobs."""

    def __init__(
        self,
        store: Store,
        clock: ServerClock,
        plans: PlanBook,
        membership: Membership,
        upkeep: Upkeep,
        *,
        served_by: Callable[[], str],
        views_live: Callable[[], bool],
        scheduling: bool,
    ) -> None:
        self._store = store
        self._clock = clock
        self._plans = plans
        self._membership = membership
        self._upkeep = upkeep
        self._served_by = served_by
        self._adoptions = Adoptions(store, clock, plans, served_by=served_by, look=self._look_soon)
        self._views_live = views_live
        self._scheduling = scheduling
        self._closed = False
        self.agenda = Agenda(clock, self.attend, set_back=self._forget_instants)
        self._cursors: dict[str, tuple[int, int, int]] = {}  # uid: generation, anchor, last firing handed out
        self._known: set[str] = set()
        self._dirty: dict[str, float] = {}
        self._reported: dict[str, float] = {}
        self._loose_times: dict[str, float] = {}
        self._needs: dict[str, dict[str, float]] = {}  # by job: what it needs that is not done at once, and when
        self._loose_ends: dict[tuple[str, str], asyncio.Task[None]] = {}
        store.on_job.append(self._job_changed)
        store.on_claim.append(self._claim_changed)
        store.on_pod.append(self._pod_changed)
        store.on_members.append(self._members_changed)

    def open(self, turns: Turns, writer: StatusWriter, starter: Starter) -> None:
        """Say to whom work is handed."""
        self._turns = turns
        self._writer = writer
        self._starter = starter

    def written(self, uid: str, *, done: bool) -> None:
        """A job's status is as it should be; or it could not be written, and is looked at again."""
        self._reported[uid] = self._clock.now()
        if not done:
            self._soil(uid)
        if uid in self._store.jobs:
            self._look_soon(uid)

    def _job_changed(self, uid: str) -> None:
        if uid not in self._known and uid in self._store.jobs:
            self._known.add(uid)
            if uid in self._store.firings:  # seen before the job was, and not reported for that
                self._soil(uid)
        self.agenda.bring_forward(uid, self._clock.now())

    def _claim_changed(self, claim: Claim) -> None:
        self._soil(claim.job_uid, 0.0 if claim.outcome is not None else _STARTING_SECONDS)

    def _pod_changed(self, pod: PodSight) -> None:
        starting = pod.state is State.PENDING and not pod.reason and not pod.deleted
        self._soil(pod.job_uid, _STARTING_SECONDS if starting else 0.0)

    def _look_soon(self, uid: str) -> None:
        self.agenda.bring_forward(uid, self._clock.now() + _SOON_SECONDS)

    def _members_changed(self) -> None:
        """Ranks are others now: what waited for a replica that has gone waits no more."""
        for uid in self._dirty:
            self.agenda.bring_forward(uid, self._clock.now())

    def _soil(self, uid: str, seconds: float = 0.0) -> None:
        """Something is to be reported, so long from now at the latest."""
        now = self._clock.now()
        self._dirty[uid] = min(self._dirty.get(uid, math.inf), now + seconds)
        self.agenda.bring_forward(uid, now + _SOON_SECONDS)

    def attend(self, uid: str) -> None:
        """Look at one job. Whatever goes wrong with it stays with it."""
        try:
            wake = self._look(uid)
        except Exception:
            log.exception("it could not be looked at", extra=logs.of_job(self._store.jobs.get(uid)))
            wake = self._clock.now() + 30
        if wake < _NEVER:
            self.agenda.bring_forward(uid, wake)

    def _look(self, uid: str) -> float:
        job = self._store.jobs.get(uid)
        if job is None:
            self._forget(uid)
            return _NEVER
        now = self._clock.now()
        ranks = self._membership.ranks(uid)
        rank = ranks.index(self._membership.replica) if self._membership.replica in ranks else len(ranks)
        if job.deleting:
            return _NEVER
        foreign = is_foreign(job, served_by=self._served_by())
        if foreign and now <= (adoption := self._adoptions.time(job)):
            return adoption
        if not job.observed or foreign or not job.status.served_by:
            return min(self._observe(job, now, rank), self._takeovers(job, self._untold(job), now, rank))
        plan = self._plans(job)
        wake = _NEVER
        if plan is not None and may_fire(job, served_by=self._served_by()):
            wake = self._due(job, plan, now, rank)
        wake = min(wake, self._judge(job, plan, now))
        return min(wake, self._look_for_loose_ends(job, now, rank), self._report(job, now, rank))

    def _judge(self, job: Job, plan: Plan | None, now: float) -> float:
        """When the job's health turns; where it is other than its status says, that is reported."""
        vitals, shown = vitals_of(job), job.status.health
        surely = surely_healthy_until(plan, vitals) if plan is not None and shown == Health.HEALTHY else None
        if surely is not None and now < surely:
            return surely
        verdict = judge(plan, vitals, now=now)
        if verdict.health != shown:
            self._dirty.setdefault(job.uid, now)
        return _NEVER if verdict.turns is None else verdict.turns

    def _look_for_loose_ends(self, job: Job, now: float, rank: int) -> float:
        """Once a second where a job has so many claims that looking through them at each event would cost more than they do."""
        again = self._loose_times.get(job.uid, 0.0)
        if now < again:
            return again
        if len(self._store.firings_of(job.uid).claims) > _MANY_CLAIMS:
            self._loose_times[job.uid] = now + _LOOSE_SECONDS
        untold_claims = list(self._untold(job))
        wake = min(self._takeovers(job, untold_claims, now, rank), self._keep_up(job, untold_claims, now, rank))
        return min(wake, self._open_lines(job, now, rank))

    def _observe(self, job: Job, now: float, rank: int) -> float:
        need = f"generation {job.generation}"
        when = self._needs.get(job.uid, {}).get(need, now + rank * _OBSERVE_STEP_SECONDS)
        if now >= when:
            when = now + 1.0
            if not self._writer.at_work(job.uid):
                self._writer.ask(job.uid, Need.OBSERVE)
        self._needs[job.uid] = {need: when}
        return when

    def _due(self, job: Job, plan: Plan, now: float, rank: int) -> float:
        """Hand out the firings whose time has come; settle those that nobody has claimed for a minute."""
        uid = job.uid
        claims = self._store.firings_of(uid).claims
        cursor = self._cursor(job)
        following = plan.next_after(max(cursor, int(now) - ON_TIME_SECONDS - job.spec.jitter_ms // 1000 - 1))
        while following is not None and (start := start_time(job, plan, following)) <= now:
            if not self._scheduling or is_full(job) or self._is_unwritten(job, len(claims)):
                return min(now + 1.0, self._late(job, plan, now, rank))
            if (
                (key := run_key(following)) not in claims
                and not self._store.recorded(uid, key, ended=False)
                and now <= start + ON_TIME_SECONDS
            ):
                careful = now - start > STALL_SECONDS or not self._views_live()
                self._turns.add(Due(uid, following, start, job.generation, careful))
            self._cursors[uid] = job.generation, plan.anchor, following
            following = plan.next_after(following)
        wake = _NEVER if following is None else start_time(job, plan, following)
        return min(wake, self._late(job, plan, now, rank))

    def _cursor(self, job: Job) -> int:
        generation, anchor, cursor = self._cursors.get(job.uid, (0, 0, 0))
        if generation != job.generation or anchor != job.status.scheduled_from:
            return job.recorded_until
        return max(cursor, job.recorded_until)

    def _is_unwritten(self, job: Job, claims: int) -> bool:
        """Whether so many claims have no record that no more should be made."""
        if claims < UNRECORDED_MOST:
            return False
        claims_made = self._store.firings_of(job.uid).claims.values()
        above = [claim.key for claim in claims_made if claim.firing > job.recorded_until]
        if len(above) < UNRECORDED_MOST:
            return False
        return sum(not self._store.recorded(job.uid, key, ended=False) for key in above) >= UNRECORDED_MOST

    def _late(self, job: Job, plan: Plan, now: float, rank: int) -> float:
        if not self._scheduling:
            return _NEVER
        oldest = plan.next_after(job.recorded_until)
        if oldest is None:
            return _NEVER
        patience = 1 + rank * _LATE_STEP_SECONDS
        if now < (when := start_time(job, plan, oldest) + LATE_SECONDS + patience):
            return when
        until = late_until(job, plan, now - patience)
        known = {*self._store.firings_of(job.uid).claims, *self._store.entries(job.uid)}
        late = first_unclaimed(plan, after=job.recorded_until, until=until, known=known)
        if late is not None and until < late + gathering_seconds(job, late):
            return now + _LATE_STEP_SECONDS
        if late is not None and self._views_live() and not self._writer.at_work(job.uid):
            self._writer.ask(job.uid, Need.SETTLE)
        return now + _LATE_STEP_SECONDS

    def _untold(self, job: Job) -> Iterator[Claim]:
        """Claims that have neither Pod nor outcome, as far as they may be launched from here."""
        firings = self._store.firings_of(job.uid)
        entries = self._store.entries(job.uid) if job.status.live else {}
        for claim in firings.claims.values():
            if (
                self._may_start(claim.trigger)
                and untold(claim, firings.pods, entries)
                and not self._store.recorded(job.uid, claim.key, ended=True)
            ):
                yield claim

    def _may_start(self, trigger: Trigger) -> bool:
        return self._scheduling or trigger is Trigger.MANUAL

    def _takeovers(self, job: Job, claims: Iterable[Claim], now: float, rank: int) -> float:
        """Claims to be taken over, once no Pod of their holders can come any more."""
        wake = _NEVER
        for claim in claims:
            if claim.waits_for:
                continue
            when = takeover_time(claim) + rank * _TAKEOVER_STEP_SECONDS
            if now >= when and self._views_live():
                self._tie(job.uid, claim.key, partial(self._starter.take_over, claim))
                when = now + 2.0
            wake = min(wake, max(when, now + 0.5))
        return wake

    def _open_lines(self, job: Job, now: float, rank: int) -> float:
        """Lines of the history that are to be claimed, and runs whose Pod is in no view."""
        before, needs, wake = self._needs.pop(job.uid, {}), {}, _NEVER
        to_claim: list[str] = []
        for entry in loose_lines(job, self._store.entries(job.uid), self._store.firings_of(job.uid), now=now):
            if now < (start := waits_until(entry)):
                wake = min(wake, start)
                continue
            patience = 0.0 if entry.to_claim else _VERIFY_SECONDS
            when = before.get(entry.id, now + patience + rank * _LATE_STEP_SECONDS)
            if now >= when:
                when = now + _AGAIN_SECONDS
                if entry.to_claim:
                    to_claim += [entry.id] if self._may_start(entry.trigger) else []
                elif self._views_live():
                    self._tie(job.uid, entry.id, partial(self._starter.verify, job, entry))
            needs[entry.id] = when
            wake = min(wake, when)
        if to_claim and self._views_live():
            self._tie(job.uid, "what is to be claimed", partial(self._claim_in_order, job.uid, to_claim))
        if needs:
            self._needs[job.uid] = needs
        return wake

    async def _claim_in_order(self, uid: str, keys: list[str]) -> None:
        """One after another: what is caught up starts with the oldest, also where all of it runs at once."""
        for key in keys:
            if not self._closed:
                await self._starter.pending(uid, key)

    def _keep_up(self, job: Job, claims: Iterable[Claim], now: float, rank: int) -> float:
        """Runs, those that wait for others, and the run lease, as far as they need something."""
        waiting = [(claim.key, partial(self._starter.take_over, claim)) for claim in claims if claim.waits_for]
        wake, acts = self._upkeep.look(job, now, rank, waiting)
        for act in acts:
            self._tie(job.uid, act.key, act.do)
        return wake

    def _tie(self, uid: str, key: str, act: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Tie up a loose end, once at a time, not too many together."""
        if self._closed or (uid, key) in self._loose_ends or len(self._loose_ends) >= _LOOSE_ENDS_TOGETHER:
            return
        task = asyncio.get_running_loop().create_task(act())
        self._loose_ends[uid, key] = task
        task.add_done_callback(lambda done: self._tied(uid, key, done))

    def _tied(self, uid: str, key: str, task: asyncio.Task[None]) -> None:
        del self._loose_ends[uid, key]
        if not task.cancelled() and task.exception() is not None:
            fields = logs.of_job(self._store.jobs.get(uid))
            log.error("%s could not be taken up", key, exc_info=task.exception(), extra=fields)
        self._soil(uid)

    def _report(self, job: Job, now: float, rank: int) -> float:
        """Write what is seen, where it differs from the status: the first in rank does, others where it is left undone."""
        uid = job.uid
        since = self._dirty.get(uid)
        if since is None:
            return _NEVER
        pause = _BUSY_REPORT_SECONDS if self._fires_often(job) else _REPORT_SECONDS
        when = max(self._reported.get(uid, 0.0) + pause, since + rank * (pause + _REPORT_STEP_SECONDS))
        if now < when:
            return when
        if not self._views_live() or self._writer.at_work(uid):
            return now + _REPORT_SECONDS
        del self._dirty[uid]
        self._writer.ask(uid, Need.REPORT)
        return _NEVER

    def _fires_often(self, job: Job) -> bool:
        """Whether several firings have been claimed since the last that is on record."""
        unrecorded = 0
        for claim in reversed(self._store.firings_of(job.uid).claims.values()):
            if claim.firing <= job.recorded_until or unrecorded >= _MANY_FIRINGS:
                break
            unrecorded += 1
        return unrecorded >= _MANY_FIRINGS

    def _forget_instants(self) -> None:
        self._cursors, self._reported, self._loose_times, self._needs = {}, {}, {}, {}
        self._dirty = dict.fromkeys(self._dirty, 0.0)

    def _forget(self, uid: str) -> None:
        for known in (self._cursors, self._dirty, self._reported, self._loose_times, self._needs):
            known.pop(uid, None)
        self._known.discard(uid)
        self._plans.forget(uid)
        self._membership.forget(uid)

    @property
    def under_way(self) -> int:
        """Loose ends that are being tied up."""
        return len(self._loose_ends)

    async def close(self) -> None:
        """Tie up the loose ends under way and no more; have what is seen and not yet reported written at once."""
        self._closed = True
        if self._loose_ends:
            await asyncio.wait(list(self._loose_ends.values()))
        if self._views_live():
            for uid in [uid for uid in self._dirty if self._membership.ranks(uid)[0] == self._membership.replica]:
                del self._dirty[uid]
                self._writer.ask(uid, Need.REPORT)
