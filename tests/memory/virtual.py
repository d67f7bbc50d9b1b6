"""Virtual time: an event loop whose clock jumps to the next timer as soon as nothing else is left to be done.

A day of schedules takes as long as the code that runs in it. Nothing sleeps, no thread runs, no socket is polled, so
the same scenario takes the same steps every time. A wait that nothing can end, and a loop that spins without time
going on, are errors.

The loop also knows *gates*: callbacks scheduled from a context that carries one go through it, and it may hold them
for a while or for ever. That is how a replica is stopped between any two of its steps (see replica.py).
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
import random
import selectors
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any, ParamSpec, Protocol, TypeVar

T = TypeVar("T")
P = ParamSpec("P")

START = datetime(2026, 3, 2, 9, 0, tzinfo=UTC).timestamp()
SPINS_ALLOWED = 200_000
SPINS_FREE = 1_000
SPIN_SECONDS = 1e-6
OUTSIDE = contextvars.Context()  # what happens beyond every replica: the server, the network, time itself


class VirtualDeadlock(RuntimeError):
    """Nothing is due any more: whoever still waits, waits for ever."""


class VirtualLivelock(RuntimeError):
    """The loop ran on and on without time going on: something polls without waiting."""


class ScenarioError(AssertionError):
    """Something went wrong in the background of a scenario that itself ended well."""


class Gate(Protocol):
    """Decides over the callbacks of the contexts that carry it."""

    early_seconds: float  # how much too early its waits end, as those of a coarse timer do

    def admit(self, step: Step) -> None:
        """Run the step, now or later, or never."""
        ...

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Take note of a task that was made in a context of this gate."""
        ...

    async def close(self) -> None:
        """End all that is left, at the end of the scenario."""
        ...


GATE: contextvars.ContextVar[Gate | None] = contextvars.ContextVar("gate", default=None)


class Step:
    """One callback of a gated context: what the loop would have run by itself."""

    __slots__ = ("args", "callback", "context", "gate", "handle")

    def __init__(
        self, gate: Gate, callback: Callable[..., object], args: tuple[Any, ...], context: contextvars.Context
    ) -> None:
        self.gate = gate
        self.callback = callback
        self.args = args
        self.context = context
        self.handle: asyncio.Handle | None = None

    def __call__(self) -> None:
        if self.handle is None or not self.handle.cancelled():
            self.gate.admit(self)

    @property
    def task(self) -> asyncio.Task[Any] | None:
        """The task that this step resumes, None for any other callback."""
        owner = getattr(self.callback, "__self__", None)
        return owner if isinstance(owner, asyncio.Task) else None

    def run(self) -> None:
        """What the gate calls, once it lets the step pass."""
        self.callback(*self.args)


class _JumpingSelector(selectors.SelectSelector):
    """Instead of waiting, moves the loop's clock. It keeps no I/O: there is none in virtual time."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self._spins = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise VirtualDeadlock(f"at {self.now:.3f} s nothing is due any more, and the scenario has not ended")
        if timeout > 0:
            self.now += timeout
            self._spins = 0
            return []
        self._spins += 1
        if self._spins > SPINS_ALLOWED:
            self._spins = 0
            raise VirtualLivelock(
                f"at {self.now:.3f} s the loop went round {SPINS_ALLOWED} times without time going on"
            )
        if self._spins > SPINS_FREE:
            self.now += (
                SPIN_SECONDS  # code takes time, too: a timer that woke a rounding error early finds its time come
            )
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """The event loop of a scenario. Its clock starts at 0, which stands for the epoch second `start`."""

    def __init__(self, start: float = START) -> None:
        self._jumps = _JumpingSelector()
        super().__init__(self._jumps)
        self._clock_resolution = (
            1e-6  # with the machine's own, 1 ns, a clock that reads a year never reaches its timers
        )
        self.start = start
        self.gates: list[Gate] = []
        self.troubles: list[dict[str, Any]] = []
        self.set_task_factory(_make_task)
        self.set_exception_handler(lambda _, context: self.troubles.append(context))

    def time(self) -> float:
        """Virtual seconds since the scenario began."""
        return self._jumps.now

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.Handle:
        gate = GATE.get() if context is None else context.get(GATE)
        if gate is None:
            return super().call_soon(callback, *args, context=context)
        step = Step(gate, callback, args, context or contextvars.copy_context())
        step.handle = super().call_soon(step, context=step.context)
        return step.handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: contextvars.Context | None = None
    ) -> asyncio.TimerHandle:
        gate = GATE.get() if context is None else context.get(GATE)
        if gate is None:
            return super().call_at(when, callback, *args, context=context)
        step = Step(gate, callback, args, context or contextvars.copy_context())
        early = min(gate.early_seconds, max(0.0, when - self.time()) / 2)
        handle = super().call_at(when - early, step, context=step.context)
        step.handle = handle
        return handle

    def again(self, step: Step) -> None:
        """Put a step that was held back into the queue; who cancels its handle still cancels it."""
        super().call_soon(step, context=step.context)

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        raise RuntimeError(f"no threads in virtual time: {func!r}")


def _make_task(
    loop: asyncio.AbstractEventLoop, coro: Any, context: contextvars.Context | None = None, **named: Any
) -> asyncio.Task[Any]:
    task: asyncio.Task[Any] = asyncio.Task(coro, loop=loop, context=context, **named)
    gate = GATE.get() if context is None else context.get(GATE)
    if gate is not None:
        gate.adopt(task)
    return task


def virtual_loop() -> VirtualLoop:
    """The loop of the scenario that is running."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise TypeError("only within run_virtual")
    return loop


def run_virtual(scenario: Coroutine[Any, Any, T], *, start: float = START, seed: int = 0) -> T:
    """Run a scenario in a loop of its own, from the epoch second `start`, and end every gate's tasks after it.

    What the code under test draws from `random` is the same each time. Raises what the scenario raises; ScenarioError where it
    ended well but a gated task or a callback did not.
    """
    loop, chances = VirtualLoop(start), random.getstate()
    random.seed(seed)
    try:
        try:
            result = loop.run_until_complete(scenario)
        finally:
            _wind_up(loop)
    finally:
        scenario.close()
        loop.close()
        random.setstate(chances)
    if loop.troubles:
        trouble = loop.troubles[0]
        raise ScenarioError(str(trouble.get("message"))) from trouble.get("exception")
    return result


def _wind_up(loop: VirtualLoop) -> None:
    """Leave no task behind: neither those of the gates, nor those that the scenario itself forgot."""
    for gate in loop.gates:
        loop.run_until_complete(gate.close())
    if left := asyncio.all_tasks(loop):
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.wait(left, timeout=60))
    loop.run_until_complete(loop.shutdown_asyncgens())


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """A test that is a scenario: `@in_virtual_time` above `async def test_...`."""

    @functools.wraps(test)
    def run(*args: P.args, **named: P.kwargs) -> None:
        run_virtual(test(*args, **named))

    return run


class VirtualClock:
    """A wall clock of the scenario, as far off as one likes; may be set while it runs (an NTP step)."""

    def __init__(self, offset_seconds: float = 0.0) -> None:
        self.offset_seconds = offset_seconds

    def wall(self) -> float:
        """Epoch seconds."""
        loop = virtual_loop()
        return loop.start + loop.time() + self.offset_seconds


def later(seconds: float, callback: Callable[..., object], *args: Any) -> asyncio.TimerHandle:
    """Call back in so many virtual seconds, outside of every replica: no crash and no stall can stop it."""
    return asyncio.get_running_loop().call_later(seconds, callback, *args, context=OUTSIDE)
