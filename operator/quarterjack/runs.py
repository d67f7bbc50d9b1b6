"""The run lease: the guard against two runs of one job at a time (`concurrencyPolicy: Forbid`).

A Lease named by the job's UID, held by a run's id. It is taken by a create, or by an update at the revision that was read, from a
holder that is seen to be over: by its Pod's success (which is final), or by reads of the job, the Pod and the claim. A holder whose
Pod is not there yet is on its way, and one that has failed may be tried again: it keeps the lease.
"""

from __future__ import annotations

import logging
from enum import StrEnum

from . import names
from .api import JOBS, LEASES, PODS, Answer, Api, Ending, object_path
from .attempts import last_attempts
from .decision import is_over
from .manifests import Run
from .model import Firings, Job, State
from .pod import read_pod
from .reading import read_claim, read_job
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

    async def take(self, run: Run) -> Taken:
        """Take the job's run lease for a run, or keep it for the next attempt of the run that holds it."""
        job = run.job
        known = self._store.run_leases.get(job.uid)
        if known is None:
            answer = await self._create(run)
            if answer.done:
                return self._keep(job, answer)
        elif known.holder == _holder(run) and run.attempt == 1:
            return Taken.YES
        elif known.holder == _holder(run) or self._seen_to_be_over(job, known.holder):
            answer = await self._update(run, known)
            if answer.done:
                return self._keep(job, answer)
        return await self._take_by_reading(run)

    async def _take_by_reading(self, run: Run) -> Taken:
        job = run.job
        answer = await self._api.get(self._path(job), metadata_only=True)
        if answer.ending is Ending.ABSENT:
            created = await self._create(run)
            return self._keep(job, created) if created.done else Taken.DOUBT
        if not answer.done:
            return Taken.DOUBT
        lease = read_run_lease(answer.document)
        if lease.holder == _holder(run) and run.attempt == 1:
            return self._keep(job, answer)
        over = Taken.YES if lease.holder == _holder(run) else await self._is_over(job, lease.holder)
        if over is not Taken.YES:
            return over
        updated = await self._update(run, lease)
        return self._keep(job, updated) if updated.done else Taken.DOUBT

    def _seen_to_be_over(self, job: Job, holder: str) -> bool:
        """Only by a success: whether a failure is tried again, a view of the job that is late may not know."""
        pod = self._store.firings_of(job.uid).pods.get(names.key_of(holder))
        return holder == "" or (pod is not None and pod.state is State.SUCCEEDED)

    async def _is_over(self, job: Job, holder: str) -> Taken:
        """YES where the holder's run has ended for good, NO where it lives, is on its way, or is tried again."""
        key = names.key_of(holder)
        if not key:
            return Taken.YES
        answer = await self._api.get(object_path(JOBS, job.namespace, job.name))
        if not answer.done:
            return Taken.DOUBT
        known = read_job(answer.document)
        entries = {entry.id: entry for entry in known.status.entries() if not entry.count}
        last = last_attempts(entry for entry in entries.values() if entry.run == key).get(key)
        seen = await self._see(job, key if last is None else last.id)
        if seen is None:
            return Taken.DOUBT
        return Taken.YES if is_over(known, entries, seen, key) else Taken.NO

    async def _see(self, job: Job, key: str) -> Firings | None:
        """The Pod of an attempt as it is now, and where there is none, its claim; None where that cannot be read."""
        name = names.pod_name(job.name, job.uid, names.firing_of(key), attempt=names.attempt_of(key))
        pod = await self._api.get(object_path(PODS, job.namespace, name))
        if pod.done:
            sight = read_pod(pod.document)
            return Firings(pods={key: sight} if sight is not None and sight.job_uid == job.uid else {})
        if pod.ending is not Ending.ABSENT:
            return None
        name = names.claim_name(job.uid, key)
        claim = await self._api.get(object_path(LEASES, self._namespace, name), metadata_only=True)
        if claim.ending is Ending.ABSENT:
            return Firings()
        read = read_claim(claim.document) if claim.done else None
        return None if read is None else Firings(claims={key: read})

    async def _create(self, run: Run) -> Answer:
        job, holder = run.job, _holder(run)
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

    async def _update(self, run: Run, lease: RunLease) -> Answer:
        """With the attempt, so that each moves the lease on: whoever has read the one before as the last takes it in vain."""
        holder = _holder(run)
        document = {
            "metadata": {
                "uid": lease.uid,
                "resourceVersion": str(lease.revision),
                "annotations": {names.HOLDER: holder, names.ATTEMPT: str(run.attempt)},
            },
            "spec": {"holderIdentity": holder},
        }
        return await self._api.patch(self._path(run.job), document, metadata_only=True)

    def _keep(self, job: Job, answer: Answer) -> Taken:
        lease = read_run_lease(answer.document)
        known = self._store.run_leases.get(job.uid)
        if known is None or known.revision < lease.revision:
            self._store.run_leases[job.uid] = lease
        return Taken.YES

    def _path(self, job: Job) -> str:
        return object_path(LEASES, self._namespace, names.run_lease_name(job.uid))


def _holder(run: Run) -> str:
    """The name of its first attempt's claim: the lease is the run's, through all its attempts."""
    return names.claim_name(run.job.uid, names.run_key(run.firing))
