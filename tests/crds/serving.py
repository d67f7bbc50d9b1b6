"""A cluster made to serve our kinds, with the fence."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from crds.generate import KINDS
from tests.cluster import Cluster
from tests.cluster.processes import wait_until
from tests.crds.kubectl import Kubectl

ROOT = Path(__file__).parents[2]


def serve(cluster: Cluster, *flags: str) -> Cluster:
    """Apply the CRDs and the fence, with flags of kubectl; return once the kinds are served and the fence stands."""
    Kubectl(cluster, "default").out("apply", *flags, "-f", str(ROOT / "crds"))
    for kind in KINDS:
        wait_until(f"{kind} are served", partial(_serves, cluster, kind), within_seconds=90)
    wait_until("the fence stands", lambda: _fence_stands(cluster), within_seconds=90)
    return cluster


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
