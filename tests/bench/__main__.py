"""`python -m tests.bench`: what is measured, beside what it is to be compared with, on one machine in one run.

Only ratios count: how long a thing takes depends on the machine and on what else it does. Rounds of what is compared alternate.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from tests.bench import bench_schedule, launches
from tests.bench.figures import Lateness, Rounds, Table, lateness_row, ratio, with_block
from tests.bench.ground import clear, ground
from tests.bench.launches import Burst, Population
from tests.fleet import ROOT

POLICIES = ("Allow", "Forbid")
_HEAD = ("p50", "p99", "max", "Pods seen")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    jobs: int
    rounds: int
    single_firings: int
    cronjob_firings: int


def say(text: str) -> None:
    """Progress, apart from the tables."""
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def told(what: str, lateness: Lateness) -> Lateness:
    """Say a result and pass it on."""
    say(" | ".join(lateness_row(what, [lateness])))
    return lateness


def single(size: Size) -> list[Table]:
    """One firing at a time."""
    firings = size.single_firings
    with ground("single") as cluster:
        raw = [told("raw", launches.raw_alone(cluster, firings=firings))]
        ours = [told("ours", launches.ours_alone(cluster, firings=firings))]
        cron = [told("CronJob", launches.cronjob_alone(cluster, firings=size.cronjob_firings))]
    rows = (
        lateness_row("Quarterjack, Allow, three replicas", ours, ratio(ours, raw, 0.5)),
        lateness_row("raw: a Lease, then a Pod", raw, ""),
        lateness_row("CronJob controller, default flags", cron, ratio(cron, raw, 0.5)),
    )
    head = ("one firing on an idle cluster", *_HEAD, "p50 : raw's")
    return [Table("From the scheduled instant to the Pod, one at a time", head, rows)]


def burst(size: Size) -> list[Table]:
    """All at once: raw, ours and the tuned CronJob controller in turn; once the CronJob controller as it comes."""
    raw: dict[str, list[Burst]] = {policy: [] for policy in POLICIES}
    ours: dict[str, list[Burst]] = {policy: [] for policy in POLICIES}
    tuned: list[Lateness] = []
    with ground("burst") as cluster:
        for _ in range(size.rounds):
            for policy in POLICIES:
                population = Population(size.jobs, policy)
                raw[policy].append(told_burst(f"raw {policy}", launches.raw_at_once(cluster, population)))
                ours[policy].append(told_burst(f"ours {policy}", launches.ours_at_once(cluster, population)))
            tuned.append(told("CronJobs, tuned", launches.cronjobs_at_once(cluster, size.jobs, launches.TUNED)))
            clear(cluster)
        default = [told("CronJobs, default", launches.cronjobs_at_once(cluster, size.jobs, ()))]
    return [_burst_table(size, ours, raw, {"default flags": default, "tuned": tuned})]


def told_burst(what: str, burst: Burst) -> Burst:
    """Say a burst and pass it on."""
    told(what, burst.lateness)
    say(f"{what}: processor seconds {burst.cluster_seconds:.1f} control plane, {burst.writer_seconds:.1f} writing")
    return burst


def _burst_table(
    size: Size, ours: dict[str, list[Burst]], raw: dict[str, list[Burst]], cron: dict[str, list[Lateness]]
) -> Table:
    rows = []
    for policy, writes in zip(POLICIES, ("a Lease, then a Pod", "a Lease, a Lease's update, a Pod"), strict=True):
        mine, limit = _lateness(ours[policy]), _lateness(raw[policy])
        cost = median(o.seconds for o in ours[policy]), median(r.seconds for r in raw[policy])
        own = f"{cost[0]:.1f} s", ratio(mine, limit), f"{cost[0] / cost[1]:.2f}", "1"
        rows.append(lateness_row(f"Quarterjack, {policy}, three replicas", mine, *own))
        rows.append(lateness_row(f"raw, {policy}: {writes}", limit, f"{cost[1]:.1f} s", "1", "1", ""))
    for flags, rounds in cron.items():
        cells = "", "", "", _times(rounds, _lateness(ours["Allow"]))
        rows.append(lateness_row(f"CronJob controller, {flags}", rounds, *cells))
    ratios = "processor time", "max : raw's max", "processor time : raw's", "max : Quarterjack's (Allow)"
    head = (f"{size.jobs:,} firings due in one second", *_HEAD, *ratios)
    return Table("From the scheduled instant to the Pod, many at once", head, tuple(rows))


def _lateness(bursts: Sequence[Burst]) -> Rounds:
    return [burst.lateness for burst in bursts]


def _times(cron: Rounds, ours: Rounds) -> str:
    """The CronJob controller's rounds beside ours; where it had but one, that one beside each."""
    return ratio(cron if len(cron) == len(ours) else [cron[0]] * len(ours), ours)


def requests(size: Size) -> list[Table]:
    """What a firing costs the API server, until its end is on record."""
    verbs = ("POST", "PATCH", "GET", "DELETE", "WATCH")
    jobs = min(size.jobs, 200)
    rows = []
    with ground("requests", simulated_nodes=10) as cluster:
        for policy in POLICIES:
            spent = launches.requests_until_recorded(cluster, Population(jobs, policy))
            say(f"requests {policy}: " + ", ".join(f"{v} {c} {n:.2f}" for (v, c), n in sorted(spent.items()) if n))
            cells = [f"{sum(n for (sent, _), n in spent.items() if sent == verb):.2f}" for verb in verbs]
            rows.append((f"Quarterjack, {policy}", *cells, f"{sum(spent.values()):.2f}"))
    head = (f"requests per firing, {jobs:,} at once", *verbs, "all")
    return [
        Table("Requests per firing, from due to recorded, housekeeping of three replicas included", head, tuple(rows))
    ]


def schedules(_: Size) -> list[Table]:
    """How fast schedules are."""
    head = ("schedules", "Quarterjack", "croniter", "cronsim")
    return [Table("Schedules", head, tuple(bench_schedule.rows()))]


PARTS: dict[str, Callable[[Size], list[Table]]] = {
    "single": single,
    "burst": burst,
    "requests": requests,
    "schedules": schedules,
}


def _arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one round, fewer firings")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="only this part; may be repeated")
    parser.add_argument("--jobs", type=int, default=1000, metavar="N", help="firings due in one second (default: 1000)")
    parser.add_argument("--write-readme", action="store_true", help="put the tables between README.md's bench marks")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """Measure, and print the tables."""
    arguments = _arguments(given)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that the cluster is removed
    size = Size(arguments.jobs, 1, 10, 1) if arguments.quick else Size(arguments.jobs, 3, 20, 3)
    began = os.getloadavg()[0]
    tables = [table for name in arguments.only or PARTS for table in PARTS[name](size)]
    load = f"load average {began:.1f} before, {os.getloadavg()[0]:.1f} after"
    note = f"{time.strftime('%Y-%m-%d', time.gmtime())}, {os.cpu_count()} cores that the control plane shares, {load}."
    text = "\n\n".join([*(table.markdown() for table in tables), note])
    print(text)
    if arguments.write_readme:
        readme = ROOT / "README.md"
        readme.write_text(with_block(readme.read_text(), text))
    return 0


if __name__ == "__main__":
    sys.exit(main())
