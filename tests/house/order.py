"""The order of tests, whatever their files are called: first what needs nothing, then the control plane, last the node.

Where several processes run them (pytest -n), the tests of each cluster stay together in one, so that it is started once. They come
first there: they take the longest, and mostly wait. What is to run alone comes last of them, when little is left to be held up.
What is marked `patient` does hardly anything but wait, and has a control plane of its own beside the one of the others.
"""

from __future__ import annotations

import gc

import pytest

_QUICK = ("unit", "memory", "house")
_CLUSTERS = ("control_plane", "patient", "node")


# Before xdist reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=_rank)
    for item in items:
        if cluster := cluster_of(item):
            item.add_marker(pytest.mark.xdist_group(cluster))
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: (not cluster_of(item), item.get_closest_marker("alone") is not None))


def _rank(item: pytest.Item) -> int:
    """Rank a test; sorting is stable, so tests of one rank stay in the order of their files."""
    if cluster := cluster_of(item):
        return len(_QUICK) + 1 + _CLUSTERS.index(cluster)
    directory = item.path.parent.name
    return _QUICK.index(directory) if directory in _QUICK else len(_QUICK)


def cluster_of(item: pytest.Item) -> str:
    """The cluster that a test needs, if any."""
    needed = set(getattr(item, "fixturenames", ()))
    if item.get_closest_marker("node") or "node_cluster" in needed:
        return "node"
    if item.get_closest_marker("api") or "control_plane" in needed:
        return "patient" if item.get_closest_marker("patient") else "control_plane"
    return ""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Refuse to spread the tests of a cluster over processes, each of which would start one.

    What has been imported and collected stays to the end, so the garbage collector need not look at it again and again.
    """
    gc.freeze()
    if not hasattr(session.config, "workerinput"):
        return
    spread = [
        item.nodeid for item in session.items if (cluster := cluster_of(item)) and f"@{cluster}" not in item.nodeid
    ]
    if spread:
        raise pytest.UsageError(
            f"{spread[0]} is in no group: --dist loadgroup is missing, or pytest-xdist does not heed it"
        )
