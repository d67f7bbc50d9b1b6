"""The run lease: the guard against two runs of one job at a time (`concurrencyPolicy` Forbid and Replace).

A Lease named by the job's UID, held by a run's id, with `leaseDuration` and the time at which its run was last seen alive.

- It is *taken* by a create, or by an update at the revision that was read, from a holder that is seen to be over: by its Pod's success
  (which is final), or by reads of the job, the Pod and the claim. A holder whose Pod is not there yet is on its way, and one that has
  failed may be tried again: it keeps the lease.
- It is *renewed* now and then while a view shows its Pod alive. Nobody is given up because that has stopped: see `signs`.
- It is *released*, by a delete at the revision that was read, once the same reads have shown that the run is over.

Guaranteed: of two runs that take it, one is told no, or both are the same run. Not guaranteed: that a run which was given up as
Stale has stopped; a node that is cut off may still run it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from . import logs, names, signs
from .api import JOBS, LEASES, PODS, Answer, Api, Ending, object_path
from .attempts import last_attempts
from .clock import micro_time
from .decision import is_over
from .manifests import Run
from .model import Claim, Entry, Firings, Job, Outcome, PodSight, Policy, State
from .pod import lost_pod, read_pod
from .reading import read_claim, read_job
from .store import RunLease, Store, read_run_lease

log = logging.getLogger(__name__)

_ROUNDS = 3
_LOST = frozenset({Ending.CONFLICT, Ending.EXISTS, Ending.ABSENT})


class Taken(StrEnum):
    """Whether a run may start, where no other run is in its way."""

    YES = "yes"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Held:
    """Another run is alive or on its way: its key, and its Pod where there is one. `resting`: it only waits to be tried again."""

    key: str
    pod: PodSight | None = None
    resting: bool = False

    @property
    def order(self) -> tuple[int, str]:
        """Where it comes among the job's runs."""
        return names.order_of(self.key)

    @property
    def name(self) -> str:
        """What people know it by."""
        return self.pod.name if self.pod is not None else "another run"

    @property
    def state(self) -> str:
        """What it was doing when it was met, after its name."""
        if self.pod is None:
            return "waited to be tried again" if self.resting else "was about to start"
        if self.pod.state is State.RUNNING:
            return "was still running"
        return f"had not started yet ({self.pod.reason})" if self.pod.reason else "had not started yet"


class RunLeases:
    """The run leases in the operator's own namespace. `watched_since`: since when this replica's views are live without a break."""

    def __init__(self, api: Api, store: Store, *, namespace: str, watched_since: Callable[[], float]) -> None:
        self._api = api
        self._store = store
        self._namespace = namespace
        self._watched_since = watched_since

    async def take(self, run: Run) -> Taken | Held:
        """Take the job's run lease for a run, or keep it for the next attempt of the run that holds it."""
        job = run.job
        known = self._store.run_leases.get(job.uid)
        if known is None:
            answer = await self._create(run)
            if answer.done:
                return self._keep(job, answer)
        elif known.holder == _holder(run) and run.attempt == 1:
            return Taken.YES
        elif known.holder == _holder(run) or self._seen_to_be_over(job, known):
            answer = await self._update(run, known)
            if answer.done:
                return self._keep(job, answer)
        return await self._take_by_reading(run)

    async def _take_by_reading(self, run: Run) -> Taken | Held:
        """Read the lease and take it; again where another changed it in between, as who releases it does."""
        for _ in range(_ROUNDS):
            taken = await self._take_once(run)
            if taken is not None:
                return taken
        return Taken.DOUBT

    async def _take_once(self, run: Run) -> Taken | Held | None:
        job = run.job
        answer = await self._api.get(self._path(job))
        if answer.ending is Ending.ABSENT:
            return self._kept(job, await self._create(run))
        if not answer.done:
            return Taken.DOUBT
        lease = read_run_lease(answer.document)
        if lease.holder == _holder(run) and run.attempt == 1:
            return self._keep(job, answer)
        over = Taken.YES if lease.holder == _holder(run) else await self._is_over(job, lease)
        if over is Taken.YES or _gives_way(run, over):
            return self._kept(job, await self._update(run, lease))
        return over

    def _kept(self, job: Job, answer: Answer) -> Taken | None:
        """What a write has come to; None where another's was faster."""
        if answer.done:
            return self._keep(job, answer)
        return None if answer.ending in _LOST else Taken.DOUBT

    async def renew(self, job: Job, lease: RunLease) -> None:
        """Note that the holder's Pod is seen alive, at the revision that the view shows."""
        answer = await self._api.patch(self._path(job), _change(lease, self._times(job)), metadata_only=True)
        if answer.done:
            self._keep(job, answer)

    async def release(self, job: Job, lease: RunLease) -> None:
        """Release the lease of a run whose end is on record, once reads show that it is over."""
        if await self._is_over(job, lease) is not Taken.YES:
            return
        answer = await self._api.delete(self._path(job), uid=lease.uid, revision=lease.revision)
        if answer.done:
            self._store.drop_run_lease(job.uid, lease.uid)

    async def is_given_up(self, job: Job, pod: PodSight) -> bool:
        """Whether nothing was heard for too long of a run whose Pod has just been read. Then its record says so."""
        if self._lost(job, pod, None) is None:
            return False
        answer = await self._api.get(self._path(job))
        lease = read_run_lease(answer.document) if answer.done else None
        if lease is None and answer.ending is not Ending.ABSENT:
            return False
        held = lease if lease is not None and lease.key == names.run_of(pod.key) else None
        return self._judged(job, pod, held).given_up is not None

    def _lost(self, job: Job, pod: PodSight, lease: RunLease | None) -> Outcome | None:
        """What a run has become of which nothing was heard for as long as the spec or its lease says, whichever is longer."""
        now, seconds, renewed = self._api.clock.now(), job.spec.lease_seconds, 0
        if lease is not None:
            seconds, renewed = max(seconds, lease.seconds or 0), lease.renewed or 0
        if renewed > now:
            renewed = 0  # it was stamped by a clock that was ahead
        claim = self._store.seen_with(job.uid, pod.key).claims.get(pod.key)
        stop = claim.stop if claim is not None else None
        return signs.given_up(pod, seconds, now=now, watched_since=max(self._watched_since(), renewed), stop=stop)

    def _judged(self, job: Job, pod: PodSight, lease: RunLease | None) -> PodSight:
        """The Pod as it was read; given up where it gives no sign of life."""
        lost = self._lost(job, pod, lease)
        if lost is None:
            return pod
        log.warning("%s, %s: %s", lost.state, lost.reason, lost.message, extra=logs.of_pod(job, pod))
        pod = replace(pod, given_up=lost, completed=int(self._api.clock.now()))
        self._store.put_pod(pod)
        return pod

    def _seen_to_be_over(self, job: Job, lease: RunLease) -> bool:
        """Only by a success, or for it was given up: whether a failure is tried again, a late view of the job may not know."""
        pod = self._store.firings_of(job.uid).pods.get(lease.key)
        return not lease.key or (pod is not None and (pod.state is State.SUCCEEDED or pod.given_up is not None))

    async def _is_over(self, job: Job, lease: RunLease) -> Taken | Held:
        """YES where the holder's run has ended for good, Held where it lives, is on its way, or is tried again."""
        key = lease.key
        if not key:
            return Taken.YES
        answer = await self._api.get(object_path(JOBS, job.namespace, job.name))
        if not answer.done:
            return Taken.DOUBT
        known = read_job(answer.document)
        entries = {entry.id: entry for entry in known.status.entries() if not entry.count}
        last = last_attempts(entry for entry in entries.values() if entry.run == key).get(key)
        attempt = key if last is None else last.id
        seen = await self._see(known, lease, attempt, last)
        if seen is None:
            return Taken.DOUBT
        if is_over(known, entries, seen, key):
            return Taken.YES
        resting = last is not None and last.attempt > 1 and not seen.pods and not seen.claims
        return Held(attempt, seen.pods.get(attempt), resting)

    async def _see(self, job: Job, lease: RunLease, key: str, line: Entry | None) -> Firings | None:
        """The Pod of an attempt as it is now, and where there is none, its claim; None where that cannot be read."""
        name = names.pod_name(job.name, job.uid, names.run_of(key), attempt=names.attempt_of(key))
        pod = await self._api.get(object_path(PODS, job.namespace, name))
        if pod.done:
            sight = read_pod(pod.document)
            if sight is None or sight.job_uid != job.uid:
                return Firings()
            return Firings(claims=self._stopped(job, key), pods={key: self._judged(job, sight, lease)})
        if pod.ending is not Ending.ABSENT:
            return None
        gone = self._lost_pod(job, key, line)
        if gone is not None:
            return Firings(claims=self._stopped(job, key), pods={key: gone})
        name = names.claim_name(job.uid, key)
        claim = await self._api.get(object_path(LEASES, self._namespace, name), metadata_only=True)
        if claim.ending is Ending.ABSENT:
            return Firings()
        read = read_claim(claim.document) if claim.done else None
        return None if read is None else Firings(claims={key: read})

    def _stopped(self, job: Job, key: str) -> dict[str, Claim]:
        """The claim of an attempt, where a view shows that it is stopped: such a note stays."""
        claim = self._store.firings_of(job.uid).claims.get(key)
        return {key: claim} if claim is not None and claim.stop is not None else {}

    def _lost_pod(self, job: Job, key: str, line: Entry | None) -> PodSight | None:
        """The Pod of an attempt that is not there now, where the record or a view says that it once was: none follows on it."""
        seen = self._store.firings_of(job.uid).pods.get(key)
        if seen is not None and seen.ended:
            return seen
        now = int(self._api.clock.now())
        if line is not None and line.pod_name:
            return lost_pod(job, line, now=now)
        return None if seen is None else replace(seen, state=State.FAILED, deleted=True, cut_short=True, completed=now)

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
            "spec": {"holderIdentity": holder} | self._times(job, taken=True),
        }
        return await self._api.create(LEASES.format(self._namespace), document, metadata_only=True)

    async def _update(self, run: Run, lease: RunLease) -> Answer:
        """With the attempt, so that each moves the lease on: whoever has read the one before as the last takes it in vain."""
        holder = _holder(run)
        document = _change(lease, {"holderIdentity": holder} | self._times(run.job, taken=True))
        document["metadata"]["annotations"] = {names.HOLDER: holder, names.ATTEMPT: str(run.attempt)}
        return await self._api.patch(self._path(run.job), document, metadata_only=True)

    def _times(self, job: Job, *, taken: bool = False) -> dict[str, Any]:
        """By the server's clock, as whoever reads them goes by it."""
        now = micro_time(self._api.clock.now())
        times = {"renewTime": now, "leaseDurationSeconds": job.spec.lease_seconds}
        return times | ({"acquireTime": now} if taken else {})

    def _keep(self, job: Job, answer: Answer) -> Taken:
        self._store.put_run_lease(job.uid, read_run_lease(answer.document))
        return Taken.YES

    def _path(self, job: Job) -> str:
        return object_path(LEASES, self._namespace, names.run_lease_name(job.uid))


def _gives_way(run: Run, held: Taken | Held) -> bool:
    """Whether a run that only waits to be tried again is replaced. Its next attempt moves the lease on first, and then does not."""
    replaces = run.job.spec.policy is Policy.REPLACE
    return replaces and isinstance(held, Held) and held.resting and held.order < names.order_of(run.key)


def _change(lease: RunLease, spec: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"uid": lease.uid, "resourceVersion": str(lease.revision)}, "spec": spec}


def _holder(run: Run) -> str:
    """The name of its first attempt's claim: the lease is the run's, through all its attempts."""
    return names.claim_name(run.job.uid, names.run_of(run.key))
