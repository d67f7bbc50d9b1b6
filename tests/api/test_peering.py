"""Another operator that kopf knows of is none of ours: its peering, of whatever priority, pauses no replica."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

import pytest

from tests.api.installation import Document, Installation, job
from tests.api.observer import PodObserver
from tests.cluster.processes import wait_until

CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

pytestmark = pytest.mark.api


def kind_of_kopf(kind: str, scope: str) -> Document:
    """A CRD as kopf's own manifests have it."""
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    names = {"kind": kind, "plural": f"{kind.lower()}s", "singular": kind.lower()}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{names['plural']}.kopf.dev"},
        "spec": {"group": "kopf.dev", "scope": scope, "names": names, "versions": [version]},
    }


@pytest.fixture
def superior(installation: Installation) -> Iterator[None]:
    """An operator of higher priority is alive in the peerings `default`, in the whole cluster and where our jobs are."""
    api = installation.cluster.api
    alive = {"priority": 1_000_000, "lifetime": 3600, "lastseen": datetime.now(UTC).isoformat()}
    paths = {
        "ClusterKopfPeering": "/apis/kopf.dev/v1/clusterkopfpeerings",
        "KopfPeering": f"/apis/kopf.dev/v1/namespaces/{installation.namespace}/kopfpeerings",
    }
    for kind, path in paths.items():
        answer = api.post(CRDS, kind_of_kopf(kind, "Cluster" if kind.startswith("Cluster") else "Namespaced"))
        assert answer.status == 201, answer.text
        wait_until(f"{kind}s are served", partial(lambda p: api.get(p).status == 200, path), within_seconds=90)
        peering = {
            "apiVersion": "kopf.dev/v1",
            "kind": kind,
            "metadata": {"name": "default"},
            "status": {"them": alive},
        }
        answer = api.post(path, peering)
        assert answer.status == 201, answer.text
    yield
    for kind in paths:
        api.request("DELETE", f"{CRDS}/{kind.lower()}s.kopf.dev")


@pytest.mark.usefixtures("superior")
def test_b15_a_peering_with_an_operator_of_higher_priority_pauses_no_replica_and_one_of_three_is_enough(
    installation: Installation,
) -> None:
    with installation.fleet() as fleet, PodObserver(installation.cluster, installation.namespace) as observer:
        installation.apply([job("first", "* * * * * *")])
        installation.wait_for("it fires", lambda: len(observer.counts()) >= 3, seconds=90)
        for replica in fleet.replicas[:2]:
            replica.kill()
        since = int(time.time())
        installation.apply([job("second", "* * * * * *")])
        due = [("first", since + n) for n in range(1, 10)]
        wanted = {*due, ("second", since + 9)}
        observer.wait(lambda counts: counts.keys() >= wanted, seconds=90)
        peers = [
            installation.kubectl.get("kopfpeering", "default")["status"],
            installation.kubectl.get("clusterkopfpeering", "default")["status"],
        ]

    counts = observer.counts()
    assert wanted - counts.keys() == set(), installation.last_words()
    assert set(counts.values()) == {1}
    assert [set(known) for known in peers] == [{"them"}, {"them"}], "none of ours has joined them"
