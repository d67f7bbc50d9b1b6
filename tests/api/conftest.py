"""An installation for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.api.installation import Installation
from tests.cluster import Cluster
from tests.crds.conftest import served

__all__ = ["served"]


@pytest.fixture
def install(served: Cluster, tmp_path: Path) -> Iterator[Callable[[], Installation]]:
    """Makes installations; each in namespaces of its own, so that none sees another's jobs."""
    made: list[Installation] = []

    def make() -> Installation:
        made.append(Installation.make(served, tmp_path))
        return made[-1]

    yield make
    for installation in made:
        installation.remove()


@pytest.fixture
def simulated(served: Cluster) -> Cluster:
    """The control plane, with a node on which Pods run and end as objects only."""
    served.up(simulated_nodes=1, owner=served.state.owner)
    return served


@pytest.fixture
def installation(install: Callable[[], Installation]) -> Installation:
    """One installation."""
    return install()
