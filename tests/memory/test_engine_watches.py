"""Watches that are late, silent, cut, spoilt or too old, on one replica or on all: views are hints, and never evidence."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from .actors import delete, delete_pod, edit_spec, objects, read
from .engine import Scene, play
from .faults import Break, Fault, Outcome, Rule
from .resources import JOBS, LEASES, PODS
from .virtual import START, later
from .witness import epoch

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
FIRST = int(BEGIN + DUE)
VIEWS = ("leases", "pods", "scheduledjobs")
each_view = pytest.mark.parametrize("view", VIEWS)
one_or_all = pytest.mark.parametrize("everywhere", [pytest.param(False, id="one"), pytest.param(True, id="all")])


async def scene_of(policy: str, *, names: str = "abc") -> tuple[Scene, str]:
    scene = Scene()
    uid = scene.job(concurrencyPolicy=policy)
    scene.start(*names)
    await scene.at(5)
    return scene, uid


@each_view
@one_or_all
@pytest.mark.parametrize("policy", ["Allow", "Forbid"])
@pytest.mark.parametrize("seconds", [3.0, 40.0, 200.0])
def test_a_view_that_lags_doubles_nothing_and_loses_nothing(
    view: str, everywhere: bool, policy: str, seconds: float
) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of(policy)
        for operator in scene.operators.values() if everywhere else [scene.first(uid)]:
            operator.connection.delay_watches(seconds, view)
        await scene.at(DUE + 250 + 2 * seconds)
        scene.witness.check(calm_seconds=100 + 2 * seconds)

    play(scenario, start=BEGIN)


@each_view
@one_or_all
@pytest.mark.parametrize("how", list(Break))
@pytest.mark.parametrize("when", [DUE - 1, DUE + 0.001, DUE + 1])
def test_a_watch_that_breaks_doubles_nothing_and_loses_nothing(
    view: str, everywhere: bool, how: Break, when: float
) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of("Forbid")
        await scene.at(when)
        for operator in scene.operators.values() if everywhere else [scene.first(uid)]:
            operator.connection.spoil(how, view)
        await scene.at(DUE + 190)
        scene.witness.check(calm_seconds=125 if how is Break.SILENT else 60)
        assert scene.witness.accounts[uid].lines[str(FIRST)]["state"] == "Succeeded"

    play(scenario, start=BEGIN)


@each_view
@pytest.mark.parametrize(
    "fault", [Fault(outcome=Outcome.REFUSED, status=status) for status in (410, 429, 500)], ids=str
)
@pytest.mark.parametrize("method", ["WATCH", "GET"])
def test_lists_and_watches_that_are_refused_for_a_while_are_asked_again(view: str, fault: Fault, method: str) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of("Forbid")
        rule = Rule(fault=fault, method=method, resource=view, times=15)
        for operator in scene.operators.values():
            operator.connection.plan.add(rule)
            operator.connection.spoil(Break.GONE, view)
        await scene.at(DUE + 130)
        assert rule.matched > 1
        scene.witness.check(calm_seconds=60)
        assert scene.witness.accounts[uid].lines[str(FIRST)]["state"] == "Succeeded"

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("as_event", [pytest.param(False, id="HTTP 410"), pytest.param(True, id="an ERROR event")])
@pytest.mark.parametrize("when", [DUE - 2, DUE + 0.5])
def test_history_compacted_while_the_watches_are_down_costs_a_list_and_no_firing(as_event: bool, when: float) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of("Forbid")
        scene.api.options.gone_as_event = as_event
        await scene.at(when)
        for operator in scene.operators.values():
            operator.connection.cut()
        scene.api.compact()
        await scene.at(DUE + 130)
        scene.witness.check(calm_seconds=60)
        assert scene.witness.accounts[uid].lines[str(FIRST)]["state"] == "Succeeded"

    play(scenario, start=BEGIN)


def test_a_pod_that_came_and_went_while_no_watch_looked_is_recorded_as_deleted() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of("Allow")
        scene.end.after_seconds = None
        await scene.at(DUE + 0.5)
        for operator in scene.operators.values():
            operator.connection.partition()
        (pod,) = objects(scene.api, PODS)
        delete_pod(scene.api, pod["metadata"]["name"], now=True)
        scene.api.compact()
        await scene.at(DUE + 5)
        for operator in scene.operators.values():
            operator.connection.heal()
        await scene.at(DUE + 50)
        scene.witness.check(calm_seconds=30)
        line = scene.witness.accounts[uid].lines[str(FIRST)]
        assert (line["state"], line["reason"]) == ("Failed", "PodDeleted")

    play(scenario, start=BEGIN)


def test_a_job_deleted_while_no_watch_looked_fires_no_more() -> None:
    async def scenario() -> None:
        scene, _ = await scene_of("Allow")
        for operator in scene.operators.values():
            operator.connection.spoil(Break.SILENT, "scheduledjobs")
        delete(scene.api, JOBS, "job")
        await scene.at(DUE + 130)
        assert len(scene.api.ledger.pods) <= 1
        scene.witness.check()

    play(scenario, start=BEGIN)


@pytest.mark.parametrize("change", [{"suspend": True}, {"schedule": "0 0 1 1 *"}], ids=str)
def test_a_replica_that_lags_starts_nothing_that_the_others_know_to_be_off(change: dict[str, Any]) -> None:
    async def scenario() -> None:
        scene, uid = await scene_of("Allow")
        for operator in scene.others(uid):
            operator.connection.delay_watches(20, "scheduledjobs")
        await scene.at(DUE - 2)
        edit_spec(scene.api, "job", **change)
        await scene.at(DUE + 40)
        assert scene.api.ledger.pods == []
        scene.witness.check()

    play(scenario, start=BEGIN)


def test_a_late_view_of_a_run_that_has_ended_does_not_skip_the_next_one() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of("Forbid")
        scene.end.after_seconds = 40
        for operator in scene.operators.values():
            operator.connection.delay_watches(30, "pods")
        await scene.at(DUE + 190)
        scene.witness.check(calm_seconds=125)
        lines = scene.witness.accounts[uid].lines
        assert [lines[str(FIRST + 60 * n)]["state"] for n in range(2)] == ["Succeeded", "Succeeded"]

    play(scenario, start=BEGIN)


def test_claims_that_somebody_deletes_are_not_mistaken_for_claims_never_made() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of("Allow")
        await scene.at(DUE + 30)
        for lease in objects(scene.api, LEASES):
            if "quarterjack.dev/firing" in lease["metadata"]["labels"]:
                delete(scene.api, LEASES, lease["metadata"]["name"], namespace="quarterjack")
        await scene.at(DUE + 130)
        scene.witness.check(calm_seconds=60)
        assert scene.api.ledger.firings(uid)[:2] == [FIRST, FIRST + 60]

    play(scenario, start=BEGIN)


def test_a_replica_back_from_a_long_silence_of_its_network_does_no_harm() -> None:
    async def scenario() -> None:
        scene, uid = await scene_of("Forbid")
        first = scene.first(uid)
        first.connection.partition(silent=True)
        later(400, first.connection.heal)
        await scene.at(DUE + 550)
        scene.witness.check(calm_seconds=60)
        status = read(scene.api, JOBS, "job")
        assert status is not None
        assert epoch(status["status"]["watermark"]) >= FIRST + 480
        await asyncio.sleep(0)

    play(scenario, start=BEGIN)
