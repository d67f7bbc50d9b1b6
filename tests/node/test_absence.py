"""The operator is killed while Pods run, jobs and Pods go meanwhile, and it comes back: what it finds, and what it leaves alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.api.installation import Document, Installation, epoch
from tests.api.observer import PodObserver
from tests.cluster import Cluster
from tests.node.conftest import install
from tests.node.jobs import FOR_EVER, await_end, await_line, await_pods, delete_job, job, lines, pods, verdict

pytestmark = pytest.mark.node

CASCADES = ("background", "foreground", "orphan")
EVERY_2_SECONDS = "*/2 * * * * *"
JOBS = (
    job("runs-on", "sleep 30; echo done > /dev/termination-log"),
    job("takes-too-long", FOR_EVER, activeDeadlineSeconds=30, schedule=EVERY_2_SECONDS, misfirePolicy="Skip"),
    job("loses-its-pod", FOR_EVER, schedule=EVERY_2_SECONDS, misfirePolicy="Skip"),
    *(job(f"goes-{cascade}", FOR_EVER, schedule=EVERY_2_SECONDS) for cascade in CASCADES),
    *(job(f"rests-and-goes-{cascade}", schedule="0 0 1 1 *") for cascade in CASCADES),
)


@dataclass(frozen=True, slots=True)
class Aftermath:
    """Where it happened, when the operator was away (epoch seconds), and what was there when it came back."""

    installation: Installation
    observer: PodObserver
    gone_time: float
    back_time: float
    pods_before: dict[str, list[Document]]
    left: frozenset[str]  # the jobs that were there as it came back


@pytest.fixture(scope="module")
def aftermath(
    serving_node: Cluster, stage: Installation, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Aftermath]:
    """Kill the operator under running Pods; delete jobs and a Pod; let a deadline and a run end; start it again."""
    del stage  # its jobs are to be under way meanwhile
    installation = install(serving_node, tmp_path_factory.mktemp("absence"))
    fleet = installation.fleet(replicas=1)
    with fleet, PodObserver(serving_node, installation.namespace) as observer:
        installation.apply(JOBS)
        going = [f"goes-{cascade}" for cascade in CASCADES]
        for name in ("runs-on", "takes-too-long", "loses-its-pod", *going):
            await_pods(installation, name)
            await_line(installation, name, "Running")
        fleet.kill()
        gone_time = time.time()
        before = {name: pods(installation, name) for name in ("runs-on", "loses-its-pod", *going)}
        for name in (*going, *(f"rests-and-{n}" for n in going)):
            delete_job(installation, name, name.rpartition("-")[2])
        left = frozenset(installation.jobs())
        installation.kubectl.out("delete", "pod", before["loses-its-pod"][0]["metadata"]["name"], "--now")
        for name in ("runs-on", "takes-too-long"):
            _await_phase(installation, name)
        fleet.start()
        yield Aftermath(installation, observer, gone_time, time.time(), before, left)
    installation.remove()


def _await_phase(installation: Installation, name: str) -> None:
    """Wait until the job's first Pod has ended, with nobody to record it."""

    def ended() -> bool:
        return pods(installation, name)[0]["status"]["phase"] in {"Succeeded", "Failed"}

    installation.wait_for(f"the Pod of {name} has ended", ended, seconds=60)


def test_a_run_that_went_on_is_adopted_and_its_end_recorded_once(aftermath: Aftermath) -> None:
    installation = aftermath.installation
    line = await_end(installation, "runs-on", seconds=90)

    assert verdict(line) == ("Succeeded", "", "done")
    assert aftermath.gone_time < epoch(line["completionTime"]) < aftermath.back_time
    assert lines(installation, "runs-on") == [line]
    assert _uids(pods(installation, "runs-on")) == _uids(aftermath.pods_before["runs-on"])


def test_a_deadline_that_passed_meanwhile_is_recorded_and_the_next_run_starts(aftermath: Aftermath) -> None:
    line = await_end(aftermath.installation, "takes-too-long", seconds=90)

    assert verdict(line)[:2] == ("Failed", "DeadlineExceeded")
    assert aftermath.gone_time < epoch(line["completionTime"]) < aftermath.back_time
    await_line(aftermath.installation, "takes-too-long", "Running", seconds=60)


def test_a_run_whose_pod_was_deleted_meanwhile_has_failed_and_the_next_one_starts(aftermath: Aftermath) -> None:
    line = await_end(aftermath.installation, "loses-its-pod", seconds=90)

    assert verdict(line)[:2] == ("Failed", "PodDeleted")
    await_line(aftermath.installation, "loses-its-pod", "Running", seconds=60)


@pytest.mark.parametrize("cascade", CASCADES)
def test_no_finalizer_holds_a_job_that_is_deleted(aftermath: Aftermath, cascade: str) -> None:
    assert "runs-on" in aftermath.left
    assert {f"goes-{cascade}", f"rests-and-goes-{cascade}"} & aftermath.left == set()


@pytest.mark.parametrize("cascade", CASCADES)
def test_a_deleted_job_takes_its_pods_with_it_unless_they_are_orphaned(aftermath: Aftermath, cascade: str) -> None:
    installation, name = aftermath.installation, f"goes-{cascade}"
    before = _uids(aftermath.pods_before[name])

    def settled() -> bool:
        return cascade == "orphan" or not pods(installation, name)

    installation.wait_for("its Pods are gone", settled, seconds=90)
    left = pods(installation, name)
    assert len(before) == 1
    assert _uids(left) == (before if cascade == "orphan" else set())
    assert [pod["metadata"].get("ownerReferences") for pod in left] == [None] * len(left)


def test_nothing_fires_for_a_job_that_was_deleted(aftermath: Aftermath) -> None:
    """Three of its periods have passed since the operator is back, and its other jobs fire."""
    time.sleep(max(0.0, aftermath.back_time + 7 - time.time()))
    sightings = list(aftermath.observer.sightings.values())

    assert aftermath.observer.errors == []
    assert any(s.seen_time > aftermath.gone_time for s in sightings)
    assert [s.job for s in sightings if s.job.startswith("goes") and s.seen_time > aftermath.gone_time] == []
    assert [firing for firing, n in aftermath.observer.counts().items() if n > 1] == []


def _uids(documents: list[Document]) -> set[str]:
    return {document["metadata"]["uid"] for document in documents}
