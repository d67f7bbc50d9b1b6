"""ScheduledJobRuns: requests to run a job by hand.

This version runs none of them. It answers each, so that nobody waits for what will not come: with what is wrong with it, or with
NotImplemented.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .api import Api, object_path
from .clock import rfc3339
from .events import Recorder, Regarded
from .invalid import quoted
from .model import Job
from .ranks import ranked
from .store import Store
from .text import safe

log = logging.getLogger(__name__)

KIND = "ScheduledJobRun"
RUNS = "/apis/quarterjack.dev/v1alpha1/namespaces/{}/scheduledjobruns"


def verdict(spec: Mapping[str, Any], job: Job | None) -> tuple[str, str]:
    """Reason and message of the refusal; names the field and the value."""
    name = spec.get("scheduledJobName", "")
    if job is None:
        return "NotFound", f"spec.scheduledJobName: there is no ScheduledJob {quoted(name)} in this namespace"
    undeclared = [option for option in spec.get("options") or {} if option not in job.spec.options]
    if undeclared:
        known = ", ".join(job.spec.options) or "none"
        return "InvalidOptions", f"spec.options: {quoted(undeclared[0])} is no option of {name}; it has: {known}"
    return "NotImplemented", "Runs by hand are not served by this version"


class RunRequests:
    """Answers ScheduledJobRuns."""

    def __init__(self, api: Api, store: Store, recorder: Recorder, *, replica: str) -> None:
        self._api = api
        self._store = store
        self._recorder = recorder
        self._replica = replica

    async def apply(self, kind: str | None, item: Mapping[str, Any]) -> None:
        """One event of a request: the first replica in rank answers it, once."""
        meta, answered = item["metadata"], (item.get("status") or {}).get("conditions")
        members = {*self._store.members, self._replica}
        if kind == "DELETED" or answered or ranked(members, meta["uid"])[0] != self._replica:
            return
        reason, message = verdict(item.get("spec") or {}, self._job(meta["namespace"], item["spec"]))
        document = {
            "metadata": {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]},
            "status": {"message": safe(message), "conditions": [self._condition(meta, reason, safe(message))]},
        }
        path = object_path(RUNS, meta["namespace"], meta["name"]) + "/status"
        answer = await self._api.patch(path, document, metadata_only=True)
        if answer.done:
            regarded = Regarded(KIND, meta["namespace"], meta["name"], meta["uid"], meta["resourceVersion"])
            await self._recorder.warn_of(regarded, reason, message)
        else:
            log.warning("%s/%s was not answered: %s", meta["namespace"], meta["name"], answer.ending)

    def _job(self, namespace: str, spec: Mapping[str, Any]) -> Job | None:
        name = spec.get("scheduledJobName")
        return next((j for j in self._store.jobs.values() if (j.namespace, j.name) == (namespace, name)), None)

    def _condition(self, meta: Mapping[str, Any], reason: str, message: str) -> dict[str, Any]:
        return {
            "type": "Accepted",
            "status": "False",
            "reason": reason,
            "message": message,
            "observedGeneration": int(meta.get("generation", 1)),
            "lastTransitionTime": rfc3339(self._api.clock.now()),
        }
