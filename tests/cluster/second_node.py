"""Another real node for a cluster that has one: with namespaces, a cgroup, a link to the host and a Pod network of its own.

It keeps its files and its slot as a cluster without a control plane, so whatever ends abandoned clusters ends it too.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cluster import control_plane, node, state
from tests.cluster.cluster import Cluster
from tests.cluster.layout import Layout


@contextmanager
def second_node(cluster: Cluster) -> Iterator[Layout]:
    """Join a node; afterwards it is as if it had never been there."""
    beside = Cluster(f"{cluster.name}-2")
    beside.down()
    layout, _ = state.create(beside.name, os.getpid())
    try:
        control_plane.create_node_credentials(layout, cluster.layout, cluster.url)
        node.enter(layout)
        node.start(layout, cluster.api, {})
        yield layout
    finally:
        beside.down()
        cluster.kubectl("delete", "node", layout.node_name, "--ignore-not-found")
