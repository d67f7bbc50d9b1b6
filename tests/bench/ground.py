"""Where measurements take place: a control plane of their own with the CRDs, the fence and the namespaces; and its clearing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import Cluster
from tests.fleet import ROOT, Fleet

SYSTEM, OURS, RAW, CRON = "quarterjack-system", "bench", "bench-raw", "bench-cron"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
PODS = "/api/v1/namespaces/{}/pods"
SCHEDULED_JOBS = "/apis/quarterjack.dev/v1alpha1/namespaces/{}/scheduledjobs"
CRON_JOBS = "/apis/batch/v1/namespaces/{}/cronjobs"
JOBS = "/apis/batch/v1/namespaces/{}/jobs"
_CRDS = ("scheduledjobs.yaml", "scheduledjobruns.yaml", "fence.yaml")
_CLEAR_SECONDS = 300
_OWNERS = SCHEDULED_JOBS.format(OURS), CRON_JOBS.format(CRON)
_OWNED = (
    JOBS.format(CRON),
    *(PODS.format(namespace) for namespace in (OURS, RAW, CRON)),
    *(LEASES.format(namespace) for namespace in (RAW, SYSTEM)),
)


@contextmanager
def ground(name: str, *, simulated_nodes: int = 0) -> Iterator[Cluster]:
    """A cluster with all that the operator needs, removed at the end."""
    cluster = Cluster(f"bench-{os.getpid()}-{name}")
    try:
        cluster.up(simulated_nodes=simulated_nodes, owner=os.getpid())
        for file in _CRDS:
            cluster.kubectl("apply", "--server-side", "-f", str(ROOT / "crds" / file))
        for namespace in (SYSTEM, OURS, RAW, CRON):
            cluster.kubectl("create", "namespace", namespace)
        await_until("ScheduledJobs are served", lambda: count(cluster, SCHEDULED_JOBS.format(OURS)) == 0, seconds=30)
        yield cluster
    finally:
        cluster.down()


def fleet(cluster: Cluster) -> Fleet:
    """Three replicas, not yet started; their logs are the cluster's."""
    return Fleet(cluster.kubeconfig, Path(cluster.log_dir))


def await_until(what: str, condition: Callable[[], bool], *, seconds: float) -> None:
    """Wait until a condition holds; TimeoutError with its name where it does not come to hold."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"after {seconds:.0f} s it is still not so that {what}")
        time.sleep(0.5)


def count(cluster: Cluster, path: str) -> int:
    """How many objects a collection has, -1 where it cannot be read."""
    answer = cluster.api.get(f"{path}?limit=1")
    if answer.status != 200:
        return -1
    page = answer.json()
    return len(page["items"]) + int(page["metadata"].get("remainingItemCount") or 0)


def clear(cluster: Cluster, *paths: str) -> None:
    """Delete what a measurement has left (or only these collections), owners first, and wait until it is gone."""
    for path in paths or (*_OWNERS, *_OWNED):
        await_until(f"{path} is empty", lambda path=path: _emptied(cluster, path), seconds=_CLEAR_SECONDS)  # type: ignore[misc]


def _emptied(cluster: Cluster, path: str) -> bool:
    """Whether nothing is left. A busy server deletes a part at each request: its answer may come too late to be heard."""
    left = count(cluster, path)
    if left > 0:
        cluster.api.request("DELETE", f"{path}?gracePeriodSeconds=0&propagationPolicy=Background", {})
    return left == 0
