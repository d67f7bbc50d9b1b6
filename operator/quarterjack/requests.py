"""ScheduledJobRuns: answers them, tells each how its run is, follows up their deletion, and deletes them as the limits say.

The run itself goes the way of all runs (see `starter`): it begins with a line in its job's history, see `by_hand`. What a replica
leaves undone another does a little later, the lower it ranks; every write is conditional on the revision that it rests on.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Mapping, Set
from typing import Any, NamedTuple

import orjson

from . import names
from .admission import ALL_RUNS, RUNS, Admission
from .agenda import Agenda
from .api import JOBS, Api, Ending, object_path
from .by_hand import (
    Refusal,
    accepted_status,
    is_to_begin,
    last_line,
    over_status,
    refusal_of,
    refused_status,
    told_status,
)
from .decision import is_served
from .errors import ApiError
from .events import Recorder, Regarded
from .model import Job, Request
from .ranks import ranked
from .reading import read_job, read_request
from .report import merge_patch
from .starter import Starter
from .store import Store
from .story import Told
from .text import safe
from .transport import TransportError

log = logging.getLogger(__name__)

KIND = "ScheduledJobRun"
_STEP_SECONDS = 2.0  # by rank
_AGAIN_SECONDS = 2.0
_BUSY_SECONDS = 0.05
_TOGETHER = 16
_KEEP_SECONDS = 60  # a run that is over can be looked at for so long, whatever the limits say
_REFUSED_SECONDS = 86_400
_LOST_SECONDS = 60.0
_SEEK_SECONDS = 10.0
_SWEEP_SECONDS = 60.0
_REQUESTS_PER_SECOND = 200

Do = Callable[[], Coroutine[Any, Any, object]]


class Need(NamedTuple):
    """What a request wants done, and from when on."""

    what: str
    when: float
    act: Do


class RunRequests:
    """Looks after ScheduledJobRuns. `write`: has a job's status written, and with it the lines of runs that are to begin.

    `attend`: looks at a job.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        starter: Starter,
        admission: Admission,
        recorder: Recorder,
        *,
        replica: str,
        namespaces: tuple[str, ...],
        served_by: Callable[[], str],
        write: Callable[[str], None],
        attend: Callable[[str], None],
    ) -> None:
        self._api = api
        self._store = store
        self._asked = store.asked
        self._starter = starter
        self._admission = admission
        self._recorder = recorder
        self._replica = replica
        self._paths = [RUNS.format(namespace) for namespace in namespaces] or [ALL_RUNS]
        self._served_by = served_by
        self._write = write
        self._attend_job = attend
        self._since: dict[str, tuple[str, float]] = {}  # by request or job: what it needs, and when that is done next
        self.agenda = Agenda(api.clock, self.attend, set_back=self._since.clear)
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._closed = False
        self._jobs: dict[tuple[str, str], str] = {}  # UIDs, by namespace and name: of those that are asked for
        store.on_job.append(self._job_changed)
        store.asked.on_request.append(self._changed)

    # What is fed

    def apply(self, kind: str | None, item: Mapping[str, Any]) -> None:
        """One event (or, with no kind, one object of a list)."""
        meta = item["metadata"]
        if kind == "DELETED":
            self._asked.bury(meta["uid"])
            return
        try:
            self._asked.put(read_request(item))
        except (KeyError, ValueError, TypeError) as error:
            log.warning("%s %s/%s cannot be read: %s", KIND, meta.get("namespace"), meta.get("name"), safe(str(error)))

    def sweep(self, present: Set[str]) -> None:
        """By their UIDs, all there are, as some list showed them: one that is not among them is looked for."""
        for request in [r for r in self._asked.requests.values() if r.uid not in present]:
            self._do(names.bare(request.uid), lambda request=request: self._admission.read(request))  # type: ignore[misc]

    async def run(self) -> None:
        """Attend to requests, and find at intervals what the feed has not told."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.agenda.run())
            group.create_task(self._sweep_at_intervals())

    async def close(self) -> None:
        """Finish what is under way, and begin nothing more."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))

    async def _sweep_at_intervals(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS + len(self._asked.requests) / _REQUESTS_PER_SECOND)
            if self._asked.requests:
                try:
                    self.sweep({uid for path in self._paths for uid in await self._list(path)})
                except (ApiError, TransportError) as error:
                    log.warning("the %ss could not be listed: %s", KIND, error)

    async def _list(self, path: str) -> dict[str, str]:
        """The names of all requests, by UID."""
        listing = await self._api.list(path, metadata_only=True)
        return {item["metadata"]["uid"]: item["metadata"]["name"] for item in listing.items}

    # What is to be done

    def _changed(self, request: Request) -> None:
        self.agenda.bring_forward(names.bare(request.uid), self._api.clock.now())
        job = self._job(request)
        if job is not None and (self._asked.is_canceled(request.key) or not self._is_ours(job)):
            self._attend_job(job.uid)

    def _job_changed(self, uid: str) -> None:
        job, now = self._store.jobs.get(uid), self._api.clock.now()
        if job is None:
            for place in [place for place, known in self._jobs.items() if known == uid]:
                self._wake(*self._forget_job(place), now=now)
            return
        requests = list(self._asked.of_job(job.namespace, job.name))
        if requests:
            self._jobs[job.namespace, job.name] = uid
        self._wake(*requests, now=now)
        if job.status.by_hand:
            self.agenda.bring_forward(uid, now)

    def _forget_job(self, place: tuple[str, str]) -> list[Request]:
        del self._jobs[place]
        return list(self._asked.of_job(*place))

    def _wake(self, *requests: Request, now: float) -> None:
        for request in requests:
            self.agenda.bring_forward(names.bare(request.uid), now)

    def attend(self, uid: str) -> None:
        """Look at a request, or at a job with runs by hand under way. Whatever goes wrong with it stays with it."""
        now = self._api.clock.now()
        try:
            need = self._need_of_job(uid, now) if uid in self._store.jobs else self._need(uid, now)
        except Exception:
            log.exception("%s of UID %s could not be looked at", KIND, safe(uid))
            self.agenda.bring_forward(uid, now + 30)
            return
        if need is None:
            self._since.pop(uid, None)
            return
        what, when = self._since.get(uid, ("", 0.0))
        if what != need.what:
            members = {*self._store.members, self._replica}
            when = max(now, need.when) + ranked(members, uid).index(self._replica) * _STEP_SECONDS
        if now >= when and self._do(uid, need.act):
            when = now + _AGAIN_SECONDS
        self._since[uid] = need.what, when
        self.agenda.bring_forward(uid, max(when, now + _BUSY_SECONDS))

    def _do(self, uid: str, act: Do) -> bool:
        """Whether it is begun: one thing at a time about a request, and not too many together."""
        if self._closed or uid in self._tasks or len(self._tasks) >= _TOGETHER:
            return False
        task = asyncio.get_running_loop().create_task(self._guarded(act))
        self._tasks[uid] = task
        task.add_done_callback(lambda done: self._done(uid, done))
        return True

    @staticmethod
    async def _guarded(act: Do) -> None:
        try:
            await act()
        except (ApiError, TransportError) as error:
            log.warning("a %s could not be seen to: %s", KIND, error)

    def _done(self, uid: str, task: asyncio.Task[None]) -> None:
        del self._tasks[uid]
        if not task.cancelled() and task.exception() is not None:
            log.error("a %s could not be seen to", KIND, exc_info=task.exception())

    def _need(self, uid: str, now: float) -> Need | None:
        request = self._asked.requests.get(uid)
        if request is None or request.deleting:
            return None
        job = self._job(request)
        if request.accepted is None:
            if job is not None and not self._is_ours(job):
                return None
            return Need("answer", now, lambda: self._answer(request))
        if request.accepted is False:
            return Need("forget", request.created + _REFUSED_SECONDS, lambda: self._delete(request))
        if job is None or (request.owner and request.owner != job.uid):
            return None if request.ended else Need("close", now, lambda: self._close(request))
        if not self._is_ours(job):
            return None
        return self._need_of_accepted(request, job, now)

    def _need_of_accepted(self, request: Request, job: Job, now: float) -> Need | None:
        entries = self._store.entries(job.uid)
        line = last_line(request, entries.values())
        if line is None and request.ended:
            return Need("tidy", now + _KEEP_SECONDS, lambda: self._tidy(request, job))
        if line is None and is_to_begin(request, job, entries):
            return Need("begin", now, lambda: self._have_begun(job))
        if line is None:
            return Need("lost", now + _LOST_SECONDS, lambda: self._close(request))
        status = told_status(request, line, now=int(now))
        known = request.ended and request.state is line.state
        if known or not merge_patch(request.status(), status):
            return None
        return Need(f"tell {line.state} {line.id}", now, lambda: self._tell(request, job, status))

    def _need_of_job(self, uid: str, now: float) -> Need | None:
        """Whether there are runs by hand under way of which no view shows who asked for them."""
        job = self._store.jobs[uid]
        live = [line for line in self._store.entries(uid).values() if not line.ended and names.request_of(line.id)]
        unseen = [line for line in live if self._is_unseen(line.id)]
        if not unseen or not self._is_ours(job):
            return None
        return Need("seek", now + _SEEK_SECONDS, lambda: self._seek(job, [line.id for line in unseen]))

    def _is_unseen(self, key: str) -> bool:
        return self._asked.of_run(key) is None and not self._asked.is_canceled(key)

    def _is_ours(self, job: Job) -> bool:
        return not job.deleting and is_served(job, served_by=self._served_by())

    def _job(self, request: Request) -> Job | None:
        """The job that is asked for, as far as it is seen."""
        place = request.namespace, request.job_name
        uid = self._jobs.get(place, "")
        if uid not in self._store.jobs:
            found = (job.uid for job in self._store.jobs.values() if (job.namespace, job.name) == place)
            uid = next(found, "")
            if uid:
                self._jobs[place] = uid
        return self._store.jobs.get(uid)

    # What is done

    async def _answer(self, request: Request) -> None:
        """Accept the request, or say what is wrong with it; by a read of its job, for the two may have come together."""
        answer = await self._api.get(object_path(JOBS, request.namespace, request.job_name))
        if not answer.done and answer.ending is not Ending.ABSENT:
            return
        job = read_job(answer.document) if answer.done else None
        if job is not None:
            self._store.put_job(job)
            if not self._is_ours(job):
                return
        now = int(self._api.clock.now())
        refusal = refusal_of(request, job)
        if refusal is None and job is not None:
            owned = await self._own(request, job)
            if owned is not None:
                await self._put(owned, accepted_status(owned, now=now))
        elif refusal is not None and await self._put(request, refused_status(request, refusal, now=now)):
            self._warn(request, refusal)

    async def _own(self, request: Request, job: Job) -> Request | None:
        """The request, once it is to go when its job does: so one that is accepted for a job is never run by another of its name."""
        if request.owner == job.uid:
            return request
        owners = [*orjson.loads(request.owners), names.owner(job.name, job.uid)]
        meta = {"uid": request.uid, "resourceVersion": str(request.revision), "ownerReferences": owners}
        return await self._patch(request, {"metadata": meta}, "")

    def _warn(self, request: Request, refusal: Refusal) -> None:
        regarded = Regarded(KIND, request.namespace, request.name, request.uid, str(request.revision))
        self._recorder.tell_of(regarded, Told(refusal.reason, refusal.message, warning=True))

    async def _put(self, request: Request, status: Mapping[str, Any]) -> bool:
        patch = merge_patch(request.status(), status)
        meta = {"uid": request.uid, "resourceVersion": str(request.revision)}
        return not patch or await self._patch(request, {"metadata": meta, "status": patch}, "/status") is not None

    async def _patch(self, request: Request, document: Mapping[str, Any], subresource: str) -> Request | None:
        """The request as it is after a write at its revision; None where that was in vain."""
        path = object_path(RUNS, request.namespace, request.name)
        answer = await self._api.patch(path + subresource, document)
        if answer.done:
            after = read_request(answer.document)
            self._asked.put(after)
            return after
        if answer.ending in {Ending.CONFLICT, Ending.ABSENT}:
            await self._admission.read(request)
        else:
            log.warning("%s/%s was not written: %s %s", request.namespace, request.name, answer.ending, answer.message)
        return None

    async def _tell(self, request: Request, job: Job, status: Mapping[str, Any]) -> None:
        """Tell how the run is. Its line need not stay for that any more, once that is its end."""
        if await self._put(request, status):
            self._write(job.uid)

    async def _have_begun(self, job: Job) -> None:
        self._write(job.uid)

    async def _close(self, request: Request) -> None:
        """Nothing more will be told of this run, unless a read of its job says otherwise."""
        answer = await self._api.get(object_path(JOBS, request.namespace, request.job_name))
        job = read_job(answer.document) if answer.done else None
        now = int(self._api.clock.now())
        if answer.ending is Ending.ABSENT or (job is not None and request.owner not in {"", job.uid}):
            await self._put(request, over_status(request, "JobDeleted", "Its ScheduledJob was deleted", now=now))
        elif job is not None:
            self._store.put_job(job)
            begun = request.begun and last_line(request, job.status.entries()) is None
            if begun:
                why = "The history of its ScheduledJob does not tell of this run any more"
                await self._put(request, over_status(request, "RecordLost", why, now=now))

    async def _tidy(self, request: Request, job: Job) -> None:
        """Delete a request whose run the history of its job has dropped, as its limits say; by a read."""
        await self._starter.read_job(job.uid)
        if job.uid in self._store.jobs and last_line(request, self._store.entries(job.uid).values()) is None:
            await self._delete(request)

    async def _delete(self, request: Request) -> None:
        answer = await self._api.delete(object_path(RUNS, request.namespace, request.name), uid=request.uid)
        if answer.done or answer.ending is Ending.ABSENT:
            self._asked.bury(request.uid)

    async def _seek(self, job: Job, keys: list[str]) -> None:
        """Who asked for these runs: a request that is not there any more was deleted, and its run is cancelled."""
        present = await self._list(RUNS.format(job.namespace))
        by_uid = {names.bare(uid): name for uid, name in present.items()}
        for uid in {names.request_of(key) for key in keys if self._is_unseen(key)}:
            if uid not in by_uid:
                self._asked.bury(uid)
                continue
            answer = await self._api.get(object_path(RUNS, job.namespace, by_uid[uid]))
            if answer.done:
                self._asked.put(read_request(answer.document))
        self._attend_job(job.uid)
