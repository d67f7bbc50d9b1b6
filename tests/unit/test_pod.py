"""What a Pod's status says of its run, in the words of the API."""

from __future__ import annotations

from typing import Any

import pytest

from quarterjack import names
from quarterjack.clock import rfc3339
from quarterjack.model import PodSight, State, Trigger
from quarterjack.pod import read_pod
from tests.unit.given import NOON, UID


def raw_pod(status: dict[str, Any], spec: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    labels = {names.LABEL_FIRING: str(NOON), names.LABEL_JOB_UID: UID}
    usual = {"name": "report-x", "namespace": "default", "uid": "p", "creationTimestamp": rfc3339(NOON + 1)}
    return {"metadata": usual | {"labels": labels} | meta, "spec": spec or {}, "status": status}


def seen(status: dict[str, Any], *, deleted: bool = False, **meta: Any) -> PodSight:
    sight = read_pod(raw_pod(status, **meta), deleted=deleted)
    assert sight is not None
    return sight


def verdict(status: dict[str, Any], *, deleted: bool = False, **meta: Any) -> tuple[State, str, str]:
    sight = seen(status, deleted=deleted, **meta)
    return sight.state, sight.reason, sight.message


def ended(code: int = 0, *, name: str = "main", **terminated: Any) -> dict[str, Any]:
    """A container that has ended."""
    reason = "Completed" if code == 0 else "Error"
    return {"name": name, "state": {"terminated": {"exitCode": code, "reason": reason} | terminated}}


def waits(reason: str, message: str = "") -> dict[str, Any]:
    return {"name": "main", "state": {"waiting": {"reason": reason, "message": message}}}


def failed(*containers: dict[str, Any], **status: Any) -> dict[str, Any]:
    return {"phase": "Failed", "containerStatuses": list(containers)} | status


def disrupted(reason: str, status: str = "True") -> dict[str, Any]:
    """What ended the Pod, where it was a part of the cluster."""
    return {"conditions": [{"type": "DisruptionTarget", "status": status, "reason": reason, "message": "a note"}]}


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        pytest.param(failed(ended(3)), "ExitCode", "Exit code 3", id="an exit code"),
        pytest.param(failed(ended(3, message="a\nb\n\n")), "ExitCode", "b", id="the last line of what it said"),
        pytest.param(failed(ended(137)), "Signal", "Ended by SIGKILL (exit code 137)", id="a signal by exit code"),
        pytest.param(failed(ended(1, signal=15)), "Signal", "Ended by SIGTERM (exit code 1)", id="a signal by number"),
        pytest.param(failed(ended(178)), "Signal", "Ended by signal 50 (exit code 178)", id="a signal without a name"),
        pytest.param(failed(ended(255)), "ExitCode", "Exit code 255", id="an exit code beyond those of signals"),
        pytest.param(
            failed(ended(137, reason="OOMKilled")), "OOMKilled", "OOMKilled (exit code 137)", id="out of memory"
        ),
        pytest.param(
            failed(ended(128, reason="StartError", message="no such file")), "StartError", "no such file", id="no start"
        ),
        pytest.param(
            failed(ended(0), ended(4)), "ExitCode", "Exit code 4", id="the container that failed, not the other"
        ),
        pytest.param(failed(reason="Evicted", message="low on disk"), "Evicted", "low on disk", id="evicted"),
        pytest.param(
            failed(ended(143), reason="DeadlineExceeded", message="too long"),
            "DeadlineExceeded",
            "too long",
            id="deadline",
        ),
        pytest.param(
            failed(ended(143)) | disrupted("EvictionByEvictionAPI"), "Evicted", "a note", id="evicted by request"
        ),
        pytest.param(
            failed(ended(143)) | disrupted("DeletionByTaintManager"), "Evicted", "a note", id="evicted by a taint"
        ),
        pytest.param(failed() | disrupted("DeletionByPodGC"), "NodeLost", "a note", id="its node is no more"),
        pytest.param(
            failed(ended(143)) | disrupted("PreemptionByScheduler"), "PreemptionByScheduler", "a note", id="preempted"
        ),
        pytest.param(failed(ended(143)) | disrupted(""), "Disrupted", "a note", id="disrupted for no reason"),
        pytest.param(failed(ended(1)) | disrupted("x", "False"), "ExitCode", "Exit code 1", id="not disrupted"),
        pytest.param({"phase": "Failed"}, "Failed", "", id="nothing said at all"),
        pytest.param(
            failed(containerStatuses=None, initContainerStatuses=[ended(2)]), "ExitCode", "Exit code 2", id="init"
        ),
    ],
)
def test_a_failure_says_why(status: dict[str, Any], reason: str, message: str) -> None:
    assert verdict(status) == (State.FAILED, reason, message)


@pytest.mark.parametrize(
    ("status", "message"),
    [
        pytest.param([ended()], "", id="nothing said"),
        pytest.param([ended(message="\n12 rows\nbye\n")], "12 rows", id="the first line that is not blank"),
        pytest.param([ended(message=" \n"), ended(message="two")], "two", id="the first container that says something"),
        pytest.param([ended(message="token=hunter2\x07")], "token=***", id="made safe"),
    ],
)
def test_a_success_has_a_summary(status: list[dict[str, Any]], message: str) -> None:
    assert verdict({"phase": "Succeeded", "containerStatuses": status}) == (State.SUCCEEDED, "", message)


SIDECAR = {"initContainers": [{"name": "proxy", "restartPolicy": "Always"}, {"name": "setup"}]}


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            failed(ended(3), initContainerStatuses=[ended(143, name="proxy")]),
            (State.FAILED, "ExitCode", "Exit code 3"),
            id="a sidecar that was ended after a failure",
        ),
        pytest.param(
            failed(initContainerStatuses=[ended(143, name="proxy"), ended(2, name="setup")]),
            (State.FAILED, "ExitCode", "Exit code 2"),
            id="a failure before the main container",
        ),
        pytest.param(
            {
                "phase": "Succeeded",
                "initContainerStatuses": [ended(137, name="proxy", message="killed"), ended(name="setup", message="a")],
                "containerStatuses": [ended(message="12 rows")],
            },
            (State.SUCCEEDED, "", "12 rows"),
            id="a summary is the main container's",
        ),
        pytest.param(
            {"phase": "Pending", "initContainerStatuses": [waits("ImagePullBackOff", "x") | {"name": "proxy"}]},
            (State.PENDING, "ImagePullBackOff", "proxy: x"),
            id="a sidecar that does not start",
        ),
    ],
)
def test_what_becomes_of_a_native_sidecar_is_not_the_runs_end(
    status: dict[str, Any], expected: tuple[State, str, str]
) -> None:
    sight = read_pod(raw_pod(status, SIDECAR))

    assert sight is not None
    assert (sight.state, sight.reason, sight.message) == expected


def test_a_run_is_complete_when_its_own_containers_are() -> None:
    main, proxy = (ended(name=name, finishedAt=rfc3339(NOON + at)) for name, at in (("main", 9), ("proxy", 30)))

    sight = read_pod(
        raw_pod({"phase": "Succeeded", "initContainerStatuses": [proxy], "containerStatuses": [main]}, SIDECAR)
    )

    assert sight is not None
    assert sight.completed == NOON + 9


UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}


@pytest.mark.parametrize(
    ("status", "reason", "message"),
    [
        pytest.param({}, "", "", id="new"),
        pytest.param({"containerStatuses": [waits("ContainerCreating")]}, "", "", id="on its way"),
        pytest.param(
            {"containerStatuses": [waits("ImagePullBackOff", "no such image")]},
            "ImagePullBackOff",
            "main: no such image",
            id="no image",
        ),
        pytest.param(
            {"initContainerStatuses": [waits("CreateContainerConfigError", "no secret")]},
            "CreateContainerConfigError",
            "main: no secret",
            id="no configuration",
        ),
        pytest.param({"conditions": [UNSCHEDULABLE]}, "Unschedulable", "0/3 nodes", id="no node"),
    ],
)
def test_a_pod_that_waits_says_for_what(status: dict[str, Any], reason: str, message: str) -> None:
    assert verdict({"phase": "Pending"} | status) == (State.PENDING, reason, message)
    assert verdict(status) == (State.PENDING, reason, message)


def test_a_container_that_crashes_again_and_again_says_so_while_it_runs() -> None:
    status = {"phase": "Running", "containerStatuses": [waits("CrashLoopBackOff", "back-off 10s")]}

    assert verdict(status) == (State.RUNNING, "CrashLoopBackOff", "main: back-off 10s")


def test_a_pod_whose_node_does_not_answer_may_still_run() -> None:
    assert verdict({"phase": "Unknown"}) == (State.RUNNING, "", "")


DELETION = {"deletionTimestamp": rfc3339(NOON + 60)}
CUT_SHORT = State.FAILED, "PodDeleted", "The Pod was deleted before its end"


@pytest.mark.parametrize(
    ("status", "deleted", "meta", "expected"),
    [
        pytest.param({"phase": "Running"}, True, {}, CUT_SHORT, id="gone while it ran"),
        pytest.param({"phase": "Pending"}, True, {}, CUT_SHORT, id="gone before it ran"),
        pytest.param({"phase": "Running"}, False, DELETION, (State.RUNNING, "", ""), id="still ending"),
        pytest.param(failed(ended(143)), False, DELETION, CUT_SHORT, id="ended by its deletion"),
        pytest.param(
            failed(reason="Evicted", message="x"),
            True,
            DELETION,
            (State.FAILED, "Evicted", "x"),
            id="evicted, then gone",
        ),
        pytest.param(
            failed(ended(143)) | disrupted("EvictionByEvictionAPI"),
            False,
            DELETION,
            (State.FAILED, "Evicted", "a note"),
            id="ended by an eviction",
        ),
        pytest.param(
            {"phase": "Running"} | disrupted("DeletionByTaintManager"),
            True,
            {},
            (State.FAILED, "Evicted", "a note"),
            id="evicted and gone while it ran",
        ),
        pytest.param(failed(ended(3)), True, {}, (State.FAILED, "ExitCode", "Exit code 3"), id="failed, then gone"),
        pytest.param({"phase": "Succeeded"}, True, DELETION, (State.SUCCEEDED, "", ""), id="succeeded, then gone"),
    ],
)
def test_a_deletion_ends_only_what_had_not_ended(
    status: dict[str, Any], deleted: bool, meta: dict[str, str], expected: tuple[State, str, str]
) -> None:
    assert verdict(status, deleted=deleted, **meta) == expected


TURNED = {"type": "Ready", "status": "False", "lastTransitionTime": rfc3339(NOON + 40)}


@pytest.mark.parametrize(
    ("status", "meta", "seconds"),
    [
        pytest.param(
            failed(
                ended(1, finishedAt=rfc3339(NOON + 9)), ended(0, finishedAt=rfc3339(NOON + 20)), conditions=[TURNED]
            ),
            DELETION,
            20,
            id="the last container's end",
        ),
        pytest.param(failed(ended(1), conditions=[TURNED]), DELETION, 60, id="its deletion"),
        pytest.param(failed(reason="Evicted", conditions=[TURNED]), {}, 40, id="when its condition turned"),
        pytest.param({"phase": "Failed"}, {}, 1, id="its creation"),
    ],
)
def test_an_end_has_the_best_time_there_is(status: dict[str, Any], meta: dict[str, Any], seconds: int) -> None:
    assert seen(status, **meta).completed == NOON + seconds


def test_a_pod_that_runs_has_started_and_not_completed() -> None:
    sight = seen({"phase": "Running", "startTime": rfc3339(NOON + 2)})

    assert (sight.started, sight.completed, sight.ended) == (NOON + 2, None, False)


def test_labels_and_annotations_say_whose_pod_it_is() -> None:
    labels = {names.LABEL_FIRING: str(NOON), names.LABEL_JOB_UID: UID, names.LABEL_TRIGGER: "CatchUp"}

    sight = seen({}, labels=labels, annotations={names.ATTEMPT: "3"})

    assert (sight.firing, sight.job_uid, sight.trigger, sight.attempt) == (NOON, UID, Trigger.CATCH_UP, 3)


@pytest.mark.parametrize(
    "meta",
    [
        pytest.param({"labels": None}, id="no labels"),
        pytest.param({"labels": {names.LABEL_JOB_UID: UID}}, id="no firing"),
        pytest.param({"labels": {names.LABEL_FIRING: "1"}}, id="no job"),
        pytest.param(
            {"labels": {names.LABEL_FIRING: "noon", names.LABEL_JOB_UID: UID}}, id="a firing that is no number"
        ),
        pytest.param({"annotations": {names.ATTEMPT: "first"}}, id="an attempt that is no number"),
        pytest.param(
            {"labels": {names.LABEL_FIRING: "1", names.LABEL_JOB_UID: UID, names.LABEL_TRIGGER: "Whim"}},
            id="no trigger",
        ),
    ],
)
def test_a_pod_whose_labels_do_not_say_whose_it_is_is_none_of_ours(meta: dict[str, Any]) -> None:
    assert read_pod(raw_pod({}, **meta)) is None
