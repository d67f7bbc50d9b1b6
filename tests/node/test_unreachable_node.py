"""The kubelet ends, and its node with it as far as anybody can tell; later it is back. Last, for every Pod of the node suffers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.api.installation import Document, Installation
from tests.cluster import Cluster, node
from tests.cluster.cluster import QUICK_START
from tests.cluster.processes import wait_until
from tests.node.conftest import install
from tests.node.jobs import FOR_EVER, await_line, await_pods, job, lines, pods, verdict

pytestmark = pytest.mark.node

# A kubelet gives a sign of life every 10 s; by default it is believed in for 50 s.
PATIENCE = "--node-monitor-grace-period=20s"
JOBS = (
    job("is-lost", FOR_EVER, schedule="*/5 * * * * *", leaseDuration="1m"),
    job("ends-unseen", "sleep 20; echo done > /dev/termination-log", leaseDuration="1m"),
)


@dataclass(frozen=True, slots=True)
class Loss:
    """What was on record of each job's first run while its node was lost, and where to see what became of it."""

    installation: Installation
    lines: dict[str, Document]


@pytest.fixture(scope="module")
def loss(serving_node: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loss]:
    """End the kubelet under two runs, until both are given up; then start it again."""
    installation = install(serving_node, tmp_path_factory.mktemp("unreachable"))
    manager = "kube-controller-manager"
    serving_node.restart_controller_manager([*QUICK_START[manager], PATIENCE])
    with installation.fleet(replicas=1):
        installation.apply(JOBS)
        names = [document["metadata"]["name"] for document in JOBS]
        for name in names:
            await_pods(installation, name)
        serving_node.stop_components("kubelet")
        try:
            lost = {name: await_line(installation, name, "Stale", "Failed", "Succeeded", seconds=180) for name in names}
            _await_second_pod(installation, "is-lost")
        finally:
            serving_node.start_component("kubelet")
            serving_node.restart_controller_manager(QUICK_START[manager])
            layout, api = serving_node.layout, serving_node.api
            wait_until("the node is ready", lambda: node.is_ready(api, layout.node_name), within_seconds=90)
        yield Loss(installation, lost)
    installation.remove()


def _await_second_pod(installation: Installation, name: str) -> None:
    """The first Pod is alive again once the kubelet is back, and then nothing starts beside it."""
    installation.wait_for(f"a second run of {name}", lambda: len(pods(installation, name)) > 1, seconds=60)


def test_a_run_whose_node_is_lost_is_given_up_and_the_next_one_starts(loss: Loss) -> None:
    line = loss.lines["is-lost"]

    assert verdict(line)[:2] == ("Stale", "NodeLost")
    skipped = [other for other in lines(loss.installation, "is-lost")[1:] if other["state"] == "Skipped"]
    assert {other["reason"] for other in skipped} == {"Overlap"}
    following = await_line(loss.installation, "is-lost", "Running", seconds=60)
    assert following["scheduledTime"] > line["scheduledTime"]


def test_a_run_that_was_given_up_and_ended_well_is_recorded_as_that_once_its_node_is_back(loss: Loss) -> None:
    assert verdict(loss.lines["ends-unseen"])[:2] == ("Stale", "NodeLost")

    line = await_line(loss.installation, "ends-unseen", "Succeeded", seconds=60)

    assert verdict(line) == ("Succeeded", "", "done")
    assert lines(loss.installation, "ends-unseen") == [line]
