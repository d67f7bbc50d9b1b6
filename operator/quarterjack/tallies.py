"""How the firings of each job ended, as far as this replica wrote their records: counted for as long as the job is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from .attempts import last_attempts
from .model import Entry, Job, State, Trigger
from .names import is_unit_key
from .report import fresh_ends
from .store import Store


@dataclass(slots=True)
class Tally:
    """The counts of one job."""

    results: Counter[tuple[str, str]] = field(default_factory=Counter)  # by result and trigger
    reasons: Counter[tuple[State, str]] = field(default_factory=Counter)  # of firings that did not run
    failed_attempts: int = 0


class Tallies:
    """The counts of all jobs, by UID."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tallies: dict[str, Tally] = {}
        self.on_start: list[Callable[[float], None]] = []  # how late a scheduled run's container started
        self.on_end: list[Callable[[float], None]] = []  # how long an attempt took
        store.on_job.append(self._changed)

    def of(self, uid: str) -> Tally:
        """The counts of a job."""
        return self._tallies.get(uid) or Tally()

    def record(self, job: Job, lines: Mapping[str, Entry]) -> None:
        """Count the runs whose end a write recorded, and the attempts that failed. `lines`: also those that the write dropped."""
        if job.uid not in self._store.jobs:
            return
        tally = self._tallies.setdefault(job.uid, Tally())
        before = job.status.entries()
        for line in fresh_ends(before, last_attempts(lines.values())):
            count = max(1, line.count)
            tally.results[line.state.value, line.trigger.value] += count
            if line.state in {State.SKIPPED, State.MISSED}:
                tally.reasons[line.state, line.reason] += count
        known = {entry.id: entry for entry in before}
        for line in lines.values():
            self._observe(job, known.get(line.id), line)
            fresh = line.id not in known or not known[line.id].ended
            tally.failed_attempts += fresh and line.state is State.FAILED

    def _observe(self, job: Job, known: Entry | None, line: Entry) -> None:
        if line.started is None or is_unit_key(line.id):
            return
        on_schedule = line.trigger is Trigger.SCHEDULE and line.attempt == 1 and not job.spec.jitter_ms
        if on_schedule and (known is None or known.started is None):
            for hears in self.on_start:
                hears(line.started - line.scheduled)
        if line.completed is not None and (known is None or known.completed is None):
            for hears in self.on_end:
                hears(line.completed - line.started)

    def _changed(self, uid: str) -> None:
        if uid not in self._store.jobs:
            self._tallies.pop(uid, None)
