"""Prometheus metrics, collected from state at each scrape: a series is there as long as its object is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from . import __version__
from .model import Job, State
from .replica import Replica
from .series import JobPage, escaped, header
from .tallies import Tallies, Tally

K = TypeVar("K")


class ReplicaCollector(Collector):
    """A replica's own series, but for the distributions, which it observes as they happen."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def describe(self) -> list[Metric]:
        """Nothing: the names are known once they are collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the state."""
        yield from self._work()
        yield from self._self()

    def _work(self) -> Iterator[Metric]:
        replica = self._replica
        counts = replica.claims.counts
        claims = CounterMetricFamily(
            "quarterjack_claims",
            "Claims, by outcome: won, lost to another replica, fenced for being late, or taken_over.",
            labels=["outcome"],
        )
        for outcome in ("won", "lost", "fenced", "taken_over"):
            claims.add_metric([outcome], getattr(counts, outcome))
        yield claims
        reaped = CounterMetricFamily(
            "quarterjack_reaped", "Objects deleted after they had served, by kind.", labels=["kind"]
        )
        for kind, count in replica.janitor.reaped.items():
            reaped.add_metric([kind], count)
        yield reaped
        requests = CounterMetricFamily(
            "quarterjack_api_requests", "Requests to the API server, by verb and code.", labels=["verb", "code"]
        )
        for (verb, code), count in replica.api.requests.items():
            requests.add_metric([verb, code], count)
        yield requests
        yield GaugeMetricFamily("quarterjack_due_firings", "Firings due and not yet claimed.", value=len(replica.turns))
        yield GaugeMetricFamily(
            "quarterjack_statuses_to_write", "Statuses waiting to be written.", value=len(replica.writer)
        )

    def _self(self) -> Iterator[Metric]:
        replica = self._replica
        yield InfoMetricFamily("quarterjack_build", "1, with the version.", value={"version": __version__})
        gauges = {
            "quarterjack_ready": ("1 where this replica is ready.", float(not replica.unready())),
            "quarterjack_members": ("Replicas that are there, as this one sees it.", len(replica.membership.members)),
            "quarterjack_scheduledjobs": ("ScheduledJobs known.", len(replica.store.jobs)),
            "quarterjack_fence_installed": ("1 where the fence policy is in force.", float(replica.fence.stands)),
            "quarterjack_clock_skew_seconds": (
                "The API server's clock less this replica's.",
                replica.api.clock.offset_seconds,
            ),
            "quarterjack_timer_lag_seconds": ("How late the timer last woke.", replica.desk.agenda.lag_seconds),
        }
        for name, (text, value) in gauges.items():
            yield GaugeMetricFamily(name, text, value=value)
        age = GaugeMetricFamily(
            "quarterjack_watch_age_seconds", "Since the last sign of life on a watch, by resource.", labels=["resource"]
        )
        age.add_metric(["leases"], replica.leases.age_seconds)
        age.add_metric(["pods"], max(view.age_seconds for view in replica.pods))
        yield age


class _Collected(CollectorRegistry):
    """What a replica's collectors said at one moment."""

    def __init__(self, replica: Replica) -> None:
        super().__init__()
        self._metrics = [*ReplicaCollector(replica).collect(), *replica.registry.collect()]

    def collect(self) -> Iterator[Metric]:
        return iter(self._metrics)


def page(replica: Replica) -> Iterator[Callable[[], bytes]]:
    """What writes each part of the metrics page. State is read here, where nothing changes meanwhile; to call what is yielded takes
    up to some ten milliseconds, and may be left to a thread."""
    yield partial(generate_latest, _Collected(replica))
    jobs = JobPage(replica.store.jobs.values())
    yield from jobs.families()
    for counter in COUNTERS:
        yield partial(_counted, counter, jobs.jobs, replica.writer.tallies)


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of a job, by the labels that it has beside those of the job."""

    name: str
    text: str
    read: Callable[[Tally], Iterable[tuple[str, int]]]


COUNTERS = (
    Counter(
        "scheduledjob_runs_total",
        "Firings that got their final record, by result and trigger.",
        lambda tally: [
            (f',result="{result}",trigger="{trigger}"', count) for (result, trigger), count in _now(tally.results)
        ],
    ),
    Counter(
        "scheduledjob_skipped_total",
        "Firings that were skipped, by reason; also counted as runs.",
        lambda tally: _reasons(tally, State.SKIPPED),
    ),
    Counter(
        "scheduledjob_missed_total",
        "Firings that nothing could start in time, by reason; also counted as runs.",
        lambda tally: _reasons(tally, State.MISSED),
    ),
    Counter(
        "scheduledjob_attempts_failed_total",
        "Attempts that failed, also those of runs that succeeded later.",
        lambda tally: [("", tally.failed_attempts)] if tally.failed_attempts else [],
    ),
)


def _now(counts: Mapping[K, int]) -> list[tuple[K, int]]:
    """A copy, in one step of the interpreter: the loop may go on counting meanwhile."""
    return list(counts.items())


def _reasons(tally: Tally, which: State) -> list[tuple[str, int]]:
    return [(f',reason="{escaped(reason)}"', count) for (state, reason), count in _now(tally.reasons) if state is which]


def _counted(counter: Counter, jobs: Sequence[Job], tallies: Tallies) -> bytes:
    lines = [
        f'{counter.name}{{namespace="{job.namespace}",scheduledjob="{job.name}"{more}}} {count}\n'
        for job in jobs
        for more, count in counter.read(tallies.of(job.uid))
    ]
    return (header(counter.name, "counter", counter.text) + "".join(lines)).encode()
