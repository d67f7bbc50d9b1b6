"""How fast schedules are: run with `python -m tests.bench.bench_schedule`. One process, one run, the same cases for all."""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from croniter import CroniterBadDateError, croniter
from cronsim import CronSim, CronSimError

from quarterjack.plan import plan_of
from quarterjack.schedule import Schedule
from quarterjack.zones import names
from tests.unit.oracle import zone_info

START = datetime(2026, 3, 10, 10, 0, 20, tzinfo=UTC)
EPOCH = int(START.timestamp())
YEAR_SECONDS = 365 * 86_400
POPULATION = 50_000
NEVER = "0 0 31 2,4,6,9,11 *"
CASES = [
    ("*/5 * * * *", "UTC"),
    ("*/5 * * * *", "Europe/Berlin"),
    ("0 2 * * *", "Europe/Berlin"),
    ("0 9 * * 1-5", "America/New_York"),
    ("0 */2 * * *", "Australia/Lord_Howe"),
    ("0 0 1 * *", "Asia/Tokyo"),
    ("0 0 L * *", "Europe/Berlin"),
    ("0 0 29 2 *", "UTC"),
]


def rows() -> list[tuple[str, str, str, str]]:
    """The table: what, ours, croniter's, cronsim's; times with their units."""
    return [*_next_rows(), *_alone_rows()]


def _next_rows() -> list[tuple[str, str, str, str]]:
    """The mean time to the next firing, over firings that follow one another; each library in its own best way."""
    table = []
    for expression, zone in CASES:
        times = [_per_step(make, expression, zone) for make in (_ours, _croniter, _cronsim)]
        table.append((f"next: {expression} {zone}", *(f"{1e6 * seconds:.2f} us" for seconds in times)))
    return [(row[0], row[1], row[2], row[3]) for row in table]


def _alone_rows() -> list[tuple[str, str, str, str]]:
    parsed_seconds, schedules, size = _population()
    year = Schedule.parse("*/5 * * * *", time_zone="Europe/Berlin")
    every_second = Schedule.parse("* * * * * *", time_zone="Europe/Berlin")
    never = Schedule.parse(NEVER, time_zone="Europe/Berlin")
    everywhere = plan_of({"schedule": "0 2 * * *", "timeZones": sorted(names())}, anchor=EPOCH)
    day = everywhere.count_between(EPOCH, EPOCH + 86_400, limit=10_000)
    parse = f"{POPULATION:,} different schedules: parsed"
    return [
        (parse, _ms(parsed_seconds), "", ""),
        (f"{POPULATION:,} different schedules: memory of each", f"{size:.0f} bytes", "", ""),
        (f"{POPULATION:,} first firings", _ms(_seconds(lambda: [s.next_epoch(EPOCH) for s in schedules])), "", ""),
        ("a year of */5 listed", _ms(_seconds(lambda: _exhaust(year))), *_year_elsewhere()),
        ("a year of */5 counted", _us(_seconds(lambda: year.count_between(EPOCH, EPOCH + YEAR_SECONDS))), "", ""),
        (
            "a year of every second counted",
            _us(_seconds(lambda: every_second.count_between(EPOCH, EPOCH + YEAR_SECONDS))),
            *("", ""),
        ),
        ("found to fire never", _us(_seconds(lambda: never.next_epoch(EPOCH))), *_never_elsewhere()),
        ("longest gap of 2 years", _us(_seconds(lambda: year.longest_gap(START, years=2))), "", ""),
        (
            f"next in {len(names())} zones ({day} firings a day)",
            _us(_seconds(lambda: everywhere.next_after(EPOCH))),
            "",
            "",
        ),
    ]


def _per_step(make: Callable[[str, str], Callable[[], object]], expression: str, zone: str) -> float:
    """Seconds a step: the quickest of three runs of as many steps as take some milliseconds."""
    best = float("inf")
    for _ in range(3):
        step = make(expression, zone)
        steps, begun = 0, time.perf_counter()
        while steps < 20 or (steps < 5000 and time.perf_counter() - begun < 0.05):
            step()
            steps += 1
        best = min(best, (time.perf_counter() - begun) / steps)
    return best


def _ours(expression: str, zone: str) -> Callable[[], object]:
    schedule = Schedule.parse(expression, time_zone=zone)
    reached = [EPOCH]

    def step() -> None:
        reached[0] = schedule.next_epoch(reached[0]) or EPOCH

    return step


def _croniter(expression: str, zone: str) -> Callable[[], object]:
    iterator = croniter(expression, START.astimezone(zone_info(zone)))
    return lambda: iterator.get_next(datetime)


def _cronsim(expression: str, zone: str) -> Callable[[], object]:
    iterator = CronSim(expression, START.astimezone(zone_info(zone)))
    return lambda: next(iterator)


def _population() -> tuple[float, list[Schedule], float]:
    """Seconds to parse, the schedules, and the bytes that each of as many others holds."""
    texts, others = _texts(seed=1), _texts(seed=2)
    seconds = _seconds(lambda: _parse_all(texts), runs=1)
    tracemalloc.start()
    held = _parse_all(others)
    size = tracemalloc.get_traced_memory()[0] / len(held)
    tracemalloc.stop()
    return seconds, _parse_all(texts), size


def _texts(*, seed: int) -> list[str]:
    choice = random.Random(seed)
    return [
        f"{choice.randrange(60)},{choice.randrange(60)} {choice.randrange(24)} {choice.choice(['*', '1', 'L'])} * "
        f"{choice.choice(['*', '1-5', 'SUN'])}"
        for _ in range(POPULATION)
    ]


def _parse_all(texts: list[str]) -> list[Schedule]:
    zones = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kolkata"]
    return [Schedule.parse(text, time_zone=zones[i % len(zones)]) for i, text in enumerate(texts)]


def _exhaust(schedule: Schedule) -> int:
    return sum(1 for _ in schedule.between_epochs(EPOCH, EPOCH + YEAR_SECONDS))


def _year_elsewhere() -> tuple[str, str]:
    """The same year with the others."""
    end = START + timedelta(seconds=YEAR_SECONDS)
    local = START.astimezone(zone_info("Europe/Berlin"))

    def walk(iterator: Any) -> int:
        count = 0
        while next(iterator) <= end:
            count += 1
        return count

    by_croniter = _seconds(lambda: walk(croniter("*/5 * * * *", local, ret_type=datetime)), runs=1)
    return _ms(by_croniter), _ms(_seconds(lambda: walk(CronSim("*/5 * * * *", local)), runs=1))


def _never_elsewhere() -> tuple[str, str]:
    """How long the others search for a date that never comes; cronsim refuses to begin."""

    def search() -> None:
        with suppress(CroniterBadDateError):
            _croniter(NEVER, "Europe/Berlin")()

    by_croniter = _seconds(search, runs=1)
    try:
        CronSim(NEVER, START)
    except CronSimError:
        return _ms(by_croniter), "refused"
    raise AssertionError(f"cronsim accepts {NEVER}, time it")


def _seconds(action: Callable[[], object], *, runs: int = 3) -> float:
    """The seconds of the quickest run."""
    best = float("inf")
    for _ in range(runs):
        begun = time.perf_counter()
        action()
        best = min(best, time.perf_counter() - begun)
    return best


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


def _us(seconds: float) -> str:
    return f"{1e6 * seconds:.1f} us"


def main() -> None:
    """Print the table as Markdown."""
    table = [("", "quarterjack", "croniter", "cronsim"), *rows()]
    widths = [max(len(row[i]) for row in table) for i in range(4)]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in table
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
