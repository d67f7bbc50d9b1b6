"""A node that serves our kinds, and a stage: one installation in which most tests here have their jobs, all at the same time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.api.installation import Installation
from tests.cluster import Cluster
from tests.cluster.processes import wait_until
from tests.crds.serving import serve
from tests.node import cast
from tests.node.webhook import refusing


@pytest.fixture(scope="package")
def serving_node(node_cluster: Cluster) -> Cluster:
    """The cluster with a node, once it serves the CRDs and the fence stands."""
    return serve(node_cluster)


def install(cluster: Cluster, directory: Path) -> Installation:
    """An installation in whose namespace Pods may be made."""
    made = Installation.make(cluster, directory)
    account = f"/api/v1/namespaces/{made.namespace}/serviceaccounts/default"
    wait_until("Pods may be made", lambda: cluster.api.get(account).status == 200, within_seconds=90)
    return made


@pytest.fixture(scope="package")
def stage(serving_node: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Two replicas and the whole cast, made at once: each test looks for its own part."""
    directory = tmp_path_factory.mktemp("stage")
    installation = install(serving_node, directory)
    with (
        refusing(directory / "pki", cast.REFUSAL, labels=cast.REFUSED) as webhook,
        installation.fleet(replicas=2),
    ):
        for document in (*cast.SCENERY, webhook):
            applied = installation.kubectl.apply(document)
            assert applied.code == 0, applied.error
        installation.apply([*cast.ALL, cast.mixed(time.gmtime(time.time() + 70))])
        yield installation
        installation.kubectl.out("delete", "scheduledjobs", "--all", "--wait=false")
        for kind, name in (("validatingwebhookconfiguration", "refuses-at-length"), ("priorityclass", cast.SCARCE)):
            installation.kubectl.out("delete", kind, name)
    installation.remove()
