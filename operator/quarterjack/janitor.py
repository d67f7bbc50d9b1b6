"""Deletes what has served: claims, Pods beyond the limits, the Leases of jobs and replicas that are gone.

Under Keep: no Lease and no Pod of a firing goes before its final record has been stored for two minutes; a claim whose job may still
be late to record stays. What is old is judged by this replica's own watch: a record counts from when it was first seen here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Any

from . import names
from .api import JOBS, LEASES, PODS, Answer, Api, Ending, object_path
from .clock import epoch_of
from .decision import surplus_pods
from .errors import ApiError
from .membership import Membership
from .model import Claim, PodSight
from .ranks import ranked
from .reading import read_claim
from .store import EXPIRE_SECONDS, Store
from .transport import TransportError
from .windows import KEEP_SECONDS, ON_TIME_SECONDS

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 10.0
_BUCKET_SECONDS = 60
# After a bucket's minute no claim of it can be stamped, and soon after none committed; without the fence, any stall counts.
_CLOSED_SECONDS = _BUCKET_SECONDS + ON_TIME_SECONDS
_UNFENCED_SECONDS = 3600
_ORPHAN_SECONDS = 600
_RARE_SECONDS = 300.0
_DELETES_TOGETHER = 4
_PODS_AT_ONCE = 2000
_YIELD_SECONDS = 0.2
_YIELDS_MOST = 5


class Janitor:
    """Sweeps every ten seconds, its share: the buckets and jobs for which this replica ranks first.

    What was left behind by jobs and replicas that are gone is looked for every five minutes.
    """

    def __init__(
        self,
        api: Api,
        store: Store,
        membership: Membership,
        *,
        namespace: str,
        fenced: Callable[[], bool],
        views_live: Callable[[], bool],
        busy: Callable[[], bool],
        report: Callable[[str], None],
    ) -> None:
        self._api = api
        self._store = store
        self._membership = membership
        self._namespace = namespace
        self._fenced = fenced
        self._views_live = views_live
        self._busy = busy
        self._report = report
        self._ended_since: dict[tuple[str, str], float] = {}
        self._gone_since: dict[str, float] = {}
        self._rare_time = 0.0
        self.reaped = {"claims": 0, "pods": 0, "leases": 0, "members": 0}

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            if not self._views_live():
                continue
            try:
                self._note()
                await self._sweep_claims()
                await self._sweep_pods()
                await self._sweep_rarely()
            except (ApiError, TransportError) as error:
                log.warning("a sweep was cut short: %s", error)

    def _note(self) -> None:
        """Since when each firing's end is on record, as far as this replica has seen; and since when each job is gone."""
        now = asyncio.get_running_loop().time()
        seen: dict[tuple[str, str], float] = {}
        for uid, firings in self._store.all_firings():
            for key in firings.claims.keys() | firings.pods.keys():
                since = self._ended_since.get((uid, key)) if uid in self._store.jobs else None
                # of a run by hand a view of its job that is late shows no line either, so it is asked each time
                if (since is not None and not names.request_of(key)) or self._store.recorded(uid, key, ended=True):
                    seen[uid, key] = now if since is None else since
        self._ended_since = seen
        known = self._store.with_remains() - self._store.jobs.keys()
        self._gone_since = {uid: self._gone_since.get(uid, now) for uid in known}

    def _kept(self, uid: str, key: str, *, longer: float = 0.0) -> bool:
        """Whether Keep forbids to delete anything of a run; or did so until lately, by so many seconds."""
        since = self._ended_since.get((uid, key))
        return since is None or asyncio.get_running_loop().time() < since + KEEP_SECONDS + longer

    def _is_ours(self, key: str) -> bool:
        return ranked(self._membership.members, key)[0] == self._membership.replica

    async def _sweep_claims(self) -> None:
        """Whole buckets where a quorum list shows nothing else in them, single claims where a bucket is held up for long."""
        now = self._api.clock.now()
        closed = now - _CLOSED_SECONDS - (0 if self._fenced() else _UNFENCED_SECONDS)
        buckets: dict[int, list[Claim]] = {}
        for _, firings in self._store.all_firings():
            for claim in firings.claims.values():
                if claim.bucket < closed:
                    buckets.setdefault(claim.bucket, []).append(claim)
        for bucket, claims in buckets.items():
            if not self._is_ours(f"bucket {bucket}"):
                continue
            ready = [claim for claim in claims if not self._kept(claim.job_uid, claim.key)]
            if len(ready) == len(claims):
                await self._reap_bucket(bucket)
            elif bucket < closed - 5 * _BUCKET_SECONDS:
                await self._reap_singly(ready)

    async def _reap_bucket(self, bucket: int) -> None:
        path = LEASES.format(self._namespace)
        selector = f"{names.LABEL_ROLE}={names.ROLE_CLAIM},{names.LABEL_BUCKET}={bucket}"
        listing = await self._api.list(path, query={"labelSelector": selector}, metadata_only=True)
        if not listing.items or any(self._holds_up(item) for item in listing.items):
            return
        answer = await self._api.delete_all(path, label_selector=selector)
        if answer.done:
            self.reaped["claims"] += len(listing.items)
            log.info("reaped %d claims of bucket %d", len(listing.items), bucket)

    def _holds_up(self, item: Mapping[str, Any]) -> bool:
        claim = read_claim(item)
        return claim is None or self._kept(claim.job_uid, claim.key)

    async def _reap_singly(self, claims: list[Claim]) -> None:
        for claim in claims:
            await self._yield()
            answer = await self._api.delete(object_path(LEASES, self._namespace, claim.name), uid=claim.uid)
            self.reaped["claims"] += answer.done

    async def _sweep_pods(self) -> None:
        surplus: list[PodSight] = []
        for uid, firings in self._store.all_firings():
            job = self._store.jobs.get(uid)
            if (
                job is None
                or len(firings.pods) <= job.spec.pod_limit
                or self._membership.ranks(uid)[0] != self._membership.replica
            ):
                continue
            pods = [
                pod for pod in surplus_pods(firings.pods.values(), job.spec.pod_limit) if not self._kept(uid, pod.key)
            ]
            surplus.extend(pods)
        room = asyncio.Semaphore(_DELETES_TOGETHER)
        await asyncio.gather(*(self._reap_pod(pod, room) for pod in surplus[:_PODS_AT_ONCE]))

    async def _reap_pod(self, pod: PodSight, room: asyncio.Semaphore) -> None:
        async with room:
            await self._yield()
            answer = await self._api.delete(object_path(PODS, pod.namespace, pod.name), uid=pod.uid)
            self.reaped["pods"] += answer.done
            self._forget_absent(pod, answer)

    async def _yield(self) -> None:
        """Launches come first, but not for ever."""
        for _ in range(_YIELDS_MOST):
            if not self._busy():
                return
            await asyncio.sleep(_YIELD_SECONDS)

    async def _sweep_rarely(self) -> None:
        now = asyncio.get_running_loop().time()
        if now < self._rare_time:
            return
        self._rare_time = now + _RARE_SECONDS
        self._sweep_records()
        await self._sweep_sights()
        await self._sweep_leases(now)

    def _sweep_records(self) -> None:
        """Records that have become too old. Where a job fires, its reports drop them; where it rests, nobody else does."""
        now = self._api.clock.now()
        for uid, job in self._store.jobs.items():
            oldest = job.status.oldest_end
            expired = oldest is not None and oldest + job.spec.retention_seconds <= now
            if expired and self._membership.ranks(uid)[0] == self._membership.replica:
                self._report(uid)

    async def _sweep_sights(self) -> None:
        """Pods whose end is long on record and that still seem alive, or were to be deleted: a late answer may have shown them."""
        for uid, firings in self._store.all_firings():
            job = self._store.jobs.get(uid)
            if job is None:
                continue
            alive = [pod for pod in firings.pods.values() if not pod.ended and not pod.deleted]
            for pod in [*alive, *surplus_pods(firings.pods.values(), job.spec.pod_limit)]:
                if not self._kept(uid, pod.key, longer=_RARE_SECONDS):
                    answer = await self._api.get(object_path(PODS, pod.namespace, pod.name), metadata_only=True)
                    self._forget_absent(pod, answer)

    def _forget_absent(self, pod: PodSight, answer: Answer) -> None:
        """A Pod whose end is on record is not there any more, and its view has not said so."""
        if answer.ending is Ending.ABSENT and self._store.seen_with(pod.job_uid, pod.key).pods.get(pod.key) == pod:
            self._store.lose_pod(pod.job_uid, pod.key)

    async def _sweep_leases(self, now: float) -> None:
        """Leases of jobs that are gone (by quorum reads, and old enough that no replica can act on them), and of gone replicas."""
        reaped = 0
        for uid in [uid for uid, since in self._gone_since.items() if now >= since + _ORPHAN_SECONDS]:
            self._store.forget_gone_pods(uid)
            if self._has_leases(uid) and self._is_ours(uid):
                reaped += await self._reap_orphans(uid)
        if reaped:
            self.reaped["leases"] += reaped
            log.warning("swept %d Leases of jobs that are gone", reaped)
        if self._is_ours("members"):
            await self._reap_members()

    def _has_leases(self, uid: str) -> bool:
        claims = self._store.firings_of(uid).claims or self._store.units_of(uid).claims
        return uid in self._store.run_leases or bool(claims)

    async def _reap_orphans(self, uid: str) -> int:
        path = LEASES.format(self._namespace)
        listing = await self._api.list(
            path, query={"labelSelector": f"{names.LABEL_JOB_UID}={uid}"}, metadata_only=True
        )
        refs = {(item["metadata"].get("annotations") or {}).get(names.JOB_REF, "") for item in listing.items}
        for ref in refs:
            if not await self._is_gone(uid, ref):
                return 0
        reaped = 0
        for item in listing.items:
            await self._yield()
            meta = item["metadata"]
            answer = await self._api.delete(object_path(LEASES, self._namespace, meta["name"]), uid=meta["uid"])
            reaped += answer.done
        return reaped

    async def _is_gone(self, uid: str, ref: str) -> bool:
        """Whether no job of that UID is there, by a quorum read."""
        namespace, _, name = ref.partition("/")
        job = await self._api.get(object_path(JOBS, namespace, name), metadata_only=True)
        return job.ending is Ending.ABSENT or (job.done and job.document["metadata"]["uid"] != uid)

    async def _reap_members(self) -> None:
        path = LEASES.format(self._namespace)
        query = {"labelSelector": f"{names.LABEL_ROLE}={names.ROLE_MEMBER}"}
        listing = await self._api.list(path, query=query)
        for item in listing.items:
            renewed = (item.get("spec") or {}).get("renewTime")
            silent = listing.date is not None and renewed and listing.date - epoch_of(renewed) > 6 * EXPIRE_SECONDS
            holder = (item["metadata"].get("annotations") or {}).get(names.HOLDER)
            if silent and holder not in self._store.members:
                meta = item["metadata"]
                answer = await self._api.delete(
                    object_path(LEASES, self._namespace, meta["name"]),
                    uid=meta["uid"],
                    revision=int(meta["resourceVersion"]),
                )
                self.reaped["members"] += answer.done
