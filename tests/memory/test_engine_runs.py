"""Runs that cannot start or outlast their schedule, and jobs that come, change and go."""

from __future__ import annotations

from typing import Any

import pytest

from quarterjack.names import pod_name

from .actors import TEMPLATE, ask, delete, edit_spec, objects, read, succeed
from .engine import Scene, firing_lines, play, states
from .faults import Fault, Point, Rule
from .resources import EVENTS, JOBS, LEASES, PODS, Resource
from .statuses import BAD_TEMPLATE, Document, Refused, invalid, no_bad_images, no_pods
from .virtual import START

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
ONCE_A_DAY = "1 9 * * *"


async def scene_of(*, names: str = "abc", **spec: Any) -> tuple[Scene, str]:
    scene = Scene()
    uid = scene.job(**{"concurrencyPolicy": "Allow"} | spec)
    scene.start(*names)
    await scene.at(5)
    return scene, uid


def condition(scene: Scene, kind: str) -> tuple[str, str]:
    found = scene.condition(kind)
    return found["status"], found["reason"]


def events(scene: Scene) -> list[tuple[str, str]]:
    return [(event["reason"], event["note"]) for event in objects(scene.api, EVENTS)]


# Pods that are refused


def test_a_pod_refused_by_a_quota_says_why_and_runs_once_room_is_made() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule=ONCE_A_DAY)
        scene.api.options.refuse.append(no_pods)
        await scene.at(DUE + 40)
        line = firing_lines(scene.status())[FIRST]
        assert (line["state"], line["reason"]) == ("Pending", "FailedCreate")
        assert "exceeded quota" in line["message"]
        scene.api.options.refuse.clear()
        await scene.at(DUE + 200)
        scene.witness.check()
        assert states(scene.status()) == ["Succeeded"]
        assert scene.api.ledger.firings(uid) == [FIRST]

    play(scenario, start=BEGIN)


def test_a_pod_refused_for_ever_is_a_failure_in_the_end() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(schedule=ONCE_A_DAY)
        scene.api.options.refuse.append(no_pods)
        await scene.at(DUE + 1500)
        scene.witness.check()
        line = firing_lines(scene.status())[FIRST]
        assert (line["state"], line["reason"]) == ("Failed", "FailedCreate")

    play(scenario, start=BEGIN)


def test_a_quota_that_holds_one_firing_back_does_not_let_two_runs_overlap_later() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of(concurrencyPolicy="Forbid")
        scene.end.after_seconds = 30
        scene.api.options.refuse.append(no_pods)
        await scene.at(DUE + 100)
        scene.api.options.refuse.clear()
        await scene.at(DUE + 500)
        scene.witness.check(calm_seconds=100)
        assert scene.witness.most_alive == 1

    play(scenario, start=BEGIN)


def test_a_template_that_makes_no_pod_is_a_condition_and_its_neighbour_runs() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.api.options.refuse.append(no_bad_images)
        uid = scene.job(concurrencyPolicy="Allow", template=BAD_TEMPLATE)
        scene.start("a", "b")
        neighbour = scene.job("neighbour", concurrencyPolicy="Allow")
        await scene.at(DUE + 30)
        assert condition(scene, "PodTemplateValid") == ("False", "InvalidPodTemplate")
        assert condition(scene, "Ready")[0] == "False"
        edit_spec(scene.api, "job", template=TEMPLATE)
        await scene.at(DUE + 150)
        scene.witness.check()
        assert [f - FIRST for f in scene.api.ledger.firings(uid)] == [60, 120]
        assert [f - FIRST for f in scene.api.ledger.firings(neighbour)] == [0, 60, 120]

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    ("policy", "minutes"),
    [
        pytest.param("Skip", [0], id="Skip"),
        pytest.param("RunOnce", [0, 7], id="RunOnce"),
        pytest.param("CatchUp", list(range(8)), id="CatchUp"),
    ],
)
@pytest.mark.parametrize("edits", [1, 2], ids=["at once", "at the second try"])
def test_what_falls_due_while_a_template_makes_no_pod_is_on_record_and_treated_as_missed(
    policy: str, minutes: list[int], edits: int
) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="1-8 9 * * *", misfirePolicy=policy, concurrencyPolicy="Allow")
        scene.api.options.refuse.append(no_bad_images)
        await scene.at(DUE + 30)
        edit_spec(scene.api, "job", template=BAD_TEMPLATE)
        for number in range(1, edits):
            await scene.at(DUE + 30 + 200 * number)
            edit_spec(scene.api, "job", template=BAD_TEMPLATE | {"metadata": {"labels": {"edit": str(number)}}})
        await scene.at(DUE + 9 * 60 + 30)
        assert condition(scene, "Ready")[0] == "False"
        edit_spec(scene.api, "job", template=TEMPLATE)
        await scene.at(DUE + 11 * 60 + 30)
        scene.witness.check()
        assert [(f - FIRST) // 60 for f in scene.api.ledger.firings(uid)] == minutes
        assert sum(line.get("count", 1) for line in scene.status()["history"]) == 8

    play(scenario, start=BEGIN)


def test_a_pod_found_invalid_only_at_its_launch_is_a_failure_at_once() -> None:
    def no_more_pods(verb: str, resource: Resource, document: Document) -> Refused | None:
        if (verb, resource) != ("CREATE", PODS):
            return None
        return invalid(PODS, document["metadata"]["name"], [("spec.priorityClassName", "Invalid value: no such class")])

    async def scenario() -> None:
        scene, _ = await scene_of(schedule=ONCE_A_DAY)
        scene.api.options.refuse.append(no_more_pods)
        await scene.at(DUE + 20)
        scene.witness.check(calm_seconds=10)
        line = firing_lines(scene.status())[FIRST]
        assert (line["state"], line["reason"]) == ("Failed", "PodInvalid")

    play(scenario, start=BEGIN)


def test_a_strangers_pod_that_has_the_name_is_left_alone_and_named_in_the_record() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule=ONCE_A_DAY)
        name = pod_name("job", uid, FIRST)
        stranger = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": TEMPLATE["spec"]}
        succeed(ask(scene.api, "POST", PODS.path("default"), stranger))
        await scene.at(DUE + 20)
        scene.witness.check(calm_seconds=10)
        line = firing_lines(scene.status())[FIRST]
        assert (line["state"], line["reason"]) == ("Failed", "PodNameTaken")
        assert name in line["message"]
        assert read(scene.api, PODS, name) is not None

    play(scenario, start=BEGIN)


# The fence


def test_without_the_fence_policy_what_is_in_doubt_is_recorded_and_not_launched_again() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.api.options.fence = False
        uid = scene.job(concurrencyPolicy="Allow")
        scene.start("a", "b")
        await scene.at(5)
        victim, other = scene.first(uid), scene.others(uid)[0]
        victim.connection.plan.add(Rule(fault=Fault(crash=Point.BEFORE_SEND), method="POST", resource="pods"))
        await scene.at(DUE + 110)
        scene.witness.check(calm_seconds=40)
        lines = firing_lines(scene.status())
        assert (lines[FIRST]["state"], lines[FIRST]["reason"]) == ("Failed", "LaunchUnknown")
        assert lines[FIRST + 60]["state"] == "Succeeded"
        assert any("fence" in warning for warning in other.running.warnings())
        assert other.running.unready() == []

    play(scenario, start=BEGIN)


def test_a_fence_that_is_installed_later_is_noticed_within_a_minute() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.api.options.fence = False
        scene.start("a")
        await scene.at(5)
        scene.api.options.fence = True
        await scene.at(70)
        assert scene.operators["a"].running.warnings() == []

    play(scenario, start=BEGIN)


# Jobs that come and go


@pytest.mark.parametrize("when", [DUE + 0.0005, DUE + 0.0015, DUE + 0.0025, DUE + 0.0035, DUE + 0.1, DUE + 1.0])
def test_a_job_deleted_in_the_midst_of_a_firing_leaves_nothing_behind(when: float) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of()
        scene.api.options.collect_seconds = 0.5
        await scene.at(when)
        delete(scene.api, JOBS, "job")
        await scene.at(DUE + 1200)
        scene.witness.check()
        assert len(scene.api.ledger.pods) <= 1
        left = [lease["metadata"]["name"] for lease in objects(scene.api, LEASES)]
        assert [name for name in left if not name.startswith("member-")] == [], uid

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("when", [DUE + 0.0005, DUE + 0.0025, DUE + 0.1, DUE + 20.0])
def test_a_job_made_again_under_its_name_is_another_job(when: float) -> None:
    async def scenario() -> None:
        scene, old = await scene_of(concurrencyPolicy="Forbid")
        scene.api.options.collect_seconds = 0.5
        await scene.at(when)
        delete(scene.api, JOBS, "job")
        new = scene.job(concurrencyPolicy="Forbid")
        await scene.at(DUE + 190)
        scene.witness.check()
        assert old != new
        assert [f - FIRST for f in scene.api.ledger.firings(new)] == [60, 120, 180]

    play(scenario, start=BEGIN)


def test_a_job_of_which_too_many_runs_are_under_way_misses_firings_and_says_so_until_some_have_ended() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(schedule="*/5 * * * * *", podHistoryLimit=0)
        scene.end.after_seconds = 900
        await scene.at(850)
        line = next(line for line in scene.status()["history"] if line["state"] == "Missed")
        assert (line["reason"], scene.status()["activeCount"]) == ("TooManyRuns", 100)
        await scene.at(1500)
        scene.witness.check(calm_seconds=130, alive=True)
        assert scene.witness.most_alive <= 100 + 30 // 5 + 1  # what is due within a claim's window starts together
        assert scene.api.ledger.firings(uid)[-1] > BEGIN + 1000

    play(scenario, start=BEGIN)


@pytest.mark.parametrize(
    "change",
    [
        {"schedule": "61 * * * *"},
        {"timeZone": "Mars/Base"},
        {"suspend": True},
        {"concurrencyPolicy": "Replace"},
        {"schedule": None, "interval": "1d"},
    ],
    ids=str,
)
def test_a_run_under_way_has_its_end_recorded_whatever_its_job_is_edited_to(change: dict[str, Any]) -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.end.after_seconds = 20
        await scene.at(DUE + 5)
        edit_spec(scene.api, "job", **change)
        await scene.at(DUE + 50)
        scene.witness.check()
        assert states(scene.status()) == ["Succeeded"]

    play(scenario, start=BEGIN)


def test_a_run_from_before_the_policy_became_forbid_counts_as_one_that_is_alive() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of()
        scene.end.after_seconds = 100
        await scene.at(DUE + 30)
        edit_spec(scene.api, "job", concurrencyPolicy="Forbid")
        await scene.at(DUE + 200)
        scene.witness.check(calm_seconds=70, alive=True)
        lines = firing_lines(scene.status())
        assert [lines[FIRST + 60 * n]["state"] for n in range(3)] == ["Succeeded", "Skipped", "Running"]

    play(scenario, start=BEGIN)
