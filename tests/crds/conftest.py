"""One control plane with the CRDs and the fence, and a namespace for each test."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from crds.generate import KINDS
from tests.cluster import Cluster
from tests.cluster.processes import wait_until
from tests.crds.kubectl import Kubectl

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def served(control_plane: Cluster) -> Cluster:
    """The control plane, once it serves the CRDs and the fence stands."""
    kubectl = Kubectl(control_plane, "default")
    kubectl.out("apply", "-f", str(ROOT / "crds"))
    for kind in KINDS:
        wait_until(f"{kind} are served", partial(_serves, control_plane, kind), within_seconds=30)
    wait_until("the fence stands", lambda: _fence_stands(control_plane), within_seconds=30)
    return control_plane


@pytest.fixture
def kubectl(served: Cluster) -> Iterator[Kubectl]:
    """kubectl in an empty namespace of the test's own."""
    namespace = f"crds-{time.monotonic_ns()}"
    served.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
    yield Kubectl(served, namespace)
    served.api.request("DELETE", f"/api/v1/namespaces/{namespace}")


def _serves(cluster: Cluster, kind: str) -> bool:
    return cluster.api.get(f"/apis/quarterjack.dev/v1alpha1/{kind}").status == 200


def _fence_stands(cluster: Cluster) -> bool:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "fence-probe", "labels": {"quarterjack.dev/firing": "0"}},
    }
    answer = cluster.api.post("/apis/coordination.k8s.io/v1/namespaces/default/leases?dryRun=All", lease)
    return answer.status == 422 and "quarterjack fence:" in answer.text
