"""The book of all Pods and claim Leases that were ever created, whatever became of them: launches are counted here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from .resources import GROUP, LEASES, PODS, Resource


class Entry(NamedTuple):
    """One create that was committed."""

    kind: str
    namespace: str
    name: str
    uid: str
    job_uid: str
    firing: int  # epoch seconds; -1 where the object says nothing of a firing
    unit: str
    attempt: int
    trigger: str
    at: float  # when it was committed, on the server's clock
    stamp: str  # its creationTimestamp
    run: str = ""  # the run's id, of a Pod

    @property
    def by_hand(self) -> bool:
        """Whether it was asked for by hand: its firing is then the second in which it was."""
        return self.trigger == "Manual"

    @property
    def launch(self) -> tuple[str, int, str, int, str]:
        """What may be launched at most once. Several runs may be asked for in one second."""
        return self.job_uid, self.firing, self.unit, self.attempt, self.run if self.by_hand else ""


class Ledger:
    """Every Pod and Lease that carries our label of a firing, and the other Pods and Leases beside."""

    def __init__(self) -> None:
        self.pods: list[Entry] = []
        self.leases: list[Entry] = []

    def note(self, resource: Resource, document: Mapping[str, Any], *, at: float) -> None:
        """Enter a create."""
        if resource is PODS:
            self.pods.append(_entry(document, at))
        elif resource is LEASES:
            self.leases.append(_entry(document, at))

    def launches(self) -> Counter[tuple[str, int, str, int, str]]:
        """Pods ever created by (job UID, firing, unit, attempt, and for runs by hand their id)."""
        return Counter(entry.launch for entry in self.pods if entry.firing >= 0)

    def doubles(self) -> list[Entry]:
        """The Pods of everything that was launched more than once: must be empty."""
        launches = self.launches()
        return [entry for entry in self.pods if entry.firing >= 0 and launches[entry.launch] > 1]

    def firings(self, job_uid: str, *, of_units: bool = False) -> list[int]:
        """The firings of a job that have launched, in ascending order, each once; `of_units`: of which a unit has."""
        scheduled = [entry for entry in self.pods if entry.job_uid == job_uid and not entry.by_hand]
        scheduled = [entry for entry in scheduled if entry.unit or not of_units]
        return sorted({entry.firing for entry in scheduled if entry.firing >= 0})

    def lateness(self) -> list[float]:
        """How long after its firing each first attempt of a scheduled one was launched, in seconds."""
        return [entry.at - entry.firing for entry in self.pods if entry.firing >= 0 and entry.attempt == 1]


def _entry(document: Mapping[str, Any], at: float) -> Entry:
    meta = document["metadata"]
    told = (meta.get("annotations") or {}) | (meta.get("labels") or {})
    firing = told.get(f"{GROUP}/firing", "")
    return Entry(
        kind=document["kind"],
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        job_uid=told.get(f"{GROUP}/job-uid", ""),
        firing=int(firing) if firing.isdigit() else -1,
        unit=told.get(f"{GROUP}/unit", ""),
        attempt=int(told.get(f"{GROUP}/attempt", 1)),
        trigger=told.get(f"{GROUP}/trigger", ""),
        at=at,
        stamp=meta["creationTimestamp"],
        run=told.get(f"{GROUP}/run-id", ""),
    )
