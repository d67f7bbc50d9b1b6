"""A job's story: which turns of its history are told, with which reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from quarterjack.attempts import concluded
from quarterjack.model import Entry, Retry, State, Trigger
from quarterjack.story import story
from tests.unit.given import NOON

PENDING = Entry(str(NOON), NOON, State.PENDING, reason="Starting")
CREATED = replace(PENDING, reason="", pod_name="report-1", started=NOON)
RUNNING = replace(CREATED, state=State.RUNNING)
SUCCEEDED = replace(RUNNING, state=State.SUCCEEDED, message="42 rows", completed=NOON + 9)
FAILED = replace(RUNNING, state=State.FAILED, reason="ExitCode", message="Exit code 3", completed=NOON + 9)
FIRST, SECOND = concluded(FAILED, Retry(most=1))
GAVE_UP = concluded(replace(SECOND, state=State.FAILED, reason="OOMKilled", message="", pod_name="report-2"), Retry())[
    0
]
AT = "The firing of 2026-03-10T12:00:00Z"


def told(before: Iterable[Entry], after: Iterable[Entry]) -> list[tuple[str, bool, str]]:
    new = story(before, {line.id: line for line in after})
    return [(told.reason, told.warning, told.message) for told in new]


@pytest.mark.parametrize(
    ("before", "after", "reason", "warning", "message"),
    [
        pytest.param([PENDING], [CREATED], "SuccessfulCreate", False, f"{AT}: created Pod report-1", id="its Pod"),
        pytest.param(
            [RUNNING], [SUCCEEDED], "SawCompletedJob", False, f"{AT} succeeded: 42 rows: Pod report-1", id="its success"
        ),
        pytest.param(
            [], [SUCCEEDED], "SawCompletedJob", False, f"{AT} succeeded: 42 rows: Pod report-1", id="only its end"
        ),
        pytest.param(
            [RUNNING],
            [FAILED],
            "SawCompletedJob",
            True,
            f"{AT} failed: ExitCode: Exit code 3: Pod report-1",
            id="its failure",
        ),
        pytest.param(
            [RUNNING],
            [FIRST, SECOND],
            "BackOff",
            True,
            f"{AT}: Attempt 1 failed: Exit code 3; attempt 2 at 2026-03-10T12:00:19Z",
            id="a failure that is tried again",
        ),
        pytest.param(
            [FIRST, SECOND],
            [FIRST, GAVE_UP],
            "BackoffLimitExceeded",
            True,
            f"{AT} failed: OOMKilled: Gave up after 2 attempts: OOMKilled",
            id="the last attempt's failure",
        ),
        pytest.param(
            [CREATED],
            [replace(CREATED, reason="ImagePullBackOff", message="main: no such tag")],
            "FailedCreate",
            True,
            f"{AT} does not start: ImagePullBackOff: main: no such tag: Pod report-1",
            id="a Pod that does not start",
        ),
        pytest.param(
            [PENDING],
            [replace(PENDING, state=State.FAILED, reason="PodInvalid", message="no image")],
            "FailedCreate",
            True,
            f"{AT} failed without a Pod: PodInvalid: no image",
            id="a Pod that never was",
        ),
        pytest.param(
            [],
            [replace(PENDING, state=State.SKIPPED, reason="Overlap", message="another runs")],
            "JobAlreadyActive",
            False,
            f"{AT} was skipped: another runs",
            id="an overlap",
        ),
        pytest.param(
            [],
            [replace(PENDING, state=State.SKIPPED, reason="Suspended", message="it was suspended")],
            "Skipped",
            False,
            f"{AT} was skipped: it was suspended",
            id="another skip",
        ),
        pytest.param(
            [],
            [replace(PENDING, state=State.MISSED, reason="StartingDeadlineExceeded", message="too late")],
            "MissSchedule",
            True,
            f"{AT} was missed: too late",
            id="a firing that was missed",
        ),
        pytest.param(
            [],
            [Entry("missed-1", NOON, State.MISSED, reason="Misfire", message="5 missed", count=5, first_scheduled=9)],
            "MissSchedule",
            True,
            "5 missed",
            id="a row that was missed",
        ),
        pytest.param(
            [RUNNING],
            [replace(RUNNING, state=State.CANCELED, reason="Replaced", message="by a later one")],
            "SuccessfulDelete",
            False,
            f"{AT} was stopped: by a later one: Pod report-1",
            id="a run that was stopped",
        ),
        pytest.param(
            [RUNNING],
            [replace(RUNNING, state=State.STALE, reason="NodeLost", message="its node is lost")],
            "Stale",
            True,
            f"{AT} was given up: NodeLost: its node is lost: Pod report-1",
            id="a run that was given up",
        ),
        pytest.param(
            [replace(RUNNING, state=State.STALE, reason="NodeLost")],
            [SUCCEEDED],
            "SawCompletedJob",
            False,
            f"{AT} succeeded: 42 rows: Pod report-1",
            id="the end of a run that was given up",
        ),
        pytest.param(
            [],
            [replace(CREATED, trigger=Trigger.MANUAL)],
            "SuccessfulCreate",
            False,
            "The run by hand of 2026-03-10T12:00:00Z: created Pod report-1",
            id="a run by hand",
        ),
    ],
)
def test_a_turn_is_told(before: list[Entry], after: list[Entry], reason: str, warning: bool, message: str) -> None:
    assert told(before, after) == [(reason, warning, message)]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param([], [PENDING], id="a firing that is about to start"),
        pytest.param([CREATED], [RUNNING], id="a container that starts after its Pod"),
        pytest.param([SUCCEEDED], [SUCCEEDED], id="an end that is on record"),
        pytest.param([FAILED], [replace(FAILED, message="Exi…")], id="a message that was cut"),
        pytest.param([RUNNING], [], id="a line that is gone"),
    ],
)
def test_what_is_no_turn_is_not_told(before: list[Entry], after: list[Entry]) -> None:
    assert told(before, after) == []


def test_turns_are_told_in_the_order_of_their_firings() -> None:
    later = replace(SUCCEEDED, id=str(NOON + 60), scheduled=NOON + 60, pod_name="report-2")

    reasons = [message.split()[3] for _, _, message in told([], [later, SUCCEEDED])]

    assert reasons == ["2026-03-10T12:00:00Z", "2026-03-10T12:01:00Z"]
