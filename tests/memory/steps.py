"""Stopping a replica between any two of its steps: a scenario is played once for each, from the same beginning."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any

from .engine import Operator, Scene, play
from .witness import Violation


def steps_since(victim: Operator, begin: int) -> tuple[range, tuple[int, ...]]:
    """The steps that a replica has taken since, and of these the ones around each request."""
    steps = range(begin + 1, victim.process.steps + 1)
    return steps, tuple(step for step in victim.process.crash_steps if step in steps)


def at_each(
    steps: Iterable[int], scenario: Callable[[int], Coroutine[Any, Any, None]], *, start: float, what: str, of: object
) -> None:
    """Play it for each step; the message says in `what` it went wrong, and at which step `of` how many."""
    for step in steps:
        try:
            play(partial(scenario, step), start=start)
        except Exception as error:
            raise Violation(f"{what}, stopped at step {step} of {of}: {error}") from error


async def die(scene: Scene, victim: Operator, step: int, *, at_most: float = 60) -> None:
    """Kill a replica at a step, which comes in at most so many seconds; another comes in its place."""
    victim.process.crash_at(step)
    await scene.until(lambda: victim.process.crashed, at_most=at_most)
    del scene.operators[victim.name]
    await asyncio.sleep(15)
    scene.restart()
