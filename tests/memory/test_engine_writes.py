"""Each write of the engine goes wrong in each way in which a write can: the firing runs once, and has its record."""

from __future__ import annotations

from typing import Any

import pytest

from .engine import Scene, firing_lines, play
from .faults import Fault, Outcome, Plan, Point, Rule
from .virtual import START, virtual_loop

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST, SECOND = int(BEGIN + DUE), int(BEGIN + DUE) + 60


def is_claim(name: str) -> bool:
    """Claims are named by a UID without dashes and an epoch."""
    return name.rpartition("-")[2].isdigit() and len(name) > 40


FAULTS = {
    "it was not sent": Fault(outcome=Outcome.NOT_SENT),
    "it never arrives": Fault(outcome=Outcome.LOST),
    "it never arrives, which only a timeout tells": Fault(outcome=Outcome.LOST, unnoticed=True),
    "it is done, and the answer is lost": Fault(outcome=Outcome.UNANSWERED),
    "it is done, and only a timeout tells that there is no answer": Fault(outcome=Outcome.UNANSWERED, unnoticed=True),
    "it arrives late, is done later, and the answer is lost": Fault(
        outcome=Outcome.UNANSWERED, arrival_seconds=0.5, commit_seconds=1.9
    ),
    "it is done after its sender has given up": Fault(arrival_seconds=2.9, commit_seconds=1.9),
    "the server gives up on it": Fault(commit_seconds=61.0),
    "429": Fault(outcome=Outcome.REFUSED, status=429, retry_after_seconds=2),
    "500": Fault(outcome=Outcome.REFUSED, status=500),
    "500, though it is done": Fault(outcome=Outcome.BROKEN, status=500),
    "503": Fault(outcome=Outcome.REFUSED, status=503),
    "401": Fault(outcome=Outcome.REFUSED, status=401),
    "its sender stalls for ten seconds before it": Fault(stall=Point.BEFORE_SEND, stall_seconds=10),
    "its sender stalls for ten seconds after it is sent": Fault(stall=Point.AFTER_SEND, stall_seconds=10),
    "its sender stalls for ten seconds after it is done": Fault(stall=Point.AFTER_COMMIT, stall_seconds=10),
    "its sender dies before it": Fault(crash=Point.BEFORE_SEND),
    "its sender dies once it is sent": Fault(crash=Point.AFTER_SEND),
    "its sender dies once it is done": Fault(crash=Point.AFTER_COMMIT),
}
WRITES: dict[str, dict[str, Any]] = {
    "the claim": {"method": "POST", "resource": "leases", "where": lambda r: is_claim(r.name)},
    "the run lease, first": {"method": "POST", "resource": "leases", "where": lambda r: len(r.name) == 36},
    "the run lease, taken from an earlier run": {
        "method": "PATCH",
        "resource": "leases",
        "where": lambda r: len(r.name) == 36,
    },
    "the Pod": {"method": "POST", "resource": "pods", "where": lambda r: "dryRun" not in r.query},
    "a status": {"method": "PATCH", "resource": "scheduledjobs", "where": lambda r: r.sent_at > DUE},
    "the observing status": {"method": "PATCH", "resource": "scheduledjobs", "where": lambda r: r.sent_at < DUE},
    "a membership": {"method": "PATCH", "resource": "leases", "where": lambda r: r.name.startswith("member-")},
    "the run lease, released": {"method": "DELETE", "resource": "leases", "where": lambda r: len(r.name) == 36},
    "reaping a claim": {"method": "DELETE", "resource": "leases", "where": lambda r: len(r.name) != 36},
    "reaping a Pod": {"method": "DELETE", "resource": "pods"},
}
each_fault = pytest.mark.parametrize("fault", FAULTS)


async def scene_with(rule: Rule, *, names: str = "abc") -> Scene:
    """A job that forbids overlap, and replicas of which the first to meet the fault does."""
    scene = Scene()
    scene.job(podHistoryLimit=0)
    plan = Plan([rule])
    scene.start(*names, plan=plan)
    scene.replace_the_dead(after_seconds=5, plan=plan)
    await scene.at(DUE)
    return scene


@pytest.mark.parametrize(
    ("write", "fault", "times"),
    [
        pytest.param(write, fault, times, id=f"{write}, {fault}" + (", thrice" if times > 1 else ""))
        for write in WRITES
        for fault in FAULTS
        for times in ((1,) if "sender" in fault else (1, 3))
    ],
)
def test_a_write_that_goes_wrong_costs_no_firing_and_doubles_none(write: str, fault: str, times: int) -> None:
    async def scenario() -> None:
        rule = Rule(fault=FAULTS[fault], times=times, **WRITES[write])
        scene = await scene_with(rule)
        scene.end.after_seconds = 40 if write.endswith("from an earlier run") else 1.5  # then it is not released before
        reaping = rule.method == "DELETE"
        await scene.at(DUE + (250 if reaping else 160))
        assert rule.matched >= 1
        scene.witness.check(calm_seconds=95)
        lines = next(iter(scene.witness.accounts.values())).lines
        assert [lines[str(firing)]["state"] for firing in (FIRST, SECOND)] == ["Succeeded"] * 2

    play(scenario, start=BEGIN)


TAKEOVERS: dict[str, dict[str, Any]] = {
    "the takeover": {"method": "PATCH", "resource": "leases", "where": lambda r: is_claim(r.name)},
    "its Pod": {"method": "POST", "resource": "pods", "where": lambda r: r.sent_at > DUE + 3},
    "its record": {"method": "PATCH", "resource": "scheduledjobs", "where": lambda r: r.sent_at > DUE + 10},
}


@pytest.mark.parametrize("write", TAKEOVERS)
@each_fault
def test_a_takeover_whose_write_goes_wrong_is_taken_over_in_its_turn(write: str, fault: str) -> None:
    async def scenario() -> None:
        rule = Rule(fault=FAULTS[fault], **TAKEOVERS[write])
        dies = Rule(fault=Fault(crash=Point.BEFORE_SEND), method="POST", resource="pods", where=lambda r: r.sent_at > 5)
        scene = Scene()
        scene.job()
        scene.start("a", "b", "c", plan=Plan([dies, rule]))
        await scene.at(DUE + 100)
        assert rule.matched >= 1
        scene.witness.check(calm_seconds=60)
        assert next(iter(scene.witness.accounts.values())).lines[str(FIRST)]["state"] == "Succeeded"

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("fault", [name for name in FAULTS if "dies" not in name])
def test_a_skip_whose_write_goes_wrong_is_still_one_skip(fault: str) -> None:
    async def scenario() -> None:
        rule = Rule(
            fault=FAULTS[fault],
            method="PATCH",
            resource="leases",
            where=lambda r: is_claim(r.name) and b"Skipped" in r.body,
        )
        scene = await scene_with(rule)
        scene.end.after_seconds = 100
        await scene.until(lambda: FIRST in firing_lines(scene.status()))
        await scene.at(DUE + 130)
        assert rule.matched >= 1
        scene.witness.check(calm_seconds=60, alive=True)
        line = firing_lines(scene.status())[SECOND]
        assert (line["state"], line["reason"]) == ("Skipped", "Overlap")

    play(scenario, start=BEGIN)


def test_while_the_server_throttles_every_write_it_is_not_asked_more_often_for_it() -> None:
    async def scenario() -> None:
        rule = Rule(
            fault=Fault(outcome=Outcome.REFUSED, status=429, retry_after_seconds=1),
            method="POST",
            resource="leases",
            where=lambda r: is_claim(r.name),
            times=float("inf"),
        )
        scene = await scene_with(rule)
        await scene.at(DUE + 20)
        asked = rule.matched
        rule.times = 0
        await scene.at(DUE + 60 + 40)
        assert 3 <= asked <= 130, f"{asked} claims sent in {virtual_loop().time()} s"
        scene.witness.check(calm_seconds=60)

    play(scenario, start=BEGIN)
