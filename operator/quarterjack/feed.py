"""ScheduledJobs, as they come: from kopf's events in a replica, and from a list at intervals of what events did not tell."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence, Set
from typing import Any

from .api import ALL_JOBS, JOBS, Api
from .errors import ApiError
from .reading import read_job
from .starter import Starter
from .store import Store
from .text import safe
from .transport import TransportError

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 60.0
_JOBS_PER_SECOND = 200  # a sweep costs a list of all jobs' metadata: rarer where there are many
_FIRST_SECONDS = 0.2


class Feed:
    """Puts jobs into the store. `synced` once every job of the first list has come."""

    def __init__(self, api: Api, store: Store, *, namespaces: Sequence[str]) -> None:
        self._api = api
        self._store = store
        self._paths = [JOBS.format(namespace) for namespace in namespaces] or [ALL_JOBS]
        self.synced = asyncio.Event()
        self._began: float | None = None

    def begin(self) -> None:
        """Jobs are read from here on: a list begins."""
        self._began = asyncio.get_running_loop().time()

    def apply(self, kind: str | None, item: Mapping[str, Any]) -> None:
        """One event (or, with no kind, one object of a list)."""
        meta = item["metadata"]
        if kind == "DELETED":
            self._store.bury_job(meta["uid"])
            return
        if kind is None and self._began is not None:
            ago = asyncio.get_running_loop().time() - self._began
            self._store.read_times.setdefault(meta["uid"], self._api.clock.now() - ago)
        try:
            self._store.put_job(read_job(item))
        except (KeyError, ValueError, TypeError) as error:
            log.warning(
                "ScheduledJob %s/%s cannot be read: %s", meta.get("namespace"), meta.get("name"), safe(str(error))
            )

    def sweep(self, present: Set[str]) -> None:
        """By their UIDs, all jobs there are."""
        for uid in [uid for uid in self._store.jobs if uid not in present]:
            self._store.drop_job(uid)

    async def run(self, starter: Starter) -> None:
        """At intervals, find what the feed has not told: a job that is gone, or one that is newer than what is known of it.

        A watch that is cut without a word (kopf reports no deletions after a 410) is made up for within a minute.
        """
        while True:
            pause = _SWEEP_SECONDS + len(self._store.jobs) / _JOBS_PER_SECOND
            try:
                if await self._compare(starter):
                    self.synced.set()
            except (ApiError, TransportError) as error:
                log.warning("the jobs could not be listed: %s", error)
            await asyncio.sleep(pause if self.synced.is_set() else _FIRST_SECONDS)

    async def _compare(self, starter: Starter) -> bool:
        """One sweep; whether all jobs listed were known."""
        known = {uid: job.revision for uid, job in self._store.jobs.items()}
        present: dict[str, int] = {}
        for path in self._paths:
            for item in (await self._api.list(path, metadata_only=True)).items:
                present[item["metadata"]["uid"]] = int(item["metadata"]["resourceVersion"])
        for uid, revision in known.items():
            job = self._store.jobs.get(uid)
            stale = uid not in present or present[uid] > revision
            if self.synced.is_set() and stale and job is not None and job.revision == revision:
                await starter.read_job(uid)  # drops the job where it is gone
        return all(uid in self._store.jobs for uid in present)
