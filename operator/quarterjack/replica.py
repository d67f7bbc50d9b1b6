"""One replica: its parts, put together around one API client. What feeds it jobs, and who scrapes it, is left to the caller."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from prometheus_client import CollectorRegistry

from . import names
from .admission import Admission
from .api import ALL_PODS, LEASES, PODS, Api
from .clock import Clock, ServerClock
from .desk import Desk
from .distributions import Distributions
from .errors import QuarterjackError
from .events import Recorder
from .fanout import FanOuts
from .feed import Feed
from .fence import Fence
from .janitor import Janitor
from .launcher import Launcher
from .lease import Claims
from .ledger_sweep import LedgerSweep
from .ledgers import Ledgers
from .membership import Membership
from .model import Entry, Job
from .overlap import Overlap
from .plans import PlanBook
from .reflector import Reflector
from .requests import RunRequests
from .runs import RunLeases
from .settings import Settings
from .starter import Starter
from .status import Need, StatusWriter
from .stops import Stops
from .store import LeaseView, PodView, Store
from .transport import Transport
from .turns import Due, Turns
from .unit_runs import UnitRuns
from .upkeep import Upkeep

log = logging.getLogger(__name__)

SKEW_SECONDS = 30.0
_SELECTOR = f"{names.LABEL_MANAGED_BY}={names.MANAGER}"
_RETRY_SECONDS = 1.0


class Replica:
    """All parts of a replica."""

    def __init__(self, transport: Transport, clock: Clock, settings: Settings) -> None:
        self.settings = settings
        self.name = settings.replica
        self.registry = CollectorRegistry()
        self.distributions = Distributions(self.registry)
        self.api = Api(transport, ServerClock(clock))
        self.store = Store()
        self.served_by = ""
        namespace = settings.namespace
        self.fence = Fence(self.api, namespace=namespace)
        self.membership = Membership(self.api, self.store, namespace=namespace, replica=self.name)
        leases = LeaseView(self.store, now=self.api.clock.now)
        self.leases = Reflector(
            self.api, LEASES.format(namespace), leases, label_selector=_SELECTOR, metadata_only=True
        )
        self.pods = [
            Reflector(
                self.api,
                PODS.format(watched) if watched else ALL_PODS,
                PodView(self.store, namespace=watched),
                label_selector=_SELECTOR,
            )
            for watched in settings.watch_namespaces or [""]
        ]
        self.feed = Feed(self.api, self.store, namespaces=settings.watch_namespaces)
        plans = PlanBook(settings.default_time_zone)
        self.claims = Claims(self.api, namespace=namespace, replica=self.name)
        launcher = Launcher(self.api)
        self.recorder = Recorder(self.api, replica=self.name, busy=lambda: self.turns.busy or len(self.writer) > 0)
        admission = Admission(self.api, self.store)
        self.run_leases = RunLeases(self.api, self.store, namespace=namespace, watched_since=self._watched_since)
        stops = Stops(self.api, self.store, self.claims)
        self.starter = Starter(
            self.api,
            self.store,
            self.claims,
            launcher,
            Overlap(self.store, launcher, self.claims, self.run_leases, stops),
            plans,
            pods_revision=self._pods_revision,
            fenced=lambda: self.fence.stands,
            served_by=lambda: self.served_by,
            claimed=self.distributions.claim.observe,
            launched=self.distributions.launch.observe,
            warn=self.recorder.warn,
            unit_line=self._unit_line,
        )
        upkeep = Upkeep(
            self.store,
            self.api.clock,
            launcher,
            self.run_leases,
            stops,
            watched_since=self._watched_since,
            views_live=self._views_live,
            busy=lambda: self.turns.busy,
        )
        self.desk = Desk(
            self.store,
            self.api.clock,
            plans,
            self.membership,
            upkeep,
            served_by=lambda: self.served_by,
            views_live=self._views_live,
            scheduling=settings.schedule,
        )
        self.turns = Turns(
            self.name,
            self.store,
            self.api.clock,
            ranks=self.membership.ranks,
            start=self._start,
            create_seconds=lambda: self.api.create_seconds,
            lost=lambda: self.claims.counts.lost,
            in_flight=settings.in_flight,
        )
        self.writer = StatusWriter(
            self.api,
            self.store,
            self.starter,
            launcher,
            admission,
            self.recorder,
            plans,
            namespace=namespace,
            default_zone=settings.default_time_zone,
            served_by=lambda: self.served_by,
            busy=lambda: self.turns.busy,
            written=lambda uid, done: self.desk.written(uid, done=done),
            told=self._told,
        )
        self.writer.tallies.on_start.append(self.distributions.start.observe)
        self.writer.tallies.on_end.append(self.distributions.duration.observe)
        self.desk.open(self.turns, self.writer, self.starter)
        ledgers = Ledgers(self.api)
        self.fan_outs = FanOuts(
            self.api,
            self.store,
            ledgers,
            UnitRuns(self.store, self.starter, upkeep, ledgers, busy=lambda: self.turns.busy),
            self.membership,
            served_by=lambda: self.served_by,
            views_live=self._views_live,
            write=self._write,
            scheduling=settings.schedule,
        )
        self.ledger_sweep = LedgerSweep(
            self.api,
            self.store,
            self.starter,
            self.membership,
            namespaces=settings.watch_namespaces,
            served_by=lambda: self.served_by,
        )
        self.requests = RunRequests(
            self.api,
            self.store,
            self.starter,
            admission,
            self.recorder,
            replica=self.name,
            namespaces=settings.watch_namespaces,
            served_by=lambda: self.served_by,
            write=self._write,
            attend=self._attend_to,
        )
        self.janitor = Janitor(
            self.api,
            self.store,
            self.membership,
            namespace=namespace,
            fenced=lambda: self.fence.stands,
            views_live=self._views_live,
            busy=lambda: self.turns.busy,
            report=lambda uid: self.writer.ask(uid, Need.REPORT),
        )

    async def _start(self, due: Due) -> bool:
        return await self.starter.on_time(
            due.uid, due.firing, due.start, generation=due.generation, careful=due.careful
        )

    async def _unit_line(self, job: Job, key: str) -> Entry | None:
        return await self.fan_outs.line_to_launch(job, key)

    def _told(self, uid: str) -> Iterable[Entry]:
        return self.fan_outs.told(uid)

    def _write(self, uid: str) -> None:
        """Have a job's status written at once, for a run by hand, or one that is in its units."""
        if self._views_live():
            self.writer.ask(uid, Need.BEGIN)

    def _attend_to(self, uid: str) -> None:
        """Look at a job, for a run by hand."""
        now = self.api.clock.now()
        self.desk.agenda.bring_forward(uid, now)
        self.fan_outs.agenda.bring_forward(uid, now)

    def _pods_revision(self) -> str:
        """The oldest revision among the Pod views: no later than any claim that is about to be made."""
        return min((view.revision for view in self.pods), key=lambda revision: int(revision or 0))

    def _views_live(self) -> bool:
        return self.leases.live and all(view.live for view in self.pods)

    def _watched_since(self) -> float:
        """Since when all views have been live without a break, on the server's clock."""
        views = (self.leases, *self.pods)
        return self.api.clock.now() - min(view.live_seconds for view in views)

    def unready(self) -> list[str]:
        """What keeps this replica from being ready; empty where nothing does."""
        skew = self.api.clock.offset_seconds
        checks = {
            "the operator's namespace has not been read yet": not self.served_by,
            "the Leases are not listed or their watch is dead": not self.leases.live,
            "the Pods are not listed or their watch is dead": not all(view.live for view in self.pods),
            "the ScheduledJobs have not all come yet": not self.feed.synced.is_set(),
            "the fence has not been probed yet": not self.fence.known.is_set(),
            f"the clock is {skew:+.0f} s off the API server's": abs(skew) > SKEW_SECONDS,
        }
        return [text for text, holds in checks.items() if holds]

    def warnings(self) -> list[str]:
        """What does not keep it from being ready, but should be known."""
        missing = self.fence.known.is_set() and not self.fence.stands
        return ["the fence policy quarterjack-fence is not installed; apply crds/"] if missing else []

    async def run(self) -> None:
        """Run until cancelled; a part that fails ends them all."""
        await self._read_namespace()
        async with asyncio.TaskGroup() as group:
            for part in self._parts():
                group.create_task(part)

    def _parts(self) -> list[Coroutine[Any, Any, None]]:
        return [
            self.membership.run(),
            self.leases.run(),
            *(view.run() for view in self.pods),
            self.fence.run(),
            self._attend(),
            self.feed.run(self.starter),
            self.requests.run(),
            self.fan_outs.agenda.run(),
            self.ledger_sweep.run(),
            self.janitor.run(),
            self.recorder.run(),
        ]

    async def _attend(self) -> None:
        """Look at jobs once the views are there: before, every claim would look as if it were missing."""
        for view in (self.leases, *self.pods):
            await view.synced.wait()
        await self.fence.known.wait()
        for uid in list(self.store.jobs):
            self.desk.agenda.bring_forward(uid, self.api.clock.now())
        await self.desk.agenda.run()

    async def _read_namespace(self) -> None:
        path = f"/api/v1/namespaces/{self.settings.namespace}"
        while not self.served_by:
            answer = await self.api.get(path, metadata_only=True)
            if answer.done:
                self.served_by = answer.document["metadata"]["uid"]
                return
            if answer.status in {403, 404}:
                raise QuarterjackError(
                    f"the operator's namespace {self.settings.namespace!r} (--namespace) cannot be read: {answer.message}"
                )
            log.warning("the operator's namespace cannot be read: %s %s", answer.ending, answer.message)
            await asyncio.sleep(_RETRY_SECONDS)

    async def shut_down(self) -> list[str]:
        """Stop claiming, finish what is in flight, flush statuses, leave; what was left after the grace period."""
        try:
            async with asyncio.timeout(self.settings.grace_seconds):
                await self.turns.close()
                await self.desk.close()
                await self.requests.close()
                await self.fan_outs.close()
                await self.writer.flush()
                await self.recorder.flush()
                await self.membership.leave()
        except TimeoutError:
            return self._left()
        return []

    def _left(self) -> list[str]:
        counts = {
            "launches under way": self.turns.under_way,
            "claims to look after": self.desk.under_way,
            "statuses to write": len(self.writer),
        }
        return [*(f"{count} {what}" for what, count in counts.items() if count), "the membership, which expires"]
