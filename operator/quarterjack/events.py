"""Events on a ScheduledJob, where its author looks: warnings and their ends, one object for each text, never in the way."""

from __future__ import annotations

import logging
from collections import OrderedDict
from hashlib import sha256
from typing import NamedTuple

from . import names
from .api import Api
from .clock import micro_time
from .model import Job
from .text import safe

log = logging.getLogger(__name__)

_PATH = "/apis/events.k8s.io/v1/namespaces/{}/events"
_QUIET_SECONDS = 300.0
_KNOWN_MOST = 10_000


class Regarded(NamedTuple):
    """The object that an Event is about."""

    kind: str
    namespace: str
    name: str
    uid: str
    revision: str


def _regarded(job: Job) -> Regarded:
    return Regarded(names.KIND, job.namespace, job.name, job.uid, str(job.revision))


class Recorder:
    """Writes Events. The same one about the same job is not repeated for five minutes."""

    def __init__(self, api: Api, *, replica: str) -> None:
        self._api = api
        self._replica = replica
        self._told: OrderedDict[str, float] = OrderedDict()

    async def warn(self, job: Job, reason: str, message: str) -> None:
        """Write a warning about a job; where that fails, the log has it."""
        await self.warn_of(_regarded(job), reason, message)

    async def reassure(self, job: Job, reason: str, message: str) -> None:
        """Write that what a warning was about is over."""
        await self.warn_of(_regarded(job), reason, message, kind="Normal")

    async def warn_of(self, regarded: Regarded, reason: str, message: str, *, kind: str = "Warning") -> None:
        """Write a warning about one of our objects."""
        now = self._api.clock.now()
        key = sha256(f"{regarded.uid}\0{reason}\0{message}".encode()).hexdigest()[:16]
        if now - self._told.get(key, float("-inf")) < _QUIET_SECONDS:
            return
        self._told[key] = now
        self._told.move_to_end(key)
        while len(self._told) > _KNOWN_MOST or now - next(iter(self._told.values())) >= _QUIET_SECONDS:
            self._told.popitem(last=False)
        event = self._event(regarded, reason, message, now, key) | {"type": kind}
        answer = await self._api.create(_PATH.format(regarded.namespace), event)
        if not answer.done:
            log.warning("no Event for %s/%s (%s): %s %s", *regarded[1:3], answer.ending, reason, message)

    def _event(self, regarded: Regarded, reason: str, message: str, now: float, key: str) -> dict[str, object]:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{regarded.name}.{key}{int(now):x}", "namespace": regarded.namespace},
            "eventTime": micro_time(now),
            "reportingController": f"{names.GROUP}/{names.MANAGER}",
            "reportingInstance": self._replica[:128],
            "action": "Schedule",
            "reason": reason,
            "note": safe(message, 1000),
            "regarding": {
                "apiVersion": names.API_VERSION,
                "kind": regarded.kind,
                "namespace": regarded.namespace,
                "name": regarded.name,
                "uid": regarded.uid,
                "resourceVersion": regarded.revision,
            },
        }
