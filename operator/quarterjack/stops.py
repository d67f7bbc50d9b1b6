"""Ends runs that must not go on, by deleting their Pods: their own grace is kept.

1. Note on the run's claim what the run is then, at the revision at which it was read. 2. Delete the Pod as it was read (by UID and
revision): one that has ended meanwhile has its own end, and stays. 3. Once the Pod is gone, or its containers have ended, the record
says what was noted. A crash between the two leaves a note that every replica sees, and goes on from.
"""

from __future__ import annotations

import logging

from . import logs, names
from .api import PODS, Api, Ending, object_path
from .lease import Claims
from .model import Outcome, PodSight
from .reading import read_claim
from .store import Store

log = logging.getLogger(__name__)


class Stops:
    """Stops runs."""

    def __init__(self, api: Api, store: Store, claims: Claims) -> None:
        self._api = api
        self._store = store
        self._claims = claims

    async def stop(self, pod: PodSight, why: Outcome) -> None:
        """Stop a run whose Pod has just been read. What does not succeed is to be tried again."""
        if pod.ended or not await self._note(pod, why) or pod.deleting:
            return
        answer = await self._api.delete(object_path(PODS, pod.namespace, pod.name), uid=pod.uid, revision=pod.revision)
        if answer.done:
            fields = logs.of_pod(self._store.jobs.get(pod.job_uid), pod)
            log.info("stopped Pod %s: %s: %s", pod.name, why.reason, why.message, extra=fields)

    async def _note(self, pod: PodSight, why: Outcome) -> bool:
        """Whether the claim says why, by our write or another's. A run whose claim is gone is stopped without a note."""
        claim = self._store.seen_with(pod.job_uid, pod.key).claims.get(pod.key)
        if claim is not None and claim.stop is not None:
            return True
        noted = None if claim is None else await self._claims.stop(claim, why)
        if noted is not None:
            self._store.put_claim(noted)
            return True
        answer = await self._api.get(self._claims.path(names.claim_name(pod.job_uid, pod.key)), metadata_only=True)
        read = read_claim(answer.document) if answer.done else None
        if read is not None:
            self._store.put_claim(read)
        return answer.ending is Ending.ABSENT or (read is not None and read.stop is not None)
