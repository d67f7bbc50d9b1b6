"""Each guard of the protocol: a scenario that goes right, and goes wrong once the guard is taken out of the engine."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from . import guards
from .engine import Prepare, Scene, play
from .witness import Violation

Scenario = Callable[[Prepare | None], Coroutine[Any, Any, Scene]]


@dataclass(frozen=True)
class Guard:
    scenario: Scenario
    prepare: Prepare | None = None  # takes it out of one engine
    patch: Callable[[pytest.MonkeyPatch], None] | None = None  # takes it out of the code
    breaks: str = ""  # what then happens


GUARDS = {
    "fence": Guard(guards.fence, prepare=guards.Unfenced(), breaks="launched more than once"),
    "wait": Guard(guards.wait, patch=guards.take_over_at_once, breaks="launched more than once"),
    "trace": Guard(guards.trace, prepare=guards.forget_traces, breaks="launched more than once"),
    "once": Guard(guards.once, prepare=guards.send_again, breaks="launched more than once"),
    "keep-unrecorded": Guard(
        guards.keep_unrecorded, patch=guards.reap_what_is_unrecorded, breaks="launched more than once"
    ),
    "keep": Guard(guards.keep, patch=guards.reap_at_once, breaks="launched more than once"),
    "late-gap": Guard(guards.late_gap, patch=guards.settle_early, breaks="ran, and is"),
    "cas": Guard(guards.cas, prepare=guards.write_statuses_blindly, breaks="the end of"),
    "wait-cas": Guard(guards.wait_cas, prepare=guards.write_claims_blindly, breaks="launched more than once"),
    "skip-cas": Guard(guards.skip_cas, prepare=guards.write_claims_blindly, breaks="ran, and is"),
}
each = pytest.mark.parametrize("name", GUARDS)


async def judged(guard: Guard, *, without: bool) -> None:
    scene = await guard.scenario(guard.prepare if without else None)
    scene.witness.check(calm_seconds=35)


@each
def test_with_the_guard_every_firing_runs_once_and_is_recorded(name: str) -> None:
    play(lambda: judged(GUARDS[name], without=False), start=guards.BEGIN)


@each
def test_without_the_guard_the_same_scenario_goes_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = GUARDS[name]
    if guard.patch is not None:
        guard.patch(monkeypatch)

    with pytest.raises(Violation, match=guard.breaks):
        play(lambda: judged(guard, without=True), start=guards.BEGIN)
