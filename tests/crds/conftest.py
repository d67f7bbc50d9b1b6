"""One control plane with the CRDs and the fence, and a namespace for each test."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.cluster import Cluster
from tests.crds.kubectl import Kubectl
from tests.crds.serving import serve


@pytest.fixture(scope="session")
def served(control_plane: Cluster) -> Cluster:
    """The control plane, once it serves the CRDs and the fence stands."""
    return serve(control_plane)


@pytest.fixture
def kubectl(served: Cluster) -> Iterator[Kubectl]:
    """kubectl in an empty namespace of the test's own."""
    namespace = f"crds-{time.monotonic_ns()}"
    served.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    yield Kubectl(served, namespace)
    served.api.request("DELETE", f"/api/v1/namespaces/{namespace}")
