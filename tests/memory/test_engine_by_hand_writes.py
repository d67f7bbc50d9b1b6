"""Each write that a run by hand costs goes wrong in each way in which a write can: it runs once, and who asked for it is told."""

from __future__ import annotations

from typing import Any

import pytest

from .actors import End, delete, objects, start_run
from .by_hand import by_hand, run_of
from .engine import Scene, play
from .faults import Fault, Outcome, Plan, Rule
from .resources import PODS, RUNS
from .test_engine_writes import FAULTS as ALL_FAULTS
from .virtual import START

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

BEGIN = START + 50
ASKED = 5.0
FAULTS = {
    name: fault
    for name, fault in ALL_FAULTS.items()
    if name not in {"it was not sent", "it never arrives", "401", "503", "the server gives up on it"}
} | {
    "409": Fault(outcome=Outcome.REFUSED, status=409),
    "409, though it is done": Fault(outcome=Outcome.BROKEN, status=409),
}
AGAIN = {"409", "500", "it is done, and the answer is lost"}  # thrice too
CASES = [(fault, times) for fault in FAULTS for times in ((1, 3) if fault in AGAIN else (1,))]
each_fault = pytest.mark.parametrize(
    ("fault", "times"), [pytest.param(*case, id=case[0] + (", thrice" if case[1] > 1 else "")) for case in CASES]
)


def status_with(text: bytes, resource: str = "scheduledjobruns") -> dict[str, Any]:
    """Writes of a status that say something."""
    return {"method": "PATCH", "resource": resource, "subresource": "status", "where": lambda r: text in r.body}


WRITES: dict[str, dict[str, Any]] = {
    "its owner": {"method": "PATCH", "resource": "scheduledjobruns", "subresource": ""},
    "that it is accepted": status_with(b'"Accepted"'),
    "its line": status_with(b'"Manual"', "scheduledjobs"),
    "its claim": {"method": "POST", "resource": "leases", "where": lambda r: r.sent_at > ASKED and len(r.name) > 40},
    "its Pod": {"method": "POST", "resource": "pods", "where": lambda r: "dryRun" not in r.query},
    "that it runs": status_with(b'"podName"'),
    "the end of its line": status_with(b'"Succeeded"', "scheduledjobs"),
    "its end": status_with(b'"completionTime"'),
}


async def scene_with(rule: Rule, **spec: Any) -> Scene:
    """A job that runs by hand only, and replicas of which the first to meet the fault does."""
    scene = Scene()
    scene.job(schedule=None, **spec)
    plan = Plan([rule])
    scene.start("a", "d", plan=plan)
    scene.replace_the_dead(after_seconds=5, plan=plan)
    await scene.at(ASKED)
    return scene


@pytest.mark.parametrize("write", WRITES)
@each_fault
def test_a_write_of_a_run_by_hand_that_goes_wrong_costs_no_run_and_doubles_none(
    write: str, fault: str, times: int
) -> None:
    async def scenario() -> None:
        rule = Rule(fault=FAULTS[fault], times=times, **{"where": lambda r: r.sent_at > ASKED} | WRITES[write])
        scene = await scene_with(rule)
        start_run(scene.api, "run", "job")
        await scene.at(ASKED + 75)

        assert rule.matched >= 1
        scene.witness.check(calm_seconds=20)
        assert [pod.attempt for pod in scene.api.ledger.pods] == [1]
        assert [line["state"] for line in by_hand(scene)] == ["Succeeded"]
        assert (run_of(scene)["state"], run_of(scene)["podName"]) == ("Succeeded", by_hand(scene)[0]["podName"])

    play(scenario, start=BEGIN)


@each_fault
def test_a_refusal_that_goes_wrong_is_told_in_the_end(fault: str, times: int) -> None:
    async def scenario() -> None:
        rule = Rule(fault=FAULTS[fault], times=times, **status_with(b'"NotFound"'))
        scene = await scene_with(rule)
        start_run(scene.api, "run", "nobody")
        await scene.at(ASKED + 60)

        assert rule.matched >= 1
        assert {c["reason"] for c in run_of(scene)["conditions"]} == {"NotFound"}
        assert objects(scene.api, PODS) == []

    play(scenario, start=BEGIN)


CANCELS: dict[str, dict[str, Any]] = {
    "that it is to stop": {"method": "PATCH", "resource": "leases", "where": lambda r: b"RunDeleted" in r.body},
    "its Pod's deletion": {"method": "DELETE", "resource": "pods"},
    "its record": status_with(b'"Canceled"', "scheduledjobs"),
}


@pytest.mark.parametrize("write", CANCELS)
@each_fault
def test_a_write_that_goes_wrong_as_a_run_is_deleted_leaves_nothing_running(write: str, fault: str, times: int) -> None:
    async def scenario() -> None:
        rule = Rule(fault=FAULTS[fault], times=times, **CANCELS[write])
        scene = await scene_with(rule, retry={"maxRetries": 2, "delay": "1s"})
        scene.end = End(after_seconds=None)
        start_run(scene.api, "run", "job")
        await scene.at(ASKED + 8)
        delete(scene.api, RUNS, "run")
        await scene.at(ASKED + 85)

        assert rule.matched >= 1
        scene.witness.check(calm_seconds=20)
        assert [pod.attempt for pod in scene.api.ledger.pods] == [1]
        assert all(pod["status"]["phase"] == "Failed" for pod in objects(scene.api, PODS))
        assert [(line["state"], line["reason"]) for line in by_hand(scene)] == [("Canceled", "RunDeleted")]
        assert scene.status()["activeCount"] == 0

    play(scenario, start=BEGIN)


@each_fault
def test_a_run_that_the_limits_drop_is_deleted_once_though_that_goes_wrong(fault: str, times: int) -> None:
    async def scenario() -> None:
        rule = Rule(fault=FAULTS[fault], times=times, method="DELETE", resource="scheduledjobruns")
        scene = await scene_with(rule, successfulRunsHistoryLimit=0)
        start_run(scene.api, "run", "job")
        await scene.at(ASKED + 160)

        assert rule.matched >= 1
        scene.witness.check(calm_seconds=20)
        assert objects(scene.api, RUNS) == []
        assert len(scene.api.ledger.pods) == 1

    play(scenario, start=BEGIN)
