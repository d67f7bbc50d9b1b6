"""What becomes of a run whose Pod does not simply succeed, and of what comes after it."""

from __future__ import annotations

from typing import Any

import pytest

from .actors import (
    CONTAINERS,
    End,
    apply_job,
    ask,
    delete,
    delete_namespace,
    delete_pod,
    edit_spec,
    evict,
    objects,
    read,
    succeed,
)
from .engine import Scene, firing_lines, play, states
from .faults import Fault, Plan, Rule
from .resources import EVENTS, JOBS, LEASES, NAMESPACES, PODS, Resource
from .statuses import Document, Refused, forbidden
from .virtual import START

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
ONCE_A_DAY = "1 9 * * *"
FOR_EVER = End(after_seconds=None)


async def scene_of(*, end: End, names: str = "ab", **spec: Any) -> Scene:
    scene = Scene(ends=end)
    scene.job(**{"concurrencyPolicy": "Forbid"} | spec)
    scene.start(*names)
    await scene.at(5)
    return scene


def line(scene: Scene, minutes: int = 0) -> Document:
    """The line of the firing so many minutes after the first."""
    return firing_lines(scene.status())[FIRST + 60 * minutes]


def verdict(scene: Scene, minutes: int = 0) -> tuple[str, str]:
    found = line(scene, minutes)
    return found["state"], found.get("reason", "")


def pods(scene: Scene) -> list[str]:
    return [pod["metadata"]["name"] for pod in objects(scene.api, PODS)]


async def all_replaced(scene: Scene, *, since: float, until: float) -> None:
    """No replica runs for a while; then a new one does."""
    await scene.at(since)
    scene.crash()
    await scene.at(until)
    scene.restart()


# Deadlines and Pods that do not start


def test_a_run_ended_by_its_deadline_frees_the_way_for_the_next() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER, activeDeadlineSeconds=90)
        await scene.at(DUE + 130)
        assert verdict(scene) == ("Failed", "DeadlineExceeded")
        assert verdict(scene, 1) == ("Skipped", "Overlap")
        assert verdict(scene, 2)[0] == "Running"
        scene.witness.check(calm_seconds=60)

    play(scenario, start=BEGIN)


def test_a_deadline_that_passes_while_no_replica_runs_is_recorded_afterwards() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER, activeDeadlineSeconds=60, misfirePolicy="Skip")
        await all_replaced(scene, since=DUE + 30, until=DUE + 590)
        await scene.at(DUE + 650)
        assert verdict(scene) == ("Failed", "DeadlineExceeded")
        assert line(scene)["completionTime"] == "2026-03-02T09:02:00Z", line(scene)
        assert verdict(scene, 10)[0] == "Running"
        scene.witness.check(calm_seconds=100)

    play(scenario, start=BEGIN)


def test_a_missing_image_is_named_while_its_run_waits_and_a_better_one_is_that_of_the_next_run() -> None:
    async def scenario() -> None:
        bad = {"spec": {"containers": [CONTAINERS[0] | {"image": "busybox:none"}]}}
        scene = await scene_of(end=End(after_seconds=5), activeDeadlineSeconds=90, template=bad)
        scene.kubelet.missing = ("busybox:none",)
        await scene.at(DUE + 30)
        assert (*verdict(scene), line(scene)["message"]) == (
            "Pending",
            "ImagePullBackOff",
            "main: Back-off pulling image",
        )
        edit_spec(scene.api, "job", template={"spec": {"containers": CONTAINERS}})
        await scene.at(DUE + 150)
        assert verdict(scene) == ("Failed", "DeadlineExceeded")
        assert line(scene)["message"].endswith("; main: Back-off pulling image")
        assert verdict(scene, 1) == ("Skipped", "Overlap")
        assert verdict(scene, 2)[0] == "Succeeded"
        scene.witness.check()

    play(scenario, start=BEGIN)


# Pods that somebody ends


@pytest.mark.parametrize("away", [False, True], ids=["replicas run", "no replica runs"])
@pytest.mark.parametrize("now", [False, True], ids=["with grace", "at once"])
def test_a_run_whose_pod_is_deleted_has_failed_and_frees_the_way_for_the_next(away: bool, now: bool) -> None:
    async def scenario() -> None:
        scene = await scene_of(end=End(after_seconds=300))
        await scene.at(DUE + 5)
        if away:
            scene.crash()
        delete_pod(scene.api, pods(scene)[0], now=now)
        await scene.at(DUE + 25)
        if away:
            scene.restart()
        await scene.at(DUE + 70)
        assert verdict(scene) == ("Failed", "PodDeleted")
        assert verdict(scene, 1)[0] == "Running"
        scene.witness.check(calm_seconds=65)

    play(scenario, start=BEGIN)


def test_an_evicted_run_says_so() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER)
        await scene.at(DUE + 5)
        evict(scene.api, pods(scene)[0])
        await scene.at(DUE + 15)
        assert (*verdict(scene), line(scene)["message"]) == ("Failed", "Evicted", "Eviction API: evicting")

    play(scenario, start=BEGIN)


def test_a_pod_that_a_finalizer_keeps_does_not_keep_its_run_open() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=End(after_seconds=300))
        await scene.at(DUE + 5)
        (name,) = pods(scene)
        held = {"metadata": {"finalizers": ["example.com/hold"]}}
        succeed(ask(scene.api, "PATCH", PODS.path("default", name), held))
        delete_pod(scene.api, name)
        await scene.at(DUE + 70)
        assert verdict(scene) == ("Failed", "PodDeleted")
        assert verdict(scene, 1)[0] == "Running"
        assert name in pods(scene)
        scene.witness.check(calm_seconds=65)

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("away", [False, True], ids=["replicas run", "no replica runs"])
def test_ends_on_record_stay_whatever_becomes_of_their_pods(away: bool) -> None:
    async def scenario() -> None:
        scene = await scene_of(end=End(after_seconds=3), podHistoryLimit=10)
        await scene.at(DUE + 190)
        before = scene.status()["history"]
        if away:
            scene.crash()
        for name in pods(scene):
            delete_pod(scene.api, name, now=True)
        if away:
            scene.restart()
        await scene.at(DUE + 230)
        assert [entry["state"] for entry in before] == ["Succeeded"] * 4
        assert scene.status()["history"] == before
        assert pods(scene) == []
        scene.witness.check()

    play(scenario, start=BEGIN)


def test_a_run_that_goes_on_while_no_replica_runs_is_adopted_and_its_end_recorded_once() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=End(after_seconds=40, message="done"), schedule=ONCE_A_DAY)
        await all_replaced(scene, since=DUE + 5, until=DUE + 20)
        await scene.at(DUE + 30)
        assert verdict(scene)[0] == "Running"
        await scene.at(DUE + 60)
        assert (*verdict(scene), line(scene)["message"]) == ("Succeeded", "", "done")
        assert states(scene.status()) == ["Succeeded"]
        assert len(scene.api.ledger.pods) == 1
        scene.witness.check(calm_seconds=10)

    play(scenario, start=BEGIN)


def test_an_end_that_came_while_no_replica_ran_is_recorded_however_late_the_job_is_known() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=End(after_seconds=10), schedule=ONCE_A_DAY)
        await scene.at(DUE + 5)
        scene.crash()
        await scene.at(DUE + 20)
        scene.start("c", plan=Plan([Rule(fault=Fault(answer_seconds=3), method="GET", resource="scheduledjobs")]))
        await scene.at(DUE + 40)
        assert verdict(scene)[0] == "Succeeded"

    play(scenario, start=BEGIN)


# Whatever the end, within the limits


ENDS = (
    End(after_seconds=2),
    End(after_seconds=2, phase="Failed", exit_code=1, message="no route"),
    End(after_seconds=2, phase="Failed", exit_code=137, reason="OOMKilled"),
    End(after_seconds=2, phase="Failed", reason="Evicted", message="The node was low on memory"),
    FOR_EVER,  # until its deadline
)


def each_in_turn(pod: Document) -> End:
    minutes = (int(pod["metadata"]["labels"]["quarterjack.dev/firing"]) - FIRST) // 60
    return ENDS[minutes % len(ENDS)]


@pytest.mark.parametrize(("good", "bad", "pod_limit"), [(3, 1, 1), (0, 0, 0)])
def test_limits_hold_whatever_the_ends_and_spare_what_runs(good: int, bad: int, pod_limit: int) -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.kubelet.ends = each_in_turn
        limits: dict[str, Any] = {
            "successfulRunsHistoryLimit": good,
            "failedRunsHistoryLimit": bad,
            "podHistoryLimit": pod_limit,
        }
        scene.job(**limits, concurrencyPolicy="Allow", activeDeadlineSeconds=20)
        scene.start("a", "b")
        for minute in range(100):
            await scene.at(DUE + 60 * minute + 50)
            kept = states(scene.status())
            assert kept.count("Succeeded") <= good
            assert kept.count("Failed") == len(kept) - kept.count("Succeeded") <= bad
        assert len(scene.api.ledger.pods) == 100
        # nothing goes before its record is two minutes old
        assert len(pods(scene)) <= 2 * pod_limit + 3
        await scene.at(DUE + 60 * 104 + 10)
        assert [pod["status"]["phase"] for pod in objects(scene.api, PODS)].count("Running") == 1

    play(scenario, start=BEGIN)


def test_every_kind_of_end_is_recorded_as_what_it_is() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.kubelet.ends = each_in_turn
        scene.job(concurrencyPolicy="Allow", activeDeadlineSeconds=20)
        scene.start("a", "b")
        await scene.at(DUE + 290)
        scene.witness.check()
        assert [(*verdict(scene, minute), line(scene, minute).get("message", "")) for minute in range(5)] == [
            ("Succeeded", "", ""),
            ("Failed", "ExitCode", "no route"),
            ("Failed", "OOMKilled", "OOMKilled (exit code 137)"),
            ("Failed", "Evicted", "The node was low on memory"),
            ("Failed", "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"),
        ]

    play(scenario, start=BEGIN)


# Refusals with much to say


def test_the_words_of_a_refusal_are_cut_masked_and_on_one_line_wherever_they_are_kept() -> None:
    words = "no\x1b[31m\n" + "password=hunter2\n" + "x" * 900 * 1024

    def refuse(verb: str, resource: Resource, document: Document) -> Refused | None:
        return forbidden(PODS, document["metadata"]["name"], words) if resource is PODS and verb == "CREATE" else None

    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER, schedule=ONCE_A_DAY)
        scene.api.options.refuse.append(refuse)
        await scene.at(DUE + 40)
        scene.restart()
        await scene.at(DUE + 60)
        annotations = [
            note for lease in objects(scene.api, LEASES) for note in lease["metadata"]["annotations"].values()
        ]
        notes = [event["note"] for event in objects(scene.api, EVENTS)]
        said = [line(scene)["message"], *notes, *(note for note in annotations if "password" in note)]
        assert verdict(scene) == ("Pending", "FailedCreate")
        assert len(said) == 3
        for text in said:
            assert "password=***" in text
            assert "hunter2" not in text
            assert len(text) <= 500
            assert text.isprintable()

    play(scenario, start=BEGIN)


def test_a_refusal_that_goes_on_from_firing_to_firing_is_one_event() -> None:
    def refuse(verb: str, resource: Resource, document: Document) -> Refused | None:
        quota = "exceeded quota: pods, requested: 1, used: 10, limited: 10"
        return forbidden(PODS, document["metadata"]["name"], quota) if resource is PODS and verb == "CREATE" else None

    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER, names="a", concurrencyPolicy="Allow")
        scene.api.options.refuse.append(refuse)
        await scene.at(DUE + 230)
        refusals = [event["note"] for event in objects(scene.api, EVENTS) if event["reason"] == "FailedCreate"]
        assert len(scene.status()["history"]) == 4
        assert refusals == ["exceeded quota: pods, requested: 1, used: 10, limited: 10"]

    play(scenario, start=BEGIN)


def test_a_refusal_that_outlasts_the_events_of_names_is_tried_again_until_it_is_lifted() -> None:
    def refuse(verb: str, resource: Resource, document: Document) -> Refused | None:
        refused = resource is PODS and verb == "CREATE"
        return forbidden(PODS, document["metadata"]["name"], "exceeded quota") if refused else None

    async def scenario() -> None:
        scene = await scene_of(end=End(after_seconds=5), schedule=ONCE_A_DAY)
        scene.api.options.refuse.append(refuse)
        for minute in range(1, 10):
            await scene.at(DUE + 60 * minute)
            scene.api.compact()
            assert verdict(scene) == ("Pending", "FailedCreate")
        scene.api.options.refuse.clear()
        await scene.at(DUE + 600 + 120)
        assert verdict(scene)[0] == "Succeeded"
        scene.witness.check()

    play(scenario, start=BEGIN)


# Jobs that are deleted


@pytest.mark.parametrize("policy", ["Background", "Foreground", "Orphan"])
@pytest.mark.parametrize("away", [False, True], ids=["replicas run", "no replica runs"])
@pytest.mark.parametrize("when", [DUE + 5, DUE + 30], ids=["while its run goes on", "after its run"])
def test_a_deleted_job_is_gone_at_once_and_nothing_of_it_fires_or_stays(policy: str, away: bool, when: float) -> None:
    async def scenario() -> None:
        scene = await scene_of(end=End(after_seconds=10))
        scene.api.options.collect_seconds = 0.5
        await scene.at(when)
        if away:
            scene.crash()
        delete(scene.api, JOBS, "job", propagationPolicy=policy)
        scene.api.collect_garbage()
        assert read(scene.api, JOBS, "job") is None
        await scene.at(when + 5)
        if away:
            scene.restart()
        await scene.at(when + 1200)
        assert len(scene.api.ledger.pods) == 1
        left = [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)]
        assert [name for name in left if not name.startswith("member-")] == []
        assert len(pods(scene)) == (1 if policy == "Orphan" else 0)
        assert [operator.running.store.with_remains() for operator in scene.operators.values()] in (
            [set()],
            [set()] * 2,
        )

    play(scenario, start=BEGIN)


def test_a_job_deleted_while_jitter_delays_its_firing_does_not_start_it() -> None:
    async def scenario() -> None:
        scene = await scene_of(end=FOR_EVER, jitter="50s")
        scene.api.options.collect_seconds = 0.5
        await scene.at(DUE + 0.5)
        assert scene.api.ledger.pods == []
        delete(scene.api, JOBS, "job")
        await scene.at(DUE + 100)
        assert scene.api.ledger.pods == []

    play(scenario, start=BEGIN)


def test_a_namespace_goes_with_all_its_jobs_in_the_midst_of_their_firings() -> None:
    """Its Pods go first, and some take their time: until they are gone its jobs are there as ever."""

    async def scenario() -> None:
        scene = Scene(ends=FOR_EVER)
        scene.kubelet.stop_seconds = 25
        spec = {"schedule": "* * * * * *", "concurrencyPolicy": "Allow"}
        for number in range(10):
            apply_job(scene.api, f"job-{number}", spec, namespace="old")
        scene.start("a", "b")
        await scene.at(DUE + 0.5)
        delete_namespace(scene.api, "old")
        launched = len(scene.api.ledger.pods)
        claimed = len(scene.api.ledger.leases)
        await scene.at(DUE + 20)
        assert len(objects(scene.api, JOBS)) == 10
        assert len(scene.api.ledger.leases) - claimed <= 2 * 10
        await scene.at(DUE + 30)
        delete_namespace(scene.api, "old")
        assert read(scene.api, NAMESPACES, "old") is None
        await scene.at(DUE + 1500)
        assert len(scene.api.ledger.pods) == launched
        assert objects(scene.api, EVENTS) == []
        assert scene.api.counts["POST", "events"] <= 2 * len(scene.operators) * 10
        left = [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)]
        assert [name for name in left if not name.startswith("member-")] == []
        assert all(not operator.running.store.firings for operator in scene.operators.values())

    play(scenario, start=BEGIN)
