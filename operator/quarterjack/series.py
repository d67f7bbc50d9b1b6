"""The series of jobs, as text, read from what their status says: there as long as their job is, and the same on every replica.

A cluster of 50,000 jobs has a million of them, so they are written here, a family at a time, and by a thread if one likes:
jobs are values, and nothing else is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

from .model import Job

_SCHEDULE_MOST = 200
_SLICE = 2_000  # jobs


@dataclass(frozen=True, slots=True)
class Gauge:
    """A gauge of a job; None where it has no value now."""

    name: str
    text: str
    read: Callable[[Job], float | None]


GAUGES = (
    Gauge("scheduledjob_suspended", "1 where spec.suspend is true.", lambda job: int(job.spec.suspend)),
    Gauge(
        "scheduledjob_ready",
        "1 where the job is served, 0 where it cannot be: the condition Ready.",
        lambda job: int(job.status.ready),
    ),
    Gauge(
        "scheduledjob_schedule_valid",
        "0 where the schedule is not valid: the condition ScheduleValid.",
        lambda job: int(job.status.schedule_valid),
    ),
    Gauge(
        "scheduledjob_stopped",
        "1 where no firing will follow though there is a schedule; a job by hand, or with runAfter, is none of those.",
        lambda job: int(job.status.stopped and "schedule" in job.spec.timing),
    ),
    Gauge(
        "scheduledjob_healthy",
        "1 where the job succeeds as often as it should, 0 where it does not; none where that is unknown or suspended.",
        lambda job: {"Healthy": 1, "Unhealthy": 0}.get(job.status.health),
    ),
    Gauge("scheduledjob_active_runs", "Runs under way.", lambda job: job.status.active),
    Gauge(
        "scheduledjob_active_since_time_seconds",
        "When the oldest run under way has started, epoch seconds.",
        lambda job: job.status.active_since,
    ),
    Gauge(
        "scheduledjob_scheduled_from_time_seconds",
        "From when on firings count: creation, the last change of the schedule, suspension or resume; epoch seconds.",
        lambda job: job.status.scheduled_from,
    ),
    Gauge(
        "scheduledjob_next_schedule_time_seconds",
        "When the next firing is due, epoch seconds.",
        lambda job: job.status.next_time,
    ),
    Gauge(
        "scheduledjob_last_schedule_time_seconds",
        "The last firing that was started, epoch seconds.",
        lambda job: job.status.last_schedule_time,
    ),
    Gauge(
        "scheduledjob_last_success_time_seconds",
        "When a run last ended well, epoch seconds.",
        lambda job: job.status.last_success_time,
    ),
    Gauge(
        "scheduledjob_last_missed_time_seconds",
        "The last firing on record that nothing could start in time, epoch seconds.",
        lambda job: job.status.last_missed_time,
    ),
    Gauge(
        "scheduledjob_last_duration_seconds",
        "How long the run took that ended last.",
        lambda job: job.status.last_duration_seconds,
    ),
    Gauge(
        "scheduledjob_consecutive_failures",
        "Runs that failed since the last that ended well.",
        lambda job: job.status.failures,
    ),
    Gauge(
        "scheduledjob_dead_letters",
        "Units on record that were given up.",
        lambda job: job.status.dead_letters,
    ),
)
INFO = "scheduledjob_info"
INFO_TEXT = "1, with the schedule that is served and the concurrencyPolicy."


class JobPage:
    """The gauges of some jobs, as text, one family after the other."""

    def __init__(self, jobs: Iterable[Job]) -> None:
        self.jobs: Sequence[Job] = tuple(jobs)

    def families(self) -> Iterator[Callable[[], bytes]]:
        """What writes each of them, some thousand jobs at a time: a few milliseconds each, in which no other code runs for long."""
        for name, text, line in _LINES:
            yield header(name, "gauge", text).encode
            for begin in range(0, len(self.jobs), _SLICE):
                yield partial(self._lines, line, begin)

    @cached_property
    def _labels(self) -> list[str]:
        return [f'namespace="{job.namespace}",scheduledjob="{job.name}"' for job in self.jobs]

    def _lines(self, line: Line, begin: int) -> bytes:
        end = begin + _SLICE
        pairs = zip(self.jobs[begin:end], self._labels[begin:end], strict=True)
        return "".join([line(job, labels) for job, labels in pairs]).encode()


Line = Callable[[Job, str], str]


def _gauge_line(gauge: Gauge) -> Line:
    name, read = gauge.name, gauge.read

    def line(job: Job, labels: str) -> str:
        value = read(job)
        return "" if value is None else f"{name}{{{labels}}} {value}\n"

    return line


def _info_line(job: Job, labels: str) -> str:
    schedule = escaped(job.status.observed_schedule[:_SCHEDULE_MOST])
    return f'{INFO}{{{labels},schedule="{schedule}",concurrency_policy="{job.spec.policy}"}} 1\n'


def header(name: str, kind: str, text: str) -> str:
    """What precedes a family's lines."""
    return f"# HELP {name} {text}\n# TYPE {name} {kind}\n"


def escaped(value: str) -> str:
    """A label's value as the text format writes it."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


_LINES: tuple[tuple[str, str, Line], ...] = (
    (INFO, INFO_TEXT, _info_line),
    *((gauge.name, gauge.text, _gauge_line(gauge)) for gauge in GAUGES),
)
