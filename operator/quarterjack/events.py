"""Events on a ScheduledJob, where its author looks: warnings only, one object per (job, reason, message), never in the way."""

from __future__ import annotations

import logging
from collections import OrderedDict
from datetime import UTC, datetime
from hashlib import sha256

from . import names
from .api import Api
from .model import Job
from .text import safe

log = logging.getLogger(__name__)

_PATH = "/apis/events.k8s.io/v1/namespaces/{}/events"
_QUIET_SECONDS = 300.0
_KNOWN_MOST = 10_000


class Recorder:
    """Writes Events. The same warning about the same job is not repeated for five minutes."""

    def __init__(self, api: Api, *, replica: str) -> None:
        self._api = api
        self._replica = replica
        self._told: OrderedDict[str, float] = OrderedDict()

    async def warn(self, job: Job, reason: str, message: str) -> None:
        """Write a warning; where that fails, the log has it."""
        now = self._api.clock.now()
        key = sha256(f"{job.uid}\0{reason}\0{message}".encode()).hexdigest()[:16]
        if now - self._told.get(key, float("-inf")) < _QUIET_SECONDS:
            return
        self._told[key] = now
        self._told.move_to_end(key)
        while len(self._told) > _KNOWN_MOST:
            self._told.popitem(last=False)
        moment = datetime.fromtimestamp(now, UTC)
        answer = await self._api.create(_PATH.format(job.namespace), self._event(job, reason, message, moment, key))
        if not answer.done:
            log.warning("no Event for %s/%s (%s): %s %s", job.namespace, job.name, answer.ending, reason, message)

    def _event(self, job: Job, reason: str, message: str, moment: datetime, key: str) -> dict[str, object]:
        return {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"{job.name}.{key}{int(moment.timestamp()):x}", "namespace": job.namespace},
            "eventTime": moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "reportingController": f"{names.GROUP}/{names.MANAGER}",
            "reportingInstance": self._replica[:128],
            "action": "Schedule",
            "reason": reason,
            "type": "Warning",
            "note": safe(message, 1000),
            "regarding": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "namespace": job.namespace,
                "name": job.name,
                "uid": job.uid,
                "resourceVersion": str(job.revision),
            },
        }
