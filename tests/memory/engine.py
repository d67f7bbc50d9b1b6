"""The real engine on the API server in memory: replicas that may be killed and stopped, jobs, a kubelet, and a witness.

In a cluster kopf brings the ScheduledJobs; here a reflector does, over the same network as everything else.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

from quarterjack.admission import ALL_RUNS
from quarterjack.api import ALL_JOBS
from quarterjack.ranks import ranked
from quarterjack.reflector import Reflector
from quarterjack.replica import Replica
from quarterjack.settings import Settings
from quarterjack.transport import Transport

from . import actors
from .actors import Kubelet, apply_job, read
from .connection import Connection
from .faults import Plan
from .replica import Replica as Process
from .resources import JOBS
from .server import MemoryApi
from .statuses import Document
from .virtual import START, VirtualClock, later, run_virtual, virtual_loop
from .witness import Witness, epoch

T = TypeVar("T")

NAMESPACE = "quarterjack"
MINUTELY = "* * * * *"


class Operator:
    """One replica: its process, its network, its clock, and the engine in it."""

    def __init__(
        self,
        api: MemoryApi,
        name: str,
        *,
        plan: Plan | None = None,
        prepare: Prepare | None = None,
        wrap: Wrap | None = None,
        **settings: Any,
    ) -> None:
        self.name = name
        self.settings = Settings(**{"namespace": NAMESPACE, "replica": name} | settings)
        self.process = Process(name)
        self.connection = Connection(api, replica=self.process, plan=plan)
        self.clock = VirtualClock()
        self.engine: Replica | None = None
        self._prepare = prepare
        self._transport: Transport = self.connection if wrap is None else wrap(self.connection)

    def start(self) -> Operator:
        """Run it, until it crashes or is told to leave."""
        self.process.start(self._main())
        return self

    async def _main(self) -> None:
        self.engine = engine = Replica(self._transport, self.clock, self.settings)
        if self._prepare is not None:
            self._prepare(engine)
        jobs = Reflector(engine.api, ALL_JOBS, engine.feed, label_selector="")
        runs = Reflector(engine.api, ALL_RUNS, engine.requests, label_selector="")
        async with asyncio.TaskGroup() as group:
            group.create_task(engine.run())
            group.create_task(jobs.run())
            group.create_task(runs.run())

    @property
    def running(self) -> Replica:
        """The engine, once it is there."""
        assert self.engine is not None, f"replica {self.name} has not started"
        return self.engine


Prepare = Callable[[Replica], None]
Wrap = Callable[[Transport], Transport]


class Scene:
    """A cluster with replicas of the operator."""

    def __init__(self, *, prepare: Prepare | None = None, ends: actors.End | None = None) -> None:
        random.seed(0)
        self.api = MemoryApi()
        self.witness = Witness(self.api)
        self.end = ends or actors.End(after_seconds=1.5)
        self.kubelet = Kubelet(self.api, start_seconds=0.2, ends=lambda _: self.end)
        self.operators: dict[str, Operator] = {}
        self._prepare = prepare
        self._restarts = 0

    @property
    def now(self) -> float:
        """The server's clock, epoch seconds."""
        return self.api.clock.wall()

    def start(self, *names: str, plan: Plan | None = None, wrap: Wrap | None = None, **settings: Any) -> None:
        """Start replicas, with settings other than the usual ones; `wrap`: what lies between each and its network."""
        for name in names:
            operator = Operator(self.api, name, plan=plan, prepare=self._prepare, wrap=wrap, **settings)
            self.operators[name] = operator.start()

    def restart(self, *, plan: Plan | None = None) -> str:
        """Start one more replica, as what keeps them at their number does after a crash: it has a new name."""
        self._restarts += 1
        name = f"again-{self._restarts}"
        self.start(name, plan=plan)
        return name

    def crash(self, *names: str) -> None:
        """Kill replicas."""
        for name in names or tuple(self.operators):
            self.operators.pop(name).process.crash()

    def replace_the_dead(self, *, after_seconds: float, plan: Plan | None = None) -> None:
        """From now on, start another replica so long after each that dies."""

        def watch(operator: Operator) -> None:
            def note() -> None:
                later(after_seconds, replace, operator.name)

            operator.process.when_crashed(note)

        def replace(dead: str) -> None:
            self.operators.pop(dead, None)
            watch(self.operators[self.restart(plan=plan)])

        for operator in self.operators.values():
            watch(operator)

    def job(self, name: str = "job", *, schedule: str | None = MINUTELY, **spec: Any) -> str:
        """Create a job, or change its spec as a whole; its UID."""
        timing = {"schedule": schedule} if schedule else {}
        uid: str = apply_job(self.api, name, timing | spec)["metadata"]["uid"]
        return uid

    def status(self, name: str = "job") -> Document:
        """A job's status as it is now."""
        document = read(self.api, JOBS, name)
        assert document is not None, f"no job {name}"
        status: Document = document.get("status") or {}
        return status

    def condition(self, kind: str) -> Document:
        """The job's condition of that type."""
        found: Document = next(c for c in self.status()["conditions"] if c["type"] == kind)
        return found

    def first(self, uid: str) -> Operator:
        """The replica that acts first for a job."""
        return self.operators[ranked(self.operators, uid)[0]]

    def others(self, uid: str) -> list[Operator]:
        """All replicas but the one that acts first for a job."""
        return [self.operators[name] for name in ranked(self.operators, uid)[1:]]

    def take_down(self, seconds: float) -> None:
        """The API server is gone for so long."""
        self.api.options.up = False
        for operator in self.operators.values():
            operator.connection.break_off()
        later(seconds, setattr, self.api.options, "up", True)

    async def at(self, seconds: float) -> None:
        """Wait until so many seconds after the scenario's beginning."""
        await asyncio.sleep(max(0.0, seconds - virtual_loop().time()))

    async def until(self, holds: Callable[[], object], *, at_most: float = 60) -> float:
        """Wait until something holds; how long that took."""
        began = virtual_loop().time()
        while not holds():
            waited = virtual_loop().time() - began
            assert waited < at_most, f"after {at_most} s still not: {holds}"
            await asyncio.sleep(0.01)
        return virtual_loop().time() - began


Scenario = Callable[[Scene], Awaitable[T]]


def play(scenario: Callable[[], Coroutine[Any, Any, T]], *, start: float = START) -> T:
    """Run a scenario in virtual time."""
    return run_virtual(scenario(), start=start)


def firing_lines(status: Document) -> dict[int, Document]:
    """The lines of a history that are of one firing each, by its epoch second."""
    return {int(line["id"]): line for line in status.get("history") or () if line["id"].isdigit()}


def last_lines(lines: Iterable[Document]) -> dict[int, Document]:
    """The line of the last attempt of each firing, by its epoch second."""
    alone = [line for line in lines if not line.get("count")]
    return {epoch(line["scheduledTime"]): line for line in sorted(alone, key=lambda line: line["attempt"])}


def states(status: Document) -> list[str]:
    """What became of the firings, the oldest first; coalesced lines as `Missed x 3`."""
    lines: Iterable[Document] = sorted(status.get("history") or (), key=lambda line: line["scheduledTime"])
    return [line["state"] + (f" x {line['count']}" if line.get("count") else "") for line in lines]
