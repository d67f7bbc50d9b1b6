"""When a Pod of each firing was first there, as a watch shows it that is no part of what is measured."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from quarterjack import names
from tests.bench.figures import Lateness
from tests.cluster import Cluster

Key = tuple[str, int]  # job, scheduled epoch second
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


def of_ours(labels: Mapping[str, str]) -> Key | None:
    """The firing that a Pod of ours stands for."""
    if names.LABEL_FIRING not in labels:
        return None
    return labels[names.LABEL_JOB], int(labels[names.LABEL_FIRING])


def of_cronjob(labels: Mapping[str, str]) -> Key | None:
    """The firing of a CronJob's Pod: its Job is called after the CronJob and the scheduled minute."""
    name, _, minute = labels.get("batch.kubernetes.io/job-name", "").rpartition("-")
    return (name, 60 * int(minute)) if name else None


class Watcher:
    """Watches a namespace's Pods in a thread; notes this machine's time (epoch seconds) at each firing's first Pod."""

    def __init__(self, cluster: Cluster, namespace: str, key: Callable[[Mapping[str, str]], Key | None]) -> None:
        self._cluster = cluster
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._key = key
        self._seen: dict[Key, float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._failure: BaseException | None = None
        self._connection: http.client.HTTPSConnection | None = None
        self._revision = ""

    def __enter__(self) -> Watcher:
        """Watch from now on."""
        answer = self._cluster.api.get(f"{self._path}?limit=1")
        self._revision = answer.json()["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop: the thread hangs on a read, which ends with the connection."""
        self._stop.set()
        if self._connection is not None and self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)

    def seen(self, instant: int) -> list[float]:
        """The seconds after an instant at which each of its firings was seen."""
        return [when - firing for (_, firing), when in list(self._seen.items()) if firing == instant]

    def lateness(self, instant: int, *, due: int, seconds: float) -> Lateness:
        """Watch until all that are due at an instant are seen, or so many seconds after it."""
        while len(self.seen(instant)) < due and time.time() < instant + seconds:
            self._check()
            time.sleep(0.1)
        self._check()
        return Lateness(tuple(self.seen(instant)), due, seconds)

    def _check(self) -> None:
        if self._failure is not None:
            raise RuntimeError(f"the watch of {self._path} failed") from self._failure

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                self._watch()
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            if not self._stop.is_set():
                self._failure = error

    def _watch(self) -> None:
        context = ssl.create_default_context(cafile=str(self._cluster.ca_path))
        host = self._cluster.url.removeprefix("https://")
        connection = self._connection = http.client.HTTPSConnection(host, context=context, timeout=1000)
        query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds=900&resourceVersion={self._revision}"
        headers = {"Authorization": f"Bearer {self._cluster.admin_token}", "Accept": _METADATA}
        connection.request("GET", f"{self._path}?{query}", headers=headers)
        answer = connection.getresponse()
        try:
            while line := answer.readline():
                self._take(json.loads(line), time.time())
        finally:
            connection.close()

    def _take(self, event: Mapping[str, Any], now: float) -> None:
        if event["type"] == "ERROR":
            raise ValueError(f"the watch broke: {event}")
        meta = event["object"]["metadata"]
        self._revision = meta["resourceVersion"]
        key = self._key(meta.get("labels") or {})
        if event["type"] == "ADDED" and key is not None:
            self._seen.setdefault(key, now)
