"""The ScheduledJobRuns as this replica sees them: part of what it knows, see `store`.

That one is in no view says nothing. That it is gone is known where an event or a read has said so, and stays known for as long as
anything may still run for it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator

from .model import Request
from .names import bare, request_of

_GONE_MOST = 10_000


class Asked:
    """The view, by UIDs without dashes."""

    def __init__(self) -> None:
        self.requests: dict[str, Request] = {}
        self.gone: OrderedDict[str, None] = OrderedDict()
        self.on_request: list[Callable[[Request], None]] = []
        self._of_jobs: dict[tuple[str, str], set[str]] = {}

    def put(self, request: Request) -> None:
        """Take a request as an event or an answer showed it, unless what is known is newer."""
        uid = bare(request.uid)
        known = self.requests.get(uid)
        if uid in self.gone or (known is not None and known.revision >= request.revision):
            return
        self.requests[uid] = request
        self._of_jobs.setdefault((request.namespace, request.job_name), set()).add(uid)
        self._tell(request)

    def bury(self, uid: str) -> None:
        """A request is gone, by an event or a quorum read: if its run is not over, it is cancelled."""
        uid = bare(uid)
        self.gone[uid] = None
        self.gone.move_to_end(uid)
        while len(self.gone) > _GONE_MOST:
            self.gone.popitem(last=False)
        known = self.requests.pop(uid, None)
        if known is not None:
            siblings = self._of_jobs[known.namespace, known.job_name]
            siblings.discard(uid)
            if not siblings:
                del self._of_jobs[known.namespace, known.job_name]
            self._tell(known)

    def of_job(self, namespace: str, name: str) -> Iterator[Request]:
        """The requests to run a job."""
        for uid in tuple(self._of_jobs.get((namespace, name), ())):
            yield self.requests[uid]

    def of_run(self, key: str) -> Request | None:
        """The request of a run by hand, where a view shows it."""
        return self.requests.get(request_of(key))

    def is_canceled(self, key: str) -> bool:
        """Whether a run by hand must not go on: its request is deleted, or is being so."""
        request = self.of_run(key)
        return request_of(key) in self.gone or (request is not None and request.deleting)

    def _tell(self, request: Request) -> None:
        for tell in self.on_request:
            tell(request)
