"""What runs under way need: their job's lease renewed and released, and an end where they give no sign of life or never start.

A look is quick and writes nothing: it says what is to be done now and when to look again, for each replica a little later the lower
it ranks. What is done rests on a read of the Pod. None of it concerns a view that is not live: see `signs`.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable
from functools import partial
from typing import Any, NamedTuple

from . import names, signs
from .attempts import is_fanned, last_attempts
from .clock import ServerClock
from .launcher import Launcher
from .model import Job, Outcome, PodSight, Policy
from .runs import RunLeases
from .stops import Stops
from .store import RunLease, Store
from .waiting import resume_time

log = logging.getLogger(__name__)

RENEW_SHARE = 3  # a lease is renewed after this part of its duration
RELEASE_SECONDS = 30  # a lease that the next firing takes within this time needs no release
_STEP_SECONDS = 5.0  # by rank
_AGAIN_SECONDS = 5.0
_TRIED_MOST = 1000


Do = Callable[[], Coroutine[Any, Any, None]]


class Act(NamedTuple):
    """Something to be done about a run."""

    key: str
    do: Do


class Upkeep:
    """Looks after the runs of jobs. `watched_since`: since when this replica's views are live without a break."""

    def __init__(
        self,
        store: Store,
        clock: ServerClock,
        launcher: Launcher,
        run_leases: RunLeases,
        stops: Stops,
        *,
        watched_since: Callable[[], float],
        views_live: Callable[[], bool],
        busy: Callable[[], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._launcher = launcher
        self._run_leases = run_leases
        self._stops = stops
        self._watched_since = watched_since
        self._views_live = views_live
        self._busy = busy
        self._tried: dict[tuple[str, str], float] = {}

    def look(self, job: Job, now: float, rank: int, waiting: Iterable[tuple[str, Do]]) -> tuple[float, list[Act]]:
        """What a job's runs need now, and when to look again. `waiting`: runs that wait for others, and how each goes on."""
        needs: list[tuple[float, str, Do]] = [
            (self.attention_time(job, pod), pod.key, partial(self.look_into, job, pod)) for pod in self._live(job)
        ]
        needs += self._lease_needs(job, now)
        needs += [(self._resume_time(job, key), key, do) for key, do in waiting]
        wake, acts = math.inf, []
        for due, key, do in needs:
            when = max(due + rank * _STEP_SECONDS, self._tried.get((job.uid, key), -math.inf) + _AGAIN_SECONDS)
            if when > now:
                wake = min(wake, when)
                continue
            wake = min(wake, now + _AGAIN_SECONDS)
            if self._views_live():
                self._try(job.uid, key, now)
                acts.append(Act(key, do))
        return wake, acts

    def _resume_time(self, job: Job, key: str) -> float:
        if self._store.asked.is_canceled(key):
            return -math.inf
        return resume_time(job, key, self._store.entries(job.uid), self._store.firings_of(job.uid))

    def _try(self, uid: str, key: str, now: float) -> None:
        if len(self._tried) >= _TRIED_MOST:
            self._tried = {run: when for run, when in self._tried.items() if when > now - _AGAIN_SECONDS}
        self._tried[uid, key] = now

    def _live(self, job: Job) -> list[PodSight]:
        """The runs that are believed alive: neither seen to have ended, nor recorded as given up."""
        pods = self._store.firings_of(job.uid).pods.values()
        live = [pod for pod in pods if not pod.ended and pod.given_up is None]
        entries = self._store.entries(job.uid) if live else {}
        return [pod for pod in live if pod.key not in entries or not entries[pod.key].ended]

    def attention_time(self, job: Job, pod: PodSight) -> float:
        """When a run is to be given up or to be stopped; at once where it is being stopped, and its Pod is not deleted yet."""
        claim = self._store.seen_with(job.uid, pod.key).claims.get(pod.key)
        stopped = (claim is not None and claim.stop is not None) or self._store.asked.is_canceled(pod.key)
        if stopped and not pod.deleting:
            return -math.inf
        watched = self._watched_since()
        limit = signs.start_limit(pod, job.spec, watched_since=watched)
        stop = claim.stop if claim is not None else None
        return min(limit, signs.expiry_time(pod, job.spec.lease_seconds, watched_since=watched, stop=stop))

    async def look_into(self, job: Job, pod: PodSight) -> None:
        """Read a Pod of which a view says that it is time: give its run up, stop it, or leave it."""
        found = await self._launcher.look(pod)
        if not isinstance(found, PodSight):
            return
        self._store.put_pod(found)
        if await self._run_leases.is_given_up(job, found):
            return
        why = self._why_stop(job, found, self._clock.now())
        if why is not None:
            await self._stops.stop(found, why)

    def _why_stop(self, job: Job, pod: PodSight, now: float) -> Outcome | None:
        claim = self._store.seen_with(job.uid, pod.key).claims.get(pod.key)
        if claim is not None and claim.stop is not None:
            return claim.stop
        if self._store.asked.is_canceled(pod.key):
            return signs.RUN_DELETED
        return signs.not_started(pod, job.spec, now=now, watched_since=self._watched_since())

    def _lease_needs(self, job: Job, now: float) -> list[tuple[float, str, Do]]:
        """The job's lease: renewed while its run is alive, released once its end has long been on record, after all launches."""
        lease = self._store.run_leases.get(job.uid)
        if lease is None:
            return []
        idle = asyncio.get_running_loop().time() - self._store.run_lease_times[job.uid]
        alive = self._alive(job, lease)
        if alive is None:
            end = self._end_time(job, lease)
            due = max(now + _AGAIN_SECONDS if self._busy() else 0, max(now - idle, end or 0) + RELEASE_SECONDS)
            return [] if end is None else [(due, lease.key, partial(self._run_leases.release, job, lease))]
        if job.spec.policy is Policy.ALLOW or signs.silence(alive)[0] <= now:
            return []
        due = now - idle + job.spec.lease_seconds / RENEW_SHARE
        return [(due, lease.key, partial(self._run_leases.renew, job, lease))]

    def _alive(self, job: Job, lease: RunLease) -> PodSight | None:
        """The Pod of the run that holds the lease, where a view shows it alive."""
        pods = self._store.firings_of(job.uid).pods.values()
        runs = [pod for pod in pods if names.run_of(pod.key) == lease.key]
        return next((pod for pod in runs if not pod.ended and pod.given_up is None), None)

    def _end_time(self, job: Job, lease: RunLease) -> int | None:
        """When the run that holds the lease ended, by its record; None where that does not say that it is over."""
        lines = [line for line in self._store.entries(job.uid).values() if line.run == lease.key]
        if lines:
            last = last_attempts(lines)[lease.key]
            return last.completed or last.scheduled if last.ended or is_fanned(last) else None
        by_hand = bool(names.request_of(lease.key))
        return 0 if not lease.key or by_hand or names.firing_of(lease.key) <= job.recorded_until else None
