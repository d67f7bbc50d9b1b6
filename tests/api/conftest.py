"""An installation for each test; and stories that mostly wait, which are played at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.api.installation import Install, Installation
from tests.cluster import Cluster
from tests.crds.conftest import served
from tests.fleet.preloaded import Preloaded

__all__ = ["served"]

Story = Callable[[Install], Any]


@pytest.fixture
def install(served: Cluster, tmp_path: Path) -> Iterator[Install]:
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
def installation(install: Install) -> Installation:
    """One installation."""
    return install()


@pytest.fixture(scope="session")
def played(
    request: pytest.FixtureRequest, served: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> dict[Story, Future[Any]]:
    """The stories of all tests that want `told`: they mostly wait, so all wait together, each in a thread; when the last has ended."""
    served.up(simulated_nodes=1, owner=served.state.owner)
    parameters = [getattr(item, "callspec", None) for item in request.session.items]
    stories = dict.fromkeys(call.params["told"] for call in parameters if call is not None and "told" in call.params)
    directory, made = tmp_path_factory.mktemp("stories"), list[Installation]()
    with Preloaded() as preloaded, ThreadPoolExecutor(len(stories)) as threads:

        def install() -> Installation:
            made.append(Installation.make(served, directory, preloaded))
            return made[-1]

        ends: dict[Story, Future[Any]] = {story: threads.submit(story, install) for story in stories}
    for installation in made:
        installation.remove()
    return ends


@pytest.fixture
def told(request: pytest.FixtureRequest, played: dict[Story, Future[Any]]) -> Any:
    """What a story has come to: the story is this fixture's parameter."""
    assert request.node.get_closest_marker("patient"), "else two processes would play all stories"
    return played[request.param].result()
