"""The run lease: taken once, renewed while its run is seen alive, released when that has ended; whatever becomes of the writes."""

from __future__ import annotations

import asyncio
from math import inf
from typing import Any

import pytest

from quarterjack.manifests import Run
from quarterjack.names import claim_name
from quarterjack.runs import Taken

from .actors import ask, delete_pod, edit_spec, objects, read, succeed
from .engine import MINUTELY, Scene, firing_lines, play, states
from .faults import NO_FAULT, Fault, Outcome, Plan, Rule
from .resources import JOBS, LEASES, PODS
from .statuses import Document
from .virtual import START, later
from .witness import epoch

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
MINUTE = 60
ONCE_A_DAY = "1 9 * * *"


async def scene_of(*, runs: float = 1.5, plan: Plan | None = None, **spec: Any) -> tuple[Scene, str]:
    scene = Scene()
    scene.end.after_seconds = runs
    uid = scene.job(**{"concurrencyPolicy": "Forbid", "schedule": ONCE_A_DAY} | spec)
    scene.start("a", "b", "c", plan=plan)
    await scene.at(5)
    return scene, uid


def writes_of(plan: Plan, uid: str) -> dict[str, Rule]:
    """Counters of the writes of a job's run lease, by method."""
    return {
        method: plan.add(Rule(fault=NO_FAULT, method=method, resource="leases", name=uid, times=inf))
        for method in ("POST", "PATCH", "DELETE")
    }


def run_lease(scene: Scene, uid: str) -> Document | None:
    return read(scene.api, LEASES, uid, "quarterjack")


def change_lease(scene: Scene, uid: str, **spec: Any) -> None:
    succeed(ask(scene.api, "PATCH", LEASES.path("quarterjack", uid), {"spec": spec}))


# What it costs


def test_a_run_takes_and_releases_its_lease_with_one_write_each() -> None:
    async def scenario() -> None:
        plan = Plan()
        scene, uid = await scene_of(plan=plan)
        writes = writes_of(plan, uid)
        await scene.at(DUE + 1)
        taken = run_lease(scene, uid)
        await scene.at(DUE + 120)
        assert taken is not None
        assert taken["spec"]["holderIdentity"] == claim_name(uid, str(FIRST))
        assert taken["spec"]["leaseDurationSeconds"] == 900
        assert run_lease(scene, uid) is None
        assert {method: rule.matched for method, rule in writes.items()} == {"POST": 1, "PATCH": 0, "DELETE": 1}

    play(scenario, start=BEGIN)


def test_a_job_that_fires_often_passes_its_lease_on_with_one_write_for_each_firing() -> None:
    async def scenario() -> None:
        plan = Plan()
        scene, uid = await scene_of(plan=plan, schedule="*/20 * * * * *")
        writes = writes_of(plan, uid)
        await scene.at(DUE + 201)
        scene.witness.check(calm_seconds=15)
        assert writes["PATCH"].matched == 10
        assert writes["DELETE"].matched == 0

    play(scenario, start=BEGIN)


def test_a_long_run_has_its_lease_renewed_by_one_replica_at_a_third_of_its_duration() -> None:
    async def scenario() -> None:
        plan = Plan()
        scene, uid = await scene_of(plan=plan, runs=3000)
        writes = writes_of(plan, uid)
        await scene.at(DUE + 1600)
        lease = run_lease(scene, uid)
        assert lease is not None
        assert FIRST + 1500 <= epoch(lease["spec"]["renewTime"]) <= FIRST + 1510
        assert writes["PATCH"].matched == 5

    play(scenario, start=BEGIN)


def test_no_lease_is_taken_where_runs_may_overlap() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(concurrencyPolicy="Allow", schedule=MINUTELY, runs=100)
        await scene.at(DUE + 130)
        assert run_lease(scene, uid) is None
        assert scene.witness.most_alive == 2

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("before", ["nobody", "a run that has ended"])
def test_of_two_replicas_that_take_it_at_once_for_different_runs_one_is_told_no(before: str) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="0 1 9 * * *" if before != "nobody" else None)
        await scene.at(DUE + 20)
        a, b = (scene.operators[name] for name in "ab")
        takes = [
            operator.process.start(operator.running.run_leases.take(Run(operator.running.store.jobs[uid], firing)))
            for operator, firing in ((a, FIRST + 60), (b, FIRST + 120))
        ]
        results = await asyncio.gather(*takes)
        assert sorted(str(type(result).__name__) for result in results) == ["Held", "Taken"]
        assert Taken.YES in results

    play(scenario, start=BEGIN)


# What may go wrong with its writes


@pytest.mark.parametrize("method", ["POST", "PATCH", "DELETE"])
@pytest.mark.parametrize("outcome", [Outcome.UNANSWERED, Outcome.LOST, Outcome.BROKEN, Outcome.REFUSED])
def test_lost_answers_on_its_writes_cost_no_firing_and_let_none_overlap(method: str, outcome: Outcome) -> None:
    async def scenario() -> None:
        plan = Plan()
        scene, uid = await scene_of(plan=plan, schedule=MINUTELY, runs=20)
        plan.add(Rule(fault=Fault(outcome=outcome), method=method, resource="leases", name=uid, times=3))
        await scene.at(DUE + 330)
        scene.witness.check(calm_seconds=60)
        lines = firing_lines(scene.status())
        assert {line["state"] for line in lines.values()} <= {"Succeeded", "Running"}
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


def test_a_replica_whose_view_is_old_takes_no_lease_that_another_run_holds() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule=MINUTELY, runs=100)
        for name in list(scene.operators):
            if scene.operators[name] is not scene.first(uid):
                scene.operators[name].connection.delay_watches(40, "")
        await scene.at(DUE + 30)
        first = scene.first(uid).name
        scene.crash(first)
        await scene.at(DUE + 250)
        scene.witness.check(calm_seconds=90)
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


def test_a_run_whose_pod_is_on_its_way_keeps_its_lease() -> None:
    async def scenario() -> None:
        plan = Plan()
        scene, uid = await scene_of(plan=plan, schedule="0,1 1 9 * * *", runs=30)
        plan.add(Rule(fault=Fault(arrival_seconds=1.8), method="POST", resource="pods"))
        await scene.at(DUE + 60)
        scene.witness.check(calm_seconds=10)
        assert states(scene.status()) == ["Succeeded", "Skipped"]
        assert scene.api.ledger.firings(uid) == [FIRST]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    "times",
    [
        pytest.param({"renewTime": None}, id="never renewed"),
        pytest.param({"renewTime": "2036-01-01T00:00:00.000000Z"}, id="renewed in the future"),
        pytest.param({"leaseDurationSeconds": None}, id="for no time that is known"),
        pytest.param({"leaseDurationSeconds": None, "renewTime": None, "acquireTime": None}, id="without any times"),
    ],
)
def test_a_lease_with_odd_times_keeps_a_live_run_and_is_taken_from_a_dead_one(times: dict[str, Any]) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule=MINUTELY, runs=1000, leaseDuration="2m")
        scene.kubelet.evicts = False
        await scene.at(DUE + 5)
        change_lease(scene, uid, **times)
        scene.crash()
        scene.start("d", "e", "f")
        await scene.at(DUE + 75)
        assert firing_lines(scene.status())[FIRST + 60]["state"] == "Skipped"
        scene.kubelet.lose_node()
        scene.kubelet.node = "node-2"
        await scene.at(DUE + 130)  # its node is lost, so nobody renews it any more
        change_lease(scene, uid, **times)
        await scene.at(DUE + 360)
        lines = firing_lines(scene.status())
        assert (lines[FIRST]["state"], lines[FIRST]["reason"]) == ("Stale", "NodeLost")
        assert [lines[FIRST + 60 * n]["state"] for n in (4, 5)] == ["Skipped", "Running"]

    play(scenario, start=BEGIN)


def test_a_take_over_honours_the_duration_for_which_the_lease_was_taken() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule=MINUTELY, runs=3000, leaseDuration="10m", failedRunsHistoryLimit=50)
        scene.kubelet.evicts = False
        await scene.at(DUE + 20)
        scene.kubelet.lose_node()
        scene.kubelet.node = "node-2"
        await scene.at(DUE + 80)
        edit_spec(scene.api, "job", leaseDuration="1m")
        await scene.at(DUE + 660)
        assert firing_lines(scene.status())[FIRST]["state"] == "Running"
        assert len(scene.api.ledger.pods) == 1
        await scene.at(DUE + 790)
        scene.witness.check(calm_seconds=60, alive=True)
        assert firing_lines(scene.status())[FIRST]["state"] == "Stale"
        assert len(scene.api.ledger.pods) == 2

    play(scenario, start=BEGIN)


def test_a_lease_that_somebody_has_scribbled_on_holds_up_nothing() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule=MINUTELY)
        await scene.at(DUE + 10)
        notes = {"metadata": {"annotations": {"quarterjack.dev/holder": "nobody"}}}
        succeed(ask(scene.api, "PATCH", LEASES.path("quarterjack", uid), notes))
        await scene.at(DUE + 130)
        scene.witness.check(calm_seconds=5)
        assert states(scene.status()) == ["Succeeded"] * 3

    play(scenario, start=BEGIN)


def test_renewals_that_fail_and_clocks_that_jump_end_no_run() -> None:
    async def scenario() -> None:
        plan = Plan()
        scene, uid = await scene_of(plan=plan, schedule=MINUTELY, runs=1000, leaseDuration="1m")
        plan.add(Rule(fault=Fault(outcome=Outcome.REFUSED), method="PATCH", resource="leases", name=uid, times=20))
        for seconds, offset in ((100, 3600), (200, -3600), (300, 0)):
            later(seconds, shift_clocks, scene, offset)
        await scene.at(DUE + 990)
        scene.witness.check(calm_seconds=60, alive=True)
        assert len(scene.api.ledger.pods) == 1
        lease = run_lease(scene, uid)
        assert lease is not None
        assert abs(scene.now - epoch(lease["spec"]["renewTime"])) < 40

    play(scenario, start=BEGIN)


def shift_clocks(scene: Scene, offset: float) -> None:
    for operator in scene.operators.values():
        operator.clock.offset_seconds = offset


# Runs whose operator was away


def test_a_run_outlives_the_absence_of_all_replicas_and_is_recorded_once() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="1/10 * * * *", runs=4000)
        await scene.at(DUE + 60)
        scene.crash()
        await scene.at(DUE + 3000)
        scene.start("d", "e", "f")
        await scene.at(DUE + 3100)
        assert firing_lines(scene.status())[FIRST]["state"] == "Running"
        await scene.at(DUE + 4100)
        assert firing_lines(scene.status())[FIRST]["state"] == "Succeeded"
        assert scene.witness.most_alive == 1
        assert scene.api.ledger.firings(uid) == [FIRST]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
def test_replicas_that_die_and_are_replaced_one_after_the_other_let_no_runs_overlap(policy: str) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy=policy, schedule="1/2 * * * *", runs=600, failedRunsHistoryLimit=50)
        for seconds in range(20, 700, 45):
            await scene.at(DUE + seconds)
            scene.crash(next(iter(scene.operators)))
            later(8, scene.restart)
        scene.crash(*list(scene.operators)[1:])
        await scene.at(DUE + 760)
        scene.start("x", "y")
        await scene.at(DUE + 850)
        scene.witness.check(calm_seconds=140, alive=True)
        reasons = {line.get("reason") for line in scene.status()["history"] if line["state"] in ("Skipped", "Canceled")}
        assert reasons == {"Overlap" if policy == "Forbid" else "Replaced"}
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
@pytest.mark.parametrize("silent", [False, True], ids=["it is told so", "nothing comes back"])
def test_a_replica_cut_off_for_three_lease_durations_starts_nothing_and_replays_nothing(
    policy: str, silent: bool
) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(concurrencyPolicy=policy, schedule=MINUTELY, runs=20, leaseDuration="1m")
        await scene.at(DUE + 30)
        cut_off = scene.first(uid)
        cut_off.connection.partition(silent=silent)
        later(190, cut_off.connection.heal)
        await scene.at(DUE + 400)
        scene.witness.check(calm_seconds=60, alive=True)
        assert scene.api.ledger.firings(uid) == [FIRST + 60 * n for n in range(7)]
        assert set(states(scene.status())[:6]) == {"Succeeded"}

    play(scenario, start=BEGIN)


def test_a_pod_deleted_while_no_replica_ran_frees_the_next_firing() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule=MINUTELY, runs=1000)
        await scene.at(DUE + 30)
        scene.crash()
        (pod,) = objects(scene.api, PODS)
        delete_pod(scene.api, pod["metadata"]["name"], now=True)
        scribble = {"status": {"active": [{"id": "1", "state": "Running", "scheduledTime": "2026-01-01T00:00:00Z"}]}}
        succeed(ask(scene.api, "PATCH", JOBS.path("default", "job") + "/status", scribble))
        await scene.at(DUE + 59.2)
        scene.start("d", "e", "f")
        await scene.at(DUE + 70)
        lines = firing_lines(scene.status())
        assert (lines[FIRST]["state"], lines[FIRST]["reason"]) == ("Failed", "PodDeleted")
        assert lines[FIRST + 60]["state"] == "Running"
        assert [line["id"] for line in scene.status()["active"]] == [str(FIRST + 60)]

    play(scenario, start=BEGIN)


def test_a_pod_that_somebody_deletes_frees_the_next_firing_once_it_has_ended() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule=MINUTELY, runs=1000)
        scene.kubelet.stop_seconds = 25
        await scene.at(DUE + 50)
        (pod,) = objects(scene.api, PODS)
        delete_pod(scene.api, pod["metadata"]["name"])
        await scene.at(DUE + 130)
        lines = firing_lines(scene.status())
        assert [lines[FIRST + MINUTE * n]["state"] for n in range(3)] == ["Failed", "Skipped", "Running"]
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)
