"""Writes of a ScheduledJob's status: observe a generation, settle what is late, report what is seen.

Each is conditional on the UID and revision that it rests on. A conflict costs a read and another look; nothing is overwritten
unseen. A job's own writes never overlap in one replica, and all of them yield to launches.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from enum import IntEnum
from functools import partial
from typing import Any

from . import logs, names
from .admission import Admission
from .api import JOBS, LEASES, Api, Ending, Listing, object_path
from .attempts import FAILED_CREATE
from .decision import is_foreign, is_served, late_until, may_fire
from .errors import ApiError
from .events import Recorder
from .health import Health
from .launcher import Launcher
from .manifests import Run, Window
from .model import Claim, Entry, Firings, Job, Trigger
from .observing import (
    NO_FIRINGS,
    SHORT_DEADLINE,
    Trial,
    edit_instant,
    is_rescheduled,
    observe,
    observed_status,
    old_plan,
)
from .reading import read_claim, read_job
from .report import HEALTHY, lines_of, merge_patch, report
from .settling import settle
from .starter import Plans, Starter
from .store import Store
from .story import LOGGED, story
from .tallies import Tallies
from .text import safe
from .transport import TransportError
from .windows import LATE_SECONDS

log = logging.getLogger(__name__)

_TOGETHER = 8
_RETRY_SECONDS = 1.0
_YIELD_SECONDS = 5.0
_YIELD_SHARE = 2.0  # of the time that a report took, until the next while launches are under way
_LOOK_AGAIN_SECONDS = 0.1
_REST_MOST_SECONDS = 300.0


class Need(IntEnum):
    """Why a status must be written; a greater one includes the lesser ones."""

    REPORT = 1
    BEGIN = 2  # a run by hand
    SETTLE = 3
    OBSERVE = 4


class StatusWriter:
    """The queue of statuses to write. `told`: what is known of a job's runs that are in their units."""

    def __init__(
        self,
        api: Api,
        store: Store,
        starter: Starter,
        launcher: Launcher,
        admission: Admission,
        recorder: Recorder,
        plans: Plans,
        *,
        namespace: str,
        default_zone: str,
        served_by: Callable[[], str],
        busy: Callable[[], bool],
        written: Callable[[str, bool], None],
        told: Callable[[str], Iterable[Entry]],
    ) -> None:
        self._api = api
        self._store = store
        self._starter = starter
        self._launcher = launcher
        self._admission = admission
        self._recorder = recorder
        self._plans = plans
        self._namespace = namespace
        self._default_zone = default_zone
        self._served_by = served_by
        self._busy = busy
        self._written = written
        self._told = told
        self._needs: dict[str, Need] = {}
        self._queue: deque[str] = deque()
        self._tasks: dict[str, asyncio.Task[bool]] = {}
        self._rests: dict[str, tuple[float, float]] = {}  # of what failed as nothing should: until when, and how long
        self._busy_since: float | None = None
        self._no_report_until = 0.0
        self._again: asyncio.TimerHandle | None = None
        self.tallies = Tallies(store)
        store.on_job.append(self._job_changed)

    def __len__(self) -> int:
        return len(self._needs) + len(self._tasks)

    def ask(self, uid: str, need: Need) -> None:
        """Ask for a job's status to be written, soon; in vain while it rests from a failure."""
        if self._is_resting(uid):
            return
        if uid not in self._needs:
            self._queue.append(uid)
        self._needs[uid] = max(need, self._needs.get(uid, need))
        self._fill()

    def at_work(self, uid: str) -> bool:
        """Whether a write of this job is under way or asked for, or rests from a failure."""
        return uid in self._tasks or uid in self._needs or self._is_resting(uid)

    def _job_changed(self, uid: str) -> None:
        """It is another now, and may fare better."""
        self._rests.pop(uid, None)

    def _is_resting(self, uid: str) -> bool:
        return uid in self._rests and asyncio.get_running_loop().time() < self._rests[uid][0]

    def _rest(self, uid: str, now: float) -> None:
        """After a failure that nobody has foreseen, which the next attempt most likely meets too."""
        pause = min(_REST_MOST_SECONDS, 2 * self._rests.get(uid, (0.0, _RETRY_SECONDS / 2))[1])
        self._rests[uid] = now + pause, pause

    async def flush(self) -> None:
        """Write all that is asked for."""
        while self._tasks or self._needs:
            self._fill()
            if not self._tasks:
                return
            await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            await asyncio.sleep(0)

    def _fill(self) -> None:
        reports = self._room_for_reports()
        for _ in range(len(self._queue)):
            if len(self._tasks) >= _TOGETHER:
                return
            uid = self._queue.popleft()
            if uid in self._tasks or (self._needs[uid] is Need.REPORT and len(self._tasks) >= reports):
                self._queue.append(uid)
                continue
            self._tasks[uid] = asyncio.get_running_loop().create_task(self._write(uid, self._needs.pop(uid)))
            self._tasks[uid].add_done_callback(partial(self._done, uid, asyncio.get_running_loop().time()))

    def _room_for_reports(self) -> int:
        """They yield to launches: none for some seconds, then one at a time, with pauses. A job not observed has none to yield to."""
        loop = asyncio.get_running_loop()
        if not self._busy():
            self._busy_since = None
            return _TOGETHER
        if self._busy_since is None:
            self._busy_since = loop.time()
        if loop.time() >= max(self._busy_since + _YIELD_SECONDS, self._no_report_until):
            return 1
        if self._again is None and self._queue:
            self._again = loop.call_later(_LOOK_AGAIN_SECONDS, self._look_again)
        return 0

    def _look_again(self) -> None:
        self._again = None
        self._fill()

    def _done(self, uid: str, began: float, task: asyncio.Task[bool]) -> None:
        del self._tasks[uid]
        now = asyncio.get_running_loop().time()
        self._no_report_until = now + _YIELD_SHARE * (now - began)
        failed = task.cancelled() or task.exception() is not None
        if failed and not task.cancelled():
            fields = logs.of_job(self._store.jobs.get(uid))
            log.error("the status could not be written", exc_info=task.exception(), extra=fields)
            self._rest(uid, now)
        elif not failed:
            self._rests.pop(uid, None)
        self._written(uid, not failed and task.result())
        self._fill()

    async def _write(self, uid: str, need: Need) -> bool:
        """True where the status is as it should be."""
        try:
            if need is Need.OBSERVE:
                return await self._observe(uid)
            if need is Need.SETTLE:
                return await self._settle(uid)
            return await self._report(uid)
        except (ApiError, TransportError) as error:
            fields = logs.of_job(self._store.jobs.get(uid))
            log.warning("the status could not be written: %s", error, extra=fields)
            await asyncio.sleep(_RETRY_SECONDS)
            return False

    async def _report(self, uid: str) -> bool:
        job = self._store.jobs.get(uid)
        if job is None or not job.observed:
            return True
        asked: list[Entry] = []
        if is_served(job, served_by=self._served_by()):
            asked = await self._admission.lines(job, self._store.entries(uid))
        lines = lines_of(job, self._store.firings_of(uid), asked, self._told(uid))
        kept, now = self._admission.awaited(lines.values()), int(self._api.clock.now())
        return await self._put(job, report(job, self._plans(job), lines, now=now, awaited=kept), lines)

    async def _settle(self, uid: str) -> bool:
        """The late path. 1. Read the job. 2. List its claims. 3. Settle all that is unclaimed in one write at the read's revision."""
        if await self._starter.read_job(uid) is None:
            return False
        job = self._store.jobs[uid]
        plan = self._plans(job)
        if plan is None or not may_fire(job, served_by=self._served_by()):
            return True
        listing, claims = await self._claims(job)
        now = listing.date or int(self._api.clock.now())
        latest = plan.previous(now)
        settled = settle(
            job,
            plan,
            until=late_until(job, plan, now),
            claims={**self._store.firings_of(uid).pods, **claims},
            entries=self._store.entries(uid),
            now=now,
            latest=latest is not None and latest <= now - LATE_SECONDS,
        )
        lines = lines_of(job, self._store.firings_of(uid), settled.entries)
        kept = self._admission.awaited(lines.values())
        return await self._put(job, report(job, plan, lines, now=now, awaited=kept), lines)

    async def _claims(self, job: Job) -> tuple[Listing, dict[str, Claim]]:
        selector = f"{names.LABEL_ROLE}={names.ROLE_CLAIM},{names.LABEL_JOB_UID}={job.uid}"
        listing = await self._api.list(
            LEASES.format(self._namespace), query={"labelSelector": selector}, metadata_only=True
        )
        claims = [claim for item in listing.items if (claim := read_claim(item)) is not None]
        return listing, {claim.key: claim for claim in claims}

    async def _observe(self, uid: str) -> bool:
        job = self._store.jobs.get(uid)
        if job is None:
            return True
        now = int(self._api.clock.now())
        trial = await self._try(job)
        seen = observe(job, trial, anchor=job.created, default_zone=self._default_zone)
        if not is_rescheduled(job, seen.line):
            scheduled_from = job.status.scheduled_from or job.created
            return await self._put_observed(
                job, trial, now=now, scheduled_from=scheduled_from, watermark=job.recorded_until
            )
        if job.status.scheduled_from is None:
            instant = edit_instant(job, now=now)
            return await self._put_observed(job, trial, now=now, scheduled_from=instant, watermark=instant)
        return await self._reschedule(uid, trial)

    async def _reschedule(self, uid: str, trial: Trial) -> bool:
        """The schedule has changed: settle the old one up to the edit's instant, in the write that observes the new one."""
        if await self._starter.read_job(uid) is None:
            return False
        job = self._store.jobs[uid]
        listing, claims = await self._claims(job)
        now = listing.date or int(self._api.clock.now())
        instant = edit_instant(job, now=now)
        plan = old_plan(job)
        lines: tuple[Entry, ...] = ()
        if plan is not None:
            lines = settle(
                job,
                plan,
                until=instant,
                claims={**self._store.firings_of(uid).pods, **claims},
                entries=self._store.entries(uid),
                now=now,
                latest=not job.spec.suspend,
            ).entries
        watermark = max(job.recorded_until, instant)
        return await self._put_observed(job, trial, now=now, scheduled_from=instant, watermark=watermark, settled=lines)

    async def _put_observed(
        self,
        job: Job,
        trial: Trial,
        *,
        now: int,
        scheduled_from: int,
        watermark: int,
        settled: tuple[Entry, ...] = (),
    ) -> bool:
        seen = observe(job, trial, anchor=scheduled_from, default_zone=self._default_zone)
        lines = lines_of(job, Firings(), settled)
        status = observed_status(
            job,
            seen,
            now=now,
            served_by=self._served_by(),
            namespace=self._namespace,
            scheduled_from=scheduled_from,
            watermark=watermark,
            lines=lines,
            awaited=self._admission.awaited(lines.values()),
        )
        if not await self._put(job, status, lines):
            return False
        self._tell(job, status)
        return True

    def _tell(self, job: Job, status: Mapping[str, Any]) -> None:
        """Warn of what keeps the job from firing, where its author looks, and that it has been adopted."""
        if is_foreign(job, served_by=self._served_by()):
            left = (
                f"It was left unserved by the installation {job.status.served_by}, and is served by {self._served_by()}"
            )
            self._recorder.warn(job, "Adopted", left)
        for condition in status["conditions"]:
            unready = condition["type"] == "Ready" and condition["status"] == "False"
            if unready or condition["reason"] in {NO_FIRINGS, SHORT_DEADLINE}:
                self._recorder.warn(job, condition["reason"], condition["message"])
            elif condition["type"] == "PodTemplateValid" and condition["status"] == "Unknown":
                self._recorder.warn(job, FAILED_CREATE, condition["message"])

    def _tell_story(self, before: Job, after: Job, lines: Mapping[str, Entry]) -> None:
        """Events of what is new; log lines of ends, for which nobody has decided."""
        for told in story(before.status.entries(), lines):
            self._recorder.tell(after, told)
            if told.reason in LOGGED:
                level = logging.WARNING if told.warning else logging.INFO
                log.log(level, "%s", told.message, extra=logs.of_line(after, lines[told.line]))

    def _tell_health(self, before: Job, after: Job, status: Mapping[str, Any]) -> None:
        """An Event where a job turns unhealthy, and where it has succeeded again."""
        was, now = before.status.health, after.status.health
        message = next((c["message"] for c in status["conditions"] if c["type"] == HEALTHY), "")
        if now == Health.UNHEALTHY and was != now:
            self._recorder.warn(after, now, message)
        elif was == Health.UNHEALTHY and now == Health.HEALTHY:
            self._recorder.reassure(after, now, message)

    async def _try(self, job: Job) -> Trial:
        """What the API server says to a Pod of the template: asked once a generation, by a dry run."""
        if job.spec.invalid:
            return Trial()
        now, run, fan_out = int(self._api.clock.now()), Run(job, job.created, Trigger.SCHEDULE), job.spec.fan_out
        trials = [("spec.template", run)]
        if fan_out is not None and fan_out.plan is not None:
            trials.append(("spec.fanOut.plan", replace(run, plan=True)))
        for field, tried in trials:
            answer = await self._launcher.trial(tried, Window(now - 60, now + 60))
            if answer.ending is Ending.REFUSED:
                said = safe(f"{field}: {answer.message}")
                return Trial(error=said) if answer.status in {400, 422} else Trial(doubt=said)
        return Trial()

    async def _put(self, job: Job, status: Mapping[str, Any], lines: Mapping[str, Entry]) -> bool:
        """Write a status at the job's revision; True where it is written, or need not be. `lines`: also those that it drops."""
        patch = merge_patch(job.status.document(), status)
        if not patch:
            return True
        document = {"metadata": {"uid": job.uid, "resourceVersion": str(job.revision)}, "status": patch}
        answer = await self._api.patch(object_path(JOBS, job.namespace, job.name) + "/status", document)
        if answer.done:
            self.tallies.record(job, lines)
            after = read_job(answer.document)
            self._store.put_job(after)
            self._tell_story(job, after, lines)
            self._tell_health(job, after, status)
            return True
        if answer.ending is Ending.CONFLICT or answer.ending is Ending.ABSENT:
            await self._starter.read_job(job.uid)
        else:
            log.warning("the status was refused: %s %s", answer.ending, answer.message, extra=logs.of_job(job))
            await asyncio.sleep(max(_RETRY_SECONDS, answer.retry_after_seconds))
        return False
