"""The order of tests, whatever their files are called: first what needs nothing, then the control plane, last the node.

Where several processes run them (pytest -n), those that start programs stay together in one, so that each cluster is started
once and nothing else takes the time that they measure.
"""

from __future__ import annotations

import pytest

_QUICK = ("unit", "memory", "house")


# Before xdist reads the groups.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=_rank)
    for item in items:
        if _rank(item) >= len(_QUICK):
            item.add_marker(pytest.mark.xdist_group("cluster"))


def _rank(item: pytest.Item) -> int:
    """Rank a test; sorting is stable, so tests of one rank stay in the order of their files."""
    needed = set(getattr(item, "fixturenames", ()))
    if item.get_closest_marker("node") or "node_cluster" in needed:
        return len(_QUICK) + 2
    if item.get_closest_marker("api") or "control_plane" in needed:
        return len(_QUICK) + 1
    directory = item.path.parent.name
    return _QUICK.index(directory) if directory in _QUICK else len(_QUICK)
