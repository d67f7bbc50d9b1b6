"""Which lines of a history want something done."""

from __future__ import annotations

import pytest

from quarterjack.attempts import next_attempt
from quarterjack.decision import pending
from quarterjack.model import Claim, Entry, Firings, PodSight, Policy, Retry, State, Trigger
from quarterjack.report import entry_document
from quarterjack.waiting import loose_lines
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
    policy: Policy = Policy.ALLOW,
) -> list[str]:
    status = a_status(history=[entry_document(line) for line in history])
    firings = Firings({claim.key: claim for claim in claims}, {pod.key: pod for pod in pods})
    lines = loose_lines(a_job(spec=a_spec(policy=policy), status=status), {line.id: line for line in history}, firings)
    return [line.id for line in lines]


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


@pytest.mark.parametrize(
    ("line", "policy", "pod", "wants"),
    [
        pytest.param(RETRY, Policy.FORBID, ANOTHER, False, id="a retry waits for another run"),
        pytest.param(RETRY, Policy.ALLOW, ANOTHER, True, id="where that is forbidden"),
        pytest.param(OLDER, Policy.FORBID, ANOTHER, False, id="a firing that is caught up waits"),
        pytest.param(pending(NOON, Trigger.SCHEDULE), Policy.FORBID, ANOTHER, True, id="an ordinary one is skipped"),
        pytest.param(RETRY, Policy.FORBID, a_pod(NOON + 300, State.FAILED), True, id="another that has ended"),
        pytest.param(RETRY, Policy.FORBID, a_pod(NOON + 300, deleted=True), True, id="another that is gone"),
        pytest.param(RETRY, Policy.FORBID, a_pod(NOON, State.RUNNING), True, id="a Pod of its own run"),
    ],
)
def test_a_run_that_is_not_skipped_waits_for_the_end_of_another(
    line: Entry, policy: Policy, pod: PodSight, wants: bool
) -> None:
    assert loose(line, pods=(pod,), policy=policy) == ([line.id] if wants else [])
