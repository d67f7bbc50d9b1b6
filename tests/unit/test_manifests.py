"""The Leases and Pods that we create."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import orjson
import pytest

from quarterjack import names
from quarterjack.clock import epoch_of
from quarterjack.manifests import Run, Window, claim_manifest, pod_manifest, run_environment
from quarterjack.model import State, Trigger
from quarterjack.pod import read_pod
from tests.unit.given import NOON, UID, a_job, a_spec

WINDOW = Window(NOON, NOON + 3)
NOTHING: dict[str, Any] = {}


def a_pod_of(template: dict[str, Any], *, attempt: int = 1, zones: tuple[str, ...] = (), **spec: Any) -> dict[str, Any]:
    job = a_job(spec=a_spec(template=orjson.dumps(template), **spec))
    return pod_manifest(Run(job, NOON, attempt=attempt, zones=zones), WINDOW)


def with_containers(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers)} | spec}


def environment(container: dict[str, Any]) -> dict[str, Any]:
    return {line["name"]: line.get("value", line.get("valueFrom")) for line in container["env"]}


def test_a_pod_belongs_to_its_job_without_blocking_its_deletion() -> None:
    pod = a_pod_of(NOTHING)

    (owner,) = pod["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ScheduledJob", "report", UID)
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, False)
    assert (pod["metadata"]["name"], pod["metadata"]["namespace"]) == (names.pod_name("report", UID, NOON), "default")


def test_a_pod_is_read_as_the_run_that_it_was_made_for() -> None:
    pod = a_pod_of(NOTHING, attempt=2)
    pod["metadata"] |= {"uid": "p", "creationTimestamp": "2026-03-10T12:00:01Z"}

    sight = read_pod(pod)

    assert sight is not None
    assert (sight.job_uid, sight.firing, sight.attempt, sight.state) == (UID, NOON, 2, State.PENDING)


def test_our_labels_and_annotations_win_over_the_templates_and_its_own_stay() -> None:
    labels = {"team": "a", names.LABEL_FIRING: "1"}
    notes = {"note": "b", names.NOT_AFTER: "2099-01-01T00:00:00Z"}

    meta = a_pod_of({"metadata": {"labels": labels, "annotations": notes, "name": "mine"}})["metadata"]

    assert (meta["labels"]["team"], meta["annotations"]["note"]) == ("a", "b")
    assert meta["labels"][names.LABEL_FIRING] == str(NOON)
    assert epoch_of(meta["annotations"][names.NOT_AFTER]) == NOON + 3
    assert meta["name"] == names.pod_name("report", UID, NOON)


def test_the_templates_environment_wins_over_ours_and_comes_after_it() -> None:
    given = [{"name": "RUN_ID", "value": "mine"}, {"name": "WHEN", "value": "$(SCHEDULED_TIME)"}]

    (container,) = a_pod_of(with_containers({"name": "main", "env": given}))["spec"]["containers"]

    assert environment(container)["RUN_ID"] == "mine"
    assert [line["name"] for line in container["env"]].count("RUN_ID") == 1
    assert container["env"][-2:] == given


def test_every_container_is_told_what_it_stands_for() -> None:
    template = with_containers({"name": "a"}, {"name": "b"}, initContainers=[{"name": "first"}])

    spec = a_pod_of(template, zones=("Asia/Tokyo", "UTC"))["spec"]

    for container in [*spec["initContainers"], *spec["containers"]]:
        told = environment(container)
        assert (told["SCHEDULED_TIME"], told["SCHEDULED_JOB_NAME"]) == ("2026-03-10T12:00:00Z", "report")
        assert (told["SCHEDULED_TIME_ZONE"], told["SCHEDULED_TIME_ZONES"]) == ("Asia/Tokyo", "Asia/Tokyo,UTC")
        assert container["terminationMessagePolicy"] == "FallbackToLogsOnError"


def test_a_run_without_a_wall_clock_is_told_no_zone() -> None:
    assert not {name for name in run_environment(Run(a_job(), NOON)) if "ZONE" in name}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        pytest.param({}, {"restartPolicy": "Never", "activeDeadlineSeconds": 60}, id="the job's where it has none"),
        pytest.param({"restartPolicy": "OnFailure"}, {"restartPolicy": "OnFailure"}, id="its own restart policy"),
        pytest.param({"activeDeadlineSeconds": 5}, {"activeDeadlineSeconds": 5}, id="its own deadline"),
    ],
)
def test_what_the_template_says_stays(given: dict[str, Any], expected: dict[str, Any]) -> None:
    spec = a_pod_of({"spec": given}, active_deadline_seconds=60)["spec"]

    assert expected.items() <= spec.items()


def test_a_policy_for_termination_messages_stays() -> None:
    (container,) = a_pod_of(with_containers({"name": "a", "terminationMessagePolicy": "File"}))["spec"]["containers"]

    assert container["terminationMessagePolicy"] == "File"


def test_a_job_without_a_deadline_gives_its_pod_none() -> None:
    assert "activeDeadlineSeconds" not in a_pod_of(NOTHING)["spec"]


def test_the_same_run_gives_the_same_documents_everywhere() -> None:
    template = with_containers({"name": "a", "env": [{"name": "X", "value": "1"}]})

    assert orjson.dumps(a_pod_of(template)) == orjson.dumps(a_pod_of(deepcopy(template)))


@pytest.mark.parametrize("trigger", Trigger)
def test_a_claim_is_named_labelled_and_fenced(trigger: Trigger) -> None:
    run = Run(a_job(), NOON, trigger)

    meta = claim_manifest(run, Window(NOON, NOON + 30), holder="one/x", pods_revision="5")["metadata"]

    assert meta["name"] == run.id == names.claim_name(UID, names.run_key(NOON))
    assert meta["labels"][names.LABEL_TRIGGER] == trigger.value
    assert meta["labels"][names.LABEL_BUCKET] == str(names.bucket_of(NOON + 30))
    assert epoch_of(meta["annotations"][names.NOT_BEFORE]) == NOON
    assert epoch_of(meta["annotations"][names.NOT_AFTER]) == NOON + 30
