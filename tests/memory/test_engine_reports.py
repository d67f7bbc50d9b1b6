"""Reports of what became of firings, beside the launches that they yield to."""

from __future__ import annotations

import pytest

from .actors import objects
from .engine import Scene, play
from .faults import Plan
from .resources import JOBS, PODS
from .virtual import START

BEGIN = START + 50  # the first firings are due ten seconds later
DUE = 10.0


async def scene_of(jobs: int) -> Scene:
    """One replica that launches one firing after the other, in a fifth of a second each."""
    scene = Scene()
    for number in range(jobs):
        scene.job(f"job-{number}", concurrencyPolicy="Allow")
    scene.start("a", plan=Plan(answer_seconds=0.1), in_flight=1)
    await scene.at(DUE)
    return scene


def reported(scene: Scene) -> int:
    """Jobs whose status tells of a firing."""
    return sum(1 for job in objects(scene.api, JOBS) if (job.get("status") or {}).get("history"))


@pytest.mark.parametrize(
    ("jobs", "while_launching"),
    [
        pytest.param(15, False, id="a burst of three seconds is launched before anything is reported"),
        pytest.param(60, True, id="reports do not wait for launches that never end"),
    ],
)
def test_reports_yield_to_launches_for_some_seconds(jobs: int, while_launching: bool) -> None:
    async def scenario() -> None:
        scene = await scene_of(jobs)

        await scene.until(lambda: len(objects(scene.api, PODS)) == jobs)

        assert (reported(scene) > 0) == while_launching
        await scene.until(lambda: reported(scene) == jobs)

    play(scenario, start=BEGIN)
