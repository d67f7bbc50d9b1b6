"""The run lease: the guard against two runs of one job at a time (`concurrencyPolicy: Forbid`).

A Lease named by the job's UID, held by a run's id. It is taken by a create, or by an update at the revision that was read, from a
holder that is seen to have ended: by its Pod's end (which is final), or by reads of the Pod, the claim and the job. A holder whose
Pod is not there yet is on its way: it keeps the lease.
"""

from __future__ import annotations

import logging
from enum import StrEnum

from . import names
from .api import JOBS, LEASES, PODS, Answer, Api, Ending, object_path
from .model import Job, read_entry
from .pod import read_pod
from .reading import read_claim, read_status
from .store import RunLease, Store, read_run_lease

log = logging.getLogger(__name__)


class Taken(StrEnum):
    """Whether a run may start."""

    YES = "yes"
    NO = "no"
    DOUBT = "doubt"


class RunLeases:
    """The run leases in the operator's own namespace."""

    def __init__(self, api: Api, store: Store, *, namespace: str) -> None:
        self._api = api
        self._store = store
        self._namespace = namespace

    async def take(self, job: Job, firing: int) -> Taken:
        """Take the job's run lease for the run of a firing."""
        known = self._store.run_leases.get(job.uid)
        if known is None:
            answer = await self._create(job, firing)
            if answer.done:
                return self._keep(job, answer)
        elif known.holder == names.claim_name(job.uid, names.run_key(firing)):
            return Taken.YES
        elif self._seen_to_have_ended(job, known.holder):
            answer = await self._update(job, firing, known)
            if answer.done:
                return self._keep(job, answer)
        return await self._take_by_reading(job, firing)

    async def _take_by_reading(self, job: Job, firing: int) -> Taken:
        answer = await self._api.get(self._path(job), metadata_only=True)
        if answer.ending is Ending.ABSENT:
            created = await self._create(job, firing)
            return self._keep(job, created) if created.done else Taken.DOUBT
        if not answer.done:
            return Taken.DOUBT
        lease = read_run_lease(answer.document)
        if lease.holder == names.claim_name(job.uid, names.run_key(firing)):
            return self._keep(job, answer)
        over = await self._is_over(job, lease.holder)
        if over is not Taken.YES:
            return over
        updated = await self._update(job, firing, lease)
        return self._keep(job, updated) if updated.done else Taken.DOUBT

    def _seen_to_have_ended(self, job: Job, holder: str) -> bool:
        pod = self._store.firings_of(job.uid).pods.get(names.key_of(holder))
        return holder == "" or (pod is not None and pod.ended)

    async def _is_over(self, job: Job, holder: str) -> Taken:
        """YES where the holder's run has ended for good, NO where it lives or is on its way."""
        firing = _firing_of(holder)
        if not holder:
            return Taken.YES
        pod = await self._api.get(object_path(PODS, job.namespace, names.pod_name(job.name, job.uid, firing)))
        if pod.done:
            sight = read_pod(pod.document)
            return Taken.YES if sight is None or sight.ended else Taken.NO
        if pod.ending is not Ending.ABSENT:
            return Taken.DOUBT
        claim = await self._api.get(object_path(LEASES, self._namespace, holder), metadata_only=True)
        if claim.done:
            read = read_claim(claim.document)
            if read is not None and read.outcome is not None:
                return Taken.YES
        elif claim.ending is not Ending.ABSENT:
            return Taken.DOUBT
        return await self._is_recorded(job, firing)

    async def _is_recorded(self, job: Job, firing: int) -> Taken:
        answer = await self._api.get(object_path(JOBS, job.namespace, job.name))
        if not answer.done:
            return Taken.DOUBT
        raw = answer.document.get("status") or {}
        for line in raw.get("history") or ():
            entry = read_entry(line)
            if entry.scheduled == firing and not entry.count:
                return Taken.YES if entry.ended else Taken.NO
        return Taken.YES if firing <= (read_status(raw).watermark or 0) else Taken.NO

    async def _create(self, job: Job, firing: int) -> Answer:
        holder = names.claim_name(job.uid, names.run_key(firing))
        document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": names.run_lease_name(job.uid),
                "labels": {
                    names.LABEL_MANAGED_BY: names.MANAGER,
                    names.LABEL_ROLE: names.ROLE_RUN,
                    names.LABEL_JOB_UID: job.uid,
                },
                "annotations": {names.HOLDER: holder, names.JOB_REF: f"{job.namespace}/{job.name}"},
            },
            "spec": {"holderIdentity": holder},
        }
        return await self._api.create(LEASES.format(self._namespace), document, metadata_only=True)

    async def _update(self, job: Job, firing: int, lease: RunLease) -> Answer:
        holder = names.claim_name(job.uid, names.run_key(firing))
        document = {
            "metadata": {
                "uid": lease.uid,
                "resourceVersion": str(lease.revision),
                "annotations": {names.HOLDER: holder},
            },
            "spec": {"holderIdentity": holder},
        }
        return await self._api.patch(self._path(job), document, metadata_only=True)

    def _keep(self, job: Job, answer: Answer) -> Taken:
        lease = read_run_lease(answer.document)
        known = self._store.run_leases.get(job.uid)
        if known is None or known.revision < lease.revision:
            self._store.run_leases[job.uid] = lease
        return Taken.YES

    def _path(self, job: Job) -> str:
        return object_path(LEASES, self._namespace, names.run_lease_name(job.uid))


def _firing_of(holder: str) -> int:
    _, _, firing = holder.rpartition("-")
    return int(firing) if firing.isdigit() else 0
