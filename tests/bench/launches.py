"""How late firings become Pods: ours, the CronJob controller's, and the raw limit of the same writes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from prometheus_client.parser import text_string_to_metric_families

from tests.bench.bulk import Write, send_together
from tests.bench.figures import Lateness
from tests.bench.ground import CRON, CRON_JOBS, OURS, RAW, SCHEDULED_JOBS, await_until, clear, count, fleet
from tests.bench.processor import pids_of, processor_seconds
from tests.bench.raw import RawProcess
from tests.bench.things import cron_job, once_at, scheduled_job
from tests.bench.watching import Watcher, of_cronjob, of_ours
from tests.cluster import Cluster
from tests.fleet import Fleet

TUNED = (
    "--kube-api-qps=2000",
    "--kube-api-burst=4000",
    "--concurrent-cron-job-syncs=50",
    "--concurrent-job-syncs=50",
)
_WATCHED_SECONDS = 60.0
_BEFORE_SECONDS = 0.1
_CALM_SECONDS = 4  # between what prepares a burst and the burst


@dataclass(frozen=True, slots=True)
class Population:
    """So many jobs of one policy."""

    count: int
    policy: str

    @property
    def forbid(self) -> bool:
        """Whether runs must not overlap."""
        return self.policy == "Forbid"

    def create(self, cluster: Cluster, schedule: str, *, scheduler: str = "none") -> None:
        """Create the ScheduledJobs."""
        path = SCHEDULED_JOBS.format(OURS)
        jobs = [
            scheduled_job(OURS, f"job-{i}", schedule=schedule, policy=self.policy, scheduler=scheduler)
            for i in range(self.count)
        ]
        send_together(cluster, [Write.of("POST", path, job) for job in jobs])


def _unserved(cluster: Cluster) -> bool:
    """Whether some job has no status yet. One request, for it is asked again and again while replicas are at work."""
    page = cluster.api.get(SCHEDULED_JOBS.format(OURS) + "?fieldSelector=status.health%3D&limit=1")
    return page.status != 200 or bool(page.json()["items"])


def _served(cluster: Cluster, *, seconds: float) -> bool:
    """Whether replicas have seen every job within so long: before, none of them fires."""
    try:
        await_until("all are served", lambda: not _unserved(cluster), seconds=seconds)
    except TimeoutError:
        return False
    return True


def prepared_burst(cluster: Cluster, population: Population, *, scheduler: str = "none") -> int:
    """With replicas running: create jobs that are all due at one instant, which they are served well before. The instant.

    How long replicas need for that depends on the machine: where it was too long it is tried again, with more time.
    """
    for lead_seconds in (15 + population.count // 25 << doubled for doubled in range(4)):
        instant = int(time.time()) + lead_seconds
        population.create(cluster, once_at(instant), scheduler=scheduler)
        if _served(cluster, seconds=instant - _CALM_SECONDS - time.time()):
            return instant
        clear(cluster, SCHEDULED_JOBS.format(OURS))
    raise RuntimeError(f"{population.count} ScheduledJobs are not served within {lead_seconds} s")


@dataclass(frozen=True, slots=True)
class Burst:
    """How late all were, and the processor seconds until the last Pod was seen: of the control plane, and of who wrote."""

    lateness: Lateness
    cluster_seconds: float
    writer_seconds: float

    @property
    def seconds(self) -> float:
        """The processor seconds of all."""
        return self.cluster_seconds + self.writer_seconds


def _burst(cluster: Cluster, watcher: Watcher, instant: int, *, due: int, pids: Sequence[int]) -> Burst:
    """Watch a burst, and what it costs."""
    theirs = pids_of(cluster)
    time.sleep(max(0.0, instant - _BEFORE_SECONDS - time.time()))
    before = processor_seconds(theirs), processor_seconds(pids)
    lateness = watcher.lateness(instant, due=due, seconds=_WATCHED_SECONDS)
    return Burst(lateness, processor_seconds(theirs) - before[0], processor_seconds(pids) - before[1])


def ours_at_once(cluster: Cluster, population: Population) -> Burst:
    """Three replicas, all jobs due in one second."""
    with fleet(cluster) as replicas, Watcher(cluster, OURS, of_ours) as watcher:
        instant = prepared_burst(cluster, population)
        pids = [replica.process.pid for replica in replicas.replicas if replica.process is not None]
        burst = _burst(cluster, watcher, instant, due=population.count, pids=pids)
    clear(cluster)
    return burst


def raw_at_once(cluster: Cluster, population: Population) -> Burst:
    """One process sends the writes of as many firings."""
    with (
        Watcher(cluster, RAW, of_ours) as watcher,
        RawProcess(cluster, RAW, count=population.count, forbid=population.forbid) as process,
    ):
        instant = int(time.time()) + _CALM_SECONDS
        process.write_at([instant])
        burst = _burst(cluster, watcher, instant, due=population.count, pids=[process.pid])
    clear(cluster)
    return burst


def cronjobs_at_once(cluster: Cluster, jobs: int, flags: tuple[str, ...]) -> Lateness:
    """As many CronJobs of every minute; what is due at the first full minute is watched for two."""
    cluster.restart_controller_manager(list(flags))
    _create_cronjobs(cluster, jobs)
    with Watcher(cluster, CRON, of_cronjob) as watcher:
        return watcher.lateness(_next_minute(), due=jobs, seconds=2 * _WATCHED_SECONDS)


def _create_cronjobs(cluster: Cluster, jobs: int) -> None:
    """Early in a minute, and wait until it is known that no earlier minute is due any more."""
    room = 20 + jobs // 100
    if _next_minute() - time.time() < room:
        time.sleep(_next_minute() - time.time() + 1)
    path = CRON_JOBS.format(CRON)
    send_together(cluster, [Write.of("POST", path, cron_job(CRON, f"cron-{i}")) for i in range(jobs)])
    if count(cluster, path) != jobs:
        raise RuntimeError(f"there are not {jobs} CronJobs")


def _next_minute() -> int:
    return int(time.time()) // 60 * 60 + 60


def ours_alone(cluster: Cluster, *, firings: int) -> Lateness:
    """One job every two seconds, and nothing else."""
    with fleet(cluster), Watcher(cluster, OURS, of_ours) as watcher:
        population = Population(1, "Allow")
        population.create(cluster, "*/2 * * * * *")
        if not _served(cluster, seconds=30):
            raise RuntimeError("the ScheduledJob is not served within 30 s")
        lateness = _each(watcher, _even_instants(firings))
    clear(cluster)
    return lateness


def raw_alone(cluster: Cluster, *, firings: int) -> Lateness:
    """The two writes of one firing, every two seconds."""
    with Watcher(cluster, RAW, of_ours) as watcher, RawProcess(cluster, RAW, count=1, forbid=False) as process:
        instants = _even_instants(firings)
        process.write_at(instants)
        lateness = _each(watcher, instants)
    clear(cluster)
    return lateness


def cronjob_alone(cluster: Cluster, *, firings: int) -> Lateness:
    """One CronJob of every minute, and nothing else; the controller manager with its default flags."""
    cluster.restart_controller_manager()
    _create_cronjobs(cluster, 1)
    first = _next_minute()
    with Watcher(cluster, CRON, of_cronjob) as watcher:
        lateness = _each(watcher, tuple(first + 60 * i for i in range(firings)))
    clear(cluster)
    return lateness


def _even_instants(firings: int) -> tuple[int, ...]:
    first = int(time.time()) // 2 * 2 + 2 * _CALM_SECONDS
    return tuple(first + 2 * i for i in range(firings))


def _each(watcher: Watcher, instants: tuple[int, ...]) -> Lateness:
    """One firing at each of these instants."""
    rounds = [watcher.lateness(instant, due=1, seconds=_WATCHED_SECONDS) for instant in instants]
    return Lateness(tuple(s for r in rounds for s in r.seconds), len(instants), _WATCHED_SECONDS)


def requests_until_recorded(cluster: Cluster, population: Population) -> dict[tuple[str, str], float]:
    """The replicas' requests per firing by verb and status code, housekeeping included.

    Counted from a burst until every run's end is on record.
    """
    with fleet(cluster) as replicas:
        instant = prepared_burst(cluster, population, scheduler="default-scheduler")
        time.sleep(max(0.0, instant - 1 - time.time()))
        before = _requests(replicas)
        done = lambda: _succeeded(cluster) == population.count  # noqa: E731
        await_until(f"{population.count} runs are on record", done, seconds=_WATCHED_SECONDS + population.count / 10)
        after = _requests(replicas)
    clear(cluster)
    return {key: (after[key] - before.get(key, 0.0)) / population.count for key in after}


def _succeeded(cluster: Cluster) -> int:
    results = cluster.kubectl("get", "scheduledjobs", "-n", OURS, "-o", "jsonpath={.items[*].status.lastResult}")
    return results.split().count("Succeeded")


def _requests(replicas: Fleet) -> dict[tuple[str, str], float]:
    """Requests so far of all replicas."""
    total: Counter[tuple[str, str]] = Counter()
    for replica in replicas.replicas:
        status, page = replica.page("/metrics")
        if status != 200:
            raise RuntimeError(f"{replica.name}: {status} {page}")
        for family in text_string_to_metric_families(page):
            if family.name == "quarterjack_api_requests":
                total.update({(s.labels["verb"], s.labels["code"]): s.value for s in family.samples})
    return dict(total)
