"""A cgroup of our own for each node: it holds everything that the node starts, so that nothing escapes its end.

Cgroup v2, and v1 with one tree for each controller. The node's services are in `<name>/services`; the kubelet makes
`<name>/kubepods` for its Pods.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.processes import POLL_SECONDS

_MOUNT = Path("/sys/fs/cgroup")
_GONE_SECONDS = 30


def _trees() -> list[Path]:
    if (_MOUNT / "cgroup.controllers").exists():
        return [_MOUNT]
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    return [Path(fields[1]) for fields in mounts if fields[2] in {"cgroup", "cgroup2"}]


def _services_tree() -> Path:
    """Return a tree in which processes may be placed at once; v1's cpuset would have to be set up first."""
    return _MOUNT if (_MOUNT / "cgroup.controllers").exists() else _MOUNT / "pids"


def create(name: str) -> None:
    """Make the cgroup `name` in every tree, with its `services` part."""
    for tree in _trees():
        (tree / name).mkdir(exist_ok=True)
    (_services_tree() / name / "services").mkdir(exist_ok=True)


def add_service(name: str, pid: int) -> None:
    """Put a process, and all that it will start, into the services of cgroup `name`."""
    (_services_tree() / name / "services" / "cgroup.procs").write_text(str(pid))


def exists(name: str) -> bool:
    return any((tree / name).exists() for tree in _trees())


def pids(name: str) -> set[int]:
    """Return every process in the cgroup `name` and below it, in any tree."""
    found: set[int] = set()
    for directory in _directories(name):
        # A cgroup may end between being listed and being read.
        with suppress(OSError):
            found.update(map(int, (directory / "cgroup.procs").read_text().split()))
    return found


def remove(name: str) -> None:
    """Kill everything in the cgroup `name`, then remove it."""
    deadline_seconds = time.monotonic() + _GONE_SECONDS
    while exists(name):
        for pid in pids(name):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for directory in reversed(_directories(name)):
            # Busy as long as a killed process has not quite ended.
            with suppress(OSError):
                directory.rmdir()
        if time.monotonic() > deadline_seconds:
            raise ClusterError(f"cgroup {name} cannot be removed; it holds processes {sorted(pids(name))}")
        if exists(name):
            time.sleep(POLL_SECONDS)


def _directories(name: str) -> list[Path]:
    """Return the cgroup's directories, every parent before its children."""
    tops = [tree / name for tree in _trees() if (tree / name).exists()]
    return [Path(path) for top in tops for path, _, _ in os.walk(top)]
