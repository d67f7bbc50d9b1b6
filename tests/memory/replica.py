"""A replica that can be killed, or stopped for a while, between any two of its steps.

A step is one resume of one of its coroutines: what it does between two awaits. The replica's main coroutine and
every task made by it, directly or not, run in a context that carries the replica as their gate; so do their timers
and callbacks.

- `crash` is SIGKILL: no further code of it runs while the scenario lasts, not even `finally`; its connections break,
  and requests that are on their way may still be committed.
- `stall` is SIGSTOP: nothing of it runs for so long; answers, watch events and timers queue up, and come all at once
  afterwards.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .virtual import GATE, OUTSIDE, Step, later, virtual_loop

T = TypeVar("T")

CLOCK_RESOLUTION_SECONDS = 1e-6
WIND_UP_SECONDS = 120
ROUNDS = 100


class Replica:
    """One process of the operator, as far as the loop can tell."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.steps = 0
        self.send_steps: list[int] = []  # the steps that sent a request
        self.crashed = False
        self.early_seconds = 0.0  # all of its waits end so much too early, or half-way where they are shorter
        self.stalled_until = float("-inf")
        self._burying = False
        self._at: dict[int, Callable[[], None]] = {}
        self._held: list[Step] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed: list[asyncio.Task[Any]] = []
        self._when_crashed: list[Callable[[], None]] = []
        self._loop = virtual_loop()
        self._loop.gates.append(self)
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._context = contextvars.copy_context()
        self._context.run(GATE.set, self)

    def start(self, main: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run a coroutine as this replica's code. The task never ends once the replica has crashed: wait for `over`."""
        task = self._loop.create_task(main, name=f"replica {self.name}", context=self._context)
        task.add_done_callback(lambda _: self._end(), context=OUTSIDE)
        return task

    async def over(self) -> None:
        """Return once the replica has crashed, or a coroutine that was given to `start` has ended."""
        await asyncio.shield(self._over)

    def crash(self) -> None:
        """SIGKILL, now. The step that calls it, if it is one of the replica's own, is its last."""
        if self.crashed:
            return
        self.crashed = True
        for broken in self._when_crashed:
            broken()
        self._end()

    def stall(self, seconds: float) -> None:
        """SIGSTOP, now, and SIGCONT so many virtual seconds later."""
        self.stalled_until = max(self.stalled_until, self._loop.time() + seconds)
        later(seconds, self._go_on)

    def crash_at(self, step: int) -> None:
        """SIGKILL instead of the step of that number (the first one is 1)."""
        self._at[step] = self.crash

    def stall_at(self, step: int, seconds: float) -> None:
        """SIGSTOP before the step of that number."""
        self._at[step] = lambda: self.stall(seconds)

    def interrupt_at(self, step: int, act: Callable[[], object]) -> None:
        """Have something done in the world right before the step of that number; the replica goes on at once."""

        def interrupt() -> None:
            virtual_loop().call_soon(act, context=OUTSIDE)
            self.stall(0)

        self._at[step] = interrupt

    @property
    def stopped(self) -> bool:
        """Nothing of it runs at the moment."""
        return self.crashed or self._loop.time() < self.stalled_until - CLOCK_RESOLUTION_SECONDS

    @property
    def crash_steps(self) -> list[int]:
        """The steps before which a crash makes a difference to the world: those that sent something, and those after them."""
        return sorted({step for sent in self.send_steps for step in (sent, sent + 1)})

    def when_crashed(self, callback: Callable[[], None]) -> None:
        """Have something done at the moment of the crash: a connection breaks off."""
        self._when_crashed.append(callback)

    # The gate

    def admit(self, step: Step) -> None:
        """Run a step, unless the replica is stopped, or is to be stopped right before it."""
        if self._burying:
            if step.task is not None or _ends_a_gather(step):
                step.run()
        elif self.stopped or (step.task is not None and self._stops_before()):
            self._held.append(step)
        else:
            step.run()

    def adopt(self, task: asyncio.Task[Any]) -> None:
        """Count a task among the replica's own."""
        self._tasks.add(task)
        task.add_done_callback(self._part_with, context=OUTSIDE)

    async def close(self) -> None:
        """Cancel what runs; bury what is dead or does not end. What failed unnoticed is reported to the loop."""
        self._at.clear()
        if not self.stopped and self._tasks:
            for task in tuple(self._tasks):
                task.cancel()
            await asyncio.wait(tuple(self._tasks), timeout=WIND_UP_SECONDS)
        await self._bury()
        for task in self._failed:
            if getattr(task, "_log_traceback", False):
                self._loop.troubles.append(
                    {"message": f"replica {self.name}: {task.get_name()} failed", "exception": task.exception()}
                )

    def _stops_before(self) -> bool:
        self.steps += 1
        stop = self._at.pop(self.steps, None)
        if stop is None:
            return False
        self.steps -= 1
        stop()
        return True

    def _go_on(self) -> None:
        if not self.stopped:
            held, self._held = self._held, []
            for step in held:
                self._loop.again(step)

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def _part_with(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if self._burying:
            _ = task.cancelled() or task.exception()
        elif getattr(task, "_log_traceback", False):
            self._failed.append(task)

    async def _bury(self) -> None:
        """Close the coroutines of a dead replica. Only now their `finally` blocks run, and reach nothing any more."""
        self.crash()
        self._burying = True
        for _ in range(ROUNDS):
            if not self._tasks:
                return
            tasks = tuple(self._tasks)
            for task in tasks:
                self._context.run(_shut, task.get_coro())
            held, self._held = self._held, []
            for step in held:
                self._loop.again(step)
            for task in tasks:
                task.cancel()
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        raise RuntimeError(f"replica {self.name} keeps making tasks while it is buried: {tuple(self._tasks)}")


def _ends_a_gather(step: Step) -> bool:
    """Whether it is asyncio's own callback, without which a task that awaits `gather` never learns that it is cancelled."""
    return getattr(step.callback, "__qualname__", "").startswith("gather.")


def _shut(coro: Any) -> None:
    """Close a coroutine for good, even one that awaits while it is being closed."""
    for _ in range(ROUNDS):
        try:
            coro.close()
        except BaseException:  # noqa: BLE001 - whatever its last words are, nobody is there to hear them
            continue
        return
