"""Many runs by hand on a real API server: asked for in one instant, deleted in a back-off, kept by limits, gone with their job."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.api.installation import Document, Install, Installation, job, simulated_template
from tests.api.observer import PodObserver

RUNS = "/apis/quarterjack.dev/v1alpha1/namespaces/{}/scheduledjobruns"
PODS = "/api/v1/namespaces/{}/pods"
KEPT = 3
OVER = {"Succeeded", "Skipped", "Failed", "Canceled"}

pytestmark = [pytest.mark.api, pytest.mark.patient]


@dataclass(frozen=True)
class Runs:
    """What became of the runs of three jobs."""

    guarded: list[str]  # the states of those that were asked for together
    overlaps: list[tuple[str, str]]
    canceled: list[tuple[int, str, str]]  # attempt, state and reason of the one that was deleted
    attempts: list[int]  # its Pods
    job: Document
    pods: list[Document]  # of the job that was then deleted
    left: list[str]


def many_runs(install: Install) -> Runs:
    """Some of a job that forbids overlap, one that fails, and ten of a job that keeps three."""
    installation = install()
    retry = {"maxRetries": 3, "delay": "1m"}
    with installation.fleet(replicas=2), PodObserver(installation.cluster, installation.namespace) as observer:
        installation.apply(
            [
                job("guarded", None, concurrencyPolicy="Forbid", template=simulated_template(seconds=40)),
                job("fails", None, retry=retry, template=simulated_template(exit_code=3)),
                job("kept", None, successfulRunsHistoryLimit=KEPT, template=simulated_template()),
            ]
        )
        asked = [*[f"guarded-{n}" for n in range(5)], "fails-0", *[f"kept-{n}" for n in range(10)]]
        installation.apply(run(name) for name in asked)
        installation.wait_for(
            "one waits for its next attempt", lambda: len(lines(installation, "fails")) == 2, seconds=60
        )
        installation.kubectl.out("delete", "scheduledjobrun", "fails-0")
        installation.wait_for(
            "those asked for together are over", lambda: are_over(installation, "guarded"), seconds=150
        )
        guarded = [state for _, state in states(installation, "guarded")]
        installation.wait_for("three are kept", lambda: len(states(installation, "kept")) == KEPT, seconds=150)
        document, pods = installation.read("kept"), pods_of(installation, "kept")
        installation.kubectl.out("delete", "scheduledjob", "kept")
        installation.wait_for("all that is its own goes with it", lambda: not remains(installation, "kept"), seconds=60)
        canceled = [
            (line["attempt"], line["state"], line.get("reason", "")) for line in reversed(lines(installation, "fails"))
        ]
        attempts = [sighting.attempt for sighting in observer.sightings.values() if sighting.job == "fails"]
        overlaps = [overlap for overlap in observer.overlaps if overlap[0] == "guarded"]
        return Runs(guarded, overlaps, canceled, attempts, document, pods, remains(installation, "kept"))


def run(name: str) -> Document:
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJobRun",
        "metadata": {"name": name},
        "spec": {"scheduledJobName": name.rpartition("-")[0]},
    }


def states(installation: Installation, name: str) -> list[tuple[str, str]]:
    """The runs of a job that are there, and how each is."""
    items = installation.cluster.api.get(RUNS.format(installation.namespace)).json()["items"]
    runs = [item for item in items if item["spec"]["scheduledJobName"] == name]
    return [(item["metadata"]["name"], (item.get("status") or {}).get("state", "")) for item in runs]


def are_over(installation: Installation, name: str) -> bool:
    return {state for _, state in states(installation, name)} <= OVER


def remains(installation: Installation, name: str) -> list[str]:
    """The Pods and the runs of a job, by name."""
    return [pod["metadata"]["name"] for pod in pods_of(installation, name)] + [n for n, _ in states(installation, name)]


def lines(installation: Installation, name: str) -> list[Document]:
    """A job's history, the newest first."""
    found: list[Document] = (installation.read(name).get("status") or {}).get("history") or []
    return found


def pods_of(installation: Installation, name: str) -> list[Document]:
    path = f"{PODS.format(installation.namespace)}?labelSelector=quarterjack.dev/job={name}"
    found: list[Document] = installation.cluster.api.get(path).json()["items"]
    return found


told_of_many_runs = pytest.mark.parametrize("told", [many_runs], indirect=True)


@told_of_many_runs
def test_of_runs_that_are_asked_for_in_the_same_instant_one_runs_under_forbid(told: Runs) -> None:
    assert sorted(told.guarded) == ["Skipped"] * 4 + ["Succeeded"]
    assert told.overlaps == []


@told_of_many_runs
def test_a_run_that_is_deleted_while_it_waits_to_be_tried_again_is_canceled_and_starts_no_more(told: Runs) -> None:
    assert told.canceled == [(1, "Failed", "ExitCode"), (2, "Canceled", "RunDeleted")]
    assert told.attempts == [1]


@told_of_many_runs
def test_d12_ten_runs_by_hand_are_kept_as_the_limit_says_and_go_with_their_job(told: Runs) -> None:
    owners = [
        {key: owner[key] for key in ("kind", "uid", "controller")} for pod in told.pods for owner in owner_of(pod)
    ]

    assert owners == [{"kind": "ScheduledJob", "uid": told.job["metadata"]["uid"], "controller": True}] * len(told.pods)
    assert {pod["metadata"]["labels"]["quarterjack.dev/trigger"] for pod in told.pods} == {"Manual"}
    assert len(told.pods) >= 2
    assert [line["state"] for line in told.job["status"]["history"]] == ["Succeeded"] * KEPT
    assert told.left == []


def owner_of(pod: Document) -> list[Document]:
    owners: list[Document] = pod["metadata"]["ownerReferences"]
    return owners
