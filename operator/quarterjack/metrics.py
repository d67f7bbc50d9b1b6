"""Prometheus metrics, collected from state at each scrape: a series is there as long as its object is."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.registry import Collector

from . import __version__
from .model import Job, State
from .replica import Replica

_JOB = ["namespace", "scheduledjob"]


class ReplicaCollector(Collector):
    """All of a replica's series but the distributions, which it observes as they happen."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    def describe(self) -> list[Metric]:
        """Nothing: the names are known once they are collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Read the state."""
        yield from self._jobs()
        yield from self._work()
        yield from self._self()

    def _jobs(self) -> Iterator[Metric]:
        jobs = list(self._replica.store.jobs.values())
        suspended = GaugeMetricFamily("scheduledjob_suspended", "1 where spec.suspend is true.", labels=_JOB)
        active = GaugeMetricFamily("scheduledjob_active_runs", "Runs under way.", labels=_JOB)
        ready = GaugeMetricFamily("scheduledjob_ready", "1 where the job is served, 0 where it cannot be.", labels=_JOB)
        times = {
            "next": GaugeMetricFamily(
                "scheduledjob_next_schedule_time_seconds", "When the next firing is due, epoch seconds.", labels=_JOB
            ),
            "last": GaugeMetricFamily(
                "scheduledjob_last_schedule_time_seconds",
                "The last firing that was started, epoch seconds.",
                labels=_JOB,
            ),
            "success": GaugeMetricFamily(
                "scheduledjob_last_success_time_seconds", "When a run last ended well, epoch seconds.", labels=_JOB
            ),
        }
        for job in jobs:
            labels = [job.namespace, job.name]
            suspended.add_metric(labels, float(job.spec.suspend))
            active.add_metric(labels, job.status.active)
            ready.add_metric(labels, float(job.status.ready))
            for name, when in _times(job):
                times[name].add_metric(labels, when)
        yield from (suspended, active, ready, *times.values())
        yield from self._runs(jobs)

    def _runs(self, jobs: list[Job]) -> Iterator[Metric]:
        runs = CounterMetricFamily(
            "scheduledjob_runs",
            "Firings that got their final record by this replica's write; sum over replicas.",
            labels=[*_JOB, "result", "trigger"],
        )
        failures = CounterMetricFamily(
            "scheduledjob_attempts_failed",
            "Attempts that failed, also those of runs that succeeded later.",
            labels=_JOB,
        )
        not_run = {
            State.SKIPPED: CounterMetricFamily(
                "scheduledjob_skipped", "Firings that were skipped, by reason.", labels=[*_JOB, "reason"]
            ),
            State.MISSED: CounterMetricFamily(
                "scheduledjob_missed", "Firings that nothing could start in time, by reason.", labels=[*_JOB, "reason"]
            ),
        }
        for job in jobs:
            tally = self._replica.writer.tallies.of(job.uid)
            for (result, trigger), count in tally.results.items():
                runs.add_metric([job.namespace, job.name, result, trigger], count)
            for (state, reason), count in tally.reasons.items():
                not_run[state].add_metric([job.namespace, job.name, reason], count)
            if tally.failed_attempts:
                failures.add_metric([job.namespace, job.name], tally.failed_attempts)
        yield from (runs, failures, *not_run.values())

    def _work(self) -> Iterator[Metric]:
        replica = self._replica
        counts = replica.claims.counts
        claims = CounterMetricFamily("quarterjack_claims", "Claims, by what became of them.", labels=["outcome"])
        for outcome in ("won", "lost", "fenced", "taken_over"):
            claims.add_metric([outcome], getattr(counts, outcome))
        yield claims
        reaped = CounterMetricFamily("quarterjack_reaped", "Objects deleted after they had served.", labels=["kind"])
        for kind, count in replica.janitor.reaped.items():
            reaped.add_metric([kind], count)
        yield reaped
        requests = CounterMetricFamily(
            "quarterjack_api_requests", "Requests to the API server.", labels=["verb", "code"]
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
        yield InfoMetricFamily("quarterjack_build", "This build.", value={"version": __version__})
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
            "quarterjack_watch_age_seconds", "Since the last sign of life on a watch.", labels=["resource"]
        )
        age.add_metric(["leases"], replica.leases.age_seconds)
        age.add_metric(["pods"], max(view.age_seconds for view in replica.pods))
        yield age


def _times(job: Job) -> Iterator[tuple[str, int]]:
    status = job.status
    for name, when in [
        ("next", status.next_time),
        ("last", status.last_schedule_time),
        ("success", status.last_success_time),
    ]:
        if when is not None:
            yield name, when
