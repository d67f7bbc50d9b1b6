"""What people do amid a fan-out: they edit its ledger and its job, ask for its units by hand, and delete what it stands on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import product
from typing import Any

import orjson
import pytest

from quarterjack.report import SIZE_MOST

from .actors import End, ask, delete, edit_spec, objects, start_run, succeed
from .by_hand import run_of, until_over
from .engine import Scene, play
from .fan_out import Crowd, ends, fan_out, letters, made, planned, runs, seen_out, times_made
from .faults import Fault, Point, Rule
from .resources import CONFIG_MAPS, LEASES, PODS
from .virtual import START

BEGIN = START + 50  # the firing is due ten seconds later
UNITS = "abcdefgh"
LOST = "1 part of the ledger damaged or gone"


def meddled(meddle: Callable[[Scene], object], *, crash: bool) -> Scene:
    """Play a run to its end, two units at once; while the second two run somebody does something, and a replica may die."""

    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(3))
        uid = fan_out(scene, *UNITS, parallel=2)
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 4)
        meddle(scene)
        if crash:
            scene.crash(scene.first(uid).name)
        return await seen_out(scene, at_most=60, calm=20)

    return play(scenario, start=BEGIN)


def edit_ledger(scene: Scene, edit: Callable[[list[str]], list[str]]) -> None:
    """Somebody edits the lines of the one part that there is."""
    [part] = [document for document in objects(scene.api, CONFIG_MAPS) if "units" in document["data"]]
    text = "".join(f"{line}\n" for line in edit(part["data"]["units"].splitlines()))
    path = CONFIG_MAPS.path("default", part["metadata"]["name"])
    succeed(ask(scene.api, "PATCH", path, {"data": {"units": text}}))


def take_a_line_out(scene: Scene) -> None:
    edit_ledger(scene, lambda lines: lines[:-1])


def delete_ledger(scene: Scene) -> None:
    for document in objects(scene.api, CONFIG_MAPS):
        delete(scene.api, CONFIG_MAPS, document["metadata"]["name"])


# The ledger


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda lines: lines[:-1], id="takes the line of a unit out"),
        pytest.param(lambda lines: [*lines, lines[-1]], id="writes the line of a unit twice"),
        pytest.param(lambda lines: [*lines, '{"unit":"other"}'], id="puts a unit in"),
        pytest.param(lambda lines: [*lines[:-1], '{"unit":"other"}'], id="renames a unit"),
        pytest.param(lambda lines: [], id="takes all lines out"),
    ],
)
@pytest.mark.parametrize("crash", [False, True], ids=["and its replica goes on", "and its replica dies"])
def test_a_run_ends_though_somebody(edit: Any, crash: bool) -> None:
    scene = meddled(lambda scene: edit_ledger(scene, edit), crash=crash)

    [run] = runs(scene)
    assert (run["state"], run["reason"]) == ("Failed", "LedgerLost")
    assert run["message"].endswith(LOST)
    assert set(times_made(scene).values()) == {1}
    assert times_made(scene).keys() <= set(UNITS)


@pytest.mark.parametrize("crash", [False, True], ids=["its replica goes on", "its replica dies"])
@pytest.mark.parametrize("meddle", [take_a_line_out, delete_ledger], ids=["takes a line out", "deletes the ledger"])
def test_a_unit_that_still_runs_is_not_run_beside_itself_though_somebody(
    meddle: Callable[[Scene], None], crash: bool
) -> None:
    async def scenario() -> tuple[Scene, Crowd]:
        scene = Scene()
        crowd = Crowd(scene)
        ends(scene, End(90), a=End(25))
        uid = fan_out(scene, "a", "b", schedule="* * * * *")
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 2)
        meddle(scene)
        await asyncio.sleep(28)
        if crash:
            scene.crash(scene.first(uid).name)
        await asyncio.sleep(100)
        scene.witness.check()
        return scene, crowd

    scene, crowd = play(scenario, start=BEGIN)

    lost, second, third = runs(scene)
    assert (lost["state"], lost["reason"]) == ("Failed", "LedgerLost")
    assert (second["state"], second["message"]) == ("Succeeded", "1 of 2 units succeeded, 1 skipped")
    assert third["state"] == "Running"
    assert crowd.most_of_one == 1
    assert times_made(scene) == {"a": 3, "b": 2}


# The job, the server and the clocks

PLAN = {"plan": {"command": ["list-tenants"]}}


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"concurrencyPolicy": "Replace"}, id="to Replace"),
        pytest.param({"concurrencyPolicy": "Allow"}, id="to Allow"),
        pytest.param({"fanOut": None}, id="to no fan-out"),
        pytest.param({"fanOut": {"units": ["x", "y"]}}, id="to other units"),
        pytest.param({"fanOut": PLAN | {"units": None}}, id="to a plan"),
        pytest.param({"retry": {"maxRetries": 1, "delay": "1s"}}, id="to be tried again"),
        pytest.param({"schedule": "30 9 * * *"}, id="to another schedule"),
        pytest.param({"suspend": True}, id="to be suspended"),
    ],
)
@pytest.mark.parametrize("crash", [False, True], ids=["and its replica goes on", "and its replica dies"])
def test_units_that_are_queued_run_once_each_though_their_job_is_edited(changes: dict[str, Any], crash: bool) -> None:
    scene = meddled(lambda scene: edit_spec(scene.api, "job", **changes), crash=crash)

    [run] = runs(scene)
    assert (run["state"], run["message"]) == ("Succeeded", "8 of 8 units succeeded")
    assert times_made(scene) == dict.fromkeys(UNITS, 1)


@pytest.mark.parametrize("crash", [False, True], ids=["its replicas live on", "its replicas die too"])
def test_units_run_once_each_though_the_server_is_away_amid_them(crash: bool) -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(3))
        fan_out(scene, *UNITS, parallel=2)
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) >= 3)
        scene.take_down(120)
        if crash:
            scene.crash()
            await asyncio.sleep(130)
            scene.start("c", "d")
        return await seen_out(scene, at_most=300, calm=20)

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    assert (run["state"], run["message"]) == ("Succeeded", "8 of 8 units succeeded")
    assert times_made(scene) == dict.fromkeys(UNITS, 1)


@pytest.mark.parametrize("hours", [1, -1], ids=["ahead", "back"])
def test_units_run_once_each_though_clocks_are_wrong_by_an_hour_amid_them(hours: int) -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(3, "Failed", 1), b=End(3), c=End(3))
        fan_out(scene, "a", "b", "c", parallel=1, retry={"maxRetries": 2, "delay": "5s"})
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 2)
        for operator in scene.operators.values():
            operator.clock.offset_seconds = 3600.0 * hours
        await asyncio.sleep(12)
        for operator in scene.operators.values():
            operator.clock.offset_seconds = 0.0
        return await seen_out(scene, at_most=120, calm=20)

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    assert (run["state"], run["message"]) == ("Failed", "2 of 3 units succeeded, 1 dead letter")
    assert times_made(scene) == {"a": 3, "b": 1, "c": 1}


# Another installation


@pytest.mark.parametrize(("point", "what"), [(None, ""), *product(Point, ("leases", "pods"))])
def test_an_installation_that_takes_a_job_over_amid_its_units_runs_what_is_left_and_nothing_again(
    point: Point | None, what: str
) -> None:
    async def scenario() -> Scene:
        scene = Scene()
        scene.api.add_namespace("second")
        ends(scene, End(3), a=End(60))
        fan_out(scene, *UNITS, parallel=2, leaseDuration="1m")
        scene.start("a")
        await asyncio.sleep(5)
        scene.start("x", namespace="second")
        if point is None:
            await scene.until(lambda: len(made(scene)) == 3)
            scene.crash("a")
        else:
            sleeps = Fault(stall=point, stall_seconds=500)
            rule = Rule(fault=sleeps, method="POST", resource=what, where=lambda _: len(made(scene)) >= 3)
            scene.operators["a"].connection.plan.add(rule)
        return await seen_out(scene, at_most=900, calm=200)

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    claimed = {lease.namespace for lease in scene.api.ledger.leases if lease.firing > 0}
    assert claimed == {"quarterjack", "second"}
    assert (run["state"], run["message"]) == ("Succeeded", "8 of 8 units succeeded")
    assert times_made(scene) == dict.fromkeys(UNITS, 1)


# Deadlines


def test_units_that_outlast_their_deadline_are_given_up_and_the_others_are_not() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(3), b=End(None))
        fan_out(scene, "a", "b", "c", activeDeadlineSeconds=20, retry={"maxRetries": 1, "delay": "1s"})
        scene.start("a", "b")
        return await seen_out(scene, at_most=120, calm=20)

    scene = play(scenario, start=BEGIN)

    [letter] = letters(scene)
    assert (letter["unit"], letter["state"], letter["reason"]) == ("b", "DeadLettered", "DeadlineExceeded")
    assert letter["message"].startswith("Gave up after 2 attempts: ")
    assert runs(scene)[-1]["message"] == "2 of 3 units succeeded, 1 dead letter"
    assert times_made(scene) == {"a": 1, "b": 2, "c": 1}


def test_a_plan_that_outlasts_its_deadline_fails_its_run_and_names_no_units() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(3), plan=End(None))
        planned(scene, "a\nb\n", activeDeadlineSeconds=20)
        scene.start("a", "b")
        return await seen_out(scene, at_most=120, calm=20)

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    assert (run["state"], run["reason"]) == ("Failed", "DeadlineExceeded")
    assert made(scene) == []


# Much of it


def test_dead_letters_of_the_longest_units_and_messages_leave_a_status_within_its_bounds() -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(1, "Failed", 3, "\u4e16" * 4000))
        fan_out(scene, *(f"{n:03}" + "\u754c" * 250 for n in range(100)))
        scene.start("a", "b")
        return await seen_out(scene, at_most=120, calm=20)

    scene = play(scenario, start=BEGIN)

    assert len(letters(scene)) == 20
    assert len(orjson.dumps(scene.status())) < SIZE_MOST


def test_fifty_fan_outs_leave_no_more_behind_than_ten() -> None:
    async def scenario() -> list[list[int]]:
        scene = Scene()
        ends(scene, End(1), b=End(1, "Failed", 3))
        limits: dict[str, Any] = {"successfulRunsHistoryLimit": 2, "failedRunsHistoryLimit": 2, "podHistoryLimit": 1}
        fan_out(scene, "a", "b", schedule="* * * * *", **limits)
        scene.start("a", "b")
        left = []
        for minutes in (20, 50):
            await scene.at(minutes * 60 + 40)
            left.append([len(objects(scene.api, kind)) for kind in (PODS, CONFIG_MAPS, LEASES)])
        assert len(runs(scene)) == 2
        assert times_made(scene) == {"a": 51, "b": 51}
        scene.witness.check()
        return left

    after_twenty, after_fifty = play(scenario, start=BEGIN)

    assert all(later <= earlier for earlier, later in zip(after_twenty, after_fifty, strict=True))


# Asked for by hand


@pytest.mark.parametrize("crash", [False, True], ids=["and its replica goes on", "and its replica dies"])
def test_of_a_unit_asked_for_twice_in_one_instant_one_runs_and_the_other_is_skipped(crash: bool) -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(20))
        uid = fan_out(scene, "acme", "globex", schedule="1 12 * * *")
        scene.start("a", "b")
        await asyncio.sleep(5)
        for name in ("one", "other"):
            start_run(scene.api, name, "job", unit="acme")
        if crash:
            await scene.until(lambda: len(made(scene)) >= 1)
            scene.crash(scene.first(uid).name)
        await until_over(scene, "one", "other")
        scene.witness.check()
        return scene

    scene = play(scenario, start=BEGIN)

    assert sorted(run_of(scene, name)["state"] for name in ("one", "other")) == ["Skipped", "Succeeded"]
    assert times_made(scene) == {"acme": 1}
