"""Where a cluster keeps its files, and which ports and networks it uses.

Every cluster has a slot: a small number from which its ports and subnets follow, so that several run side by side.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

SLOTS = 40
# Of a cluster whose state is lost: its files can be found, its ports and networks cannot.
NO_SLOT = -1
_FIRST_PORT = 16440
_PORTS_PER_SLOT = 10


def cache_dir() -> Path:
    """Return the directory of what may be kept between runs: built programs and downloaded packages."""
    if chosen := os.environ.get("QUARTERJACK_CACHE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "quarterjack"


def state_root() -> Path:
    """Return the directory under which every cluster has one directory while it exists."""
    if chosen := os.environ.get("QUARTERJACK_STATE"):
        return Path(chosen)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "quarterjack"


@dataclass(frozen=True, slots=True)
class Ports:
    """The TCP ports of one cluster on the host."""

    apiserver: int
    etcd: int
    etcd_peer: int
    controller_manager: int
    scheduler: int
    kwok: int

    def all(self) -> tuple[int, ...]:
        return (self.apiserver, self.etcd, self.etcd_peer, self.controller_manager, self.scheduler, self.kwok)


@dataclass(frozen=True, slots=True)
class Layout:
    """The files, ports and networks of the cluster `name` in its `slot`."""

    name: str
    slot: int

    @property
    def root(self) -> Path:
        return state_root() / self.name

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def pids(self) -> Path:
        return self.root / "pids"

    @property
    def config(self) -> Path:
        return self.root / "config"

    @property
    def state_file(self) -> Path:
        return self.root / "cluster.json"

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def ports(self) -> Ports:
        first = _FIRST_PORT + self.slot * _PORTS_PER_SLOT
        return Ports(*range(first, first + 6))

    @property
    def service_cidr(self) -> str:
        return f"10.215.{self.slot}.0/24"

    @property
    def first_service_ip(self) -> str:
        return f"10.215.{self.slot}.1"

    @property
    def pod_cidr(self) -> str:
        return f"10.214.{self.slot}.0/24"

    @property
    def host_ip(self) -> str:
        """The host's end of the link to the node."""
        return f"10.213.{self.slot}.1"

    @property
    def node_ip(self) -> str:
        return f"10.213.{self.slot}.2"

    @property
    def link(self) -> str:
        """Name the host's end of the link (an interface name has at most 15 characters)."""
        return f"quarterjack{self.slot}"

    @property
    def node_name(self) -> str:
        return f"{self.name}-node"

    @property
    def cgroup(self) -> str:
        return f"quarterjack-{self.name}"
