"""Fan-out: a run becomes many. From the plan's output, or the units that the spec has, to the end of the whole.

1. The line of the run says that its plan is over (`Planned`). 2. The units are read, and their ledger is made (see `ledger`).
3. The line says that they are queued. 4. From then on they are claimed (see `unit_runs`). 5. Once the end of each is stored, the line
says what has become of them.

What a crash leaves of any of it the next replica goes on with, by reads: the output of a Pod that has ended is the same each time,
and the ledger that exists is the one that holds. The replica that ranks first for a job, of those that are not silent, looks after its
fan-outs, and knows their ledgers; the others know of their units by claims and Pods only. Where two think that they are first, both
hold to what they read.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from . import logs, names
from .agenda import Agenda
from .api import PODS, Answer, Api, Ending, object_path
from .attempts import LEDGER_LOST, is_fanned
from .clock import rfc3339
from .decision import is_served
from .errors import ApiError
from .fan import PLANNED, QUEUED
from .ledger import head_of, queued
from .ledgers import Ledger, Ledgers
from .membership import Membership
from .model import Entry, Job, Outcome, Policy, State, Trigger
from .pod import read_pod
from .signs import PLAN_LOST, RUN_DELETED, start_limit_seconds
from .store import Store
from .text import safe
from .transport import TransportError
from .unit_runs import Fan, UnitRuns, letters_of
from .units import OUTPUT_MOST, Units, read_plan, units_of

log = logging.getLogger(__name__)

_SOON_SECONDS = 0.2
_AGAIN_SECONDS = 1.0
_TELL_SECONDS = 10.0  # how far a run is, is told so often
_TELL_AGAIN_SECONDS = 3.0
# What a kubelet answers in the place of an output that it does not have any more.
_NO_OUTPUT = (b"unable to retrieve container logs for ", b"failed to try resolving symlinks in path ")


class FanOuts:
    """Looks after the runs that are in their units. `write`: has a job's status written at once."""

    def __init__(
        self,
        api: Api,
        store: Store,
        ledgers: Ledgers,
        runs: UnitRuns,
        membership: Membership,
        *,
        served_by: Callable[[], str],
        views_live: Callable[[], bool],
        write: Callable[[str], None],
        scheduling: bool,
    ) -> None:
        self._api = api
        self._store = store
        self._ledgers = ledgers
        self._runs = runs
        self._membership = membership
        self._served_by = served_by
        self._views_live = views_live
        self._write = write
        self._scheduling = scheduling
        self._fans: dict[str, dict[str, Fan]] = {}  # by job and line
        self._tasks: dict[str, asyncio.Task[float]] = {}
        self._closed = False
        self.agenda = Agenda(api.clock, self.attend)
        store.on_job.append(self._job_changed)
        store.on_unit.append(self._unit_changed)

    def told(self, uid: str) -> Iterator[Entry]:
        """What is known of a job's runs that are in their units; their dead letters come after them."""
        for fan in self._fans.get(uid, {}).values():
            if fan.told is not None:
                yield fan.told
                yield from fan.letters

    async def line_to_launch(self, job: Job, key: str) -> Entry | None:
        """The line of a unit, where a read of its ledger shows that it is still to be launched."""
        for fan in self._fans.get(job.uid, {}).values():
            if names.parent_of(fan.id) == names.parent_of(key):
                return await self._runs.line_to_launch(job, fan, key)
        return None

    def _job_changed(self, uid: str) -> None:
        job = self._store.jobs.get(uid)
        if job is not None and (job.status.fanned or uid in self._fans):
            self.agenda.bring_forward(uid, self._api.clock.now())
        elif job is None:
            self._forget(uid)

    def _unit_changed(self, uid: str) -> None:
        if uid in self._fans:
            self.agenda.bring_forward(uid, self._api.clock.now() + _SOON_SECONDS)

    def attend(self, uid: str) -> None:
        """Look after a job's fan-outs, where it is ours to do so; one round after the other."""
        job, now = self._store.jobs.get(uid), self._api.clock.now()
        if self._closed:
            return
        if job is None or job.deleting or not job.status.fanned:
            self._forget(uid)
            return
        if not is_served(job, served_by=self._served_by()) or not self._membership.is_first(uid):
            self._forget(uid)
            self.agenda.bring_forward(uid, now + _AGAIN_SECONDS)
        elif not self._views_live():
            self.agenda.bring_forward(uid, now + _AGAIN_SECONDS)
        elif uid not in self._tasks:
            self._tasks[uid] = asyncio.get_running_loop().create_task(self._round(uid))
            self._tasks[uid].add_done_callback(lambda done: self._done(uid, done))

    def _done(self, uid: str, task: asyncio.Task[float]) -> None:
        del self._tasks[uid]
        pause = _AGAIN_SECONDS
        if not task.cancelled() and task.exception() is not None:
            log.error("its units failed", exc_info=task.exception(), extra=logs.of_job(self._store.jobs.get(uid)))
        elif not task.cancelled():
            pause = task.result()
        self.agenda.bring_forward(uid, self._api.clock.now() + pause)

    def _forget(self, uid: str) -> None:
        if uid not in self._tasks:
            for fan in self._fans.pop(uid, {}).values():
                self._runs.forget(uid, fan)

    async def close(self) -> None:
        """Finish what is under way, store what is known, and begin nothing more."""
        self._closed = True
        if self._tasks:
            await asyncio.wait(list(self._tasks.values()))
        known = [(self._store.jobs.get(uid), fan) for uid, fans in self._fans.items() for fan in fans.values()]
        for job, fan in known:
            if job is not None and fan.ledger is not None:
                self._runs.see(job, fan, self._api.clock.now())
                await self._runs.store(job, fan, math.inf)

    async def _round(self, uid: str) -> float:
        """One step of each of a job's fan-outs, the oldest first; how long to wait until the next."""
        job = self._store.jobs.get(uid)
        if job is None:
            return _AGAIN_SECONDS
        fans = self._fans.setdefault(uid, {})
        lines = [line for line in self._store.entries(uid).values() if is_fanned(line)]
        for gone in fans.keys() - {line.id for line in lines}:
            self._runs.forget(uid, fans.pop(gone))
        pauses = [_AGAIN_SECONDS]
        for line in sorted(lines, key=lambda line: names.order_of(line.id)):
            fan = fans.setdefault(line.id, Fan(line.id, line))
            fan.line = line
            try:
                pauses.append(await self._advance(job, fan))
            except (ApiError, TransportError) as error:
                log.warning("its units could not be seen to: %s", error, extra=logs.of_job(job))
        return min(pauses)

    async def _advance(self, job: Job, fan: Fan) -> float:
        if fan.told is not None and fan.told.ended:
            return self._tell(job, fan, fan.told)
        if fan.ledger is None:
            opened = await self._ledgers.open(job, fan.line)
            if isinstance(opened, Ledger):
                fan.take(opened)
                self._runs.note(job, fan)
            elif opened.ending is not Ending.ABSENT:
                return _AGAIN_SECONDS
            elif fan.line.reason == QUEUED:
                lost = Outcome(State.FAILED, LEDGER_LOST, "The ledger of its units was deleted")
                return self._end(job, fan, lost)
            else:
                return await self._plan(job, fan)
        if fan.line.reason == PLANNED:
            return self._tell_queued(job, fan)
        return await self._look_after(job, fan)

    # The plan

    async def _plan(self, job: Job, fan: Fan) -> float:
        """Read the units, and make their ledger."""
        if self._store.asked.is_canceled(fan.id):
            return self._end(job, fan, RUN_DELETED)
        units = await self._units(job, fan)
        if isinstance(units, Answer):
            return self._trouble(job, fan, "PlanUnread", f"The plan's output cannot be read: {units.message}")
        if isinstance(units, Outcome):
            return self._end(job, fan, units)
        if not units.units:
            note = f": {units.note}" if units.note else ""
            return self._end(job, fan, Outcome(State.SUCCEEDED, "", f"Queued 0 units{note}"))
        running = self._running(job, fan)
        if running is None:
            return _AGAIN_SECONDS
        head = head_of(units)
        parts = (self._queued(fan, units, number, running) for number in range(head.parts))
        made = await self._ledgers.create(job, fan.line, head, parts)
        if isinstance(made, Answer):
            return self._trouble(job, fan, "LedgerRefused", f"The ledger of its units cannot be made: {made.message}")
        fan.take(made)
        return self._tell_queued(job, fan)

    def _queued(self, fan: Fan, units: Units, number: int, running: dict[str, Entry]) -> list[Entry]:
        """The lines of a part as it is made; what still runs of another run is skipped."""
        now, lines = int(self._api.clock.now()), queued(fan.line, units.units, number)
        return [_skipped(line, running[line.unit], now) if line.unit in running else line for line in lines]

    def _running(self, job: Job, fan: Fan) -> dict[str, Entry] | None:
        """The units that are open in another run, or run on without a ledger, by that run's line; None where that is not known yet."""
        if job.spec.policy is Policy.ALLOW or fan.line.trigger is Trigger.CATCH_UP:
            return {}
        others = self._fans[job.uid]
        running = self._runs.astray(job, fan, others, self._api.clock.now())
        for other in others.values():
            if other.ledger is None and other.line.reason == QUEUED:
                return None
            running |= dict.fromkeys(other.open, other.line)
        return running

    async def _units(self, job: Job, fan: Fan) -> Units | Outcome | Answer:
        """The units of a run; how it has failed where it has none; an answer where they cannot be read."""
        if fan.line.unit:
            return units_of([fan.line.unit])
        if fan.line.pod_name:
            return await self._printed(job, fan)
        if job.spec.fan_out is None or not job.spec.fan_out.units:
            return Outcome(
                State.FAILED, PLAN_LOST.reason, "spec.fanOut.units was taken away before its units were queued"
            )
        return units_of(job.spec.fan_out.units)

    async def _printed(self, job: Job, fan: Fan) -> Units | Outcome | Answer:
        path = object_path(PODS, job.namespace, fan.line.pod_name)
        answer = await self._api.get(path)
        pod = read_pod(answer.document) if answer.done else None
        gone = answer.ending is Ending.ABSENT or (answer.done and (pod is None or pod.job_uid != job.uid))
        if gone or (pod is not None and not pod.plan):
            return PLAN_LOST
        if pod is None:
            return answer
        output = await self._api.log(path, container=pod.plan, most=OUTPUT_MOST + 1)
        if isinstance(output, Answer):
            return output
        if output.startswith(_NO_OUTPUT):
            return Answer(Ending.ABSENT, message=output[:200].decode(errors="replace"))
        return read_plan(output)

    def _trouble(self, job: Job, fan: Fan, reason: str, message: str) -> float:
        """Tell what keeps the units from being queued; for so long as a Pod may be refused."""
        now, said = self._api.clock.now(), safe(message)
        if fan.trouble_time is None:
            fan.trouble_time = now
            log.warning("%s", said, extra=logs.of_job(job))
        if now > fan.trouble_time + start_limit_seconds(job.spec):
            return self._end(job, fan, Outcome(State.FAILED, reason, said))
        self._tell(job, fan, replace(fan.line, message=said))
        return _AGAIN_SECONDS

    # The units

    def _tell_queued(self, job: Job, fan: Fan) -> float:
        assert fan.ledger is not None
        summary = fan.ledger.head.summary
        return self._tell(job, fan, replace(fan.line, reason=QUEUED, message=safe(summary)))

    async def _look_after(self, job: Job, fan: Fan) -> float:
        """Bring the ledger up to what is seen, start what is to be started, and tell how far the whole is."""
        now = self._api.clock.now()
        self._runs.see(job, fan, now)
        await self._runs.store(job, fan, now)
        if not fan.open and not fan.due:
            return self._end_of_all(job, fan)
        more = False
        if fan.open and (self._scheduling or fan.line.trigger is Trigger.MANUAL):
            await self._runs.keep_up(job, fan, now)
            more = await self._runs.claim(job, fan, self._fans[job.uid], now)
        self._tell_progress(job, fan, now)
        due = min(fan.due.values(), default=now + _AGAIN_SECONDS) - self._api.clock.now()
        return _SOON_SECONDS if more else min(_AGAIN_SECONDS, max(_SOON_SECONDS, due))

    def _tell_progress(self, job: Job, fan: Fan, now: float) -> None:
        if fan.line.unit:
            pod = next((unit.pod_name for unit in fan.lines.values()), "")
            if pod != fan.line.pod_name:
                self._tell(job, fan, replace(fan.line, pod_name=pod))
        elif fan.told is None or now >= fan.told_time + _TELL_SECONDS:
            count = fan.count
            fan.letters = letters_of(fan.lines.values())
            begun = count.open < count.total
            self._tell(job, fan, replace(fan.line, message=count.summary) if begun else fan.line)

    def _end_of_all(self, job: Job, fan: Fan) -> float:
        """A run of one unit ends as that does; any other as its count says."""
        if fan.line.unit and fan.lines:
            (unit,) = fan.lines.values()
            end = Outcome(unit.state, unit.reason, unit.message, unit.completed)
            return self._end(job, fan, end, pod_name=unit.pod_name)
        assert fan.ledger is not None
        count, note = fan.count, fan.ledger.head.note
        fan.letters = letters_of(fan.lines.values())
        ends = [line.completed for line in fan.lines.values() if line.completed is not None]
        summary = f"{count.summary} ({note})" if note else count.summary
        return self._end(job, fan, Outcome(count.state, count.reason, summary, max(ends, default=None)))

    def _end(self, job: Job, fan: Fan, end: Outcome, **more: Any) -> float:
        now = int(self._api.clock.now())
        completed = now if end.settled is None else end.settled
        line = replace(fan.line, state=end.state, reason=end.reason, message=safe(end.message), completed=completed)
        return self._tell(job, fan, replace(line, **more))

    def _tell(self, job: Job, fan: Fan, line: Entry) -> float:
        """Have it written, again and again until the history says so."""
        now = self._api.clock.now()
        if fan.told != line or now >= fan.told_time + _TELL_AGAIN_SECONDS:
            fan.told_time = now
            if line != fan.line or fan.letters:
                self._write(job.uid)
        fan.told = line
        return _AGAIN_SECONDS


def _skipped(line: Entry, other: Entry, now: int) -> Entry:
    what = "run by hand" if other.trigger is Trigger.MANUAL else "firing"
    why = f"concurrencyPolicy is not Allow and the unit was not over yet in the {what} of {rfc3339(other.scheduled)}"
    return replace(line, state=State.SKIPPED, reason="Overlap", message=why, completed=now)
