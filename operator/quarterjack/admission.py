"""The beginning of a run by hand: which of those asked for get their line in the job's history now.

1. A view of the job shows no line of the run. 2. A read of its ScheduledJobRun, begun after that, shows it accepted and not begun.
3. The line is written at the revision of step 1. A line is dropped only once its ScheduledJobRun tells of the end (see `by_hand`), so
a run gets its line once, whatever dies in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

from .api import Api, Ending, object_path
from .by_hand import awaited, is_to_begin, line_of, room_to_begin
from .model import Entry, Job, Request
from .reading import read_request
from .store import Store

RUNS = "/apis/quarterjack.dev/v1alpha1/namespaces/{}/scheduledjobruns"
ALL_RUNS = "/apis/quarterjack.dev/v1alpha1/scheduledjobruns"
_TOGETHER = 16


class Admission:
    """Begins runs by hand."""

    def __init__(self, api: Api, store: Store) -> None:
        self._api = api
        self._store = store

    def awaited(self, lines: Iterable[Entry]) -> frozenset[str]:
        """The runs that are over whose lines must stay."""
        asked = self._store.asked
        return awaited(lines, asked.requests, asked.gone, now=self._api.clock.now())

    async def lines(self, job: Job, known: Mapping[str, Entry]) -> list[Entry]:
        """The lines of the runs that may begin; `known`: those that the job has at this revision."""
        fresh = [r for r in self._store.asked.of_job(job.namespace, job.name) if is_to_begin(r, job, known)]
        if not fresh:
            return []
        room = room_to_begin(job, len(self.awaited(line for line in known.values() if line.ended)))
        fresh.sort(key=lambda request: (request.created, request.uid))
        read = await asyncio.gather(*(self.read(request) for request in fresh[: min(room, _TOGETHER)]))
        return [line_of(request, job) for request in read if request is not None and is_to_begin(request, job, known)]

    async def read(self, request: Request) -> Request | None:
        """The request as it is now; None where it is gone, or could not be read."""
        answer = await self._api.get(object_path(RUNS, request.namespace, request.name))
        found = read_request(answer.document) if answer.done else None
        if answer.ending is Ending.ABSENT or (found is not None and found.uid != request.uid):
            self._store.asked.bury(request.uid)
            return None
        if found is not None:
            self._store.asked.put(found)
        return found
