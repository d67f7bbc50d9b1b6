"""Reports of what became of firings, beside the launches that they yield to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from quarterjack.transport import Response, Transport

from .actors import objects
from .engine import Scene, play
from .faults import Plan
from .resources import JOBS, PODS
from .virtual import START, virtual_loop

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


class Fails:
    """A transport on which the dry run of one job's Pod fails as nothing should."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.stream = transport.stream
        self.times: list[float] = []

    async def request(self, method: str, path: str, *, query: Mapping[str, str], **rest: Any) -> Response:
        if "dryRun" in query and b"bad-" in rest["body"]:
            self.times.append(virtual_loop().time())
            raise ValueError("as nothing should")
        return await self._transport.request(method, path, query=query, **rest)


def test_a_job_at_which_observing_fails_as_nothing_should_is_tried_ever_more_seldom_and_its_neighbour_runs() -> None:
    async def scenario() -> None:
        scene = Scene()
        failing: list[Fails] = []

        def wrap(transport: Transport) -> Transport:
            failing.append(Fails(transport))
            return failing[-1]

        scene.job("bad")
        uid = scene.job("neighbour")
        scene.start("a", wrap=wrap)

        await scene.at(DUE + 570)

        assert len(scene.api.ledger.firings(uid)) == 10
        assert 5 <= len(failing[0].times) <= 12

    play(scenario, start=BEGIN)
