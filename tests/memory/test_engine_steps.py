"""A replica is killed or stopped between any two of its steps, from before a firing is due until its record is written."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import cache

import pytest

from .actors import delete_pod
from .engine import Scene, firing_lines, play
from .resources import PODS
from .store import Change
from .virtual import START, later
from .witness import Violation

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRING = int(BEGIN + DUE)
POLICIES = ("Allow", "Forbid")


@dataclass(frozen=True)
class Course:
    """The steps that the acting replica takes in an undisturbed run: from half a second before the firing to its record."""

    begin: int
    end: int
    sends: tuple[int, ...]

    @property
    def steps(self) -> range:
        return range(self.begin + 1, self.end + 2)

    @property
    def decisive(self) -> list[int]:
        """The steps that send a request, and those that come right after."""
        return sorted({step + more for step in self.sends for more in (0, 1)})


def set_up(policy: str, names: str) -> tuple[Scene, str]:
    scene = Scene()
    uid = scene.job(concurrencyPolicy=policy)
    scene.start(*names)
    return scene, uid


@cache
def course(policy: str, names: str) -> Course:
    async def undisturbed() -> Course:
        scene, uid = set_up(policy, names)
        await scene.at(DUE - 0.5)
        process = scene.first(uid).process
        begin = process.steps
        await scene.until(lambda: state_of(scene, FIRING) == "Succeeded")
        return Course(begin, process.steps, tuple(s for s in process.send_steps if s >= begin))

    return play(undisturbed, start=BEGIN)


def state_of(scene: Scene, firing: int) -> str:
    return str(firing_lines(scene.status()).get(firing, {}).get("state"))


def delete_first_pod(scene: Scene) -> None:
    """Somebody deletes the Pod of the first firing, soon after it was made."""

    def on_change(change: Change) -> None:
        if change.before is None and len(scene.api.ledger.pods) == 0:
            later(0.3, delete_pod, scene.api, change.key[1])

    scene.api.store.tables[PODS].listeners[id(scene)] = on_change


async def stopped(policy: str, names: str, step: int, *, stall: float | None, deleting: bool) -> None:
    """Stop the acting replica at a step: for a while, or for good; then another one comes in its place. Then look."""
    scene, uid = set_up(policy, names)
    if deleting:
        delete_first_pod(scene)
    await scene.at(DUE - 0.5)
    victim = scene.first(uid)
    if stall is None:
        victim.process.crash_at(step)
        await scene.until(lambda: victim.process.crashed)
        del scene.operators[victim.name]
        await asyncio.sleep(15)
        scene.restart()
        await scene.at(DUE + 65)
    else:
        victim.process.stall_at(step, stall)
        await scene.at(DUE + max(65, stall + 40))
        assert victim.process.stalled_until > DUE + stall - 2
    scene.witness.check(calm_seconds=35)
    assert scene.api.ledger.firings(uid)[0] == FIRING
    assert scene.witness.accounts[uid].lines[str(FIRING)]["state"] == ("Failed" if deleting else "Succeeded")


def at_each(steps: list[int] | range, policy: str, names: str, *, stall: float | None, deleting: bool) -> None:
    """Play it once for each step; the message says at which it went wrong."""
    for step in steps:
        try:
            play(lambda step=step: stopped(policy, names, step, stall=stall, deleting=deleting), start=BEGIN)  # type: ignore[misc]
        except Exception as error:
            raise Violation(f"{policy}, stopped at step {step} of {course(policy, names)}: {error}") from error


deleted_or_not = pytest.mark.parametrize(
    "deleting", [pytest.param(False, id="the Pod ends"), pytest.param(True, id="somebody deletes the Pod")]
)


@pytest.mark.parametrize("policy", POLICIES)
@deleted_or_not
def test_a_crash_at_any_step_costs_no_firing_and_doubles_none(policy: str, deleting: bool) -> None:
    at_each(course(policy, "abc").steps, policy, "abc", stall=None, deleting=deleting)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("stall", [1.0, 4.0, 20.0, 70.0])
@deleted_or_not
def test_a_stall_at_any_step_costs_no_firing_and_doubles_none(policy: str, stall: float, deleting: bool) -> None:
    at_each(course(policy, "ab").steps, policy, "ab", stall=stall, deleting=deleting)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("stall", [pytest.param(600.0, id="10 minutes"), pytest.param(3600.0, id="an hour")])
def test_a_stall_that_outlasts_reaping_launches_nothing_again(policy: str, stall: float) -> None:
    at_each(course(policy, "ab").decisive, policy, "ab", stall=stall, deleting=stall == 600)
