"""Events as whole replicas write them: a job's story, at a price that no launch pays."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from .actors import End, objects
from .engine import Scene, play, states
from .faults import Plan
from .resources import EVENTS, PODS, Resource
from .statuses import Document, Refused, forbidden
from .virtual import START

BEGIN = START + 50  # the first firings are due ten seconds later
DUE = 10.0
ONCE_A_DAY = "1 9 * * *"
MANY = 200


def events(scene: Scene) -> list[Document]:
    """In the order in which they tell."""
    return sorted(objects(scene.api, EVENTS), key=lambda event: event["eventTime"])


def told(scene: Scene) -> list[tuple[str, str, int]]:
    """Reason, type and count of each Event."""
    return [(e["reason"], e["type"], (e.get("series") or {}).get("count", 1)) for e in events(scene)]


def writes(scene: Scene) -> int:
    return sum(count for (_, plural), count in scene.api.counts.items() if plural == "events")


def pod(scene: Scene) -> str:
    name: str = objects(scene.api, PODS)[0]["metadata"]["name"]
    return name


async def scene_of(*, jobs: int = 1, names: str = "abc", ends: End | None = None, **spec: Any) -> Scene:
    scene = Scene(ends=ends)
    for number in range(jobs):
        scene.job(f"job-{number}" if number else "job", **spec)
    scene.start(*names, plan=Plan(answer_seconds=0.02))
    await scene.at(DUE)
    return scene


def test_a_run_that_takes_its_time_is_told_from_its_pod_to_its_end() -> None:
    async def scenario() -> None:
        scene = await scene_of(schedule=ONCE_A_DAY, ends=End(after_seconds=30))

        await scene.at(DUE + 60)

        created, completed = events(scene)
        assert told(scene) == [("SuccessfulCreate", "Normal", 1), ("SawCompletedJob", "Normal", 1)]
        assert created["note"] == f"The firing of 2026-03-02T09:01:00Z: created Pod {pod(scene)}"
        assert completed["note"] == f"The firing of 2026-03-02T09:01:00Z succeeded: Pod {pod(scene)}"
        assert created["regarding"]["name"] == "job"

    play(scenario, start=BEGIN)


def test_a_run_that_is_over_soon_is_one_event() -> None:
    async def scenario() -> None:
        scene = await scene_of(schedule=ONCE_A_DAY, ends=End(after_seconds=0.1))

        await scene.at(DUE + 60)

        assert told(scene) == [("SawCompletedJob", "Normal", 1)]

    play(scenario, start=BEGIN)


def test_what_happens_at_each_firing_is_one_event_with_a_count() -> None:
    async def scenario() -> None:
        scene = await scene_of(names="a", ends=End(after_seconds=20))

        await scene.at(DUE + 21 * 60)

        counts = {reason: count for reason, _, count in told(scene)}
        assert len(scene.api.ledger.pods) == 21
        assert counts.keys() == {"SuccessfulCreate", "SawCompletedJob"}
        assert all(15 <= count <= 21 for count in counts.values())
        assert all(event["series"]["lastObservedTime"] > event["eventTime"] for event in events(scene))
        assert writes(scene) <= 2 * (1 + 21 // 5)

    play(scenario, start=BEGIN)


def test_a_failure_that_goes_on_is_a_warning_with_a_count_and_another_is_another() -> None:
    async def scenario() -> None:
        scene = await scene_of(names="a", ends=End(after_seconds=0.1, phase="Failed", exit_code=3))
        await scene.at(DUE + 7 * 60)
        scene.end.exit_code = 137

        await scene.at(DUE + 9 * 60)

        assert told(scene)[0][:2] == ("SawCompletedJob", "Warning")
        assert told(scene)[0][2] >= 5
        assert [event["note"].split(": ")[1] for event in events(scene)] == ["ExitCode", "Signal"]

    play(scenario, start=BEGIN)


def test_attempts_are_told_up_to_the_last() -> None:
    async def scenario() -> None:
        ends = End(after_seconds=0.1, phase="Failed", exit_code=3)
        scene = await scene_of(schedule=ONCE_A_DAY, ends=ends, retry={"maxRetries": 2, "delay": "5s"})

        await scene.at(DUE + 120)

        warnings = {reason for reason, kind, _ in told(scene) if kind == "Warning"}
        assert warnings == {"BackOff", "BackoffLimitExceeded"}
        assert events(scene)[-1]["note"].endswith("Gave up after 3 attempts: Exit code 3")

    play(scenario, start=BEGIN)


def test_an_image_that_cannot_be_pulled_is_told_while_the_run_waits_for_it() -> None:
    async def scenario() -> None:
        scene = await scene_of(schedule=ONCE_A_DAY)
        scene.kubelet.holds = lambda _: "ImagePullBackOff"

        await scene.at(DUE + 60)

        assert ("FailedCreate", "Warning", 1) in told(scene)

    play(scenario, start=BEGIN)


def test_firings_that_found_a_run_alive_are_told_as_cronjob_does() -> None:
    async def scenario() -> None:
        scene = await scene_of(concurrencyPolicy="Forbid", ends=End(after_seconds=90))

        await scene.at(DUE + 70)

        assert ("JobAlreadyActive", "Normal", 1) in told(scene)

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_burst_is_launched_and_recorded_before_it_is_told_and_told_only_in_part(phase: str) -> None:
    async def scenario() -> None:
        scene = await scene_of(jobs=MANY, schedule=ONCE_A_DAY, ends=End(after_seconds=2, phase=phase, exit_code=1))

        await scene.until(lambda: len(objects(scene.api, PODS)) == MANY)
        while_launching = writes(scene)
        await scene.until(lambda: all(states(scene.status(f"job-{n}")) == [phase] for n in range(1, MANY)))
        while_recording = writes(scene)
        await scene.at(DUE + 300)

        assert while_launching == 0
        assert while_recording <= MANY // 4
        assert while_recording < writes(scene) <= 2 * MANY

    play(scenario, start=BEGIN)


def test_a_replica_that_may_write_no_events_does_all_the_rest() -> None:
    def refuse(verb: str, resource: Resource, document: Document) -> Refused | None:
        del verb
        return forbidden(EVENTS, document["metadata"]["name"], "no") if resource is EVENTS else None

    async def scenario() -> None:
        scene = await scene_of(jobs=3)
        scene.api.options.refuse.append(refuse)

        await scene.at(DUE + 200)

        scene.witness.check()
        assert states(scene.status()) == ["Succeeded"] * 4

    play(scenario, start=BEGIN)


def test_each_decision_is_a_log_line_that_names_its_job_its_firing_and_its_run(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "quarterjack")

    async def scenario() -> None:
        scene = await scene_of(concurrencyPolicy="Forbid", ends=End(after_seconds=90))
        await scene.at(DUE + 170)

    play(scenario, start=BEGIN)
    decided = [vars(record) | {"said": record.getMessage().split()[0]} for record in caplog.records]
    named = [line for line in decided if "run" in line]
    assert [line["said"] for line in named] == ["launched", "Skipped,", "The", "launched"]
    assert {line["job"] for line in named} == {"default/job"}
    assert all(line["run"].endswith(f"-{line['firing']}") for line in named)


def test_a_warning_that_waits_is_written_before_a_replica_leaves() -> None:
    async def scenario() -> None:
        scene = await scene_of(names="a", schedule=ONCE_A_DAY, ends=End(after_seconds=0.1, phase="Failed"))
        await scene.at(DUE + 1)

        await scene.operators["a"].running.shut_down()

        assert told(scene) == [("SawCompletedJob", "Warning", 1)]

    play(scenario, start=BEGIN)
