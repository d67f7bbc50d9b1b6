"""What has ended has ended: whatever becomes of its Pod, and in whatever order that is told."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from quarterjack.model import State

from .actors import annotate, apply_job, delete_pod, edit_spec, objects
from .engine import Operator, Scene, firing_lines, play, states
from .resources import EVENTS, JOBS, PODS
from .statuses import Document
from .store import Change
from .virtual import START, later

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)


async def scene_of(*, names: str = "a", **spec: Any) -> tuple[Scene, str]:
    scene = Scene()
    uid = scene.job(**{"concurrencyPolicy": "Forbid"} | spec)
    scene.start(*names)
    await scene.at(5)
    return scene, uid


def tell(operator: Operator, kind: str, pod: Document) -> None:
    """An event of a Pod, as its watch brings it."""
    for sink in _sinks(operator):
        sink.apply(kind, pod)


def _sinks(operator: Operator) -> list[Any]:
    return [reflector._sink for reflector in operator.running.pods]


def remember_pods(scene: Scene) -> list[Change]:
    """All that ever happens to Pods, from now on."""
    changes: list[Change] = []
    scene.api.store.tables[PODS].listeners[id(changes)] = changes.append
    return changes


def counted(scene: Scene, uid: str) -> dict[str, int]:
    """Ends that were counted, by result."""
    counts: dict[str, int] = {}
    for operator in scene.operators.values():
        for (result, _), count in operator.running.writer.tallies.of(uid).results.items():
            counts[result] = counts.get(result, 0) + count
    return counts


def test_events_of_a_pod_that_come_twice_and_in_the_wrong_order_change_nothing_that_is_on_record() -> None:
    """D07, E12: MODIFIED twice, then DELETED before MODIFIED, twice, also to a replica that has just started."""

    async def scenario() -> None:
        scene, uid = await scene_of()
        changes = remember_pods(scene)
        await scene.at(DUE + 10)
        delete_pod(scene.api, objects(scene.api, PODS)[0]["metadata"]["name"], now=True)
        await scene.at(DUE + 20)
        before, (gone, *_) = scene.status()["history"], reversed(changes)
        assert [line["state"] for line in before] == ["Succeeded"]
        scene.start("b")
        await scene.at(DUE + 30)

        for _ in range(2):
            for operator in scene.operators.values():
                tell(operator, "DELETED", gone.after.document)
                for change in changes[:-1]:
                    tell(operator, "MODIFIED", change.after.document)
                    tell(operator, "MODIFIED", change.after.document)
            await asyncio.sleep(5)

        assert scene.status()["history"] == before
        assert scene.status()["activeCount"] == 0
        assert counted(scene, uid) == {"Succeeded": 1}
        await scene.at(DUE + 910)
        assert counted(scene, uid) == {"Succeeded": 16}
        assert states(scene.status()) == ["Succeeded"] * 10
        for operator in scene.operators.values():
            assert str(FIRST) not in operator.running.store.firings_of(uid).pods
        scene.witness.check()

    play(scenario, start=BEGIN)


def test_a_list_from_before_shows_runs_that_have_ended_as_alive_and_starts_and_changes_nothing() -> None:
    """A cache that is behind answers a restarted replica, or one whose watch broke."""

    async def scenario() -> None:
        scene, uid = await scene_of(podHistoryLimit=0)
        await scene.at(DUE + 1)
        stale = [pod for pod in objects(scene.api, PODS) if pod["status"]["phase"] == "Running"]
        assert len(stale) == 1
        await scene.at(DUE + 250)
        before = scene.status()["history"]
        assert str(FIRST) not in {
            pod["metadata"]["labels"]["quarterjack.dev/firing"] for pod in objects(scene.api, PODS)
        }

        for sink in _sinks(scene.operators["a"]):
            for pod in stale:
                sink.apply("ADDED", pod)
            sink.sweep({pod["metadata"]["uid"] for pod in stale})
        await scene.at(DUE + 280)

        assert scene.status()["history"] == before
        await scene.at(DUE + 910)
        scene.witness.check()
        assert [f - FIRST for f in scene.api.ledger.firings(uid)] == [60 * n for n in range(16)]
        assert counted(scene, uid) == {"Succeeded": 16}
        assert str(FIRST) not in scene.operators["a"].running.store.firings_of(uid).pods

    play(scenario, start=BEGIN)


def test_a_collector_that_takes_each_pod_as_soon_as_it_has_ended_takes_no_outcome() -> None:
    """As with terminated-pod-gc-threshold on a cluster that is full, while replicas come and go."""

    async def scenario() -> None:
        scene, uid = await scene_of(names="ab")

        def collect(change: Change) -> None:
            phase, name = change.after.document["status"].get("phase"), change.after.document["metadata"]["name"]
            if phase == "Succeeded" and not change.deleted:
                later(0.05, collect_pod, name)

        def collect_pod(name: str) -> None:
            if name in {pod["metadata"]["name"] for pod in objects(scene.api, PODS)}:
                delete_pod(scene.api, name, now=True)

        scene.api.store.tables[PODS].listeners[id(collect)] = collect
        for minute in range(10):
            await scene.at(DUE + 60 * minute + 30)
            scene.crash("a" if "a" in scene.operators else next(iter(scene.operators)))
            scene.restart()
        await scene.at(DUE + 600)

        assert objects(scene.api, PODS) == []
        assert [f - FIRST for f in scene.api.ledger.firings(uid)] == [60 * n for n in range(11)][
            : len(scene.api.ledger.pods)
        ]
        assert {line["state"] for line in firing_lines(scene.status()).values()} == {"Succeeded"}
        scene.witness.check(calm_seconds=40)

    play(scenario, start=BEGIN)


def test_restarting_all_replicas_at_the_same_second_ten_times_fires_writes_and_warns_of_nothing() -> None:
    """B17"""

    async def scenario() -> None:
        scene = Scene()
        for number in range(300):
            scene.job(f"job-{number}", schedule="0 0 1 1 *")
        scene.start("a", "b", "c")
        await scene.at(30)
        written = scene.api.counts["PATCH", "scheduledjobs"]

        for turn in range(10):
            scene.crash()
            scene.start(*(f"{name}-{turn}" for name in "abc"))
            await scene.at(40 + 10 * turn)

        assert scene.api.ledger.pods == []
        assert scene.api.counts["PATCH", "scheduledjobs"] == written
        assert objects(scene.api, EVENTS) == []

    play(scenario)


def test_restarting_all_replicas_when_firings_are_due_starts_each_of_them_once() -> None:
    async def scenario() -> None:
        scene = Scene()
        uids = [scene.job(f"job-{number}", concurrencyPolicy="Allow") for number in range(10)]
        scene.start("a", "b", "c")
        chance = random.Random(5)
        for turn in range(6):
            await scene.at(DUE + 60 * turn + chance.choice([-0.001, 0.0, 0.002, 0.004, 0.006, 0.3]))
            scene.crash()
            scene.start(*(f"{name}-{turn}" for name in "abc"))
        await scene.at(DUE + 400)

        scene.witness.check(calm_seconds=60)
        assert {tuple(f - FIRST for f in scene.api.ledger.firings(uid)) for uid in uids} == {
            tuple(60 * n for n in range(7))
        }
        assert {event["type"] for event in objects(scene.api, EVENTS)} == {"Normal"}

    play(scenario, start=BEGIN)


def test_a_job_that_is_annotated_and_patched_as_soon_as_it_is_made_fires_once() -> None:
    """B14"""

    async def scenario() -> None:
        scene = Scene()
        scene.start("a", "b", "c")
        await scene.at(DUE - 2)
        uid = scene.job(concurrencyPolicy="Allow")
        for number in range(20):
            await asyncio.sleep(0.0025)
            annotate(scene.api, JOBS, "job", number=str(number))
            edit_spec(scene.api, "job", description=f"edit {number}")
        await scene.at(DUE + 90)

        scene.witness.check(calm_seconds=20)
        assert [f - FIRST for f in scene.api.ledger.firings(uid)] == [0, 60]
        assert scene.status()["observedGeneration"] == 21

    play(scenario, start=BEGIN)


def test_names_that_are_alike_are_of_different_jobs() -> None:
    """B19: a name that looks like one of another's Pods, and one name in two namespaces."""

    async def scenario() -> None:
        scene = Scene()
        scene.start("a", "b")
        await scene.at(1)
        names = [("default", "a"), ("default", f"a-{FIRST}"), ("other", "a"), ("default", "a-a")]
        spec = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "podHistoryLimit": 10}
        jobs = [apply_job(scene.api, name, spec, namespace=namespace) for namespace, name in names]
        await scene.at(DUE + 130)

        scene.witness.check(calm_seconds=20)
        for job in jobs:
            assert [f - FIRST for f in scene.api.ledger.firings(job["metadata"]["uid"])] == [0, 60, 120]
        assert len({(p["metadata"]["namespace"], p["metadata"]["name"]) for p in objects(scene.api, PODS)}) == 12
        histories = [job["status"]["history"] for job in objects(scene.api, JOBS)]
        assert {line["state"] for history in histories for line in history} == {State.SUCCEEDED}

    play(scenario, start=BEGIN)
