"""An observer that is no part of the product: it watches Pods from outside and counts them by firing."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.cluster import Cluster

Firing = tuple[str, int]


@dataclass(slots=True)
class Sighting:
    """A Pod as its ADDED event showed it; `seen_time` is this machine's clock, epoch seconds."""

    name: str
    uid: str
    job: str
    scheduled: int
    unit: str  # of a fan-out; empty for any other
    attempt: int
    seen_time: float

    @property
    def lateness_seconds(self) -> float:
        """From the scheduled instant to the watch event."""
        return self.seen_time - self.scheduled


@dataclass(slots=True)
class PodObserver:
    """Watches the Pods of a namespace in a thread; each Pod UID counts once."""

    cluster: Cluster
    namespace: str
    sightings: dict[str, Sighting] = field(default_factory=dict)
    alive: dict[str, set[str]] = field(default_factory=dict)  # by job: its Pods that have neither ended nor gone
    overlaps: list[tuple[str, str]] = field(default_factory=list)  # job and Pod, where another was alive as it came
    errors: list[str] = field(default_factory=list)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _revision: str = ""

    def __enter__(self) -> PodObserver:
        """List, then watch from there."""
        self._revision = self.cluster.api.get(f"{self._path}?limit=1").json()["metadata"]["resourceVersion"]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop watching."""
        self._stop.set()
        assert self._thread is not None
        self._thread.join(10)

    @property
    def _path(self) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods"

    def counts(self) -> Counter[Firing]:
        """Pods by (job, scheduled epoch second)."""
        return Counter((s.job, s.scheduled) for s in list(self.sightings.values()))

    def wait(self, until: Callable[[Counter[Firing]], bool], *, seconds: float) -> bool:
        """Wait until the counts satisfy a condition; whether they did in time."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if until(self.counts()):
                return True
            time.sleep(0.2)
        return until(self.counts())

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._watch()
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not self._stop.is_set():
                    self.errors.append(str(error))

    def _watch(self) -> None:
        host = self.cluster.url.removeprefix("https://")
        context = ssl.create_default_context(cafile=str(self.cluster.ca_path))
        connection = http.client.HTTPSConnection(host, context=context, timeout=10)
        # A watch that is to end soon is told how far it is before: so the revision keeps up where nothing happens here, but elsewhere.
        path = f"{self._path}?watch=1&allowWatchBookmarks=true&timeoutSeconds=5&resourceVersion={self._revision}"
        connection.request("GET", path, headers={"Authorization": f"Bearer {self.cluster.admin_token}"})
        answer = connection.getresponse()
        try:
            while not self._stop.is_set():
                line = answer.readline()
                if not line:
                    return
                self._take(json.loads(line), time.time())
        except TimeoutError:
            return  # nothing happened for a while
        finally:
            connection.close()

    def _take(self, event: dict[str, Any], now: float) -> None:
        if event["type"] == "ERROR":
            raise ValueError(f"the observer's watch broke, its counts are worthless: {event}")
        meta = event["object"]["metadata"]
        self._revision = meta["resourceVersion"]
        labels = meta.get("labels") or {}
        if "quarterjack.dev/firing" not in labels:
            return
        job = labels["quarterjack.dev/job"]
        alive = self.alive.setdefault(job, set())
        if event["type"] == "ADDED":
            if alive:
                self.overlaps.append((job, meta["name"]))
            alive.add(meta["uid"])
            notes = meta["annotations"]
            unit, attempt = notes.get("quarterjack.dev/unit", ""), int(notes["quarterjack.dev/attempt"])
            firing = int(labels["quarterjack.dev/firing"])
            self.sightings[meta["uid"]] = Sighting(meta["name"], meta["uid"], job, firing, unit, attempt, now)
        if event["type"] == "DELETED" or event["object"]["status"].get("phase") in {"Succeeded", "Failed"}:
            alive.discard(meta["uid"])
