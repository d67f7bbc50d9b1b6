"""Runs that fail are tried again: each attempt once, after its wait, whoever dies in between; the run is counted once."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from .actors import End, delete_pod, edit_spec, objects, read
from .engine import Scene, play
from .resources import JOBS, LEASES, PODS, Resource
from .statuses import Document, Refused, forbidden
from .virtual import START, later
from .witness import epoch

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
ONCE_A_DAY = "1 9 * * *"
FAILS = End(1.5, "Failed", message="no such table")
SUCCEEDS = End(1.5)


def ends_in_turn(scene: Scene, *ends: End) -> None:
    """Each attempt of a run ends as listed; those that follow as the last."""

    def end_of(pod: Document) -> End:
        attempt = int(pod["metadata"]["annotations"]["quarterjack.dev/attempt"])
        return ends[min(attempt, len(ends)) - 1]

    scene.kubelet.ends = end_of


async def scene_of(
    *ends: End, names: str = "abc", retry: dict[str, Any] | None = None, **spec: Any
) -> tuple[Scene, str]:
    scene = Scene()
    ends_in_turn(scene, *ends)
    usual = {"schedule": ONCE_A_DAY, "concurrencyPolicy": "Allow", "retry": {"maxRetries": 2} | (retry or {})}
    uid = scene.job(**usual | spec)
    scene.start(*names)
    await scene.at(5)
    return scene, uid


def attempts(scene: Scene) -> list[tuple[int, int]]:
    """All Pods that ever were: firing, relative to the first, and attempt."""
    return [(pod.firing - FIRST, pod.attempt) for pod in scene.api.ledger.pods]


def history(scene: Scene) -> list[tuple[int, str, str]]:
    """Attempt, state and reason, the oldest first."""
    lines = sorted(scene.status()["history"], key=lambda line: (line["scheduledTime"], line["attempt"]))
    return [(line["attempt"], line["state"], line.get("reason", "")) for line in lines]


def counted(scene: Scene) -> tuple[dict[str, int], int]:
    """Runs by result, and failed attempts, over all replicas."""
    results: dict[str, int] = {}
    tallies = [o.running.writer.tallies.of(uid) for o in scene.operators.values() for uid in o.running.store.jobs]
    for tally in tallies:
        for (result, _), count in tally.results.items():
            results[result] = results.get(result, 0) + count
    return results, sum(tally.failed_attempts for tally in tallies)


def test_an_evicted_attempt_is_followed_by_one_that_succeeds_and_the_run_has_succeeded() -> None:
    async def scenario() -> None:
        evicted = End(1.5, "Failed", reason="Evicted", message="The node was low on resource: memory")
        scene, _ = await scene_of(evicted, SUCCEEDS, retry={"maxRetries": 1})
        await scene.at(DUE + 60)
        scene.witness.check()
        assert attempts(scene) == [(0, 1), (0, 2)]
        assert history(scene) == [(1, "Failed", "Evicted"), (2, "Succeeded", "")]
        assert counted(scene) == ({"Succeeded": 1}, 1)
        status = scene.status()
        assert (status["lastResult"], status["consecutiveFailures"], status["activeCount"]) == ("Succeeded", 0, 0)
        assert "lastFailureTime" not in status

    play(scenario, start=BEGIN)


def test_a_run_that_always_fails_gives_up_once_and_each_wait_doubles() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(FAILS)
        await scene.at(DUE + 90)
        scene.witness.check()
        assert history(scene) == [(n, "Failed", "ExitCode") for n in (1, 2, 3)]
        last = max(scene.status()["history"], key=lambda line: line["attempt"])
        assert last["message"] == "Gave up after 3 attempts: no such table"
        assert counted(scene) == ({"Failed": 1}, 3)
        assert scene.status()["consecutiveFailures"] == 1
        starts = [pod.at - FIRST for pod in scene.api.ledger.pods]
        assert starts == pytest.approx([0, 11, 33], abs=1.5)

    play(scenario, start=BEGIN)


def test_while_it_waits_the_record_says_what_failed_and_when_the_next_attempt_starts() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(FAILS, retry={"delay": "1m"})
        await scene.at(DUE + 30)
        status = scene.status()
        line = next(line for line in status["history"] if line["attempt"] == 2)
        assert (line["state"], line["reason"]) == ("Pending", "BackOff")
        assert line["message"] == "Attempt 1 failed: no such table; attempt 2 at 2026-03-02T09:02:01Z"
        assert epoch(line["startTime"]) == FIRST + 61
        assert (status["activeCount"], [run["attempt"] for run in status["active"]]) == (1, [2])

    play(scenario, start=BEGIN)


def test_an_attempt_is_told_the_time_of_the_firing_and_its_number() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(FAILS)
        await scene.at(DUE + 90)
        pods = {int(p["metadata"]["annotations"]["quarterjack.dev/attempt"]): p for p in objects(scene.api, PODS)}
        told = {line["name"]: line["value"] for line in pods[3]["spec"]["containers"][0]["env"]}
        assert (told["SCHEDULED_TIME"], told["RUN_ATTEMPT"]) == ("2026-03-02T09:01:00Z", "3")
        assert told["RUN_ID"] == f"{uid.replace('-', '')}-{FIRST}-3"

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("when", [1.4, 2.0, 4.0, 8.0, 11.0, 13.0, 15.0, 25.0])
def test_a_back_off_survives_that_every_replica_is_started_anew(when: float) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(FAILS)
        await scene.at(DUE + when)
        scene.crash()
        await scene.at(DUE + when + 5)
        scene.start("d", "e", "f")
        await scene.at(DUE + 120)
        scene.witness.check()
        assert attempts(scene) == [(0, 1), (0, 2), (0, 3)]
        assert history(scene) == [(n, "Failed", "ExitCode") for n in (1, 2, 3)]
        assert scene.status()["consecutiveFailures"] == 1
        starts = [pod.at for pod in scene.api.ledger.pods]
        assert starts[1] >= starts[0] + 11
        assert starts[2] >= starts[1] + 20.5  # the end of an attempt is known to the second

    play(scenario, start=BEGIN)


def test_a_run_whose_pod_somebody_deletes_is_tried_again() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(End(None), SUCCEEDS)
        await scene.at(DUE + 3)
        delete_pod(scene.api, scene.api.ledger.pods[0].name, now=True)
        await scene.at(DUE + 60)
        scene.witness.check()
        assert history(scene) == [(1, "Failed", "PodDeleted"), (2, "Succeeded", "")]

    play(scenario, start=BEGIN)


def test_a_pod_that_a_quota_refuses_for_ever_is_tried_again_after_it_has_failed() -> None:
    def no_first_pods(verb: str, resource: Resource, document: Document) -> Refused | None:
        first = document["metadata"].get("annotations", {}).get("quarterjack.dev/attempt") == "1"
        if (verb, resource) != ("CREATE", PODS) or not first:
            return None
        return forbidden(PODS, document["metadata"]["name"], "exceeded quota: pods")

    async def scenario() -> None:
        scene, _ = await scene_of(SUCCEEDS)
        scene.api.options.refuse.append(no_first_pods)
        await scene.at(DUE + 1500)
        scene.witness.check()
        assert history(scene) == [(1, "Failed", "FailedCreate"), (2, "Succeeded", "")]
        failed = next(line for line in scene.status()["history"] if line["attempt"] == 1)
        (launch,) = scene.api.ledger.pods
        assert launch.at >= epoch(failed["completionTime"]) + 10

    play(scenario, start=BEGIN)


# Edits, suspension, deletion


def test_a_run_that_has_begun_is_tried_again_though_its_job_is_suspended_or_its_deadline_has_passed() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(FAILS, SUCCEEDS, startingDeadlineSeconds=5)
        await scene.at(DUE + 5)
        edit_spec(scene.api, "job", suspend=True)
        await scene.at(DUE + 60)
        scene.witness.check()
        assert history(scene) == [(1, "Failed", "ExitCode"), (2, "Succeeded", "")]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(0, 5, [(0, 1)], id="retries added after the end start nothing"),
        pytest.param(5, 0, [(0, 1), (0, 2)], id="retries taken away end with the attempt that is announced"),
    ],
)
def test_an_edit_of_retry_is_for_failures_to_come(before: int, after: int, expected: list[tuple[int, int]]) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(FAILS, retry={"maxRetries": before})
        await scene.at(DUE + 6)
        edit_spec(scene.api, "job", retry={"maxRetries": after})
        await scene.at(DUE + 100)
        scene.witness.check()
        assert attempts(scene) == expected

    play(scenario, start=BEGIN)


def test_a_job_deleted_while_a_run_waits_for_its_next_attempt_starts_nothing_and_leaves_nothing() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(FAILS)
        scene.api.options.collect_seconds = 0.5
        await scene.at(DUE + 6)
        scene.api.delete(JOBS, read(scene.api, JOBS, "job") or {}, {})
        await scene.at(DUE + 1200)
        scene.witness.check()
        assert attempts(scene) == [(0, 1)]
        left = [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)]
        assert [name for name in left if not name.startswith("member-")] == []

    play(scenario, start=BEGIN)


# Beside other runs


def test_under_forbid_a_run_that_waits_for_its_next_attempt_counts_as_alive() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(
            FAILS, SUCCEEDS, schedule="*/20 * * * * *", concurrencyPolicy="Forbid", retry={"delay": "30s"}
        )
        await scene.at(DUE + 200)
        scene.witness.check(calm_seconds=70)
        assert scene.witness.most_alive == 1
        assert attempts(scene)[:4] == [(0, 1), (0, 2), (40, 1), (40, 2)]
        assert counted(scene)[0].keys() == {"Succeeded", "Skipped"}

    play(scenario, start=BEGIN)


def test_runs_under_allow_are_tried_again_beside_one_another() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(FAILS, FAILS, SUCCEEDS, schedule="*/10 * * * * *", retry={"delay": "15s"})
        await scene.at(DUE + 300)
        scene.witness.check(calm_seconds=70)
        over = [firing for firing, _ in attempts(scene) if firing <= 200]
        assert all(over.count(firing) == 3 for firing in over)
        assert len(scene.status()["history"]) <= 200

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("seconds", [3.0, 8.0])
def test_runs_that_wait_when_the_policy_becomes_forbid_do_not_overlap(seconds: float) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(End(1, "Failed"), End(25), schedule="*/5 * * * * *", retry={"delay": "10s"})
        await scene.at(DUE + seconds)
        edit_spec(scene.api, "job", concurrencyPolicy="Forbid", schedule=ONCE_A_DAY)
        await scene.at(DUE + 400)
        tried = {firing for firing, _ in attempts(scene)}
        assert sorted(firing for firing, attempt in attempts(scene) if attempt == 2) == sorted(tried)
        alive = [pod for pod in scene.api.ledger.pods if pod.attempt == 2 and pod.at > BEGIN + DUE + seconds + 1]
        assert all(after.at - before.at >= 25 for before, after in pairwise(alive))

    play(scenario, start=BEGIN)


def test_history_limits_count_runs_and_pod_limits_count_pods() -> None:
    async def scenario() -> None:
        limits: dict[str, Any] = {"failedRunsHistoryLimit": 3, "podHistoryLimit": 2}
        scene, _ = await scene_of(FAILS, schedule="* * * * *", retry={"delay": "1s"}, **limits)
        await scene.at(DUE + 900)
        runs = {line["scheduledTime"] for line in scene.status()["history"] if line["state"] == "Failed"}
        assert len(runs) in {3, 4}  # the limit, and perhaps one that is not over
        assert len(scene.status()["history"]) <= 3 * len(runs)
        assert len(objects(scene.api, PODS)) <= 2 + 3 * 3  # those of the last two minutes are kept
        scene.witness.check(calm_seconds=70)

    play(scenario, start=BEGIN)


def test_without_room_in_the_history_ends_are_counted_all_the_same() -> None:
    async def scenario() -> None:
        none: dict[str, Any] = {"successfulRunsHistoryLimit": 0, "failedRunsHistoryLimit": 0}
        scene, _ = await scene_of(FAILS, SUCCEEDS, **none)
        await scene.at(DUE + 60)
        assert scene.status()["history"] == []
        assert counted(scene) == ({"Succeeded": 1}, 1)

    play(scenario, start=BEGIN)


def test_claims_of_attempts_are_reaped_after_their_run_and_not_before() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(FAILS, retry={"delay": "5m"})

        def claims() -> list[str]:
            names = [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)]
            return sorted(name.partition("-")[2] for name in names if name.startswith(uid.replace("-", "")))

        await scene.at(DUE + 290)
        assert f"{FIRST}-2" not in claims()
        await scene.at(DUE + 320)
        assert f"{FIRST}-2" in claims()
        await scene.at(DUE + 2000)
        scene.witness.check()
        assert claims() == []
        assert attempts(scene) == [(0, 1), (0, 2), (0, 3)]

    play(scenario, start=BEGIN)


def test_a_replica_that_leaves_just_before_an_attempt_is_due_leaves_it_to_the_others() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(FAILS)
        first = scene.first(uid)
        await scene.at(DUE + 11.4)
        leaving = first.process.start(first.running.shut_down())
        later(5, first.process.crash)
        await scene.at(DUE + 100)
        assert leaving.done()
        scene.witness.check()
        assert attempts(scene) == [(0, 1), (0, 2), (0, 3)]

    play(scenario, start=BEGIN)
