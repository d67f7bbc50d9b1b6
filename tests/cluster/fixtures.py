"""Fixtures that start a cluster once per test session and remove it at the end.

Of several processes each removes its own as soon as it goes on to tests without one, so that the rest of them has the machine.
Each session has clusters of its own, so sessions do not hurt each other. With QUARTERJACK_KEEP=1 they are called
`test` and `test-node` (of several processes, each adds its name), stay, and are found again by the next session:
`python -m tests.cluster down --all` ends them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster, down_abandoned
from tests.house.order import cluster_of

_WORKER = os.environ.get("PYTEST_XDIST_WORKER", "")
_to_remove: list[Cluster] = []


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Remove what no later test of this process needs: those with a cluster come first."""
    if _WORKER and not cluster_of(item):
        _remove()


def _remove() -> None:
    while _to_remove:
        _to_remove.pop().down()


@pytest.fixture(scope="session")
def control_plane() -> Iterator[Cluster]:
    """A control plane: API server, controller manager and scheduler, but nothing runs a Pod."""
    yield from _session_cluster("test", with_node=False)


@pytest.fixture(scope="session")
def node_cluster() -> Iterator[Cluster]:
    """A cluster with one real node, which has the test image."""
    yield from _session_cluster("test-node", with_node=True)


def _session_cluster(name: str, *, with_node: bool) -> Iterator[Cluster]:
    keep = os.environ.get("QUARTERJACK_KEEP") == "1"
    down_abandoned()
    cluster = Cluster("-".join(filter(None, (name, _WORKER))) if keep else f"{name}-{os.getpid()}")
    if not keep:
        _to_remove.append(cluster)
    try:
        cluster.up(with_node=with_node, owner=0 if keep else os.getpid())
        yield cluster
    finally:
        if cluster in _to_remove:
            _to_remove.remove(cluster)
            cluster.down()
