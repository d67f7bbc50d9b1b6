"""Runs by hand: from a ScheduledJobRun to its Pod, its line in the job's history, and back."""

from __future__ import annotations

from typing import Any

import pytest

from quarterjack.clock import rfc3339

from .actors import End, delete, edit_spec, objects, start_run
from .by_hand import by_hand, run_of, state_of, until_over
from .engine import Scene, play
from .resources import JOBS, LEASES, PODS, RUNS
from .statuses import Document
from .virtual import START

BEGIN = START + 50  # the first firing of a minutely job is due ten seconds later
DUE = 10.0
ONCE_A_DAY = "1 9 * * *"
FOR_EVER = End(after_seconds=None)
OPTIONS = [
    {"name": "month", "required": True},
    {"name": "retries", "type": "Integer", "default": "3"},
    {"name": "dry-run", "type": "Boolean", "default": "false"},
    {"name": "kind", "type": "Enum", "values": ["full", "delta"]},
]


async def scene_of(*, end: End | None = None, names: str = "ab", settings: Any = None, **spec: Any) -> Scene:
    """A scene with a job that fires once a day, at nine and a minute."""
    scene = Scene(ends=end)
    scene.job(**{"schedule": None} | spec)
    scene.start(*names, **settings or {})
    await scene.at(5)
    return scene


def condition_of(scene: Scene, kind: str, name: str = "run") -> tuple[str, str]:
    found = {c["type"]: (c["status"], c["reason"]) for c in run_of(scene, name).get("conditions") or ()}
    return found.get(kind, ("", ""))


def environment(scene: Scene) -> dict[str, str]:
    """What the container of the only Pod is told."""
    [pod] = objects(scene.api, PODS)
    return {line["name"]: line["value"] for line in pod["spec"]["containers"][0]["env"]}


def test_a_run_by_hand_runs_at_once_and_is_told_how_it_ended() -> None:
    async def scenario() -> None:
        scene = await scene_of()
        created = rfc3339(scene.now)
        start_run(scene.api, "run", "job")

        assert await scene.until(lambda: scene.api.ledger.pods) < 1
        await until_over(scene, "run")

        [line], status = by_hand(scene), run_of(scene)
        assert (line["state"], line["scheduledTime"], line["trigger"]) == ("Succeeded", created, "Manual")
        assert (status["state"], status["podName"]) == ("Succeeded", line["podName"])
        assert status["startTime"] == line["startTime"]
        assert condition_of(scene, "Accepted") == ("True", "Accepted")
        assert condition_of(scene, "Succeeded") == ("True", "Succeeded")
        assert environment(scene)["RUN_TRIGGER"] == "Manual"
        assert environment(scene)["SCHEDULED_TIME"] == created
        scene.witness.check()

    play(scenario, start=BEGIN)


def test_the_container_is_told_its_options_and_the_history_tells_them_too() -> None:
    async def scenario() -> None:
        scene = await scene_of(options=OPTIONS)
        start_run(scene.api, "run", "job", options={"month": "2026-02", "dry-run": "true"})
        await until_over(scene, "run")

        told = {name: value for name, value in environment(scene).items() if name.startswith("OPTION_")}
        assert told == {"OPTION_MONTH": "2026-02", "OPTION_RETRIES": "3", "OPTION_DRY_RUN": "true"}
        assert by_hand(scene)[0]["options"] == {"month": "2026-02", "dry-run": "true"}

    play(scenario, start=BEGIN)


def test_a_run_by_hand_stands_for_the_time_that_it_is_given() -> None:
    async def scenario() -> None:
        scene = await scene_of(schedule="0 2 * * *", timeZone="Europe/Berlin")
        start_run(scene.api, "run", "job", scheduledTime="2026-03-01T01:00:00Z")
        await until_over(scene, "run")

        told = environment(scene)
        assert (told["SCHEDULED_TIME"], told["SCHEDULED_TIME_ZONE"]) == ("2026-03-01T01:00:00Z", "Europe/Berlin")
        assert by_hand(scene)[0]["scheduledTime"] == "2026-03-01T01:00:00Z"
        assert "lastScheduleTime" not in scene.status()

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("job", "given", "reason", "said"),
    [
        pytest.param("nobody", {}, "NotFound", 'no ScheduledJob "nobody"', id="no such job"),
        pytest.param("job", {"month": "1", "year": "2"}, "InvalidOptions", '"year" is no option', id="undeclared"),
        pytest.param("job", {"month": "1", "retries": "x"}, "InvalidOptions", '"x" is not an Integer', id="ill-typed"),
        pytest.param("job", {}, "InvalidOptions", "spec.options.month: is required", id="one is missing"),
    ],
)
def test_what_cannot_run_is_refused_with_the_reason(job: str, given: dict[str, str], reason: str, said: str) -> None:
    async def scenario() -> None:
        scene = await scene_of(options=OPTIONS)
        start_run(scene.api, "run", job, options=given)
        await scene.until(lambda: run_of(scene))

        status = run_of(scene)
        assert condition_of(scene, "Accepted") == ("False", reason)
        assert condition_of(scene, "Succeeded") == ("False", reason)
        assert status["state"] == "Failed"
        assert said in status["message"]
        assert objects(scene.api, PODS) == []

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("spec", "settings"),
    [
        pytest.param({"schedule": "* * * * *", "suspend": True}, {}, id="its job is suspended"),
        pytest.param({"schedule": "* * * * *"}, {"schedule": False}, id="nothing fires by itself"),
        pytest.param({"schedule": "* * * * *", "startingDeadlineSeconds": 1}, {}, id="it is asked for too late"),
    ],
)
def test_a_run_by_hand_runs_whatever_keeps_the_schedule_from_firing(
    spec: dict[str, Any], settings: dict[str, Any]
) -> None:
    async def scenario() -> None:
        scene = await scene_of(settings=settings, **spec)
        start_run(scene.api, "run", "job", scheduledTime="2026-01-01T00:00:00Z")
        await until_over(scene, "run")

        assert state_of(scene) == "Succeeded"

    play(scenario, start=BEGIN)


def test_under_forbid_a_run_by_hand_is_skipped_while_another_is_alive() -> None:
    async def scenario() -> None:
        scene = await scene_of(schedule=ONCE_A_DAY, end=FOR_EVER)
        await scene.at(DUE + 2)
        start_run(scene.api, "run", "job")
        await until_over(scene, "run")

        assert state_of(scene) == "Skipped"
        assert condition_of(scene, "Succeeded") == ("False", "Overlap")
        assert len(scene.api.ledger.pods) == 1

    play(scenario, start=BEGIN)


def test_under_replace_a_run_by_hand_replaces_the_one_that_is_alive() -> None:
    async def scenario() -> None:
        scene = await scene_of(schedule=ONCE_A_DAY, end=FOR_EVER, concurrencyPolicy="Replace")
        await scene.at(DUE + 2)
        start_run(scene.api, "run", "job")
        await scene.until(lambda: state_of(scene) == "Running")

        [scheduled] = [line for line in scene.status()["history"] if line["trigger"] == "Schedule"]
        assert (scheduled["state"], scheduled["reason"]) == ("Canceled", "Replaced")
        assert "run by hand" in scheduled["message"]
        scene.witness.check(alive=True)

    play(scenario, start=BEGIN)


def test_under_allow_a_run_by_hand_runs_beside_others() -> None:
    async def scenario() -> None:
        scene = await scene_of(schedule=ONCE_A_DAY, end=FOR_EVER, concurrencyPolicy="Allow")
        await scene.at(DUE + 2)
        start_run(scene.api, "one", "job")
        start_run(scene.api, "two", "job")
        await scene.until(lambda: state_of(scene, "one") == state_of(scene, "two") == "Running")

        assert scene.status()["activeCount"] == 3

    play(scenario, start=BEGIN)


def test_a_run_by_hand_in_the_second_of_a_firing_hides_it_from_nobody() -> None:
    async def scenario() -> None:
        scene = await scene_of(schedule=ONCE_A_DAY, concurrencyPolicy="Allow", names="abc")
        await scene.at(DUE)
        start_run(scene.api, "run", "job")
        await until_over(scene, "run")
        await scene.at(DUE + 90)

        assert [line["state"] for line in scene.status()["history"]] == ["Succeeded", "Succeeded"]
        assert max(pod.at for pod in scene.api.ledger.pods) < BEGIN + DUE + 3
        scene.witness.check()

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("policy", ["Forbid", "Replace"])
def test_two_that_are_asked_for_in_the_same_instant_never_overlap(policy: str) -> None:
    async def scenario() -> None:
        scene = await scene_of(end=End(after_seconds=20), names="abc", concurrencyPolicy=policy)
        for name in ("one", "two", "three"):
            start_run(scene.api, name, "job")
        await until_over(scene, "one", "two", "three")

        ends = [state_of(scene, name) for name in ("one", "two", "three")]
        assert ends.count("Succeeded") == 1
        assert set(ends) <= {"Succeeded", "Skipped", "Canceled"}
        assert scene.witness.most_alive == 1
        scene.witness.check()

    play(scenario, start=BEGIN)


def test_a_failed_run_by_hand_is_tried_again_with_its_options() -> None:
    async def scenario() -> None:
        scene = await scene_of(options=OPTIONS, retry={"maxRetries": 1, "delay": "2s"}, end=End(1, "Failed", 1))
        start_run(scene.api, "run", "job", options={"month": "2"})
        await until_over(scene, "run")

        pods = objects(scene.api, PODS)
        assert [line["options"] for line in by_hand(scene)] == [{"month": "2"}] * 2
        assert [{"name": "OPTION_MONTH", "value": "2"} in p["spec"]["containers"][0]["env"] for p in pods] == [True] * 2
        assert run_of(scene)["message"].startswith("Gave up after 2 attempts")
        scene.witness.check()

    play(scenario, start=BEGIN)


# Deletion


def test_deleting_it_stops_its_run() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER, retry={"maxRetries": 3, "delay": "1s"})
        start_run(scene.api, "run", "job")
        await scene.until(lambda: state_of(scene) == "Running")
        delete(scene.api, RUNS, "run")
        await scene.until(lambda: by_hand(scene)[0]["state"] == "Canceled", at_most=20)

        assert by_hand(scene)[0]["reason"] == "RunDeleted"
        await scene.at(60)
        assert len(scene.api.ledger.pods) == 1
        assert scene.status()["activeCount"] == 0

    play(scenario, start=BEGIN)


def test_deleting_it_while_no_replica_runs_stops_its_run_too() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER)
        start_run(scene.api, "run", "job")
        await scene.until(lambda: state_of(scene) == "Running")
        scene.crash()
        delete(scene.api, RUNS, "run")
        await scene.at(30)
        scene.start("c", "d")
        await scene.until(lambda: by_hand(scene)[0]["state"] == "Canceled", at_most=40)

    play(scenario, start=BEGIN)


def test_deleting_it_while_it_waits_to_be_tried_again_starts_nothing_more() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=End(1, "Failed", 1), retry={"maxRetries": 3, "delay": "20s"})
        start_run(scene.api, "run", "job")
        await scene.until(lambda: len(by_hand(scene)) == 2)
        delete(scene.api, RUNS, "run")
        await scene.until(lambda: by_hand(scene)[1]["state"] == "Canceled", at_most=60)

        assert len(scene.api.ledger.pods) == 1

    play(scenario, start=BEGIN)


def test_it_goes_with_its_job() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER)
        start_run(scene.api, "run", "job")
        await scene.until(lambda: state_of(scene) == "Running")
        delete(scene.api, JOBS, "job")
        scene.api.collect_garbage()
        await scene.at(60)

        assert objects(scene.api, RUNS) == []
        assert objects(scene.api, PODS) == []

    play(scenario, start=BEGIN)


def test_a_run_whose_job_is_deleted_and_leaves_it_behind_does_not_wait_for_ever() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER)
        start_run(scene.api, "run", "job")
        await scene.until(lambda: state_of(scene) == "Running")
        delete(scene.api, JOBS, "job", propagationPolicy="Orphan")
        scene.api.collect_garbage()
        await until_over(scene, "run")

        assert state_of(scene) == "Canceled"
        assert condition_of(scene, "Succeeded") == ("False", "JobDeleted")

    play(scenario, start=BEGIN)


# Health and limits


@pytest.mark.parametrize(
    ("options", "end", "counts"),
    [
        pytest.param({}, End(1), True, id="a success without options"),
        pytest.param({"month": "2"}, End(1), False, id="a success with options"),
        pytest.param({}, End(1, "Failed", 1), False, id="a failure"),
    ],
)
def test_health_counts_a_success_without_options_and_nothing_else(
    options: dict[str, str], end: End, *, counts: bool
) -> None:
    async def scenario() -> None:
        scene = await scene_of(end=end, options=[{"name": "month"}])
        start_run(scene.api, "run", "job", options=options)
        await until_over(scene, "run")

        status = scene.status()
        assert ("lastSuccessfulTime" in status) is counts
        assert status.get("lastResult") == ("Succeeded" if counts else None)
        assert status["consecutiveFailures"] == 0
        assert not status.keys() & {"lastFailureTime", "firstRunTime"}
        assert status["health"] == ("Healthy" if counts else "Unknown")

    play(scenario, start=BEGIN)


def test_finished_runs_are_kept_as_their_records_are() -> None:
    async def scenario() -> None:
        scene = await scene_of(successfulRunsHistoryLimit=2, concurrencyPolicy="Allow")
        names = [f"run-{number}" for number in range(5)]
        for number, name in enumerate(names):
            await scene.at(10 + 5 * number)
            start_run(scene.api, name, "job")
        await until_over(scene, *names)
        await scene.at(180)

        assert len(by_hand(scene)) == 2
        assert sorted(run["metadata"]["name"] for run in objects(scene.api, RUNS)) == names[3:]
        assert len(scene.api.ledger.pods) == 5
        scene.witness.check()

    play(scenario, start=BEGIN)


def test_d12_ten_runs_by_hand_are_kept_as_the_limits_say_and_go_with_their_job() -> None:
    async def scenario() -> None:
        scene = await scene_of(successfulRunsHistoryLimit=3, podHistoryLimit=2, concurrencyPolicy="Allow")
        names = [f"run-{number}" for number in range(10)]
        for number, name in enumerate(names):
            await scene.at(10 + 3 * number)
            start_run(scene.api, name, "job")
        await until_over(scene, *names)
        await scene.at(400)

        uid, pods = next(iter(scene.witness.accounts)), objects(scene.api, PODS)
        assert [len(by_hand(scene)), len(objects(scene.api, RUNS)), len(pods)] == [3, 3, 2]
        owner = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "name": "job", "uid": uid, "controller": True}
        assert [pod["metadata"]["ownerReferences"] for pod in pods] == [[owner | {"blockOwnerDeletion": False}]] * 2
        assert {pod["metadata"]["labels"]["quarterjack.dev/trigger"] for pod in pods} == {"Manual"}
        delete(scene.api, JOBS, "job")
        scene.api.collect_garbage()
        await scene.at(1000)
        assert objects(scene.api, RUNS) == objects(scene.api, PODS) == claims(scene) == []

    play(scenario, start=BEGIN)


def claims(scene: Scene) -> list[Document]:
    labels = [lease["metadata"]["labels"] for lease in objects(scene.api, LEASES)]
    return [found for found in labels if "quarterjack.dev/firing" in found]


def test_a_limit_of_none_deletes_it_once_it_could_be_looked_at() -> None:
    async def scenario() -> None:
        scene = await scene_of(successfulRunsHistoryLimit=0)
        start_run(scene.api, "run", "job")
        await until_over(scene, "run")
        assert state_of(scene) == "Succeeded"
        await scene.at(120)

        assert objects(scene.api, RUNS) == []
        await scene.at(900)
        assert len(scene.api.ledger.pods) == 1

    play(scenario, start=BEGIN)


def test_what_was_asked_for_while_no_replica_ran_runs_when_one_does() -> None:
    async def scenario() -> None:
        scene = await scene_of()
        scene.crash()
        start_run(scene.api, "run", "job")
        edit_spec(scene.api, "job", suspend=True)
        await scene.at(600)
        scene.start("c")
        await until_over(scene, "run")

        assert state_of(scene) == "Succeeded"

    play(scenario, start=BEGIN)
