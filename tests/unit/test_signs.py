"""Whether a run is believed alive, and whether it may still start: told by its Pod and the time."""

from __future__ import annotations

import math
from typing import Any

import pytest

from quarterjack import names
from quarterjack.clock import rfc3339
from quarterjack.model import Outcome, PodSight, State
from quarterjack.pod import read_pod
from quarterjack.signs import expiry_time, given_up, not_started, silence, start_limit, start_limit_seconds
from tests.unit.given import NOON, UID, a_pod, a_spec

LEASE = 120


def condition(kind: str, status: str = "True", *, at: int = NOON, reason: str = "") -> dict[str, Any]:
    return {"type": kind, "status": status, "lastTransitionTime": rfc3339(at), "reason": reason}


def sight(status: dict[str, Any], spec: dict[str, Any] | None = None, **meta: Any) -> PodSight:
    labels = {names.LABEL_FIRING: str(NOON), names.LABEL_JOB_UID: UID}
    usual = {"name": "report-x", "namespace": "default", "uid": "p", "creationTimestamp": rfc3339(NOON)}
    read = read_pod({"metadata": usual | {"labels": labels} | meta, "spec": spec or {}, "status": status})
    assert read is not None
    return read


def running(*conditions: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"phase": "Running", "startTime": rfc3339(NOON), "conditions": list(conditions)} | status


# What a Pod shows


@pytest.mark.parametrize(
    ("ready", "since"),
    [
        pytest.param(condition("Ready", "False", at=NOON + 50), NOON + 50, id="the node controller gave it up"),
        pytest.param(condition("Ready"), None, id="it is ready"),
        pytest.param(condition("Ready", "False", reason="ContainersNotReady"), None, id="a kubelet says why not"),
        pytest.param(condition("Ready", "False", reason="ReadinessGatesNotReady"), None, id="a gate is closed"),
        pytest.param(condition("ContainersReady", "False"), None, id="another condition"),
    ],
)
def test_a_node_is_lost_where_readiness_went_for_no_reason(ready: dict[str, Any], since: int | None) -> None:
    assert sight(running(ready)).lost_since == since


@pytest.mark.parametrize(
    ("containers", "begun"),
    [
        pytest.param([{"name": "main", "state": {"waiting": {"reason": "ImagePullBackOff"}}}], False, id="it waits"),
        pytest.param([{"name": "main", "state": {"running": {}}}], True, id="it runs"),
        pytest.param([{"name": "main", "state": {"terminated": {"exitCode": 1}}}], True, id="it has ended"),
        pytest.param(
            [{"name": "main", "state": {"waiting": {}}, "lastState": {"terminated": {"exitCode": 1}}}],
            True,
            id="it waits to be started again",
        ),
        pytest.param([], False, id="nothing is known of it"),
    ],
)
def test_a_run_has_begun_once_a_container_has(containers: list[dict[str, Any]], begun: bool) -> None:
    assert sight({"phase": "Pending", "containerStatuses": containers}).begun is begun


def test_an_init_container_that_runs_is_a_beginning() -> None:
    started = {"name": "copy", "state": {"running": {}}}

    assert sight({"phase": "Pending", "initContainerStatuses": [started]}).begun


def test_progress_is_the_last_thing_that_came_true() -> None:
    conditions = [condition("PodScheduled", at=NOON + 40), condition("Initialized", "False", at=NOON + 60)]

    assert sight({"phase": "Pending", "conditions": conditions}).progressed == NOON + 40


def test_a_pod_without_a_node_that_is_being_deleted_has_ended() -> None:
    deletion = {"deletionTimestamp": rfc3339(NOON + 5), "finalizers": ["example.com/keep"]}

    unbound, bound = (sight({"phase": "Pending"}, spec, **deletion) for spec in ({}, {"nodeName": "node-1"}))

    assert (unbound.state, unbound.reason) == (State.FAILED, "PodDeleted")
    assert bound.state is State.PENDING


# Silence


@pytest.mark.parametrize(
    ("pod", "since", "reason"),
    [
        pytest.param(a_pod(NOON, lost_since=NOON + 50), NOON + 50, "NodeLost", id="its node is lost"),
        pytest.param(a_pod(NOON, gone_by=NOON + 30), NOON + 30, "LeaseExpired", id="it is past its grace"),
        pytest.param(a_pod(NOON, end_by=NOON + 90), NOON + 90, "LeaseExpired", id="it is past its deadline"),
        pytest.param(
            a_pod(NOON, lost_since=NOON + 50, gone_by=NOON + 380), NOON + 50, "NodeLost", id="lost, and later evicted"
        ),
        pytest.param(a_pod(NOON), math.inf, "", id="all is well"),
    ],
)
def test_silence_begins_with_the_first_sign(pod: PodSight, since: float, reason: str) -> None:
    assert silence(pod)[:2] == (since, reason)


def test_the_deadline_of_a_run_on_a_node_counts_from_its_start_and_leaves_it_its_grace() -> None:
    spec = {"nodeName": "node-1", "activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 5}

    assert sight(running(condition("Ready")), spec).end_by == NOON + 65


def test_a_run_is_given_up_after_its_lease_and_not_before() -> None:
    pod = a_pod(NOON, lost_since=NOON + 50)

    before, after = (given_up(pod, LEASE, now=NOON + 50 + LEASE + more, watched_since=0) for more in (-1, 0))

    assert before is None
    assert after is not None
    assert (after.state, after.reason) == (State.STALE, "NodeLost")
    assert after.message.startswith(
        "Given up after leaseDuration (2m): the node of its Pod has been lost since 2026-03-10"
    )


def test_time_in_which_nobody_watched_does_not_count() -> None:
    pod = a_pod(NOON, lost_since=NOON + 50)

    assert given_up(pod, LEASE, now=NOON + 1000, watched_since=NOON + 900) is None
    assert expiry_time(pod, LEASE, watched_since=NOON + 900) == NOON + 900 + LEASE


def test_a_run_that_has_ended_or_is_well_is_never_given_up() -> None:
    ended = a_pod(NOON, State.SUCCEEDED, lost_since=NOON + 50)

    assert given_up(ended, LEASE, now=NOON + 10_000, watched_since=0) is None
    assert given_up(a_pod(NOON), LEASE, now=NOON + 10_000, watched_since=0) is None


REPLACED = Outcome(State.CANCELED, "Replaced", "Replaced by another")


def test_a_replaced_run_is_given_up_a_little_after_its_grace() -> None:
    pod = a_pod(NOON, gone_by=NOON + 30)

    before, after = (given_up(pod, LEASE, now=NOON + 30 + more, watched_since=0, stop=REPLACED) for more in (9, 10))

    assert before is None
    assert after is not None
    assert (after.state, after.reason) == (State.CANCELED, "Replaced")
    assert after.message == "Replaced by another; its Pod was still there after its grace, and may still run"


def test_a_run_stopped_for_it_did_not_start_is_waited_for_as_long_as_any_other() -> None:
    pod, stop = a_pod(NOON, State.PENDING, gone_by=NOON + 30), Outcome(State.FAILED, "ImagePullBackOff")

    assert expiry_time(pod, LEASE, watched_since=0, stop=stop) == NOON + 30 + LEASE
    assert expiry_time(a_pod(NOON), LEASE, watched_since=0, stop=REPLACED) == math.inf


# Starting


def waiting(**fields: Any) -> PodSight:
    return a_pod(NOON, State.PENDING, **{"progressed": NOON, "reason": "Unschedulable", "message": "no room"} | fields)


@pytest.mark.parametrize(
    ("pod", "limit"),
    [
        pytest.param(waiting(), NOON + LEASE, id="no node"),
        pytest.param(waiting(progressed=NOON + 100), NOON + 100 + LEASE, id="it came nearer to its start"),
        pytest.param(waiting(deadline_seconds=30), NOON + 30, id="a deadline, and no node"),
        pytest.param(
            waiting(deadline_seconds=30, started=NOON + 5), NOON + LEASE, id="a deadline, which the kubelet keeps"
        ),
        pytest.param(waiting(begun=True), math.inf, id="an init container runs"),
        pytest.param(waiting(deleting=True), math.inf, id="it is being deleted"),
        pytest.param(a_pod(NOON, deadline_seconds=30), math.inf, id="it runs"),
    ],
)
def test_a_pod_that_has_not_started_may_do_so_only_for_so_long(pod: PodSight, limit: float) -> None:
    assert start_limit(pod, a_spec(lease_seconds=LEASE), watched_since=0) == limit


@pytest.mark.parametrize(
    ("pod", "reason", "message"),
    [
        pytest.param(
            waiting(),
            "Unschedulable",
            "Its Pod did not start within leaseDuration (2m): Unschedulable: no room",
            id="what it waited for",
        ),
        pytest.param(
            waiting(reason="", message=""),
            "NotStarted",
            "Its Pod did not start within leaseDuration (2m)",
            id="nothing is known",
        ),
        pytest.param(
            waiting(deadline_seconds=30),
            "DeadlineExceeded",
            "Its Pod was not on a node within activeDeadlineSeconds (30): Unschedulable: no room",
            id="its deadline",
        ),
    ],
)
def test_what_has_not_started_in_time_has_failed_for_what_it_waited_for(
    pod: PodSight, reason: str, message: str
) -> None:
    outcome = not_started(pod, a_spec(lease_seconds=LEASE), now=NOON + LEASE, watched_since=0)

    assert outcome is not None
    assert (outcome.state, outcome.reason, outcome.message) == (State.FAILED, reason, message)


def test_what_may_still_start_has_not_failed() -> None:
    spec = a_spec(lease_seconds=LEASE)

    assert not_started(waiting(), spec, now=NOON + LEASE - 1, watched_since=0) is None
    assert not_started(waiting(), spec, now=NOON + 500, watched_since=NOON + 400) is None


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        pytest.param({}, 900, id="the lease"),
        pytest.param({"active_deadline_seconds": 60}, 60, id="the deadline, where it is shorter"),
        pytest.param({"active_deadline_seconds": 7200}, 900, id="the lease, where it is"),
    ],
)
def test_a_pod_may_be_refused_for_so_long(fields: dict[str, int], seconds: int) -> None:
    assert start_limit_seconds(a_spec(**fields)) == seconds
