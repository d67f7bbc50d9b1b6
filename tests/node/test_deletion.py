"""Jobs, and a whole namespace of them, are deleted while the operator runs."""

from __future__ import annotations

import re
import time

import pytest

from tests.api.installation import Installation
from tests.api.observer import PodObserver
from tests.cluster import Cluster
from tests.node.conftest import install
from tests.node.jobs import FOR_EVER, await_pods, delete_job, job, pods

pytestmark = pytest.mark.node

EVERY_SECOND = "* * * * * *"
EVERY_2_SECONDS = "*/2 * * * * *"
MANY = 60
# What goes on in a namespace that goes is said about each job a few times, not at each firing.
LINES_PER_JOB = 5


@pytest.mark.parametrize("cascade", ["background", "foreground", "orphan"])
def test_a_job_deleted_while_it_runs_is_gone_at_once_and_fires_no_more(stage: Installation, cascade: str) -> None:
    name = f"goes-{cascade}"
    stage.apply([job(name, FOR_EVER, schedule=EVERY_2_SECONDS, concurrencyPolicy="Allow")])
    await_pods(stage, name)
    with PodObserver(stage.cluster, stage.namespace) as observer:
        delete_job(stage, name, cascade)
        deleted_time = time.time()
        if cascade == "orphan":
            time.sleep(5)
        else:
            stage.wait_for("its Pods are gone", lambda: not pods(stage, name), seconds=90)

    late = [s for s in observer.sightings.values() if s.job == name and s.seen_time > deleted_time + 1]
    assert late == []
    if cascade == "orphan":
        assert pods(stage, name) != []
        stage.kubectl.out("delete", "pods", f"--selector=quarterjack.dev/job={name}", "--wait=false")


def test_a_namespace_goes_with_all_its_jobs_in_the_midst_of_their_firings(
    serving_node: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One of its Pods is deaf to SIGTERM and has a long grace, so the namespace is on its way out for a while."""
    installation = install(serving_node, tmp_path_factory.mktemp("deletion"))
    nowhere = {"schedulerName": "nobody"}
    many = [job(f"fires-{i}", pod=nowhere, schedule=EVERY_SECOND, concurrencyPolicy="Allow") for i in range(MANY)]
    deaf = job("is-deaf", "trap '' TERM; sleep 3600", pod={"terminationGracePeriodSeconds": 10})
    fleet = installation.fleet(replicas=1)
    with fleet, PodObserver(serving_node, installation.namespace) as observer:
        installation.apply([deaf, *many])
        await_pods(installation, "is-deaf")
        observer.wait(lambda counts: len({name for name, _ in counts}) > MANY // 2, seconds=60)
        said = len(fleet.replicas[0].log_path.read_text().splitlines())
        began = time.monotonic()
        installation.kubectl.out("delete", "namespace", installation.namespace, "--timeout=90s")
        took = time.monotonic() - began
        words = fleet.replicas[0].log_path.read_text().splitlines()[said:]
        ready = fleet.replicas[0].page("/readyz")
        metrics = fleet.replicas[0].page("/metrics")[1]
    installation.remove()

    assert took >= 9
    assert ready[0] == 200, ready
    assert not [word for word in words if "Traceback" in word or " ERROR " in word]
    assert len(words) <= LINES_PER_JOB * (MANY + 1), "\n".join(words)
    assert re.search(r"^quarterjack_scheduledjobs 0.0$", metrics, re.MULTILINE)
    assert "scheduledjob_active_runs{" not in metrics
