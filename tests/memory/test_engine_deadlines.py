"""How late a firing may still start: a deadline of seconds in a crowd, beside the death of a replica, and with jitter."""

from __future__ import annotations

import re
from math import inf

import pytest

from quarterjack.decision import start_time
from quarterjack.plan import plan_of

from .actors import objects
from .engine import Scene, firing_lines, play
from .faults import Fault, Plan, Point, Rule
from .resources import EVENTS
from .virtual import START

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
ONCE_A_DAY = "1 9 * * *"
CROWD = 500
DEADLINES = {0: 1, 10: 5}  # of some in twenty
LATE = re.compile(r"It could not start within startingDeadlineSeconds \(([15])\): it was ([0-9.]+) s late")


def test_c12_with_a_deadline_of_seconds_a_firing_in_a_crowd_runs_in_time_or_says_how_late_it_was() -> None:
    async def scenario() -> None:
        scene = Scene()
        deadlines = {f"job-{number}": DEADLINES.get(number % 20) for number in range(CROWD)}
        for name, deadline in deadlines.items():
            scene.job(name, schedule=ONCE_A_DAY, **{"startingDeadlineSeconds": deadline} if deadline else {})
        slow = Fault(arrival_seconds=0.4, commit_seconds=0.0)
        plan = Plan([Rule(fault=slow, method="POST", times=inf, where=lambda r: r.sent_at > DUE - 2)])
        scene.start("a", "b", "c", plan=plan)
        await scene.at(DUE + 40)

        lines = {name: firing_lines(scene.status(name))[FIRST] for name in deadlines}
        ran = {name for name, line in lines.items() if line["state"] == "Succeeded"}
        late = {name: line for name, line in lines.items() if name not in ran}
        assert {deadlines[name] for name in ran} == {None, 1, 5}
        assert 1 in {deadlines[name] for name in late}
        assert {(line["state"], line["reason"]) for line in late.values()} == {("Missed", "StartingDeadlineExceeded")}
        said = [LATE.fullmatch(line["message"]) for line in late.values()]
        assert all(match is not None and float(match[2]) >= int(match[1]) for match in said)

    play(scenario, start=BEGIN)


def test_a_replica_that_dies_as_it_launches_costs_a_firing_with_a_short_deadline_as_its_author_was_warned() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.job("short", schedule=ONCE_A_DAY, startingDeadlineSeconds=5)
        scene.job("long", schedule=ONCE_A_DAY, startingDeadlineSeconds=15)
        dies = Rule(fault=Fault(crash=Point.BEFORE_SEND), method="POST", resource="pods", times=2)
        dies.where = lambda r: r.sent_at > DUE - 2
        scene.start("a", "b", "c", "d", plan=Plan([dies]))
        await scene.at(DUE + 100)

        told = {name: firing_lines(scene.status(name))[FIRST]["state"] for name in ("short", "long")}
        assert told == {"short": "Missed", "long": "Succeeded"}
        warned = [event for event in objects(scene.api, EVENTS) if event["reason"] == "ShortStartingDeadline"]
        assert [event["regarding"]["name"] for event in warned] == ["short"]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("away", [False, True], ids=["a replica is there", "none is when it is to start"])
def test_a_firing_that_jitter_delays_past_its_deadline_is_not_missed_for_that(away: bool) -> None:
    async def scenario() -> None:
        scene = Scene()
        uid = scene.job(schedule=ONCE_A_DAY, jitter="30m", startingDeadlineSeconds=100)
        scene.start("a", "b")
        await scene.at(5)
        job = scene.operators["a"].running.store.jobs[uid]
        start = start_time(job, plan_of(job.spec.timing, anchor=job.created), FIRST)
        if away:
            await scene.at(start - BEGIN - 10)
            scene.crash()
            await scene.at(start - BEGIN + 70)
            scene.start("c")
        await scene.at(start - BEGIN + 95)

        [pod] = scene.api.ledger.pods
        assert pod.firing == FIRST
        assert start > FIRST + 100

    play(scenario, start=BEGIN)
