"""Replace: a firing that falls due stops the run before it, waits for its end or its grace, and starts."""

from __future__ import annotations

from dataclasses import replace
from itertools import cycle
from math import inf
from typing import Any

import pytest

from quarterjack.names import claim_name

from .actors import TEMPLATE, delete_pod, edit_spec, objects
from .engine import MINUTELY, Scene, firing_lines, last_lines, play
from .faults import Fault, Outcome, Plan, Point, Request, Rule
from .resources import PODS
from .statuses import Document
from .virtual import START
from .witness import epoch

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
LONG = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "terminationGracePeriodSeconds": 100}}


async def scene_of(*, runs: float = 1000, plan: Plan | None = None, **spec: Any) -> tuple[Scene, str]:
    scene = Scene()
    scene.end.after_seconds = runs
    usual: dict[str, Any] = {"concurrencyPolicy": "Replace", "schedule": MINUTELY, "failedRunsHistoryLimit": 50}
    uid = scene.job(**usual | spec)
    scene.start("a", "b", "c", plan=plan)
    await scene.at(5)
    return scene, uid


def lines(scene: Scene) -> dict[int, Document]:
    """The lines by minutes after the first firing."""
    return {(firing - FIRST) // 60: line for firing, line in firing_lines(scene.status()).items()}


def verdicts(scene: Scene) -> list[tuple[str, str]]:
    return [(line["state"], line.get("reason", "")) for _, line in sorted(lines(scene).items())]


def starts(scene: Scene) -> list[float]:
    """When each Pod was created, seconds after the first firing."""
    return [round(pod.at - FIRST, 1) for pod in scene.api.ledger.pods]


REPLACED = ("Canceled", "Replaced")


def test_a_firing_replaces_the_run_before_it_and_starts_once_that_has_ended() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.kubelet.stop_seconds = 8
        await scene.at(DUE + 150)
        scene.witness.check(calm_seconds=60, alive=True)
        assert verdicts(scene) == [REPLACED, REPLACED, ("Running", "")]
        assert lines(scene)[0]["message"] == "Replaced by the firing of 2026-03-02T09:02:00Z"
        assert scene.witness.most_alive == 1
        assert [60 + 8 < start < 60 + 9 for start in starts(scene)[1:2]] == [True]

    play(scenario, start=BEGIN)


def test_while_it_waits_its_line_says_for_whom() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.kubelet.stop_seconds = 20
        await scene.at(DUE + 50)
        (pod,) = objects(scene.api, PODS)
        await scene.at(DUE + 70)
        assert verdicts(scene) == [("Running", "Replaced"), ("Pending", "Waiting")]
        assert lines(scene)[1]["message"] == f"It waits for {pod['metadata']['name']} to end"

    play(scenario, start=BEGIN)


def test_a_run_that_ends_by_itself_is_replaced_by_nobody() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(runs=40)
        await scene.at(DUE + 170)
        scene.witness.check(calm_seconds=60)
        assert verdicts(scene) == [("Succeeded", "")] * 3

    play(scenario, start=BEGIN)


def test_a_pod_that_ignores_its_end_is_waited_for_until_the_kubelet_kills_it() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1/5 * * * *", template=LONG)
        scene.kubelet.stop_seconds = inf
        await scene.at(DUE + 420)
        scene.witness.check(calm_seconds=60, alive=True)
        assert 400 < starts(scene)[1] < 402
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


def test_a_pod_that_outstays_its_grace_is_waited_for_no_more() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1/5 * * * *", template=LONG)
        scene.kubelet.evicts = False
        await scene.at(DUE + 250)
        scene.kubelet.lose_node()
        scene.kubelet.node = "node-2"
        await scene.at(DUE + 405)
        assert len(starts(scene)) == 1
        await scene.at(DUE + 420)
        assert 410 <= starts(scene)[1] <= 413
        assert verdicts(scene) == [REPLACED, ("Running", "")]
        assert "still there after its grace" in lines(scene)[0]["message"]
        scene.kubelet.find_node()
        await scene.at(DUE + 500)
        scene.witness.check(calm_seconds=60, alive=True)
        assert verdicts(scene) == [REPLACED, ("Running", "")]

    play(scenario, start=BEGIN)


def test_a_finalizer_on_the_pod_of_a_replaced_run_holds_nothing_up() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        await scene.at(DUE + 30)
        (pod,) = objects(scene.api, PODS)
        scene.api.settle(PODS, {**pod, "metadata": {**pod["metadata"], "finalizers": ["example.com/keep"]}})
        await scene.at(DUE + 70)
        assert verdicts(scene) == [REPLACED, ("Running", "")]
        assert starts(scene)[1] < 62

    play(scenario, start=BEGIN)


def test_what_waits_gives_way_to_a_later_firing() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(template=LONG)
        scene.kubelet.stop_seconds = inf
        await scene.at(DUE + 170)
        scene.witness.check(calm_seconds=60, alive=True)
        assert verdicts(scene) == [REPLACED, ("Skipped", "Replaced"), ("Running", "")]
        assert scene.api.ledger.firings(uid) == [FIRST, FIRST + 120]
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


def test_an_earlier_firing_that_comes_late_does_not_stop_a_later_one() -> None:
    async def scenario() -> None:
        plan = Plan()
        scene, uid = await scene_of(plan=plan, schedule="0,20 1 9 * * *")
        claim = claim_name(uid, str(FIRST))
        plan.add(Rule(fault=Fault(crash=Point.BEFORE_SEND), method="POST", resource="leases", name=uid))
        plan.add(Rule(fault=Fault(outcome=Outcome.REFUSED), method="PATCH", resource="leases", name=claim, times=inf))
        await scene.at(DUE + 25)
        plan.rules.clear()
        await scene.at(DUE + 60)
        scene.witness.check(calm_seconds=10, alive=True)
        states = {
            firing - FIRST: (line["state"], line.get("reason")) for firing, line in firing_lines(scene.status()).items()
        }
        assert states == {0: ("Skipped", "Overlap"), 20: ("Running", None)}
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


def late(seconds: float) -> Rule:
    """Each status write takes so long."""
    slow = Fault(arrival_seconds=seconds / 2, answer_seconds=seconds / 2)
    return Rule(fault=slow, method="PATCH", resource="scheduledjobs", times=inf)


def conflict() -> Rule:
    """Of each four status writes three are refused with 409, some of them after they were done."""
    turns = cycle([Outcome.REFUSED, Outcome.BROKEN, Outcome.REFUSED, None])
    rule = Rule(fault=Fault(status=409), method="PATCH", resource="scheduledjobs", times=inf)

    def is_refused(_: Request) -> bool:
        outcome = next(turns)
        rule.fault = replace(rule.fault, outcome=outcome or Outcome.ANSWERED)
        return outcome is not None

    rule.where = is_refused
    return rule


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(late(2), id="2 s late"),
        pytest.param(late(15), id="15 s late"),
        pytest.param(conflict(), id="conflicts"),
    ],
)
def test_b05_statuses_that_come_late_or_conflict_replace_nothing_twice(rule: Rule) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(plan=Plan([rule]), startingDeadlineSeconds=60)
        await scene.at(DUE + 290)
        scene.witness.check(calm_seconds=100, alive=True)
        assert scene.api.ledger.firings(uid) == [FIRST + 60 * n for n in range(5)]
        assert scene.witness.most_alive == 1
        assert rule.matched > 5

    play(scenario, start=BEGIN)


def test_a_replaced_run_is_not_tried_again() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(retry={"maxRetries": 3, "delay": "1s"})
        await scene.at(DUE + 110)
        scene.witness.check(calm_seconds=60, alive=True)
        assert [line["attempt"] for line in scene.status()["history"]] == [1, 1]

    play(scenario, start=BEGIN)


def test_a_run_that_waits_to_be_tried_again_is_replaced() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(runs=10, retry={"maxRetries": 3, "delay": "200s"})
        scene.end.phase = "Failed"
        await scene.at(DUE + 50)
        scene.end.phase, scene.end.after_seconds = "Succeeded", 20
        await scene.at(DUE + 61)
        assert starts(scene) == [0.0, 60.0]
        edit_spec(scene.api, "job", schedule="0 0 1 1 *")
        await scene.at(DUE + 400)
        scene.witness.check(calm_seconds=60)
        last = last_lines(scene.status()["history"])[FIRST]
        assert (last["state"], last["reason"], last["attempt"]) == (*REPLACED, 2)
        assert starts(scene) == [0.0, 60.0]

    play(scenario, start=BEGIN)


def test_a_pod_that_does_not_start_is_replaced_like_one_that_runs() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.kubelet.holds = lambda _: "Unschedulable"
        await scene.at(DUE + 55)
        scene.kubelet.holds = lambda _: ""
        await scene.at(DUE + 70)
        assert verdicts(scene) == [REPLACED, ("Running", "")]

    play(scenario, start=BEGIN)


def test_a_run_that_somebody_deletes_is_waited_for() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.kubelet.stop_seconds = 25
        await scene.at(DUE + 50)
        (pod,) = objects(scene.api, PODS)
        delete_pod(scene.api, pod["metadata"]["name"])
        await scene.at(DUE + 80)
        scene.witness.check(calm_seconds=60, alive=True)
        assert verdicts(scene)[1] == ("Running", "")
        assert 75 < starts(scene)[1] < 77

    play(scenario, start=BEGIN)


# Edits


def test_runs_from_before_the_policy_became_replace_are_all_replaced() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy="Allow")
        await scene.at(DUE + 130)
        assert len(objects(scene.api, PODS)) == 3
        edit_spec(scene.api, "job", concurrencyPolicy="Replace")
        await scene.at(DUE + 200)
        assert verdicts(scene) == [REPLACED] * 3 + [("Running", "")]
        assert [pod["status"]["phase"] for pod in objects(scene.api, PODS)] == ["Running"]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("change", "verdict"),
    [
        pytest.param({"concurrencyPolicy": "Allow"}, "Running", id="Allow: it starts"),
        pytest.param(
            {"concurrencyPolicy": "Forbid"},
            "Running",
            id="Forbid: it starts once the other, which is stopped, has ended",
        ),
        pytest.param({"suspend": True}, "Skipped", id="suspended: it is skipped"),
    ],
)
def test_what_waits_goes_by_what_its_job_is_edited_to(change: dict[str, Any], verdict: str) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1/5 * * * *", template=LONG)
        scene.kubelet.stop_seconds = inf
        await scene.at(DUE + 310)
        edit_spec(scene.api, "job", **change)
        await scene.at(DUE + 430)
        assert [line["state"] for line in firing_lines(scene.status()).values()].count(verdict) == 1
        assert verdicts(scene)[0] == REPLACED

    play(scenario, start=BEGIN)


def test_a_firing_that_waits_longer_than_its_deadline_is_missed() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1/5 * * * *", template=LONG, startingDeadlineSeconds=50)
        scene.kubelet.stop_seconds = inf
        await scene.at(DUE + 430)
        scene.witness.check(calm_seconds=60)
        assert verdicts(scene) == [REPLACED, ("Missed", "StartingDeadlineExceeded")]

    play(scenario, start=BEGIN)


def test_all_replicas_die_while_a_firing_waits_and_it_goes_on_with_others() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1/10 * * * *", template=LONG)
        scene.kubelet.stop_seconds = inf
        await scene.at(DUE + 610)
        scene.crash()
        await scene.at(DUE + 900)
        scene.start("d", "e", "f")
        await scene.at(DUE + 930)
        scene.witness.check(calm_seconds=60, alive=True)
        assert verdicts(scene) == [REPLACED, ("Running", "")]
        assert epoch(lines(scene)[10]["startTime"]) >= FIRST + 900

    play(scenario, start=BEGIN)
