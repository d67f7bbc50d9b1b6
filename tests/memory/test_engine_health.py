"""Health as whole replicas report it: at the instant at which it turns, with what it costs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from .actors import edit_spec, objects
from .engine import Scene, play
from .resources import EVENTS, JOBS
from .statuses import Document
from .store import Change
from .virtual import START
from .witness import epoch

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
HOUR = 3600.0
EVERY_SEVEN_MINUTES: dict[str, Any] = {"schedule": None, "interval": "7m"}
ALLOWED = HOUR + 7 * 60
TENTHS = "1-51/10 * * * *"


@dataclass
class Diary:
    """Each health that a job's status ever told, with the second at which it was written, and how often it was written at all."""

    scene: Scene
    name: str = "job"
    turns: list[tuple[float, str]] = field(default_factory=list)
    writes: int = 0

    def __post_init__(self) -> None:
        self.scene.api.store.tables[JOBS].listeners[id(self)] = self._on_change

    def _on_change(self, change: Change) -> None:
        document = change.after.document
        status = document.get("status") or {}
        if document["metadata"]["name"] != self.name or not status:
            return
        self.writes += 1
        if not self.turns or self.turns[-1][1] != status["health"]:
            self.turns.append((self.scene.now - BEGIN, status["health"]))

    @property
    def healths(self) -> list[str]:
        return [health for _, health in self.turns]


def healthy(scene: Scene) -> Document:
    return scene.condition("Healthy")


def told(scene: Scene) -> dict[str, str]:
    """The type of each Event about health, by its reason."""
    events = {event["reason"]: event["type"] for event in objects(scene.api, EVENTS)}
    return {reason: kind for reason, kind in events.items() if reason in {"Healthy", "Unhealthy"}}


async def scene_of(*, names: str = "ab", **spec: Any) -> tuple[Scene, Diary]:
    scene = Scene()
    scene.job(**{"podHistoryLimit": 0} | spec)
    diary = Diary(scene)
    scene.start(*names)
    return scene, diary


def test_a_job_that_fails_turns_unhealthy_at_the_right_instant_and_one_success_mends_it() -> None:
    async def scenario() -> None:
        scene, diary = await scene_of(**EVERY_SEVEN_MINUTES)
        await scene.at(7 * 60 + 30)
        success = scene.status()["lastSuccessfulTime"]
        scene.end.phase = "Failed"

        await scene.at(7 * 60 + ALLOWED + 20)
        condition = healthy(scene)
        scene.end.phase = "Succeeded"
        await scene.at(7 * 60 * 13)

        scene.witness.check()
        assert diary.healths == ["Unknown", "Healthy", "Unhealthy", "Healthy"]
        assert diary.turns[2][0] == pytest.approx(epoch(success) + ALLOWED - BEGIN, abs=0.5)
        assert diary.turns[3][0] == pytest.approx(7 * 60 * 11 + 1.5, abs=4)
        assert (condition["status"], condition["reason"]) == ("False", "NoRecentSuccess")
        assert condition["message"].endswith(f": no success for longer than 1h7m; the last was at {success}")
        assert epoch(condition["lastTransitionTime"]) == epoch(success) + ALLOWED
        assert (healthy(scene)["status"], healthy(scene)["reason"]) == ("True", "Succeeding")
        assert told(scene) == {"Unhealthy": "Warning", "Healthy": "Normal"}

    play(scenario, start=BEGIN)


def test_a_job_that_never_succeeds_turns_unhealthy_counted_from_its_first_run() -> None:
    async def scenario() -> None:
        scene, diary = await scene_of(**EVERY_SEVEN_MINUTES)
        scene.end.phase = "Failed"

        await scene.at(7 * 60 * 12)

        first = epoch(scene.status()["firstRunTime"])
        assert diary.healths == ["Unknown", "Unhealthy"]
        assert diary.turns[1][0] == pytest.approx(first + ALLOWED - BEGIN, abs=0.5)
        assert healthy(scene)["reason"] == "NeverSucceeded"

    play(scenario, start=BEGIN)


def test_failures_that_the_next_run_makes_up_for_are_never_reported() -> None:
    async def scenario() -> None:
        scene, diary = await scene_of(schedule=TENTHS)
        for number in range(12):
            await scene.at(number * 600)
            scene.end.phase = "Failed" if number % 2 else "Succeeded"

        await scene.at(12 * 600)

        scene.witness.check()
        assert diary.healths == ["Unknown", "Healthy"]
        assert told(scene) == {}

    play(scenario, start=BEGIN)


def test_a_job_that_was_suspended_or_never_ran_is_not_reported() -> None:
    async def scenario() -> None:
        scene, diary = await scene_of(schedule=TENTHS)
        await scene.at(DUE + 60)
        edit_spec(scene.api, "job", suspend=True)
        scene.job("new", schedule="0 9 1 1 *")
        new = Diary(scene, "new")
        await scene.at(DUE + 1.5 * HOUR)
        edit_spec(scene.api, "job", suspend=False)
        scene.end.phase = "Failed"

        await scene.at(DUE + 1.5 * HOUR + 69 * 60)
        before = list(diary.healths)
        await scene.at(DUE + 1.5 * HOUR + 72 * 60)

        assert before == ["Unknown", "Healthy", "Suspended", "Unknown"]
        assert diary.healths == [*before, "Unhealthy"]
        assert diary.turns[-1][0] == pytest.approx(DUE + 1.5 * HOUR + 70 * 60, abs=3)
        assert new.healths == ["Unknown"]

    play(scenario, start=BEGIN)


def test_a_limit_of_its_own_is_served_and_an_edit_of_it_is_judged_at_once() -> None:
    async def scenario() -> None:
        scene, diary = await scene_of(schedule=TENTHS, health={"maxTimeWithoutSuccess": "5m"})
        await scene.at(DUE + 300)
        assert diary.healths == ["Unknown", "Healthy"]
        await scene.at(DUE + 310)
        assert diary.healths[-1] == "Unhealthy"
        edit_spec(scene.api, "job", health={"maxTimeWithoutSuccess": "20m"})
        await scene.at(DUE + 313)

        assert diary.healths == ["Unknown", "Healthy", "Unhealthy", "Healthy"]
        assert diary.turns[2][0] == pytest.approx(DUE + 302, abs=2)
        assert healthy(scene)["observedGeneration"] == 2

    play(scenario, start=BEGIN)


def test_a_replica_that_starts_after_an_outage_tells_at_once_which_jobs_have_gone_without_a_success() -> None:
    async def scenario() -> None:
        scene, diary = await scene_of(schedule="0 9 * * *")
        scene.job("other", schedule=TENTHS)
        other = Diary(scene, "other")
        await scene.at(DUE + 60)
        scene.crash()
        await scene.at(2 * HOUR)
        scene.end.after_seconds = 600
        scene.restart()

        await scene.at(2 * HOUR + 30)

        assert other.healths == ["Unknown", "Healthy", "Unhealthy"]
        assert diary.healths == ["Unknown"]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("policy", ["Allow", "Forbid"])
def test_health_costs_no_write_of_a_status(policy: str) -> None:
    async def scenario() -> None:
        scene, diary = await scene_of(concurrencyPolicy=policy)
        await scene.at(DUE + 30)
        begin = diary.writes

        await scene.at(DUE + 30 + 20 * 60)

        assert len(scene.api.ledger.pods) == 21
        assert diary.writes - begin <= 2 * 20

    play(scenario, start=BEGIN)
