"""What a real kubelet makes of a run, and what its record says."""

from __future__ import annotations

import json

import pytest

from tests.api.installation import Document, Installation, epoch
from tests.node import cast
from tests.node.jobs import await_end, await_line, await_pods, lines, pods, verdict

pytestmark = pytest.mark.node

TOO_LONG = "Pod was active on the node longer than the specified deadline"
DELETED = "Failed", "PodDeleted", "The Pod was deleted before its end"


@pytest.mark.parametrize(
    ("name", "state", "reason", "message"),
    [
        ("succeeds", "Succeeded", "", "12 rows"),
        ("fails-with-a-message", "Failed", "ExitCode", "last token=***"),
        ("fails-with-a-log", "Failed", "ExitCode", "no route to host"),
        ("fails-silently", "Failed", "ExitCode", "Exit code 5"),
        ("ends-by-a-signal", "Failed", "Signal", "Ended by SIGSEGV (exit code 139)"),
        ("takes-too-much", "Failed", "OOMKilled", "OOMKilled (exit code 137)"),
        ("takes-too-long", "Failed", "DeadlineExceeded", TOO_LONG),
        ("has-two-containers", "Failed", "DeadlineExceeded", TOO_LONG),
        ("has-a-sidecar", "Succeeded", "", "done"),
        ("fails-beside-a-sidecar", "Failed", "ExitCode", "Exit code 6"),
        ("succeeds-the-second-time", "Succeeded", "", "second time"),
    ],
)
def test_a_run_that_ends_by_itself_is_recorded_as(
    stage: Installation, name: str, state: str, reason: str, message: str
) -> None:
    line = await_end(stage, name)

    assert verdict(line) == (state, reason, message)
    assert epoch(line["startTime"]) <= epoch(line["completionTime"])


def test_a_command_that_is_not_there_is_named(stage: Installation) -> None:
    line = await_end(stage, "has-no-command")

    assert verdict(line)[:2] == ("Failed", "StartError")
    assert "/no/such/command" in line["message"]


# What somebody does to Pods


def test_an_evicted_run_says_so(stage: Installation) -> None:
    await_pods(stage, "is-evicted")
    (pod,) = pods(stage, "is-evicted")
    name = pod["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}

    answer = stage.cluster.api.post(f"/api/v1/namespaces/{stage.namespace}/pods/{name}/eviction", eviction)

    assert answer.status == 201, answer.text
    assert verdict(await_end(stage, "is-evicted")) == ("Failed", "Evicted", "Eviction API: evicting")


def test_a_run_whose_pod_is_deleted_has_failed_and_the_next_one_starts(stage: Installation) -> None:
    await_pods(stage, "is-deleted")
    (pod,) = pods(stage, "is-deleted")

    stage.kubectl.out("delete", "pod", pod["metadata"]["name"], "--now")

    assert verdict(await_end(stage, "is-deleted", seconds=45)) == DELETED
    await_line(stage, "is-deleted", "Running", seconds=90)


def test_a_run_whose_pod_a_finalizer_keeps_is_over_when_its_containers_are(stage: Installation) -> None:
    await_pods(stage, "is-held")
    (pod,) = pods(stage, "is-held")
    name = pod["metadata"]["name"]
    _hold(stage, name, ["quarterjack.dev/held-by-a-test"])

    stage.kubectl.out("delete", "pod", name, "--wait=false")

    assert verdict(await_end(stage, "is-held", seconds=45)) == DELETED
    await_line(stage, "is-held", "Running", seconds=90)
    assert "deletionTimestamp" in stage.kubectl.get("pod", name)["metadata"]
    _hold(stage, name, [])


def _hold(stage: Installation, pod: str, finalizers: list[str]) -> None:
    patch = json.dumps({"metadata": {"finalizers": finalizers}})
    stage.kubectl.out("patch", "pod", pod, "--type=merge", "-p", patch)


# What cannot start, or does not end


def test_a_run_that_is_deaf_to_sigterm_is_ended_by_its_deadline_and_the_next_one_starts(stage: Installation) -> None:
    name = "outlasts-its-schedule"

    def ended() -> list[Document]:
        return [line for line in lines(stage, name) if line.get("reason") == "DeadlineExceeded"]

    stage.wait_for("two runs have been ended by their deadline", lambda: len(ended()) >= 2, seconds=150)
    first, second = ended()[-2:]  # what was skipped before it ended leaves the record before an earlier run does
    span = (first["scheduledTime"], second["scheduledTime"])
    between = [verdict(line)[:2] for line in lines(stage, name) if span[0] < line["scheduledTime"] < span[1]]
    assert first["state"] == second["state"] == "Failed"
    assert first["completionTime"] <= second["startTime"]
    assert set(between) == {("Skipped", "Overlap")}


def test_a_missing_image_is_named_while_its_run_waits_and_a_better_one_is_that_of_the_next_run(
    stage: Installation,
) -> None:
    name = "has-no-image"

    def waiting() -> list[Document]:
        return [line for line in lines(stage, name) if line.get("reason") == "ImagePullBackOff"]

    stage.wait_for("the record names the image", waiting, seconds=90)
    first = waiting()[0]
    better = [
        {"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": _image_of(stage, "succeeds")}
    ]
    stage.kubectl.out("patch", "scheduledjob", name, "--type=json", "-p", json.dumps(better))
    good = await_line(stage, name, "Succeeded", seconds=90)

    assert (first["state"], cast.NO_SUCH_IMAGE in first["message"]) == ("Pending", True)
    ended = next(line for line in lines(stage, name) if line["id"] == first["id"])
    assert verdict(ended)[:2] == ("Failed", "DeadlineExceeded")
    assert cast.NO_SUCH_IMAGE in ended["message"]
    assert ended["completionTime"] <= good["startTime"]


def _image_of(stage: Installation, name: str) -> str:
    image: str = stage.read(name)["spec"]["template"]["spec"]["containers"][0]["image"]
    return image


def test_a_run_for_which_there_is_no_quota_says_so_and_starts_once_there_is(stage: Installation) -> None:
    stage.apply([cast.HAS_NO_QUOTA])

    def refused() -> bool:
        return any("exceeded quota" in line.get("message", "") for line in lines(stage, "has-no-quota"))

    stage.wait_for("the record tells of the quota", refused, seconds=60)
    (line,) = lines(stage, "has-no-quota")
    stage.kubectl.out("delete", "resourcequota", "none-of-them")

    assert verdict(line)[:2] == ("Pending", "FailedCreate")
    assert verdict(await_end(stage, "has-no-quota", seconds=60)) == ("Succeeded", "", "")


def test_a_refusal_at_length_is_kept_short_masked_and_on_one_line(stage: Installation) -> None:
    name = "is-refused-at-length"
    stage.apply([cast.IS_REFUSED])

    def told() -> bool:
        return bool(_notes(stage, name)) and any("denied" in line.get("message", "") for line in lines(stage, name))

    stage.wait_for("record and Event tell of it", told, seconds=90)
    (line,) = lines(stage, name)
    conditions = [c["message"] for c in stage.read(name)["status"]["conditions"] if "denied" in c["message"]]

    assert line["reason"] == "FailedCreate"
    for text in (line["message"], *_notes(stage, name), *conditions):
        assert text.isprintable()
        assert "not today" in text
        assert "password=***" in text
        assert "hunter2" not in text
    assert len(line["message"]) == 500


def _notes(stage: Installation, name: str) -> list[str]:
    events = stage.kubectl.get("events.events.k8s.io")["items"]
    return [event["note"] for event in events if event["regarding"]["name"] == name]


# The limits


def test_of_runs_that_end_in_many_ways_no_more_is_kept_than_the_limits_say(stage: Installation) -> None:
    name = "ends-in-many-ways"

    def settled() -> bool:
        status = stage.read(name).get("status") or {}
        return status.get("activeCount") == 0 and len(lines(stage, name)) == 4 and len(pods(stage, name)) == 2

    stage.wait_for("records and Pods are as the limits say", settled, seconds=300)
    kept = sorted(lines(stage, name), key=lambda line: str(line["completionTime"]))
    phases = {pod["metadata"]["name"]: pod["status"]["phase"] for pod in pods(stage, name)}

    assert [line["state"] for line in kept].count("Succeeded") == 2
    newest = {line["state"]: line["podName"] for line in kept}
    assert phases == {newest["Succeeded"]: "Succeeded", newest["Failed"]: "Failed"}
