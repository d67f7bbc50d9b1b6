"""Processor time of processes: what a burst costs, which a busy machine does not change as it changes how long it takes."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from tests.cluster import Cluster

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
_TICKS = os.sysconf("SC_CLK_TCK")


def pids_of(cluster: Cluster) -> list[int]:
    """The processes of a cluster's control plane."""
    return [pid for name in CONTROL_PLANE if (pid := cluster.process(name).pid())]


def processor_seconds(pids: Iterable[int]) -> float:
    """User and system time of processes so far, all their threads."""
    return sum(_of_stat(Path(f"/proc/{pid}/stat").read_text()) for pid in pids)


def _of_stat(line: str) -> float:
    """Fields 14 and 15 of proc(5): counted from behind the name, which may hold blanks and brackets."""
    fields = line.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS
