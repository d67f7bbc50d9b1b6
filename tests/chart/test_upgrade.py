"""The chart is upgraded under a load that two cores cannot start as containers: the Pods of its jobs are never started."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from tests.api.installation import Document, job
from tests.api.observer import Firing, PodObserver
from tests.chart.release import Release, doubles, release_in
from tests.cluster import Cluster
from tests.crds.kubectl import Kubectl

pytestmark = [pytest.mark.node, pytest.mark.alone]

OWN, LOAD = "chart-upgraded", "chart-load"
FIRINGS_PER_SECOND = 100
EVERY = 3  # seconds, for each job: so none has a hundred runs under way, more than which are not started
NAMES = [f"load-{number}" for number in range(EVERY * FIRINGS_PER_SECOND)]


def phase(name: str) -> int:
    """A third of the jobs is due in each second."""
    return int(name.rpartition("-")[2]) % EVERY


def load(name: str) -> Document:
    """A job of which no firing is given up, however late the machine makes it."""
    return job(name, f"{phase(name)}/{EVERY} * * * * *", misfirePolicy="CatchUp")


def firings(first: float, last: float) -> set[Firing]:
    """What is due in between (epoch seconds)."""
    seconds = range(int(first) + 1, int(last) + 1)
    return {(name, second) for name in NAMES for second in seconds if second % EVERY == phase(name)}


@pytest.fixture
def release(node_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    """An installation of the chart, with the rights that it gives."""
    with release_in(node_cluster, tmp_path_factory.mktemp("helm"), OWN, LOAD) as made:
        made.install()
        yield made


def test_an_upgrade_under_a_hundred_firings_a_second_loses_none_and_doubles_none(release: Release) -> None:
    """All replicas are replaced, one after the other, by ones in containers; no scheduler takes the Pods of the load."""
    before = {pod["metadata"]["name"] for pod in release.ready()}
    listed = {"apiVersion": "v1", "kind": "List", "items": [load(name) for name in NAMES]}
    with PodObserver(release.cluster, LOAD) as observer:
        Kubectl(release.cluster, LOAD).out("create", "-f", "-", stdin=json.dumps(listed))
        assert observer.wait(lambda counts: {name for name, _ in counts} == {*NAMES}, seconds=120)
        first = time.time()

        release.upgrade(podAnnotations={"rolled": "once"})

        due = firings(first, time.time())
        observer.wait(lambda counts: due <= counts.keys(), seconds=120)
        assert due - observer.counts().keys() == set()
        assert doubles(observer) == []
    after = {pod["metadata"]["name"] for pod in release.ready()}
    assert len(after) == 3
    assert before & after == set()
    assert len(due) > 10 * FIRINGS_PER_SECOND
