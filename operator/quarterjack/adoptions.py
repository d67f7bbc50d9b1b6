"""When a job that another installation serves is adopted: once that has left it unserved for minutes.

It is left overdue, or unobserved, or a run that somebody asked for is not answered. Or a run is under way and nobody tells of it: no
Pod of the job runs, and nothing has changed about it for longer than a Pod may take to start and a retry may wait.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import chain

from .by_hand import is_to_begin
from .clock import ServerClock
from .decision import is_foreign, may_fire
from .model import Job, PodSight
from .plans import PlanBook
from .signs import silence, start_limit_seconds
from .store import Store

ADOPT_SECONDS = 300


class Adoptions:
    """What is known of the jobs of other installations. `look`: has one looked at, as something about it has changed."""

    def __init__(
        self,
        store: Store,
        clock: ServerClock,
        plans: PlanBook,
        *,
        served_by: Callable[[], str],
        look: Callable[[str], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._plans = plans
        self._served_by = served_by
        self._look = look
        self._changed: dict[str, float] = {}  # when something about it was last seen to change
        store.on_job.append(self._note)
        store.on_unit.append(self._note)
        store.on_pod.append(lambda pod: self._note(pod.job_uid))

    def time(self, job: Job) -> float:
        """When it will have been left unserved for minutes, as far as can be foreseen."""
        if not job.observed:
            return job.edited + ADOPT_SECONDS
        return min(chain(self._due(job), self._unanswered(job), self._untold(job)), default=math.inf)

    def _note(self, uid: str) -> None:
        job = self._store.jobs.get(uid)
        if job is not None and is_foreign(job, served_by=self._served_by()):
            self._changed[uid] = self._clock.now()
            self._look(uid)
        else:
            self._changed.pop(uid, None)

    def _due(self, job: Job) -> Iterator[float]:
        plan = self._plans(job) if may_fire(job, served_by=job.status.served_by) else None
        due = plan.next_after(job.recorded_until) if plan is not None else None
        if due is not None:
            yield due + ADOPT_SECONDS

    def _unanswered(self, job: Job) -> Iterator[float]:
        for request in self._store.asked.of_job(job.namespace, job.name):
            if request.accepted is None and not request.deleting:
                yield request.created + ADOPT_SECONDS

    def _untold(self, job: Job) -> Iterator[float]:
        """Until when the run that is under way, or accepted, may be as it is although it is looked after."""
        entries, asked = self._store.entries(job.uid), self._store.asked.of_job(job.namespace, job.name)
        if not (job.status.live or any(is_to_begin(request, job, entries) for request in asked)):
            return
        seen = self._store.firings_of(job.uid), self._store.units_of(job.uid)
        pods = [pod for firings in seen for pod in firings.pods.values() if _runs(pod)]
        heard = max((silence(pod)[0] + job.spec.lease_seconds for pod in pods), default=-math.inf)
        retry = job.spec.retry
        patience = start_limit_seconds(job.spec) + (retry.wait_seconds(retry.most) if retry.most else 0)
        yield max(heard, self._changed.get(job.uid, self._clock.now())) + patience + ADOPT_SECONDS


def _runs(pod: PodSight) -> bool:
    return pod.begun and not (pod.ended or pod.deleted)
