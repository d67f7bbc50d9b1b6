"""Why firings did not run: each reason is a line of the history and a counter."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest
from prometheus_client.core import Metric

from .actors import edit_spec
from .engine import Scene, play
from .faults import Fault, Point, Rule
from .scrape import scrape
from .virtual import START

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
Cause = Callable[[Scene, str], Awaitable[None]]


async def overlap(scene: Scene, _: str) -> None:
    """The run of the first firing lasts longer than a minute."""
    scene.end.after_seconds = 90
    await scene.at(DUE + 80)


async def suspended(scene: Scene, uid: str) -> None:
    """The job is suspended when its firing is claimed and not yet launched, for its holder has died."""
    victim = scene.first(uid)
    victim.connection.plan.add(Rule(fault=Fault(crash=Point.BEFORE_SEND), method="POST", resource="pods"))
    await scene.at(DUE + 1)
    del scene.operators[victim.name]
    edit_spec(scene.api, "job", suspend=True)
    await scene.at(DUE + 50)


async def outage(scene: Scene, _: str) -> None:
    """No replica runs when a firing is due."""
    await scene.at(5)
    scene.crash()
    await scene.at(DUE + 50)
    scene.start("d")
    await scene.at(DUE + 90)


@pytest.mark.parametrize(
    ("cause", "spec", "state", "reason"),
    [
        pytest.param(overlap, {}, "Skipped", "Overlap", id="another run is alive"),
        pytest.param(suspended, {}, "Skipped", "Suspended", id="suspended at the last moment"),
        pytest.param(outage, {"misfirePolicy": "Skip"}, "Missed", "Misfire", id="nothing could start it"),
        pytest.param(
            outage,
            {"startingDeadlineSeconds": 20},
            "Missed",
            "StartingDeadlineExceeded",
            id="too late for its deadline",
        ),
    ],
)
def test_a_firing_that_did_not_run_has_its_reason_on_record_and_in_a_counter(
    cause: Cause, spec: dict[str, str], state: str, reason: str
) -> None:
    async def scenario() -> None:
        scene = Scene()
        schedule = "* * * * *" if cause is overlap else "1 9 * * *"
        uid = scene.job(schedule=schedule, concurrencyPolicy="Forbid", **spec)
        scene.start("a", "b")
        await scene.at(5)

        await cause(scene, uid)

        lines = [line for line in scene.status()["history"] if line["state"] == state]
        assert [line["reason"] for line in lines] == [reason]
        assert lines[0]["message"]
        assert counted(scene) == {(f"scheduledjob_{state.lower()}", reason): 1}

    play(scenario, start=BEGIN)


def counted(scene: Scene) -> dict[tuple[str, str], float]:
    """What the replicas together have counted of firings that did not run, by metric and reason."""
    counts: dict[tuple[str, str], float] = {}
    for operator in scene.operators.values():
        for metric in scrape(operator.running):
            for name, reason, value in _reasons(metric):
                counts[name, reason] = counts.get((name, reason), 0) + value
    return counts


def _reasons(metric: Metric) -> list[tuple[str, str, float]]:
    return [
        (metric.name, sample.labels["reason"], sample.value) for sample in metric.samples if "reason" in sample.labels
    ]
