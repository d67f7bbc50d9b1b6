"""Runs by hand: which are accepted, which get their line, which lines stay for them, and what their status says."""

from __future__ import annotations

from typing import Any

import pytest

from quarterjack.by_hand import (
    UNSEEN_SECONDS,
    accepted_status,
    awaited,
    is_to_begin,
    last_line,
    line_of,
    over_status,
    refusal_of,
    refused_status,
    room_to_begin,
    told_status,
)
from quarterjack.clock import rfc3339
from quarterjack.decision import RUNS_MOST
from quarterjack.model import Entry, Job, Option, Request, State, Trigger
from quarterjack.names import bare, run_key
from quarterjack.reading import read_request
from tests.unit.given import CREATED, NOON, UID, a_job, a_run, a_spec, a_status, json

ASKED_BY = "5d2f7c0e-6f0c-4f0c-9d0e-2a1b3c4d5e6f"


def a_request(**fields: Any) -> Request:
    usual: dict[str, Any] = {"uid": ASKED_BY, "namespace": "default", "name": "february", "revision": 9}
    when = {"generation": 1, "created": NOON, "job_name": "report"}
    return Request(**usual | when | fields)


def a_line(state: State = State.RUNNING, attempt: int = 1, **fields: Any) -> Entry:
    key = run_key(NOON, attempt, request=ASKED_BY)
    return a_run(NOON, state, id=key, attempt=attempt, trigger=Trigger.MANUAL, **fields)


def live(count: int) -> list[dict[str, Any]]:
    """Lines of scheduled runs under way, as a status has them."""
    return [
        {
            "id": str(NOON + n),
            "scheduledTime": rfc3339(NOON + n),
            "trigger": "Schedule",
            "attempt": 1,
            "state": "Running",
        }
        for n in range(count)
    ]


# Which are accepted


@pytest.mark.parametrize(
    ("job", "request_fields", "reason", "said"),
    [
        pytest.param(None, {}, "NotFound", 'there is no ScheduledJob "report"', id="no job"),
        pytest.param(
            {"invalid": "schedule: 17"}, {}, "InvalidJob", "spec: schedule: 17", id="a job that cannot be read"
        ),
        pytest.param({}, {"unit": "eu"}, "InvalidUnit", '"eu" is given', id="a unit of a job without"),
        pytest.param({}, {"options": (("month", "2"),)}, "InvalidOptions", '"month" is no option', id="undeclared"),
        pytest.param({"options": (Option("month", required=True),)}, {}, "InvalidOptions", "is required", id="missing"),
    ],
)
def test_a_request_is_refused_with_the_field_and_the_value(
    job: dict[str, Any] | None, request_fields: dict[str, Any], reason: str, said: str
) -> None:
    refusal = refusal_of(a_request(**request_fields), None if job is None else a_job(spec=a_spec(**job)))

    assert refusal is not None
    assert refusal.reason == reason
    assert said in refusal.message


@pytest.mark.parametrize("spec", [{}, {"suspend": True}, {"timing": {}}, {"starting_deadline_seconds": 1}])
def test_nothing_that_keeps_a_schedule_from_firing_keeps_a_request_from_being_accepted(spec: dict[str, Any]) -> None:
    assert refusal_of(a_request(), a_job(spec=a_spec(**spec))) is None


# Their lines


@pytest.mark.parametrize(
    ("fields", "scheduled"),
    [
        pytest.param({}, NOON, id="when it was asked for"),
        pytest.param({"scheduled": CREATED}, CREATED, id="the time that it was given"),
    ],
)
def test_a_run_stands_for(fields: dict[str, Any], scheduled: int) -> None:
    line = line_of(a_request(**fields), a_job())

    assert (line.scheduled, line.firing) == (scheduled, NOON)
    assert (line.state, line.trigger, line.to_claim) == (State.PENDING, Trigger.MANUAL, True)


def test_a_line_has_the_options_of_its_run() -> None:
    request = a_request(options=(("month", "2"),))

    assert line_of(request, a_job(spec=a_spec(options=(Option("month"),)))).options == (("month", "2"),)


@pytest.mark.parametrize(
    ("fields", "begins"),
    [
        pytest.param({}, True, id="accepted, and not begun"),
        pytest.param({"accepted": None}, False, id="not answered"),
        pytest.param({"accepted": False}, False, id="refused"),
        pytest.param({"begun": True}, False, id="its status tells of a Pod"),
        pytest.param({"deleting": True}, False, id="being deleted"),
        pytest.param({"owner": "another"}, False, id="accepted for an earlier job of the name"),
    ],
)
def test_a_run_is_to_begin_where_it_is(fields: dict[str, Any], begins: bool) -> None:
    assert is_to_begin(a_request(**{"accepted": True, "owner": UID} | fields), a_job(), {}) is begins


def test_a_run_begins_once() -> None:
    request = a_request(accepted=True, owner=UID)

    assert not is_to_begin(request, a_job(), {request.key})


@pytest.mark.parametrize(
    ("under_way", "kept", "room"),
    [
        pytest.param(0, 0, RUNS_MOST, id="nothing runs"),
        pytest.param(30, 0, RUNS_MOST - 30, id="some run"),
        pytest.param(0, 40, RUNS_MOST - 40, id="lines of runs that are over are kept"),
        pytest.param(RUNS_MOST, 0, 0, id="as many run as may"),
        pytest.param(RUNS_MOST, 100, 0, id="never less than none"),
    ],
)
def test_there_is_room_for_more_runs(under_way: int, kept: int, room: int) -> None:
    job: Job = a_job(status=a_status(history=live(under_way), activeCount=under_way))

    assert room_to_begin(job, kept) == room


# Which lines stay for them

ENDED = a_line(State.SUCCEEDED, completed=NOON + 10)


@pytest.mark.parametrize(
    ("requests", "gone", "now", "stays"),
    [
        pytest.param([a_request()], (), NOON + 10**6, True, id="its request does not tell of its end yet"),
        pytest.param([a_request(state=State.SUCCEEDED)], (), NOON + 11, False, id="its request does"),
        pytest.param([], (), NOON + 10 + UNSEEN_SECONDS - 1, True, id="no view shows its request, for a while"),
        pytest.param([], (), NOON + 10 + UNSEEN_SECONDS, False, id="no view shows its request, for long"),
        pytest.param([], (bare(ASKED_BY),), NOON + 11, False, id="its request was deleted"),
    ],
)
def test_the_line_of_a_run_that_is_over_stays(
    requests: list[Request], gone: tuple[str, ...], now: float, stays: bool
) -> None:
    kept = awaited([ENDED], {bare(request.uid): request for request in requests}, gone, now=now)

    assert kept == ({ENDED.run} if stays else frozenset())


def test_no_line_of_a_schedule_waits_for_a_request() -> None:
    assert awaited([a_run(NOON)], {}, (), now=NOON) == frozenset()


def test_the_last_line_is_that_of_the_last_attempt_of_this_run() -> None:
    lines = [a_line(State.RUNNING, 2), a_line(State.FAILED), a_run(NOON, State.SUCCEEDED)]

    assert last_line(a_request(), lines) == lines[0]
    assert last_line(a_request(uid="9" * 36), lines) is None


# What their status says


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str]]:
    return {c["type"]: (c["status"], c["reason"]) for c in status["conditions"]}


@pytest.mark.parametrize(
    ("line", "succeeded"),
    [
        pytest.param(a_line(State.PENDING, reason="Starting"), ("Unknown", "Starting"), id="it starts"),
        pytest.param(a_line(), ("Unknown", "Running"), id="it runs"),
        pytest.param(ENDED, ("True", "Succeeded"), id="it has succeeded"),
        pytest.param(a_line(State.FAILED, reason="ExitCode"), ("False", "ExitCode"), id="it has failed"),
        pytest.param(a_line(State.SKIPPED, reason="Overlap"), ("False", "Overlap"), id="it was skipped"),
        pytest.param(a_line(State.CANCELED, reason="Replaced"), ("False", "Replaced"), id="it was replaced"),
        pytest.param(a_line(State.STALE, reason="NodeLost"), ("False", "NodeLost"), id="it was given up"),
    ],
)
def test_a_status_follows_the_line(line: Entry, succeeded: tuple[str, str]) -> None:
    status = told_status(a_request(), line, now=NOON + 60)

    assert conditions(status)["Succeeded"] == succeeded
    assert status["state"] == line.state.value
    assert ("completionTime" in status) is line.ended


def test_an_end_without_a_time_has_that_of_its_telling_and_a_run_without_a_pod_no_start() -> None:
    line = a_line(State.SKIPPED, reason="Overlap", pod_name="", started=NOON)

    status = told_status(a_request(), line, now=NOON + 60)

    assert status["completionTime"] == rfc3339(NOON + 60)
    assert "startTime" not in status


def test_to_tell_the_same_again_changes_nothing() -> None:
    once = told_status(a_request(), ENDED, now=NOON + 60)

    assert told_status(a_request(raw=json(once)), ENDED, now=NOON + 600) == once


def test_what_a_status_says_is_read_again_as_that() -> None:
    meta = {"uid": ASKED_BY, "namespace": "default", "name": "february", "resourceVersion": "9", "generation": 1}
    document = {"metadata": meta | {"creationTimestamp": rfc3339(NOON)}, "spec": {"scheduledJobName": "report"}}
    refusal = refusal_of(a_request(), None)
    assert refusal is not None
    accepted = accepted_status(a_request(), now=NOON)

    def read(status: dict[str, Any]) -> tuple[bool | None, bool, bool]:
        request = read_request(document | {"status": status})
        return request.accepted, request.begun, request.ended

    assert read({}) == (None, False, False)
    assert read(accepted) == (True, False, False)
    assert read(refused_status(a_request(), refusal, now=NOON)) == (False, True, True)
    assert read(told_status(a_request(raw=json(accepted)), a_line(), now=NOON)) == (True, True, False)
    assert read(over_status(a_request(raw=json(accepted)), "JobDeleted", "gone", now=NOON)) == (True, True, True)
