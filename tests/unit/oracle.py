"""An independent oracle: re-enacts cron step by step with datetimes and zoneinfo, sharing no code with the package."""

from __future__ import annotations

import calendar
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
LEAD_IN = timedelta(hours=26)
LONGEST_CAUGHT_UP = timedelta(hours=3)
MONTHS = dict(zip("JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split(), range(1, 13), strict=True))  # noqa: SIM905
WEEKDAYS = dict(zip("SUN MON TUE WED THU FRI SAT".split(), range(7), strict=True))  # noqa: SIM905


@cache
def zone_info(name: str) -> ZoneInfo:
    """The zone from the tzdata package, whatever the host has."""
    with resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


class Oracle:
    """One expression in one zone."""

    def __init__(self, expression: str, time_zone: str) -> None:
        """The expression has 5, 6 or 7 fields."""
        fields = expression.upper().split()
        self.step = MINUTE if len(fields) == 5 else timedelta(seconds=1)
        fields = ["0", *fields] if len(fields) == 5 else fields
        self.fields = [*fields, "*"] if len(fields) == 6 else fields
        self.zone = zone_info(time_zone)
        self.seconds = numbers(self.fields[0], 0, 59, {})
        self.minutes = numbers(self.fields[1], 0, 59, {})
        self.hours = numbers(self.fields[2], 0, 23, {})
        self.months = numbers(self.fields[4], 1, 12, MONTHS)
        self.years = numbers(self.fields[6], 1970, 2099, {}) if self.fields[6] != "*" else None
        self.fixed_time = len(self.hours) < 24
        self.days: dict[datetime, bool] = {}

    def firings(self, a: datetime, b: datetime) -> list[datetime]:
        """What fires after `a`, up to and including `b`; both on a whole step."""
        seen = self.wall(a)
        if seen - self.wall(a - LEAD_IN) != LEAD_IN:
            seen = max(self.wall(a - n * MINUTE) for n in range(int(LEAD_IN / MINUTE)))
        fired = []
        now = a + self.step
        while now <= b:
            wall = self.wall(now)
            if self.fires(wall, seen):
                fired.append(now)
            seen = max(seen, wall)
            now += self.step
        return fired

    def fires(self, wall: datetime, seen: datetime) -> bool:
        """Whether something fires when the wall clock, which has shown all up to `seen`, shows `wall`."""
        if not self.fixed_time or wall - seen == self.step:
            return self.matches(wall)
        if wall <= seen:
            return False
        return self.matches(wall) or any(self.matches(missed) for missed in self.missed(wall, seen))

    def missed(self, wall: datetime, seen: datetime) -> Iterator[datetime]:
        """The wall times that the clock jumped over, unless it jumped too far."""
        missed = seen + self.step
        if wall - missed <= LONGEST_CAUGHT_UP:
            while missed < wall:
                yield missed
                missed += self.step

    def wall(self, instant: datetime) -> datetime:
        """What the clock on the wall shows."""
        return instant.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def matches(self, wall: datetime) -> bool:
        """Whether a wall time matches, by the definition of each field."""
        return (
            wall.second in self.seconds
            and wall.minute in self.minutes
            and wall.hour in self.hours
            and wall.month in self.months
            and (self.years is None or wall.year in self.years)
            and self.day_matches(wall.replace(hour=0, minute=0, second=0))
        )

    def day_matches(self, midnight: datetime) -> bool:
        """Whether the day matches; remembered, for each is asked for a thousand times."""
        if midnight not in self.days:
            self.days[midnight] = self.star_rule(midnight)
        return self.days[midnight]

    def star_rule(self, wall: datetime) -> bool:
        """Both must match where one of day of month and day of week begins with a star, else either."""
        day, weekday = self.fields[3], self.fields[5]
        by_date = any(date_matches(item, wall) for item in day.split(","))
        by_weekday = any(weekday_matches(item, wall) for item in weekday.split(","))
        if day[0] in "*?" or weekday[0] in "*?":
            return by_date and by_weekday
        return by_date or by_weekday


def date_matches(item: str, wall: datetime) -> bool:
    """Whether a day of the month matches one item."""
    length = calendar.monthrange(wall.year, wall.month)[1]
    working = [day for day in range(1, length + 1) if wall.replace(day=day).weekday() < 5]
    if item == "L":
        return wall.day == length
    if item == "LW":
        return wall.day == working[-1]
    if item.endswith("W"):
        wanted = int(item[:-1])
        return wanted <= length and wall.day == min(working, key=lambda day: abs(day - wanted))
    return wall.day in numbers(item, 1, 31, {})


def weekday_matches(item: str, wall: datetime) -> bool:
    """Whether a day of the week matches one item."""
    weekday = wall.isoweekday() % 7
    if "#" in item:
        name, nth = item.split("#")
        return weekday == number(name, WEEKDAYS) % 7 and (wall.day + 6) // 7 == int(nth)
    if item.endswith("L"):
        last_week = wall.day + 7 > calendar.monthrange(wall.year, wall.month)[1]
        return weekday == number(item[:-1], WEEKDAYS) % 7 and last_week
    return weekday in numbers(item, 0, 6, WEEKDAYS)


def numbers(text: str, low: int, high: int, names: dict[str, int]) -> set[int]:
    """The numbers of a list of stars, numbers, ranges and steps; a range that goes down wraps around."""
    found: set[int] = set()
    for item in text.split(","):
        base, _, step = item.partition("/")
        if base in {"*", "?"}:
            row = list(range(low, high + 1))
        elif "-" in base:
            first, last = (number(part, names) for part in base.split("-"))
            row = row_of(first, last, low, high)
        else:
            first = number(base, names)
            row = list(range(first, high + 1)) if step else [first]
        found.update(row[:: int(step or 1)])
    return {0 if high == 6 and n == 7 else n for n in found}


def row_of(first: int, last: int, low: int, high: int) -> list[int]:
    """The numbers from first to last, around the end of the field where last is before first."""
    if high == 6:  # Sunday is 7 at the end of a range and 0 at its beginning.
        first, last = (0, last % 7) if first == 7 else (first, last)
    if first <= last:
        return list(range(first, last + 1))
    return [*range(first, high + 1), *range(low, last + 1)]


def number(text: str, names: dict[str, int]) -> int:
    """A number or a name."""
    return names[text] if text in names else int(text)


def quickest(question: Callable[[], object]) -> float:
    """The processor seconds of the quickest of five times; zero where each line is traced, which is no measure."""
    took = []
    for _ in range(5):
        begun = time.thread_time()
        question()
        took.append(time.thread_time() - begun)
    return 0.0 if sys.gettrace() else min(took)


def utc(text: str) -> datetime:
    """An instant written as 2026-03-29T01:00 or with seconds, UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
