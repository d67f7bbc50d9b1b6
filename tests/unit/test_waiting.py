"""Which lines of a history want something done."""

from __future__ import annotations

import math
from typing import Any

import pytest

from quarterjack.attempts import next_attempt
from quarterjack.decision import pending
from quarterjack.model import Claim, Entry, Firings, Outcome, PodSight, Policy, Retry, State, Trigger
from quarterjack.report import entry_document
from quarterjack.waiting import comes_after_others, loose_lines, resume_time
from tests.unit.given import NOON, a_claim, a_job, a_pod, a_run, a_spec, a_status

FAILED = a_run(NOON, State.FAILED, completed=NOON + 5)
RETRY = next_attempt(FAILED, Retry(most=1))
assert RETRY is not None
RUNNING = a_run(NOON, State.RUNNING)
OLDER, NEWER = (pending(NOON + n * 60, Trigger.CATCH_UP) for n in (-1, 1))


def loose(
    *history: Entry,
    claims: tuple[Claim, ...] = (),
    pods: tuple[PodSight, ...] = (),
    **spec: Any,
) -> list[str]:
    status = a_status(history=[entry_document(line) for line in history])
    firings = Firings({claim.key: claim for claim in claims}, {pod.key: pod for pod in pods})
    job = a_job(spec=a_spec(**{"policy": Policy.ALLOW} | spec), status=status)
    return [line.id for line in loose_lines(job, {line.id: line for line in history}, firings, now=NOON + 200)]


@pytest.mark.parametrize(
    ("history", "claims", "pods", "expected"),
    [
        pytest.param([FAILED], (), (), [], id="what has ended wants nothing"),
        pytest.param([FAILED, RETRY], (), (), [RETRY.id], id="a retry is to be claimed"),
        pytest.param([FAILED, RETRY], (a_claim(NOON, 2),), (), [], id="a retry that is claimed"),
        pytest.param([RUNNING], (), (a_pod(NOON),), [], id="a run whose Pod is seen"),
        pytest.param([RUNNING], (a_claim(NOON),), (), [RUNNING.id], id="a run whose Pod is not seen"),
        pytest.param([NEWER, RETRY, OLDER], (), (), [OLDER.id, RETRY.id, NEWER.id], id="the oldest first"),
    ],
)
def test_a_line_wants_something_where_its_run_has_no_claim_or_its_pod_is_not_seen(
    history: list[Entry], claims: tuple[Claim, ...], pods: tuple[PodSight, ...], expected: list[str]
) -> None:
    assert loose(*history, claims=claims, pods=pods) == expected


ANOTHER = a_pod(NOON + 300)
GIVEN_UP = a_pod(NOON + 300, given_up=Outcome(State.STALE, "NodeLost"))


@pytest.mark.parametrize(
    ("line", "policy", "pod", "wants"),
    [
        pytest.param(RETRY, Policy.FORBID, ANOTHER, False, id="a retry waits for another run"),
        pytest.param(RETRY, Policy.ALLOW, ANOTHER, True, id="where that is forbidden"),
        pytest.param(OLDER, Policy.FORBID, ANOTHER, False, id="a firing that is caught up waits"),
        pytest.param(pending(NOON, Trigger.SCHEDULE), Policy.FORBID, ANOTHER, True, id="an ordinary one is skipped"),
        pytest.param(RETRY, Policy.FORBID, a_pod(NOON + 300, State.FAILED), True, id="another that has ended"),
        pytest.param(RETRY, Policy.REPLACE, ANOTHER, True, id="where that replaces it"),
        pytest.param(RETRY, Policy.FORBID, a_pod(NOON + 300, deleted=True), True, id="another that is gone"),
        pytest.param(
            RETRY,
            Policy.FORBID,
            a_pod(NOON + 300, given_up=Outcome(State.STALE, "NodeLost")),
            True,
            id="another that was given up",
        ),
        pytest.param(RETRY, Policy.FORBID, a_pod(NOON, State.RUNNING), True, id="a Pod of its own run"),
    ],
)
def test_a_run_that_is_not_skipped_waits_for_the_end_of_another(
    line: Entry, policy: Policy, pod: PodSight, wants: bool
) -> None:
    assert loose(line, pods=(pod,), policy=policy) == ([line.id] if wants else [])


SKIPPED = a_claim(NOON - 60, outcome=Outcome(State.SKIPPED, "Suspended"))


@pytest.mark.parametrize(
    ("history", "seen", "spec", "expected"),
    [
        pytest.param([OLDER, NEWER], {}, {}, [OLDER.id], id="only the oldest"),
        pytest.param([OLDER, NEWER], {"claims": (a_claim(NOON - 60),)}, {}, [], id="none while it is on its way"),
        pytest.param([OLDER, NEWER], {"pods": (a_pod(NOON - 60),)}, {}, [], id="none while it runs"),
        pytest.param(
            [OLDER, NEWER],
            {"pods": (a_pod(NOON - 60, State.SUCCEEDED),)},
            {},
            [NEWER.id],
            id="the next once it has ended",
        ),
        pytest.param([OLDER, NEWER], {"claims": (SKIPPED,)}, {}, [NEWER.id], id="or once it is skipped"),
        pytest.param([FAILED, RETRY, OLDER], {}, {}, [RETRY.id], id="a run that is to be tried again comes first"),
        pytest.param(
            [a_run(NOON - 60, State.RUNNING), NEWER],
            {"pods": (a_pod(NOON - 60, State.FAILED),)},
            {"retry": Retry(most=1)},
            [],
            id="none while a failure is not yet on record that is tried again",
        ),
        pytest.param(
            [OLDER, NEWER], {}, {"suspend": True}, [OLDER.id, NEWER.id], id="all are to be told of a suspension"
        ),
        pytest.param(
            [OLDER, NEWER],
            {"pods": (ANOTHER,)},
            {"starting_deadline_seconds": 200},
            [OLDER.id],
            id="one that can no longer start in time is to be told so",
        ),
        pytest.param([OLDER, NEWER], {}, {"policy": Policy.REPLACE}, [OLDER.id], id="Replace replaces none of them"),
    ],
)
def test_where_runs_must_not_overlap_what_is_caught_up_runs_one_after_another(
    history: list[Entry], seen: dict[str, Any], spec: dict[str, Any], expected: list[str]
) -> None:
    assert loose(*history, **seen, **{"policy": Policy.FORBID} | spec) == expected


@pytest.mark.parametrize(
    ("line", "policy", "after"),
    [
        pytest.param(OLDER, Policy.FORBID, True, id="a firing before it that is caught up"),
        pytest.param(NEWER, Policy.FORBID, False, id="one after it"),
        pytest.param(OLDER, Policy.ALLOW, False, id="one that runs beside it"),
        pytest.param(OLDER, Policy.REPLACE, False, id="one that it would replace"),
        pytest.param(a_run(NOON - 60, trigger=Trigger.CATCH_UP), Policy.FORBID, False, id="one that has run"),
        pytest.param(pending(NOON - 60, Trigger.SCHEDULE), Policy.FORBID, False, id="one that was due on time"),
    ],
)
def test_a_firing_comes_after(line: Entry, policy: Policy, after: bool) -> None:
    assert comes_after_others(a_job(spec=a_spec(policy=policy)), {line.id: line}, NOON) is after


@pytest.mark.parametrize(
    ("policy", "pod", "goes_on"),
    [
        pytest.param(Policy.REPLACE, ANOTHER, True, id="the other is to be stopped"),
        pytest.param(Policy.REPLACE, a_pod(NOON + 300, deleting=True), False, id="the other is being stopped"),
        pytest.param(Policy.REPLACE, a_pod(NOON + 300, State.FAILED), True, id="the other has ended"),
        pytest.param(Policy.REPLACE, GIVEN_UP, True, id="the other is given up"),
        pytest.param(Policy.FORBID, ANOTHER, False, id="the other is let be"),
        pytest.param(Policy.ALLOW, ANOTHER, True, id="it may run beside the other"),
        pytest.param(Policy.REPLACE, a_pod(NOON), True, id="the Pod is its own"),
    ],
)
def test_what_waits_goes_on_once_nobody_is_in_its_way(policy: Policy, pod: PodSight, goes_on: bool) -> None:
    job, firings = a_job(spec=a_spec(policy=policy)), Firings(pods={pod.key: pod})

    when = resume_time(job, str(NOON), {}, firings)

    assert when == (-math.inf if goes_on else math.inf)


def test_a_run_that_is_on_record_as_stale_is_in_nobodys_way() -> None:
    job, firings = a_job(spec=a_spec(policy=Policy.FORBID)), Firings(pods={ANOTHER.key: ANOTHER})

    assert resume_time(job, str(NOON), {ANOTHER.key: a_run(NOON + 300, State.STALE)}, firings) == -math.inf
