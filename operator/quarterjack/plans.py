"""The plans of all jobs, each made once."""

from __future__ import annotations

from .model import Job
from .plan import Plan, ScheduleError, plan_of


class PlanBook:
    """The plan of each job, made once for each generation and anchor."""

    def __init__(self, default_zone: str) -> None:
        self._default_zone = default_zone
        self._plans: dict[str, tuple[int, int, Plan | None]] = {}

    def __call__(self, job: Job) -> Plan | None:
        """The plan; None where the schedule is not valid, or its anchor not yet observed."""
        anchor = job.status.scheduled_from
        if anchor is None or job.spec.invalid:
            return None
        known = self._plans.get(job.uid)
        if known is None or known[0] != job.generation or known[1] != anchor:
            try:
                plan: Plan | None = plan_of(job.spec.timing, anchor=anchor, default_zone=self._default_zone)
            except ScheduleError:
                plan = None
            known = job.generation, anchor, plan
            self._plans[job.uid] = known
        return known[2]

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._plans.pop(uid, None)
