"""Deletes the ledgers of runs that are over, but for those that list dead letters: these stay as long as the history has the run.

Under Keep, as claims: not before the run's end has been seen on record for two minutes, and by a read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from . import logs, names
from .api import ALL_CONFIG_MAPS, CONFIG_MAPS, Api, object_path
from .attempts import DEAD_LETTERS
from .decision import is_served
from .errors import ApiError
from .membership import Membership
from .model import Job
from .ranks import ranked
from .starter import Starter
from .store import Store
from .transport import TransportError
from .windows import KEEP_SECONDS

log = logging.getLogger(__name__)

_SWEEP_SECONDS = 150.0
_SELECTOR = (
    f"{names.LABEL_MANAGED_BY}={names.MANAGER},"
    f"{names.LABEL_ROLE} in ({names.ROLE_LEDGER},{names.ROLE_LEDGER_PART}),{names.LABEL_LEDGER}"
)


class LedgerSweep:
    """Sweeps at intervals, in one replica."""

    def __init__(
        self,
        api: Api,
        store: Store,
        starter: Starter,
        membership: Membership,
        *,
        namespaces: Sequence[str],
        served_by: Callable[[], str],
    ) -> None:
        self._api = api
        self._store = store
        self._starter = starter
        self._membership = membership
        self._paths = [CONFIG_MAPS.format(namespace) for namespace in namespaces] or [ALL_CONFIG_MAPS]
        self._served_by = served_by
        self._since: dict[tuple[str, str], float] = {}  # by job and run: since when its ledger is of no use
        self._found = True  # whether there were ledgers when they were looked for last

    async def run(self) -> None:
        """Sweep for ever."""
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            if ranked(self._membership.members, "ledgers")[0] != self._membership.replica:
                continue
            if not self._found and all(job.spec.fan_out is None for job in self._store.jobs.values()):
                continue
            try:
                await self._sweep()
            except (ApiError, TransportError) as error:
                log.warning("a sweep of ledgers was cut short: %s", error)

    async def _sweep(self) -> None:
        ledgers: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
        for path in self._paths:
            for item in (await self._api.list(path, query={"labelSelector": _SELECTOR}, metadata_only=True)).items:
                labels = item["metadata"]["labels"]
                of = labels.get(names.LABEL_JOB_UID, ""), labels[names.LABEL_LEDGER]
                ledgers.setdefault(of, []).append(item["metadata"])
        self._found = bool(ledgers)
        now = asyncio.get_running_loop().time()
        self._since = {of: self._since.get(of, now) for of in ledgers if self._is_of_no_use(*of)}
        for uid, key in [of for of, since in self._since.items() if now >= since + KEEP_SECONDS]:
            await self._starter.read_job(uid)
            if self._is_of_no_use(uid, key):
                await self._delete(self._store.jobs[uid], ledgers[uid, key])

    def _is_of_no_use(self, uid: str, key: str) -> bool:
        job, line = self._store.jobs.get(uid), self._store.entries(uid).get(key)
        if job is None or not is_served(job, served_by=self._served_by()):
            return False
        if line is None:
            return names.is_run_key(key) and self._store.recorded(uid, key, ended=True)
        return line.ended and line.reason != DEAD_LETTERS

    async def _delete(self, job: Job, metas: Sequence[Mapping[str, Any]]) -> None:
        deleted = 0
        for meta in metas:
            path = object_path(CONFIG_MAPS, job.namespace, meta["name"])
            deleted += (await self._api.delete(path, uid=meta["uid"])).done
        log.info("deleted a ledger of %d parts", deleted, extra=logs.of_job(job))
