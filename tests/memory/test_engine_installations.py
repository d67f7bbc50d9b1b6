"""Two installations: one leaves a job alone that the other serves, and adopts it where it has been left."""

from __future__ import annotations

from typing import Any

import pytest

from .actors import End, start_run
from .by_hand import run_of, until_over
from .engine import MINUTELY, Scene, play, states
from .faults import Fault, Point, Rule
from .statuses import BAD_TEMPLATE, no_bad_images
from .virtual import START

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
ONCE_A_DAY = "1 9 * * *"


async def two_installations(*, ends: End | None = None, **spec: Any) -> tuple[Scene, str]:
    scene = Scene(ends=ends)
    scene.api.options.refuse.append(no_bad_images)
    scene.api.add_namespace("second")
    uid = scene.job(**{"concurrencyPolicy": "Allow"} | spec)
    scene.start("a")
    await scene.at(5)
    scene.start("x", namespace="second")
    return scene, uid


def told(scene: Scene) -> str:
    """What the job says of who serves it."""
    return str(scene.condition("Ready")["message"])


def test_a_second_installation_leaves_a_served_job_alone() -> None:
    async def scenario() -> None:
        scene, uid = await two_installations()
        await scene.at(DUE + 400)
        scene.witness.check(calm_seconds=65)
        assert len(scene.api.ledger.firings(uid)) == 7
        assert {lease.namespace for lease in scene.api.ledger.leases if lease.firing > 0} == {"quarterjack"}

    play(scenario, start=BEGIN)


def test_a_job_whose_installation_is_gone_is_adopted_after_five_minutes() -> None:
    async def scenario() -> None:
        scene, uid = await two_installations()
        await scene.at(DUE + 30)
        scene.crash("a")
        await scene.at(DUE + 601)
        scene.witness.check(calm_seconds=130)
        fired = [f - FIRST for f in scene.api.ledger.firings(uid)]
        assert fired[0] == 0
        assert 300 < fired[1] <= 480
        assert fired[-1] == 600

    play(scenario, start=BEGIN)


def test_a_job_says_in_which_namespace_the_installation_is_that_serves_it_now() -> None:
    async def scenario() -> None:
        scene, _ = await two_installations()
        await scene.at(DUE + 30)
        assert f"in namespace quarterjack (UID {scene.status()['servedBy']})" in told(scene)

        scene.crash("a")
        await scene.at(DUE + 601)

        assert f"in namespace second (UID {scene.status()['servedBy']})" in told(scene)

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("point", [Point.BEFORE_SEND, Point.AFTER_SEND, Point.AFTER_COMMIT])
@pytest.mark.parametrize("what", ["leases", "pods"])
def test_an_installation_that_slept_until_it_was_replaced_launches_nothing_again(point: Point, what: str) -> None:
    async def scenario() -> None:
        scene, uid = await two_installations()
        sleeps = Fault(stall=point, stall_seconds=500)
        scene.operators["a"].connection.plan.add(
            Rule(fault=sleeps, method="POST", resource=what, where=lambda r: r.sent_at > DUE + 50)
        )
        await scene.at(DUE + 800)
        scene.witness.check(calm_seconds=130)
        assert scene.api.ledger.firings(uid)[-1] == FIRST + 780
        assert states(scene.status())[-1] == "Succeeded"
        assert scene.status()["observedSchedule"] == MINUTELY

    play(scenario, start=BEGIN)


# Left amid a run


def is_adopted(scene: Scene) -> bool:
    return "in namespace second" in told(scene)


async def served(end: End, **spec: Any) -> Scene:
    """A job that is due once; its Pod has begun, and nothing else comes until tomorrow."""
    usual = {"schedule": ONCE_A_DAY, "leaseDuration": "1m", "concurrencyPolicy": "Forbid"}
    scene, _ = await two_installations(ends=end, **usual | spec)
    await scene.at(DUE + 20)
    return scene


def test_a_run_that_ends_after_its_installation_is_gone_is_told_of_by_another() -> None:
    async def scenario() -> None:
        scene = await served(End(300))
        scene.crash("a")
        await scene.at(DUE + 300 + 340)
        assert not is_adopted(scene)

        await scene.until(lambda: is_adopted(scene), at_most=60)

        await scene.until(lambda: states(scene.status()) == ["Succeeded"], at_most=10)
        scene.witness.check(calm_seconds=15)

    play(scenario, start=BEGIN)


def test_a_retry_whose_installation_is_gone_while_it_waits_is_made_by_another() -> None:
    async def scenario() -> None:
        scene = await served(End(5, "Failed", 1), retry={"maxRetries": 1, "delay": "2m"})
        scene.crash("a")

        await scene.until(lambda: states(scene.status()) == ["Failed", "Failed"], at_most=700)

        assert is_adopted(scene)
        assert len(scene.api.ledger.pods) == 2
        scene.witness.check(calm_seconds=15)

    play(scenario, start=BEGIN)


def test_a_run_that_is_asked_for_once_its_installation_is_gone_is_answered_by_another_after_five_minutes() -> None:
    async def scenario() -> None:
        scene = await served(End(5), schedule=None)
        scene.crash("a")
        start_run(scene.api, "run", "job")
        await scene.at(DUE + 20 + 290)
        assert run_of(scene) == {}

        await until_over(scene, "run")

        assert run_of(scene)["state"] == "Succeeded"
        assert is_adopted(scene)
        assert len(scene.api.ledger.pods) == 1

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("end", "spec"),
    [
        pytest.param(End(None), {}, id="whose run goes on and on"),
        pytest.param(
            End(5, "Failed", 1), {"retry": {"maxRetries": 1, "delay": "20m"}}, id="whose run waits for its retry"
        ),
        pytest.param(End(5), {"suspend": True}, id="that is suspended"),
        pytest.param(
            End(5), {"schedule": MINUTELY, "template": BAD_TEMPLATE}, id="of whose template no Pod can be made"
        ),
    ],
)
def test_an_installation_that_lives_keeps_a_job(end: End, spec: dict[str, Any]) -> None:
    async def scenario() -> None:
        scene = await served(end, **spec)
        served_by = scene.status()["servedBy"]
        for minute in range(1, 25):
            await scene.at(DUE + 60 * minute)
            assert scene.status()["servedBy"] == served_by, minute

    play(scenario, start=BEGIN)
