"""Runs of which nothing is heard any more, and runs that never start: given up, and the next firing runs."""

from __future__ import annotations

from typing import Any

import pytest

from .actors import delete_pod, edit_spec, finish_pod, objects, read
from .engine import MINUTELY, Scene, firing_lines, play
from .resources import PODS
from .statuses import Document
from .virtual import START
from .witness import epoch

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
NODE_GRACE = 50  # the node controller's


def image(name: str) -> Document:
    return {"spec": {"containers": [{"name": "main", "image": name}], "restartPolicy": "Never"}}


async def scene_of(*, runs: float = 1000, **spec: Any) -> tuple[Scene, str]:
    scene = Scene()
    scene.end.after_seconds = runs
    usual: dict[str, Any] = {
        "concurrencyPolicy": "Forbid",
        "schedule": MINUTELY,
        "leaseDuration": "2m",
        "failedRunsHistoryLimit": 50,
    }
    uid = scene.job(**usual | spec)
    scene.start("a", "b", "c")
    await scene.at(5)
    return scene, uid


def lines(scene: Scene) -> dict[int, Document]:
    """The lines by minutes after the first firing."""
    return {(firing - FIRST) // 60: line for firing, line in firing_lines(scene.status()).items()}


def ends(scene: Scene, *minutes: int) -> list[str]:
    return [lines(scene)[minute]["state"] for minute in minutes]


# Nothing is heard


@pytest.mark.parametrize("evicts", [True, False], ids=["its Pods are evicted", "its Pods stay"])
def test_a_run_on_a_lost_node_is_stale_after_its_lease_and_the_next_firing_runs(evicts: bool) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.kubelet.evicts = evicts
        await scene.at(DUE + 15)
        scene.kubelet.lose_node()
        scene.kubelet.node = "node-2"
        await scene.at(DUE + 15 + NODE_GRACE + 120 - 2)
        assert ends(scene, 0, 1, 2, 3) == ["Running", "Skipped", "Skipped", "Skipped"]
        await scene.at(DUE + 250)
        assert ends(scene, 0, 4) == ["Stale", "Running"]
        assert lines(scene)[0]["reason"] == "NodeLost"
        assert "leaseDuration (2m)" in lines(scene)[0]["message"]
        assert scene.status()["activeCount"] == 1

    play(scenario, start=BEGIN)


def test_a_late_finisher_overwrites_its_stale_record_with_its_real_end() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(runs=200)
        await scene.at(DUE + 15)
        scene.kubelet.lose_node()
        scene.kubelet.node = "node-2"
        await scene.at(DUE + 250)
        assert ends(scene, 0) == ["Stale"]
        scene.kubelet.find_node()
        await scene.at(DUE + 260)
        scene.witness.check(calm_seconds=60, alive=True)
        assert ends(scene, 0) == ["Succeeded"]
        assert scene.status()["consecutiveFailures"] == 0
        assert scene.status()["lastSuccessfulTime"]

    play(scenario, start=BEGIN)


def test_a_node_that_comes_back_in_time_costs_nothing() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(runs=500)
        await scene.at(DUE + 15)
        scene.kubelet.lose_node()
        await scene.at(DUE + 160)
        scene.kubelet.find_node()
        await scene.at(DUE + 490)
        assert ends(scene, 0) == ["Running"]
        await scene.at(DUE + 510)
        assert ends(scene, 0) == ["Succeeded"]
        assert scene.api.ledger.firings(uid) == [FIRST]

    play(scenario, start=BEGIN)


def test_a_run_given_up_that_is_heard_of_again_is_not_joined_by_another() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="1/5 * * * *", runs=2000)
        scene.kubelet.evicts = False
        await scene.at(DUE + 15)
        scene.kubelet.lose_node()
        await scene.at(DUE + 250)
        assert ends(scene, 0) == ["Stale"]
        scene.kubelet.find_node()
        await scene.at(DUE + 610)
        assert ends(scene, 0, 5, 10) == ["Stale", "Skipped", "Skipped"]
        await scene.at(DUE + 2110)
        assert ends(scene, 0, 35) == ["Succeeded", "Running"]
        assert scene.api.ledger.firings(uid) == [FIRST, FIRST + 2100]
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


def test_silence_while_nobody_could_listen_does_not_count() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(runs=2000)
        scene.kubelet.evicts = False
        await scene.at(DUE + 15)
        scene.kubelet.lose_node()
        await scene.at(DUE + 90)
        scene.take_down(400)
        await scene.at(DUE + 520)
        scene.kubelet.find_node()
        await scene.at(DUE + 900)
        assert ends(scene, 0) == ["Running"]
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


def test_a_pod_that_should_be_gone_and_is_not_blocks_no_more_than_its_lease() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.kubelet.evicts = False
        await scene.at(DUE + 15)
        (pod,) = objects(scene.api, PODS)
        scene.kubelet.lose_node()
        delete_pod(scene.api, pod["metadata"]["name"])  # by 45 s it is to be gone
        scene.kubelet.node = "node-2"
        await scene.at(DUE + 170)
        assert ends(scene, 0, 1, 2) == ["Stale", "Skipped", "Skipped"]
        assert lines(scene)[0]["reason"] == "LeaseExpired"
        await scene.at(DUE + 185)
        assert ends(scene, 3) == ["Running"]

    play(scenario, start=BEGIN)


def test_a_finalizer_on_a_pod_that_has_ended_blocks_nothing() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(runs=30)
        await scene.at(DUE + 15)
        (pod,) = objects(scene.api, PODS)
        scene.api.settle(PODS, {**pod, "metadata": {**pod["metadata"], "finalizers": ["example.com/keep"]}})
        delete_pod(scene.api, pod["metadata"]["name"])
        await scene.at(DUE + 70)
        assert ends(scene, 0, 1) == ["Failed", "Running"]
        assert read(scene.api, PODS, pod["metadata"]["name"]) is not None

    play(scenario, start=BEGIN)


def test_a_run_that_may_overlap_is_given_up_too() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy="Allow", schedule="1 9 * * *")
        await scene.at(DUE + 15)
        scene.kubelet.lose_node()
        await scene.at(DUE + 250)
        assert ends(scene, 0) == ["Stale"]

    play(scenario, start=BEGIN)


def test_an_end_stays_what_it_was_whatever_a_node_says_later() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1 9 * * *")
        await scene.at(DUE + 15)
        (pod,) = objects(scene.api, PODS)
        finish_pod(scene.api, pod["metadata"]["name"], "Failed", reason="Evicted", message="the node was low on memory")
        await scene.at(DUE + 20)
        finish_pod(scene.api, pod["metadata"]["name"], "Succeeded")
        finish_pod(scene.api, pod["metadata"]["name"], "Succeeded")
        await scene.at(DUE + 40)
        scene.witness.check(calm_seconds=10)
        assert (lines(scene)[0]["state"], lines(scene)[0]["reason"]) == ("Failed", "Evicted")
        assert (scene.status()["consecutiveFailures"], scene.status().get("lastSuccessfulTime")) == (1, None)

    play(scenario, start=BEGIN)


# Nothing starts


def test_an_image_that_is_not_there_fails_the_run_after_the_lease_and_frees_the_next_firing() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(runs=5, template=image("nosuchtag"))
        scene.kubelet.missing = ("nosuchtag",)
        await scene.at(DUE + 110)
        assert (lines(scene)[0]["state"], lines(scene)[0]["reason"]) == ("Pending", "ImagePullBackOff")
        edit_spec(scene.api, "job", template=image("good"))
        await scene.at(DUE + 190)
        scene.witness.check(calm_seconds=5)
        assert ends(scene, 0, 1, 2, 3) == ["Failed", "Skipped", "Skipped", "Succeeded"]
        assert lines(scene)[0]["reason"] == "ImagePullBackOff"
        assert "leaseDuration (2m)" in lines(scene)[0]["message"]
        assert scene.witness.most_alive == 1
        assert [pod["status"]["phase"] for pod in objects(scene.api, PODS)] == ["Succeeded"]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("mended", "attempts"),
    [
        pytest.param(60, [("Failed", "ImagePullBackOff"), ("Succeeded", "")], id="while its first attempt waits"),
        pytest.param(900, [("Failed", "ImagePullBackOff")] * 3, id="after it has given up"),
    ],
)
def test_d01_a_template_that_is_mended_is_that_of_the_next_attempt_or_of_the_next_firing(
    mended: int, attempts: list[tuple[str, str]]
) -> None:
    async def scenario() -> None:
        retry = {"maxRetries": 2, "delay": "10s"}
        scene, _ = await scene_of(runs=5, schedule="1/20 * * * *", template=image("nosuchtag"), retry=retry)
        scene.kubelet.missing = ("nosuchtag",)
        await scene.at(DUE + mended)
        edit_spec(scene.api, "job", template=image("good"))
        await scene.at(DUE + 1300)

        scene.witness.check(calm_seconds=60)
        history = sorted(scene.status()["history"], key=lambda line: (line["scheduledTime"], line["attempt"]))
        told = [(line["state"], line.get("reason", "")) for line in history]
        assert told == [*attempts, ("Succeeded", "")]
        assert epoch(history[-1]["scheduledTime"]) == FIRST + 1200
        assert scene.witness.most_alive == 1
        assert {pod["spec"]["containers"][0]["image"] for pod in objects(scene.api, PODS)} == {"good"}

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("fields", "seconds", "reason"),
    [
        pytest.param({}, 120, "Unschedulable", id="by the lease"),
        pytest.param({"activeDeadlineSeconds": 30}, 30, "DeadlineExceeded", id="by the deadline"),
    ],
)
def test_a_pod_for_which_there_is_no_room_is_ended(fields: dict[str, Any], seconds: int, reason: str) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1 9 * * *", **fields)
        scene.kubelet.holds = lambda _: "Unschedulable"
        await scene.at(DUE + seconds - 5)
        assert (lines(scene)[0]["state"], lines(scene)[0]["reason"]) == ("Pending", "Unschedulable")
        await scene.at(DUE + seconds + 15)
        scene.witness.check(calm_seconds=10)
        assert (lines(scene)[0]["state"], lines(scene)[0]["reason"]) == ("Failed", reason)
        assert "Unschedulable: 0/1 nodes are available" in lines(scene)[0]["message"]
        assert objects(scene.api, PODS) == []

    play(scenario, start=BEGIN)


def test_a_pod_that_is_on_a_node_has_its_deadline_kept_by_the_kubelet() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1 9 * * *", activeDeadlineSeconds=30)
        scene.kubelet.holds = lambda _: "ImagePullBackOff"
        await scene.at(DUE + 45)
        assert (lines(scene)[0]["state"], lines(scene)[0]["reason"]) == ("Failed", "DeadlineExceeded")
        assert len(objects(scene.api, PODS)) == 1

    play(scenario, start=BEGIN)


def test_the_deadline_ends_a_run_while_no_replica_runs_and_frees_the_next_firing() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(activeDeadlineSeconds=60, schedule="1/10 * * * *")
        await scene.at(DUE + 30)
        scene.crash()
        await scene.at(DUE + 595)
        scene.start("d", "e", "f")
        await scene.at(DUE + 610)
        assert (lines(scene)[0]["state"], lines(scene)[0]["reason"]) == ("Failed", "DeadlineExceeded")
        assert ends(scene, 10) == ["Running"]

    play(scenario, start=BEGIN)


def test_what_cannot_start_is_ended_once_though_no_replica_lives_through_it() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule="1 9 * * *")
        scene.kubelet.holds = lambda _: "ImagePullBackOff"
        scene.kubelet.stop_seconds = 20
        await scene.at(DUE + 124)
        (pod,) = objects(scene.api, PODS)
        assert "deletionTimestamp" in pod["metadata"]
        scene.crash()
        await scene.at(DUE + 200)
        scene.start("d", "e", "f")
        await scene.at(DUE + 230)
        scene.witness.check(calm_seconds=10)
        assert (lines(scene)[0]["state"], lines(scene)[0]["reason"]) == ("Failed", "ImagePullBackOff")

    play(scenario, start=BEGIN)
