"""Fan-out, from the firing to the end of the last unit."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from quarterjack.report import SIZE_MOST

from .actors import TEMPLATE, End, delete, delete_pod, edit_spec, objects, start_run
from .by_hand import run_of
from .engine import Scene, play
from .fan_out import (
    Crowd,
    are_over,
    ends,
    environment_of,
    fan_out,
    ledger_lines,
    letters,
    made,
    planned,
    plans,
    print_plans,
    runs,
    seen_out,
    times_made,
    unit_of,
    unit_states,
)
from .faults import Fault, Outcome, Rule
from .resources import CONFIG_MAPS, JOBS, LEASES, PODS, RUNS
from .virtual import START

BEGIN = START + 50  # the firing is due ten seconds later
TENANTS = "acme\nglobex\ninitech\n"
RETRY = {"maxRetries": 2, "delay": "2s"}
FAILS = End(1.0, "Failed", 3, "no such tenant")


async def fired(scene: Scene, *, replicas: str = "abc") -> Scene:
    """The scene once the first run is over."""
    scene.start(*replicas)
    return await seen_out(scene, at_most=300)


def over(make: Any, *args: Any, usual: End | None = None, others: dict[str, End] | None = None, **spec: Any) -> Scene:
    """Play a job's first run to its end."""

    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, usual or End(1.5), **others or {})
        make(scene, *args, **spec)
        return await fired(scene)

    return play(scenario, start=BEGIN)


def test_a_plan_lists_units_and_each_of_them_runs() -> None:
    scene = over(planned, TENANTS)

    [run] = runs(scene)
    assert (run["state"], run["message"]) == ("Succeeded", "3 of 3 units succeeded")
    assert run["podName"] == plans(scene)[0].name
    assert len(plans(scene)) == 1
    assert times_made(scene) == {"acme": 1, "globex": 1, "initech": 1}
    assert set(unit_states(scene).values()) == {"Succeeded"}
    assert scene.status()["lastResult"] == "Succeeded"
    assert scene.status()["activeCount"] == 0


def test_units_that_are_always_the_same_need_no_plan() -> None:
    scene = over(fan_out, "acme", "globex")

    [run] = runs(scene)
    assert (run["state"], run["message"]) == ("Succeeded", "2 of 2 units succeeded")
    assert plans(scene) == []
    assert times_made(scene) == {"acme": 1, "globex": 1}
    assert scene.status()["lastScheduleTime"] == scene.status()["firstRunTime"] == run["startTime"]


def test_the_record_says_how_many_units_are_queued_and_then_how_many_are_over() -> None:
    async def scenario() -> list[str]:
        scene = Scene()
        ends(scene, End(25), acme=End(1))
        planned(scene, orjson.dumps({"units": TENANTS.split(), "note": "of 7 tenants"}).decode())
        scene.start("a", "b")
        said = []
        for second in (14, 30, 50):
            await scene.at(second)
            [run] = runs(scene)
            said.append(f"{run['state']}, {run.get('reason')}: {run['message']}")
        return said

    assert play(scenario, start=BEGIN) == [
        "Running, Queued: Queued 3 units: of 7 tenants",
        "Running, Queued: 1 of 3 units succeeded",
        "Succeeded, None: 3 of 3 units succeeded (of 7 tenants)",
    ]


def test_a_plan_has_its_own_command_and_its_units_have_the_jobs() -> None:
    async def scenario() -> list[Any]:
        scene = Scene()
        ends(scene, End(1.5))
        container = {"name": "main", "image": "busybox:1.36", "command": ["work"], "args": ["hard"]}
        template = {"spec": {"containers": [container, {"name": "other", "image": "busybox:1.36"}]}}
        print_plans(scene, "acme\n")
        option = {"name": "tenant", "type": "String", "default": "all"}
        fans = {"plan": {"command": ["list"], "args": ["all"]}, "unitOption": "tenant"}
        scene.job(schedule="1 9 * * *", template=template, fanOut=fans, options=[option])
        await fired(scene)
        return objects(scene.api, PODS)

    pods = play(scenario, start=BEGIN)

    [plan] = [pod for pod in pods if not unit_of(pod)]
    [unit] = [pod for pod in pods if unit_of(pod)]
    assert (plan["spec"]["containers"][0]["command"], plan["spec"]["containers"][0]["args"]) == (["list"], ["all"])
    assert (unit["spec"]["containers"][0]["command"], unit["spec"]["containers"][0]["args"]) == (["work"], ["hard"])
    assert unit["metadata"]["labels"]["quarterjack.dev/unit"] == "acme"
    assert (environment_of(unit)["RUN_UNIT"], environment_of(unit)["OPTION_TENANT"]) == ("acme", "acme")
    assert "RUN_UNIT" not in environment_of(plan)
    assert environment_of(plan)["OPTION_TENANT"] == "all"
    assert environment_of(unit)["SCHEDULED_TIME"] == environment_of(plan)["SCHEDULED_TIME"]
    assert environment_of(unit)["RUN_ID"] != environment_of(plan)["RUN_ID"]


def test_a_plan_may_have_a_template_of_its_own() -> None:
    async def scenario() -> list[Any]:
        scene = Scene()
        ends(scene, End(1.5))
        print_plans(scene, "acme\n")
        own = {"spec": {"containers": [{"name": "lister", "image": "lister:1"}]}}
        scene.job(schedule="1 9 * * *", fanOut={"plan": {"template": own}})
        await fired(scene)
        return objects(scene.api, PODS)

    images = {unit_of(pod): pod["spec"]["containers"][0]["image"] for pod in play(scenario, start=BEGIN)}

    assert images == {"": "lister:1", "acme": "busybox:1.36"}


def test_at_most_so_many_units_run_at_once() -> None:
    async def scenario() -> tuple[Scene, int]:
        scene = Scene()
        crowd = Crowd(scene)
        ends(scene, End(1.5))
        fan_out(scene, *(f"unit-{n}" for n in range(40)), parallel=7)
        await fired(scene)
        return scene, crowd.most

    scene, most = play(scenario, start=BEGIN)

    assert most == 7
    assert len(made(scene)) == 40


def test_of_fifty_units_one_fails_for_good_and_is_a_dead_letter() -> None:
    """D15: the planner's replica dies after twenty Pods; one unit is named twice, one has other letters."""

    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(3.0), **{"unit-7": FAILS})
        units = [*(f"unit-{n}" for n in range(48)), "東京", "unit-3", "Zürich"]
        uid = planned(scene, "\n".join(units), retry=RETRY, parallel=10)
        scene.start("a", "b", "c")
        await scene.until(lambda: len(made(scene)) >= 20, at_most=60)
        scene.crash(scene.first(uid).name)
        return await seen_out(scene, at_most=120)

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    assert (run["state"], run["reason"]) == ("Failed", "DeadLetters")
    assert run["message"] == "49 of 50 units succeeded, 1 dead letter"
    [letter] = letters(scene)
    assert (letter["unit"], letter["state"], letter["attempt"]) == ("unit-7", "DeadLettered", 3)
    assert letter["message"] == "Gave up after 3 attempts: no such tenant"
    times = times_made(scene)
    assert (times.pop("unit-7"), set(times.values()), len(times)) == (3, {1}, 49)
    assert (scene.status()["lastResult"], scene.status()["consecutiveFailures"]) == ("Failed", 1)


@pytest.mark.parametrize(
    ("output", "reason", "says"),
    [
        pytest.param("", "PlanEmpty", "printed nothing", id="nothing"),
        pytest.param("\x1b[31mred", "PlanInvalid", "control characters", id="garbage"),
        pytest.param("a\n" + "b" * 300, "PlanInvalid", "unit 2 has 300 characters", id="a unit of 300 characters"),
        pytest.param("\n".join(map(str, range(10_001))), "PlanInvalid", "10001 units", id="10,001 units"),
        pytest.param(
            "unable to retrieve container logs for containerd://1f",
            "PlanUnread",
            "unable to retrieve",
            id="what its node has lost",
        ),
    ],
)
def test_a_plan_that_names_no_units_fails_and_says_why(output: str, reason: str, says: str) -> None:
    scene = over(planned, output, leaseDuration="1m")

    [run] = runs(scene)
    assert (run["state"], run["reason"]) == ("Failed", reason)
    assert says in run["message"]
    assert run["podName"]
    assert (made(scene), objects(scene.api, CONFIG_MAPS)) == ([], [])


@pytest.mark.parametrize(
    ("output", "split", "units"),
    [
        pytest.param("acme\nglobex\n", True, {"acme", "globex"}, id="in lines"),
        pytest.param('{"units": ["acme", "globex"]}\n', False, {"acme", "globex"}, id="as JSON, where streams are one"),
        pytest.param("acme\nglobex\n", False, {"acme", "globex", "WARN"}, id="in lines, where streams are one"),
    ],
)
def test_a_plan_may_warn_on_its_standard_error(output: str, split: bool, units: set[str]) -> None:
    async def scenario() -> Scene:
        scene = Scene()
        scene.api.options.split_streams = split
        ends(scene, End(1.5))
        planned(scene, output)
        print_plans(scene, output, warnings="WARN\n")
        return await fired(scene)

    scene = play(scenario, start=BEGIN)

    assert times_made(scene).keys() == units


def test_an_empty_list_is_a_success() -> None:
    scene = over(planned, '{"units": [], "note": "nobody is due"}')

    [run] = runs(scene)
    assert (run["state"], run["message"]) == ("Succeeded", "Queued 0 units: nobody is due")
    assert made(scene) == []


def test_a_plan_that_cannot_be_read_is_tried_again_as_a_whole() -> None:
    scene = over(planned, "\x00", TENANTS, retry=RETRY)

    first, second = runs(scene)
    assert (first["state"], first["reason"]) == ("Failed", "PlanInvalid")
    assert (second["state"], second["attempt"], second["message"]) == ("Succeeded", 2, "3 of 3 units succeeded")
    assert set(times_made(scene).values()) == {1}


def test_a_plan_that_fails_or_is_killed_is_tried_again_and_given_up_as_any_run() -> None:
    scene = over(planned, TENANTS, others={"plan": End(1.0, "Failed", 137, "", "OOMKilled")}, retry=RETRY)

    assert [(run["state"], run["reason"]) for run in runs(scene)] == [("Failed", "OOMKilled")] * 3
    assert runs(scene)[-1]["message"].startswith("Gave up after 3 attempts")
    assert made(scene) == []


def test_a_plan_whose_pod_is_deleted_before_it_was_read_has_failed() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(1.5))
        planned(scene, TENANTS)
        scene.start("a")
        unwell = Fault(outcome=Outcome.REFUSED, status=500)
        scene.operators["a"].connection.plan.add(
            Rule(fault=unwell, method="GET", resource="pods", subresource="log", times=3)
        )
        await scene.until(lambda: runs(scene) and runs(scene)[0].get("reason") == "Planned")
        delete_pod(scene.api, plans(scene)[0].name)
        return await seen_out(scene, at_most=60)

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    assert (run["state"], run["reason"]) == ("Failed", "PlanLost")
    assert made(scene) == []


def test_the_plans_pod_may_go_once_the_units_are_queued() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(10))
        planned(scene, TENANTS)
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 3)
        delete_pod(scene.api, plans(scene)[0].name)
        await asyncio.sleep(2)
        scene.crash()
        scene.start("c")
        await scene.until(lambda: are_over(scene), at_most=120)
        return scene

    scene = play(scenario, start=BEGIN)

    assert [run["state"] for run in runs(scene)] == ["Succeeded"]


def test_a_run_that_is_in_its_units_does_not_hold_the_next_one_up_but_each_unit_holds_its_like() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        crowd = Crowd(scene)
        ends(scene, End(1.5), slow=End(90))
        planned(scene, "fast\nslow\n", schedule="* * * * *")
        scene.start("a", "b")
        await scene.at(90)
        assert crowd.most_of_one == 1
        scene.witness.check(calm_seconds=100)
        return scene

    scene = play(scenario, start=BEGIN)

    first, second = runs(scene)
    assert (first["state"], first["reason"]) == ("Running", "Queued")
    assert (second["state"], second["message"]) == ("Succeeded", "1 of 2 units succeeded, 1 skipped")
    assert times_made(scene) == {"fast": 2, "slow": 1}
    [skipped] = [line for line in ledger_lines(scene) if line["state"] == "Skipped"]
    assert skipped["unit"] == "slow"
    assert skipped["reason"] == "Overlap"


def test_where_all_units_still_run_the_whole_is_skipped() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(100))
        fan_out(scene, "a", "b", schedule="* * * * *")
        scene.start("a")
        await scene.at(85)
        scene.witness.check(calm_seconds=100)
        return scene

    scene = play(scenario, start=BEGIN)

    assert [run["state"] for run in runs(scene)] == ["Running", "Skipped"]
    assert len(made(scene)) == 2


def test_with_allow_a_unit_runs_beside_its_like() -> None:
    async def scenario() -> Crowd:
        scene = Scene()
        crowd = Crowd(scene)
        ends(scene, End(100))
        fan_out(scene, "a", "b", schedule="* * * * *", concurrencyPolicy="Allow")
        scene.start("a", "b")
        await scene.at(85)
        return crowd

    crowd = play(scenario, start=BEGIN)

    assert (crowd.most, crowd.most_of_one) == (4, 2)


def test_what_is_caught_up_waits_for_its_like() -> None:
    async def scenario() -> tuple[Scene, Crowd]:
        scene = Scene()
        crowd = Crowd(scene)
        ends(scene, End(8))
        fan_out(scene, "a", "b", schedule="1,2,3 9 * * *", misfirePolicy="CatchUp")
        scene.start("a")
        await scene.at(5)
        scene.crash()
        await scene.at(250)
        scene.start("b", "c")
        return await seen_out(scene, 3, at_most=120), crowd

    scene, crowd = play(scenario, start=BEGIN)

    assert [run["state"] for run in runs(scene)] == ["Succeeded"] * 3
    assert times_made(scene) == {"a": 3, "b": 3}
    assert crowd.most_of_one == 1


def test_another_replica_looks_after_the_units_once_the_first_has_been_silent_for_five_seconds() -> None:
    async def scenario() -> float:
        scene = Scene()
        ends(scene, End(1.5))
        uid = fan_out(scene, *(f"unit-{n}" for n in range(20)), parallel=2)
        scene.start("a", "b", "c")
        await scene.until(lambda: len(made(scene)) == 4)
        await asyncio.sleep(0.5)
        scene.crash(scene.first(uid).name)
        return await scene.until(lambda: len(made(scene)) == 6)

    assert play(scenario, start=BEGIN) < 8


def test_a_replica_that_fires_nothing_starts_units_by_hand_only() -> None:
    async def scenario() -> tuple[int, Scene]:
        scene = Scene()
        ends(scene, End(1.5))
        fan_out(scene, *(f"unit-{n}" for n in range(20)), parallel=2)
        scene.start("a")
        await scene.until(lambda: len(made(scene)) == 4)
        scene.crash()
        scene.start("b", schedule=False)
        await asyncio.sleep(60)
        left = len(made(scene))
        start_run(scene.api, "run", "job", unit="another")
        await scene.until(lambda: run_of(scene).get("completionTime"), at_most=60)
        return left, scene

    left, scene = play(scenario, start=BEGIN)

    assert left == 4
    assert (len(made(scene)), run_of(scene)["state"]) == (5, "Succeeded")


def test_a_replica_that_is_stopped_stores_what_it_knows_of_units_and_another_goes_on() -> None:
    async def scenario() -> tuple[list[str], list[str], Scene]:
        scene = Scene()
        ends(scene, End(1.5))
        fan_out(scene, *"abcdefgh", parallel=4)
        scene.start("a")
        await scene.until(lambda: len(made(scene)) == 4)
        await scene.until(lambda: "Succeeded" in [pod["status"]["phase"] for pod in objects(scene.api, PODS)])
        await asyncio.sleep(0.1)
        operator = scene.operators["a"]
        left = await operator.process.start(operator.running.shut_down())
        stored = sorted(unit for unit, state in unit_states(scene).items() if state == "Succeeded")
        scene.crash()
        scene.start("b")
        await scene.until(lambda: are_over(scene), at_most=60)
        scene.witness.check()
        return left, stored, scene

    left, stored, scene = play(scenario, start=BEGIN)

    assert left == []
    assert stored != []
    assert runs(scene)[0]["message"] == "8 of 8 units succeeded"
    assert set(times_made(scene).values()) == {1}


def test_a_suspended_job_finishes_its_units() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(1.5))
        fan_out(scene, *"abcdefgh", parallel=2)
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 4)
        edit_spec(scene.api, "job", suspend=True)
        await scene.until(lambda: are_over(scene), at_most=60)
        return scene

    scene = play(scenario, start=BEGIN)

    assert runs(scene)[0]["message"] == "8 of 8 units succeeded"


def test_a_job_that_is_deleted_takes_its_units_with_it() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        scene.api.options.collect_seconds = 0.5
        ends(scene, End(None))
        fan_out(scene, *"abcdefgh", parallel=2)
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 2)
        delete(scene.api, JOBS, "job")
        await scene.at(1500)
        return scene

    scene = play(scenario, start=BEGIN)

    assert len(made(scene)) == 2
    assert objects(scene.api, PODS) == objects(scene.api, CONFIG_MAPS) == []
    claims = [lease for lease in objects(scene.api, LEASES) if "member" not in lease["metadata"]["name"]]
    assert claims == []


def test_a_unit_whose_pod_is_deleted_is_tried_again() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(5.0))
        fan_out(scene, "a", "b", retry=RETRY)
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 2)
        delete_pod(scene.api, made(scene)[0].name, now=True)
        return await seen_out(scene, at_most=60)

    scene = play(scenario, start=BEGIN)

    assert runs(scene)[0]["state"] == "Succeeded"
    assert sorted(times_made(scene).values()) == [1, 2]


def test_a_unit_that_does_not_start_is_ended_and_holds_nothing_up() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(1.5))
        scene.kubelet.holds = lambda pod: "Unschedulable" if unit_of(pod) == "big" else ""
        fan_out(scene, "big", "small", leaseDuration="1m")
        scene.start("a", "b")
        return await seen_out(scene, at_most=120)

    scene = play(scenario, start=BEGIN)

    [letter] = letters(scene)
    assert (letter["unit"], letter["reason"]) == ("big", "Unschedulable")
    assert "did not start within leaseDuration" in letter["message"]


def test_a_unit_of_a_lost_node_is_given_up() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(None), b=End(3))
        scene.kubelet.evicts = False
        fan_out(scene, "a", "b", leaseDuration="1m")
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 2)
        await asyncio.sleep(5)
        scene.kubelet.lose_node()
        await scene.until(lambda: are_over(scene), at_most=300)
        return scene

    scene = play(scenario, start=BEGIN)

    assert unit_states(scene) == {"a": "Stale", "b": "Succeeded"}
    assert runs(scene)[0]["message"] == "1 of 2 units succeeded, 1 dead letter"


def test_a_ledger_of_which_a_part_is_deleted_fails_the_run_and_says_so() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(1.5))
        uid = fan_out(scene, *(f"unit-{n}" for n in range(260)), parallel=20)
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) > 20)
        [part] = [m for m in objects(scene.api, CONFIG_MAPS) if m["metadata"]["name"].endswith("-0")]
        delete(scene.api, CONFIG_MAPS, part["metadata"]["name"])
        scene.crash(scene.first(uid).name)
        await scene.until(lambda: are_over(scene), at_most=120)
        return scene

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    assert (run["state"], run["reason"]) == ("Failed", "LedgerLost")
    assert run["message"] == "10 of 10 units succeeded, 1 part of the ledger damaged or gone"
    assert set(times_made(scene).values()) == {1}


def test_a_ledger_that_may_not_be_made_is_told_of_and_at_last_fails_the_run() -> None:
    async def scenario() -> tuple[str, Scene]:
        scene = Scene()
        ends(scene, End(1.5))
        planned(scene, TENANTS, leaseDuration="1m")
        scene.start("a", "b")
        for operator in scene.operators.values():
            refused = Fault(outcome=Outcome.REFUSED, status=403)
            operator.connection.plan.add(Rule(fault=refused, method="POST", resource="configmaps", times=float("inf")))
        await scene.at(25)
        said = f"{runs(scene)[0]['reason']}: {runs(scene)[0]['message']}"
        await scene.until(lambda: are_over(scene), at_most=120)
        return said, scene

    said, scene = play(scenario, start=BEGIN)

    assert said.startswith("Planned: The ledger of its units cannot be made")
    assert runs(scene)[0]["reason"] == "LedgerRefused"
    assert made(scene) == []


def test_claims_pods_and_the_ledger_go_once_all_is_long_on_record() -> None:
    async def scenario() -> tuple[Scene, list[int]]:
        scene = Scene()
        ends(scene, End(1.5))
        planned(scene, TENANTS, podHistoryLimit=1)
        scene.start("a", "b")
        await scene.until(lambda: are_over(scene), at_most=60)
        await asyncio.sleep(100)
        kept = [len(objects(scene.api, kind)) for kind in (PODS, CONFIG_MAPS)]
        await scene.at(900)
        scene.witness.check()
        return scene, kept

    scene, kept = play(scenario, start=BEGIN)

    assert kept == [4, 2]
    assert objects(scene.api, CONFIG_MAPS) == []
    assert [bool(unit_of(pod)) for pod in objects(scene.api, PODS)].count(True) == 1
    claims = [lease for lease in objects(scene.api, LEASES) if "member" not in lease["metadata"]["name"]]
    assert claims == []
    assert set(times_made(scene).values()) == {1}


def test_a_ledger_with_dead_letters_stays_as_long_as_the_history_has_the_run() -> None:
    async def scenario() -> list[int]:
        scene = Scene()
        ends(scene, FAILS)
        fan_out(scene, "a", "b", schedule="1,40 9 * * *", failedRunsHistoryLimit=1)
        scene.start("a", "b")
        kept = []
        for second in (1500, 4000):
            await scene.at(second)
            kept.append(len(objects(scene.api, CONFIG_MAPS)))
        assert len(letters(scene)) == 2
        return kept

    assert play(scenario, start=BEGIN) == [2, 2]


def test_a_thousand_dead_letters_leave_a_small_status() -> None:
    scene = over(fan_out, *(f"unit-{n:04}" for n in range(1000)), usual=FAILS, parallel=200)

    [run] = runs(scene)
    assert run["message"] == "0 of 1000 units succeeded, 1000 dead letters"
    assert len(letters(scene)) == 20
    assert list(unit_states(scene).values()) == ["DeadLettered"] * 1000
    assert len(orjson.dumps(scene.status())) < SIZE_MOST / 5


@pytest.mark.no_cover
def test_ten_thousand_units_run_once_each_and_leave_a_small_status_though_replicas_die() -> None:
    async def scenario() -> tuple[Scene, int]:
        scene = Scene()
        ends(scene, End(1.5), **{f"unit-{number}": FAILS for number in range(0, 10_000, 1000)})
        uid = planned(scene, "\n".join(f"unit-{number}" for number in range(10_000)), parallel=400, podHistoryLimit=1)
        scene.start("a", "b")
        most = 0
        for so_many in (2_000, 6_000, 10_000):
            await scene.until(lambda so_many=so_many: len(made(scene)) >= so_many, at_most=600)  # type: ignore[misc]
            most = max(most, len(orjson.dumps(scene.status())))
            if so_many < 10_000:
                scene.crash(scene.first(uid).name)
                scene.restart()
        await scene.until(lambda: are_over(scene), at_most=120)
        await scene.at(900)
        scene.witness.check()
        return scene, most

    scene, most = play(scenario, start=BEGIN)

    assert runs(scene)[0]["message"] == "9990 of 10000 units succeeded, 10 dead letters"
    assert set(times_made(scene).values()) == {1}
    assert len(times_made(scene)) == 10_000
    assert max(most, len(orjson.dumps(scene.status()))) < SIZE_MOST / 5
    assert len(objects(scene.api, CONFIG_MAPS)) == 41
    assert len(objects(scene.api, PODS)) == 3
    views = [units for operator in scene.operators.values() for units in operator.running.store.units.values()]
    assert [len(units.claims) for units in views] == [0, 0]


# By hand


def a_run_by_hand(make: Any, *args: Any, options: dict[str, str] | None = None, **asked: Any) -> Scene:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(1.5, message="done"), bad=FAILS)
        option = {"name": "tenant", "type": "String", "required": True}
        fans = {"plan": {"command": ["list"]}, "unitOption": "tenant"}
        print_plans(scene, "acme\nglobex\n")
        scene.job(schedule=None, options=[option], fanOut=fans, retry=RETRY, template=TEMPLATE)
        scene.start("a", "b")
        await scene.at(5)
        start_run(scene.api, "run", "job", options=options, **asked)
        await scene.until(lambda: run_of(scene).get("completionTime"), at_most=60)
        await asyncio.sleep(5)
        scene.witness.check()
        return scene

    return play(scenario, start=BEGIN)


def test_a_run_by_hand_of_the_whole_plans_and_runs_all_units() -> None:
    scene = a_run_by_hand(planned)

    assert (run_of(scene)["state"], run_of(scene)["message"]) == ("Succeeded", "2 of 2 units succeeded")
    assert len(plans(scene)) == 1
    assert times_made(scene) == {"acme": 1, "globex": 1}


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        pytest.param({"tenant": "acme"}, {}, id="by the option"),
        pytest.param(None, {"unit": "acme"}, id="by its name"),
        pytest.param({"tenant": "acme"}, {"unit": "acme"}, id="by both"),
    ],
)
def test_a_run_by_hand_of_one_unit_has_no_plan(options: dict[str, str] | None, asked: dict[str, str]) -> None:
    scene = a_run_by_hand(planned, options=options, scheduledTime="2026-03-01T09:01:00Z", **asked)

    assert (run_of(scene)["state"], run_of(scene)["message"]) == ("Succeeded", "done")
    assert run_of(scene)["podName"] == made(scene)[0].name
    assert plans(scene) == []
    assert times_made(scene) == {"acme": 1}
    [pod] = objects(scene.api, PODS)
    assert (environment_of(pod)["RUN_UNIT"], environment_of(pod)["OPTION_TENANT"]) == ("acme", "acme")
    assert environment_of(pod)["SCHEDULED_TIME"] == "2026-03-01T09:01:00Z"
    [run] = runs(scene)
    assert (run["unit"], run["trigger"]) == ("acme", "Manual")
    assert "lastSuccessfulTime" not in scene.status()


def test_a_dead_letter_that_is_run_again_in_vain_is_one_again() -> None:
    scene = a_run_by_hand(planned, unit="bad")

    assert (run_of(scene)["state"], run_of(scene)["message"]) == (
        "DeadLettered",
        "Gave up after 3 attempts: no such tenant",
    )
    assert times_made(scene) == {"bad": 3}


@pytest.mark.parametrize(
    ("options", "asked", "says"),
    [
        pytest.param({"tenant": "a"}, {"unit": "b"}, 'spec.unit: "b" is given, and "a" as option tenant', id="two"),
        pytest.param({"tenant": ""}, {}, "unit 1 is empty", id="an empty one"),
        pytest.param({"tenant": "x" * 300}, {}, "unit 1 has 300 characters", id="a long one"),
    ],
)
def test_a_run_by_hand_of_a_unit_that_cannot_be_is_refused(
    options: dict[str, str], asked: dict[str, str], says: str
) -> None:
    scene = a_run_by_hand(planned, options=options, **asked)

    assert run_of(scene)["state"] == "Failed"
    assert says in run_of(scene)["message"]
    [accepted] = [c for c in run_of(scene)["conditions"] if c["type"] == "Accepted"]
    assert (accepted["status"], accepted["reason"]) == ("False", "InvalidUnit")


def test_a_unit_that_is_asked_for_while_it_runs_is_skipped() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(60))
        fan_out(scene, "acme", "globex")
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 2)
        await asyncio.sleep(2)
        start_run(scene.api, "run", "job", unit="acme")
        start_run(scene.api, "other", "job", unit="initech")
        await scene.until(lambda: run_of(scene).get("completionTime"), at_most=60)
        return scene

    scene = play(scenario, start=BEGIN)

    assert run_of(scene)["state"] == "Skipped"
    assert run_of(scene, "other")["startTime"]
    assert times_made(scene) == {"acme": 1, "globex": 1, "initech": 1}


def test_a_run_by_hand_that_is_deleted_ends_its_units_and_starts_no_more() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(None), **{"unit-0": End(1.0)})
        fan_out(scene, *(f"unit-{n}" for n in range(20)), schedule=None, parallel=5)
        scene.start("a", "b")
        await scene.at(5)
        start_run(scene.api, "run", "job")
        await scene.until(lambda: len(made(scene)) == 6, at_most=30)
        await asyncio.sleep(1)
        delete(scene.api, RUNS, "run")
        return await seen_out(scene, at_most=90)

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    assert (run["state"], run["reason"]) == ("Canceled", "RunDeleted")
    assert run["message"] == "1 of 20 units succeeded, 19 canceled"
    assert len(made(scene)) == 6
    assert {pod["status"]["phase"] for pod in objects(scene.api, PODS)} <= {"Succeeded", "Failed"}
