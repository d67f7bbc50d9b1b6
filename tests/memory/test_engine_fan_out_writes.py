"""Each request of a fan-out goes wrong in each way in which it can: each unit runs once, none is lost, and the record is right."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from .actors import End, attempt_of
from .engine import Scene, play
from .fan_out import are_over, planned, plans, runs, times_made, unit_of, unit_states
from .faults import Plan, Request, Rule
from .test_engine_by_hand_writes import FAULTS, each_fault
from .virtual import START

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

BEGIN = START + 50  # the firing is due ten seconds later


def saying(text: bytes) -> Callable[[Request], bool]:
    return lambda request: text in request.body


def of_a_unit(request: Request) -> bool:
    """Whether it is the create of a unit's claim or Pod."""
    return b"quarterjack.dev/unit" in request.body or ("." in request.name and len(request.name) > 40)


REQUESTS: dict[str, dict[str, Any]] = {
    "the plan's output": {"method": "GET", "resource": "pods", "subresource": "log"},
    "a part of the ledger": {"method": "POST", "resource": "configmaps", "where": saying(b'"ledger-part"')},
    "its head": {"method": "POST", "resource": "configmaps", "where": saying(b'"ledger"')},
    "a read of it": {"method": "GET", "resource": "configmaps"},
    "that the plan is over": {"method": "PATCH", "resource": "scheduledjobs", "where": saying(b'"Planned"')},
    "that they are queued": {"method": "PATCH", "resource": "scheduledjobs", "where": saying(b'"Queued"')},
    "a list of ledgers": {"method": "GET", "resource": "configmaps", "where": lambda r: not r.name},
    "a unit's claim": {"method": "POST", "resource": "leases", "where": of_a_unit},
    "a unit's Pod": {"method": "POST", "resource": "pods", "where": of_a_unit},
    "what became of units": {"method": "PATCH", "resource": "configmaps"},
    "the end of the whole": {"method": "PATCH", "resource": "scheduledjobs", "where": saying(b"units succeeded")},
}


@pytest.mark.parametrize("request_", REQUESTS)
@each_fault
def test_a_request_of_a_fan_out_that_goes_wrong_loses_no_unit_and_doubles_none(
    request_: str, fault: str, times: int
) -> None:
    async def scenario() -> None:
        scene = Scene()
        failure, end = End(1.0, "Failed", 1), End(1.5)
        scene.kubelet.ends = lambda pod: failure if unit_of(pod) == "flaky" and attempt_of(pod) == 1 else end
        planned(scene, "acme\nflaky\nglobex\n", retry={"maxRetries": 3, "delay": "2s"}, parallel=2)
        rule = Rule(fault=FAULTS[fault], times=times, **REQUESTS[request_])
        plan = Plan([rule])
        scene.start("a", "b", plan=plan)
        scene.replace_the_dead(after_seconds=5, plan=plan)
        await scene.until(lambda: are_over(scene), at_most=150)
        await asyncio.sleep(10)

        assert rule.matched >= 1
        scene.witness.check(calm_seconds=10)
        assert len(plans(scene)) == 1
        assert times_made(scene) == {"acme": 1, "flaky": 2, "globex": 1}
        assert set(unit_states(scene).values()) == {"Succeeded"}
        assert runs(scene)[-1]["message"] == "3 of 3 units succeeded"

    play(scenario, start=BEGIN)
