"""A replica is killed or stopped between any two of its steps: of an ordinary firing, a takeover, a missed firing, a retry."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from functools import cache

import pytest

from .actors import End, attempt_of, delete_pod
from .engine import Operator, Scene, last_lines, play
from .faults import Fault, Point, Rule
from .resources import PODS
from .steps import at_each, die
from .store import Change
from .virtual import START, later

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRING = int(BEGIN + DUE)
POLICIES = ("Allow", "Forbid")


# The situations: a scene, and the replica whose steps count from now on


async def on_time(policy: str) -> tuple[Scene, Operator]:
    """Half a second before a firing: the replica that acts first for it."""
    scene = Scene()
    uid = scene.job(concurrencyPolicy=policy)
    scene.start("a", "b")
    await scene.at(DUE - 0.5)
    return scene, scene.first(uid)


async def takeover(policy: str) -> tuple[Scene, Operator]:
    """The first replica has died with a claim and no Pod: the one that takes it over."""
    scene = Scene()
    uid = scene.job(concurrencyPolicy=policy)
    scene.start("a", "b", "c")
    await scene.at(DUE - 0.5)
    first, second = scene.first(uid), scene.others(uid)[0]
    first.connection.plan.add(Rule(fault=Fault(crash=Point.BEFORE_SEND), method="POST", resource="pods"))
    await scene.at(DUE + 3)
    assert first.process.crashed
    del scene.operators[first.name]
    return scene, second


async def late(policy: str) -> tuple[Scene, Operator]:
    """No replica ran when the one firing of the day was due: the one that will settle it, from its start."""
    scene = Scene()
    uid = scene.job(schedule="1 9 * * *", concurrencyPolicy=policy)
    scene.start("a", "b")
    await scene.at(5)
    scene.crash()
    await scene.at(DUE + 70)
    scene.start("d", "e")
    return scene, scene.first(uid)


async def retry(policy: str) -> tuple[Scene, Operator]:
    """The first attempt is about to fail: the replica that will record it and make the next."""
    scene = Scene()
    uid = scene.job(schedule="1 9 * * *", concurrencyPolicy=policy, retry={"maxRetries": 3, "delay": "2s"})
    fails = End(1.5, "Failed")
    scene.kubelet.ends = lambda pod: fails if attempt_of(pod) == 1 else scene.end
    scene.start("a", "b", "c")
    await scene.at(DUE + 1.4)
    return scene, scene.first(uid)


Situation = Callable[[str], Awaitable[tuple[Scene, Operator]]]


@dataclass(frozen=True)
class Course:
    """The steps that the replica takes in an undisturbed run, until the firing has its record."""

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


@cache
def course(situation: Situation, policy: str) -> Course:
    async def undisturbed() -> Course:
        scene, victim = await situation(policy)
        process = victim.process
        begin = process.steps
        await scene.until(lambda: state_of(scene, FIRING) == "Succeeded")
        return Course(begin, process.steps, tuple(s for s in process.send_steps if s > begin))

    return play(undisturbed, start=BEGIN)


def state_of(scene: Scene, firing: int) -> str:
    return str(last_lines(scene.status()["history"]).get(firing, {}).get("state"))


def delete_next_pod(scene: Scene) -> None:
    """Somebody deletes the next Pod, soon after it was made."""
    before = len(scene.api.ledger.pods)

    def on_change(change: Change) -> None:
        if change.before is None and len(scene.api.ledger.pods) == before:
            later(0.3, delete_pod, scene.api, change.key[1])

    scene.api.store.tables[PODS].listeners[id(scene)] = on_change


async def stopped(situation: Situation, policy: str, step: int, *, stall: float | None, deleting: bool) -> None:
    """Stop the replica at a step: for a while, or for good; then another one comes in its place. Then look."""
    scene, victim = await situation(policy)
    began = scene.now - BEGIN
    if deleting:
        delete_next_pod(scene)
    if stall is None:
        await die(scene, victim, step)
        await scene.at(began + 66)
    else:
        victim.process.stall_at(step, stall)
        await scene.at(began + max(66, stall + 41))
        assert victim.process.stalled_until >= began + stall
    scene.witness.check(calm_seconds=35)
    (account,) = scene.witness.accounts.values()
    assert scene.api.ledger.firings(account.uid)[0] == FIRING
    lost = deleting and situation is not retry
    assert last_lines(account.lines.values())[FIRING]["state"] == ("Failed" if lost else "Succeeded")
    if situation is retry:
        assert [pod.attempt for pod in scene.api.ledger.pods] == [1, 2, 3][: 3 if deleting else 2]


def stop_at_each(
    steps: Iterable[int], situation: Situation, policy: str, *, stall: float | None, deleting: bool
) -> None:
    """Play it once for each step."""

    async def scenario(step: int) -> None:
        await stopped(situation, policy, step, stall=stall, deleting=deleting)

    at_each(steps, scenario, start=BEGIN, what=f"{situation.__name__}, {policy}", of=course(situation, policy))


deleted_or_not = pytest.mark.parametrize(
    "deleting", [pytest.param(False, id="the Pod ends"), pytest.param(True, id="somebody deletes the Pod")]
)


@pytest.mark.parametrize("policy", [*POLICIES, "Replace"])
@pytest.mark.parametrize("situation", [on_time, takeover, late, retry])
@deleted_or_not
def test_a_crash_at_any_step_costs_no_firing_and_doubles_none(
    situation: Situation, policy: str, deleting: bool
) -> None:
    """Between two requests it leaves the same world wherever it comes: it comes right after the first, and right before the second."""
    stop_at_each(course(situation, policy).decisive, situation, policy, stall=None, deleting=deleting)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("stall", [1.0, 4.0, 20.0, 70.0])
@deleted_or_not
def test_a_stall_at_any_step_costs_no_firing_and_doubles_none(policy: str, stall: float, deleting: bool) -> None:
    stop_at_each(course(on_time, policy).steps, on_time, policy, stall=stall, deleting=deleting)


@pytest.mark.parametrize(
    ("situation", "policy"),
    [(takeover, "Forbid"), (late, "Forbid"), (late, "Allow"), (retry, "Forbid"), (retry, "Allow")],
)
@pytest.mark.parametrize("stall", [4.0, 70.0])
def test_a_stall_at_any_step_of_what_makes_up_for_others_doubles_nothing(
    situation: Situation, policy: str, stall: float
) -> None:
    stop_at_each(course(situation, policy).steps, situation, policy, stall=stall, deleting=stall == 70)


@pytest.mark.parametrize(
    ("situation", "policy", "stall"),
    [
        pytest.param(on_time, "Allow", 600.0, id="10 minutes"),
        pytest.param(on_time, "Forbid", 600.0, id="10 minutes, Forbid"),
        pytest.param(takeover, "Forbid", 600.0, id="10 minutes, in a takeover"),
        pytest.param(late, "Forbid", 600.0, id="10 minutes, of a missed firing"),
        pytest.param(retry, "Forbid", 600.0, id="10 minutes, of an attempt"),
        pytest.param(on_time, "Forbid", 3600.0, id="an hour"),
    ],
)
def test_a_stall_that_outlasts_reaping_launches_nothing_again(situation: Situation, policy: str, stall: float) -> None:
    stop_at_each(course(situation, policy).decisive, situation, policy, stall=stall, deleting=stall == 600)
