"""What is remembered of a cluster while it exists, and the choice of a free slot for a new one."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.cluster.errors import ClusterError
from tests.cluster.layout import SLOTS, Layout, cache_dir, state_root
from tests.cluster.processes import process_alive

# No cluster can have this name.
_SLOTS_LOCK = ".slots"


@dataclass(slots=True)
class State:
    """The slot of a cluster, the parts it has beyond its control plane, and extra flags by component.

    `owner` is the pid of the test session that the cluster dies with; 0 for a cluster that stays until `down`.
    """

    slot: int
    node: bool = False
    simulated_nodes: int = 0
    flags: dict[str, list[str]] = field(default_factory=dict)
    owner: int = 0

    def save(self, layout: Layout) -> None:
        layout.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = layout.state_file.with_suffix(".part")
        part.write_text(json.dumps(asdict(self)))
        part.rename(layout.state_file)

    @property
    def abandoned(self) -> bool:
        return self.owner != 0 and self.owner != os.getpid() and not process_alive(self.owner)


def load(name: str) -> State | None:
    """Return the state of the cluster `name`, or None if there is none that can be read."""
    try:
        return State(**json.loads((state_root() / name / "cluster.json").read_text()))
    except (FileNotFoundError, json.JSONDecodeError, TypeError):
        return None


def existing() -> dict[str, State]:
    """Return all clusters that have left a state, running or not."""
    names = [path.parent.name for path in sorted(state_root().glob("*/cluster.json"))]
    return {name: state for name in names if (state := load(name))}


def create(name: str, owner: int) -> tuple[Layout, State]:
    """Take a free slot for a new cluster and remember it."""
    with lock(_SLOTS_LOCK):
        taken = {state.slot for state in existing().values()}
        for slot in range(SLOTS):
            layout = Layout(name, slot)
            if slot not in taken and _is_free(layout):
                state = State(slot, owner=owner)
                state.save(layout)
                return layout, state
    raise ClusterError(f"all {SLOTS} slots for clusters are in use: {', '.join(existing())}")


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Keep other processes from changing what `name` stands for; the lock's file goes when the cluster has gone."""
    path = cache_dir() / "cluster" / "locks" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with _lock_file(path):
        try:
            yield
        finally:
            if load(name) is None:
                path.unlink()


@contextmanager
def _lock_file(path: Path) -> Iterator[None]:
    while True:
        with path.open("w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            # Its last holder may have removed the file that we waited for: then it locks nothing.
            if path.exists() and path.stat().st_ino == os.fstat(held.fileno()).st_ino:
                yield
                return


def _is_free(layout: Layout) -> bool:
    return not Path("/sys/class/net", layout.link).exists() and all(map(_can_listen, layout.ports.all()))


def _can_listen(port: int) -> bool:
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(("", port))
        except OSError:
            return False
    return True
