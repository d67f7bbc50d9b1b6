"""Events, where the author of a job looks: its story, and warnings about it. A courtesy: what counts is in the job's status.

What is told is written later, beside the work and never in its way: in a second at most as many as `_RATE`, none while launches are
under way (warnings wait for those some seconds only), and where too much is to be told, what is no warning is not. The same one
about the same job again within five minutes is counted, and its Event is given the count (`series`) every five minutes.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, NamedTuple

from . import names
from .api import Api, Ending, object_path
from .clock import micro_time
from .model import Job
from .story import Told
from .text import safe

log = logging.getLogger(__name__)

_PATH = "/apis/events.k8s.io/v1/namespaces/{}/events"
_QUIET_SECONDS = 300.0
_KNOWN_MOST = 10_000
_RATE = 2.0  # a second, of this replica
_SAVED_MOST = 20.0  # what was not written may be written later, up to so many
_SAVED_FOR_WARNINGS = 10.0
_WARNINGS_MOST = 1000
_OTHERS_MOST = 100
_PATIENCE_SECONDS = 5.0
_LOOK_AGAIN_SECONDS = 0.5


class Regarded(NamedTuple):
    """The object that an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    revision: str


@dataclass(slots=True)
class _Series:
    """One Event, and how often it was to be told."""

    regarded: Regarded
    told: Told
    key: str
    name: str
    first_time: float  # epoch seconds
    last_time: float
    asked_time: float  # of the loop
    count: int = 1
    written_count: int = 0
    to_be_counted: bool = False


class Recorder:
    """Writes Events. `busy`: whether launches are under way, to which it yields."""

    def __init__(self, api: Api, *, replica: str, busy: Callable[[], bool]) -> None:
        self._api = api
        self._replica = replica
        self._busy = busy
        self._series: OrderedDict[str, _Series] = OrderedDict()
        self._warnings: deque[_Series] = deque()
        self._others: deque[_Series] = deque()
        self._counts: list[tuple[float, str]] = []  # a heap: when the count of which series is to be written
        self._saved = _SAVED_MOST
        self._saved_time = 0.0
        self._wake = asyncio.Event()

    def warn(self, job: Job, reason: str, message: str) -> None:
        """Tell a warning about a job."""
        self.tell(job, Told(reason, message, warning=True, subject=message))

    def reassure(self, job: Job, reason: str, message: str) -> None:
        """Tell that what a warning was about is over."""
        self.tell(job, Told(reason, message, subject=message))

    def tell(self, job: Job, told: Told) -> None:
        """Tell of a turn in a job's story."""
        self.tell_of(Regarded(names.KIND, job.namespace, job.name, job.uid, str(job.revision)), told)

    def tell_of(self, regarded: Regarded, told: Told) -> None:
        """Tell something of one of our objects, at some later time."""
        now = self._api.clock.now()
        key = sha256("\0".join([regarded.uid, told.reason, str(told.warning), told.subject]).encode()).hexdigest()[:16]
        series = self._series.get(key)
        if series is not None and now - series.last_time < _QUIET_SECONDS:
            self._count(series, now)
        else:
            self._begin(regarded, told, key, now)

    def _count(self, series: _Series, now: float) -> None:
        series.count += 1
        series.last_time = now
        self._series.move_to_end(series.key)
        if not series.to_be_counted:
            series.to_be_counted = True
            heapq.heappush(self._counts, (asyncio.get_running_loop().time() + _QUIET_SECONDS, series.key))
            self._wake.set()

    def _begin(self, regarded: Regarded, told: Told, key: str, now: float) -> None:
        queue, most = (self._warnings, _WARNINGS_MOST) if told.warning else (self._others, _OTHERS_MOST)
        if len(queue) >= most:
            return
        name = f"{regarded.name}.{key}{int(now):x}"
        series = _Series(regarded, told, key, name, now, now, asyncio.get_running_loop().time())
        self._series[key] = series
        self._series.move_to_end(key)
        queue.append(series)
        self._wake.set()

    def _forget_old(self, now: float) -> None:
        """Of what was told long ago the next is a new Event, so nothing need be known of it."""
        while self._series:
            oldest = next(iter(self._series.values()))
            if oldest.last_time >= now - 2 * _QUIET_SECONDS and len(self._series) <= _KNOWN_MOST:
                break
            del self._series[oldest.key]

    async def run(self) -> None:
        """Write what is told, until cancelled."""
        self._saved_time = asyncio.get_running_loop().time()
        while True:
            self._wake.clear()
            self._forget_old(self._api.clock.now())
            while (write := self._next()) is not None:
                await write
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause()):
                    await self._wake.wait()

    async def flush(self) -> None:
        """Write the warnings that wait, as far as so many may be written."""
        while self._warnings and self._saved >= 1:
            self._saved -= 1
            await self._create(self._warnings.popleft())

    def _pause(self) -> float | None:
        """How long to wait unless something is told meanwhile."""
        if self._warnings or self._others:
            return _LOOK_AGAIN_SECONDS
        if not self._counts:
            return _QUIET_SECONDS if self._series else None
        return max(_LOOK_AGAIN_SECONDS, self._counts[0][0] - asyncio.get_running_loop().time())

    def _next(self) -> Coroutine[Any, Any, None] | None:
        """The next write, where one may be made now."""
        now = asyncio.get_running_loop().time()
        self._saved = min(_SAVED_MOST, self._saved + (now - self._saved_time) * _RATE)
        self._saved_time = now
        busy = self._busy()
        spare = 0 if busy else self._saved - _SAVED_FOR_WARNINGS
        write = None
        if (
            self._warnings
            and self._saved >= 1
            and not (busy and now < self._warnings[0].asked_time + _PATIENCE_SECONDS)
        ):
            write = self._create(self._warnings.popleft())
        elif self._others and spare >= 1:
            write = self._create(self._others.popleft())
        elif self._counts and self._counts[0][0] <= now and spare >= 1:
            write = self._write_count(heapq.heappop(self._counts)[1])
        self._saved -= write is not None
        return write

    async def _create(self, series: _Series) -> None:
        answer = await self._api.create(_PATH.format(series.regarded.namespace), self._event(series))
        if answer.done or answer.ending is Ending.EXISTS:
            series.written_count = max(1, series.written_count)
            return
        self._forget(series)
        log.warning(
            "no Event %s: %s %s",
            series.told.reason,
            answer.ending,
            series.told.message,
            extra={"job": f"{series.regarded.namespace}/{series.regarded.name}"},
        )

    async def _write_count(self, key: str) -> None:
        series = self._series.get(key)
        if series is None:
            return
        series.to_be_counted = False
        if series.count <= series.written_count:
            return
        series.written_count = series.count
        path = object_path(_PATH, series.regarded.namespace, series.name)
        count = {"count": series.count, "lastObservedTime": micro_time(series.last_time)}
        answer = await self._api.patch(path, {"series": count}, metadata_only=True)
        if not answer.done:
            self._forget(series)

    def _forget(self, series: _Series) -> None:
        """It is told anew the next time."""
        if self._series.get(series.key) is series:
            del self._series[series.key]

    def _event(self, series: _Series) -> dict[str, Any]:
        regarded, told = series.regarded, series.told
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": regarded.namespace},
            "type": "Warning" if told.warning else "Normal",
            "eventTime": micro_time(series.first_time),
            "reportingController": f"{names.GROUP}/{names.MANAGER}",
            "reportingInstance": self._replica[:128],
            "action": "Schedule",
            "reason": told.reason,
            "note": safe(told.message, 1000),
            "regarding": {
                "apiVersion": names.API_VERSION,
                "kind": regarded.kind,
                "namespace": regarded.namespace,
                "name": regarded.name,
                "uid": regarded.uid,
                "resourceVersion": regarded.revision,
            },
        }
