"""What `make up` did, kept outside the work tree, so that the next one goes on from there and `make down` can undo it."""

from __future__ import annotations

import json
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.cluster.layout import state_root

USUAL = "demo"
CURRENT = "current"


@dataclass(frozen=True, order=True, slots=True)
class Thing:
    """An object in the cluster, in kubectl's words: `resource` is KIND or KIND.VERSION.GROUP."""

    resource: str
    namespace: str
    name: str

    @property
    def where(self) -> tuple[str, ...]:
        """kubectl's arguments that point at it."""
        return (f"{self.resource}/{self.name}", *((f"--namespace={self.namespace}",) if self.namespace else ()))


@dataclass(slots=True)
class Record:
    """Where the operator was started, and the objects that were not there before (`ours`, in order of creation).

    `context` and `kubeconfig` are set where the cluster is not one of ours.
    """

    target: str
    context: str = ""
    kubeconfig: str = ""
    examples_namespace: str = "default"
    ports: list[int] = field(default_factory=list)
    ours: list[Thing] = field(default_factory=list)

    @property
    def directory(self) -> Path:
        """Where it is kept, with the replicas' logs; a cluster cannot have a name with a line in it."""
        return state_root() / f"up_{self.target}"

    def save(self) -> None:
        """Write it."""
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        part = self.directory / "record.part"
        part.write_text(json.dumps(asdict(self), indent=2))
        part.rename(self.directory / "record.json")

    def forget(self) -> None:
        """Remove it and all beside it."""
        shutil.rmtree(self.directory, ignore_errors=True)
        with suppress(OSError):
            state_root().rmdir()


def load(target: str) -> Record | None:
    """What is known of a target, None where `make up` has not been there."""
    try:
        known = json.loads((Record(target).directory / "record.json").read_text())
    except FileNotFoundError:
        return None
    return Record(**{**known, "ours": [Thing(**thing) for thing in known["ours"]]})


def targets() -> list[str]:
    """All targets where `make up` has been."""
    return sorted(path.parent.name.removeprefix("up_") for path in state_root().glob("up_*/record.json"))
