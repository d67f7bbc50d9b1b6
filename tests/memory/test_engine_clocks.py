"""Clocks are set and jobs are edited all the time: each firing that is due runs once, and no other."""

from __future__ import annotations

import asyncio
import random

from quarterjack import names

from .actors import TEMPLATE, annotate, edit_spec, objects, start_run
from .engine import Operator, Scene, play, states
from .faults import Fault, Outcome, Plan, Rule
from .resources import JOBS, LEASES, PODS
from .virtual import START

BEGIN = START + 50  # the first minute begins ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
MINUTE, HOUR = 60, 3600
MANY, MINUTES = 10, 15


def seen(operator: Operator) -> list[str]:
    """The replicas that one takes to be there."""
    return list(operator.running.membership.members)


# Jobs are edited


def test_b06_jobs_that_are_edited_suspended_and_resumed_all_the_time_run_once_when_due_and_never_while_suspended() -> (
    None
):
    chance = random.Random(6)
    suspended: dict[str, list[tuple[float, bool]]] = {}

    def disturb(scene: Scene, name: str) -> None:
        match chance.randrange(3):
            case 0:
                edit_spec(scene.api, name, template=TEMPLATE, description=f"as of {scene.now:.1f}")
            case 1:
                annotate(scene.api, JOBS, name, touched=f"{scene.now:.1f}")
            case _:
                now = not suspended[name][-1][1]
                edit_spec(scene.api, name, suspend=now)
                suspended[name].append((scene.now, now))

    def expected(name: str, until: float) -> list[int]:
        minutes = range(FIRST, int(until) + 1, MINUTE)
        return [m for m in minutes if not [off for at, off in suspended[name] if at <= m][-1]]

    async def scenario() -> None:
        scene = Scene()
        uids = {f"job-{n}": scene.job(f"job-{n}", concurrencyPolicy="Allow") for n in range(MANY)}
        suspended.update({name: [(0.0, False)] for name in uids})
        scene.start("a", "b", "c")
        for minute in range(1, MINUTES + 1):
            # up to the last moment before the minute, and not while its firings are being launched
            for second in sorted(chance.uniform(3, 59.95) for _ in range(20)):
                await scene.at(DUE + MINUTE * (minute - 1) + second)
                disturb(scene, chance.choice(list(uids)))
        await scene.at(DUE + MINUTES * MINUTE + 40)
        scene.witness.check(calm_seconds=30)
        for name, uid in uids.items():
            assert scene.api.ledger.firings(uid) == expected(name, scene.now), name
        assert sum(len(turns) for turns in suspended.values()) > 50

    play(scenario, start=BEGIN)


# Clocks are set, and renewals fail


def test_c18_a_replica_whose_clock_is_six_hours_ahead_for_a_while_starts_nothing_before_its_time_nor_twice() -> None:
    async def scenario() -> None:
        scene = Scene()
        minutely = scene.job(concurrencyPolicy="Allow")
        hourly = scene.job("hourly", schedule="0 * * * *", concurrencyPolicy="Allow")
        scene.start("a", "b", "c")
        await scene.at(DUE + 30)
        wrong = scene.first(minutely)
        wrong.clock.offset_seconds = 6 * HOUR
        await scene.at(DUE + 30 + 600)
        assert scene.api.ledger.firings(hourly) == []
        wrong.clock.offset_seconds = 0
        await scene.at(DUE + 1290)
        scene.witness.check(calm_seconds=60)
        assert scene.api.ledger.firings(minutely) == [FIRST + MINUTE * n for n in range(22)]
        assert all(0 <= late < 1.5 for late in scene.api.ledger.lateness())

    play(scenario, start=BEGIN)


def test_b10_what_goes_on_in_the_background_goes_on_after_renewals_that_failed_and_clocks_that_jumped() -> None:
    """The clocks of all replicas jump ahead by an hour, back by two, and ahead again; no membership is renewed for 90 s."""

    async def scenario() -> None:
        scene = Scene()
        plan = Plan()
        uid = scene.job(concurrencyPolicy="Allow", successfulRunsHistoryLimit=3, podHistoryLimit=1)
        scene.start("a", "b", "c", plan=plan)
        await scene.at(DUE + 100)
        refused = Rule(fault=Fault(outcome=Outcome.REFUSED), method="PATCH", resource="leases", name="member-")
        refused.times = float("inf")
        plan.add(refused)
        await scene.at(DUE + 190)
        refused.times = 0
        await scene.at(DUE + 210)
        assert [seen(operator) for operator in scene.operators.values()] == [["a", "b", "c"]] * 3
        for seconds, offset in ((300, 3600.0), (500, -3600.0), (700, 0.0)):
            await scene.at(DUE + seconds)
            for operator in scene.operators.values():
                operator.clock.offset_seconds = offset
        await scene.at(DUE + 1530)
        scene.witness.check(calm_seconds=60)
        assert scene.api.ledger.firings(uid) == [FIRST + MINUTE * n for n in range(26)]
        assert len(states(scene.status())) <= 4
        assert len(objects(scene.api, PODS)) <= 1 + 3
        claims = [lease for lease in objects(scene.api, LEASES) if names.LABEL_FIRING in lease["metadata"]["labels"]]
        assert len(claims) <= 6

    play(scenario, start=BEGIN)


def test_b10_a_run_by_hand_that_could_not_be_answered_while_clocks_were_ahead_is_answered_once_they_are_right() -> None:
    async def scenario() -> None:
        scene = Scene()
        plan = Plan()
        scene.job(schedule="0 0 1 1 *")
        scene.start("a", "b", plan=plan)
        await scene.at(300)
        refused = Rule(fault=Fault(outcome=Outcome.REFUSED), method="PATCH", resource="scheduledjobruns")
        refused.times = float("inf")
        plan.add(refused)
        for operator in scene.operators.values():
            operator.clock.offset_seconds = 3600.0
        start_run(scene.api, "run", "job")
        await scene.until(lambda: all(operator.running.requests.agenda for operator in scene.operators.values()))
        await asyncio.sleep(0.2)
        for operator in scene.operators.values():
            operator.clock.offset_seconds = 0.0
        refused.times = 0
        await scene.at(400)
        assert len(objects(scene.api, PODS)) == 1

    play(scenario, start=BEGIN)
