"""Walks the sets of a cron expression over wall seconds: seconds since 1970-01-01 00:00 on some wall, no zone involved.

The calendar repeats after 400 years, and every (month, length, weekday of its first) that occurs at all occurs again
within 40; so a search that has passed 41 years has proved that nothing comes.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from functools import lru_cache
from itertools import pairwise

from quarterjack.cron_fields import FIRST_YEAR, LAST_YEAR, CronFields, DayRule

DAY = 86_400
SEARCHED_YEARS = 41
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_FIRST_DAY = date(1, 1, 2).toordinal() - _EPOCH_ORDINAL
_LAST_DAY = date(9999, 12, 30).toordinal() - _EPOCH_ORDINAL
_LAST_DAY_WITH_YEAR = date(LAST_YEAR, 12, 31).toordinal() - _EPOCH_ORDINAL
_LENGTHS = (0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


class WallTimes:
    """The wall seconds that an expression matches."""

    __slots__ = ("_days", "_every_day", "_hours", "_minutes", "_seconds", "first", "last")

    def __init__(self, fields: CronFields) -> None:
        """Of one expression; `first` and `last` are its seconds of the day."""
        self._seconds, self._minutes, self._hours = fields.seconds, fields.minutes, fields.hours
        self._days = fields.days
        self._every_day = fields.days.every_day
        self.first = 3600 * _lowest(self._hours) + 60 * _lowest(self._minutes) + _lowest(self._seconds)
        self.last = 3600 * _highest(self._hours) + 60 * _highest(self._minutes) + _highest(self._seconds)

    def at_or_after(self, wall: int) -> int | None:
        """The earliest match at or after the wall second, None where there is none."""
        day, second = divmod(wall, DAY)
        if second <= self.last and (self._matches(day)):
            return day * DAY + self._second_from(second)
        day += 1
        if not self._every_day:
            found = _day_from(self._days, day)
            if found is None:
                return None
            day = found
        return day * DAY + self.first

    def at_or_before(self, wall: int) -> int | None:
        """The latest match at or before the wall second, None where there is none."""
        day, second = divmod(wall, DAY)
        if second >= self.first and (self._matches(day)):
            return day * DAY + self._second_until(second)
        day -= 1
        if not self._every_day:
            found = _day_until(self._days, day)
            if found is None:
                return None
            day = found
        return day * DAY + self.last

    def within(self, low: int, high: int) -> Iterator[int]:
        """All matches from `low` to `high`, both included, ascending."""
        wall = self.at_or_after(low)
        while wall is not None and wall <= high:
            day, second = divmod(wall, DAY)
            yield from self._of_day(day * DAY, second, min(high - day * DAY, DAY - 1))
            wall = self.at_or_after((day + 1) * DAY)

    def count_within(self, low: int, high: int) -> int:
        """How many matches there are from `low` to `high`, both included; found without listing them."""
        if low > high:
            return 0
        (first_day, first_second), (last_day, last_second) = divmod(low, DAY), divmod(high, DAY)
        per_day = self._count_before(DAY)
        count = self._count_days(first_day, last_day + 1) * per_day
        if self._matches(first_day):
            count -= self._count_before(first_second)
        if self._matches(last_day):
            count -= per_day - self._count_before(last_second + 1)
        return count

    def span(self, day: int, end: int) -> tuple[int, int]:
        """Of the matching days from `day`, itself one, to before `end`: the last, and the longest step between two."""
        if self._every_day:
            return end - 1, min(end - 1 - day, 1)
        last, longest = day, 0
        for first, days in self._months(day, end):
            if days:
                longest = max(longest, _longest_step(days), first + _lowest(days) - last)
                last = first + _highest(days)
        return last, longest

    def any_within(self, low: int, high: int) -> bool:
        """Whether there is a match from `low` to `high`, both included."""
        wall = self.at_or_after(low)
        return wall is not None and wall <= high

    def matches(self, wall: int) -> bool:
        """Whether the wall second is a match."""
        return self.any_within(wall, wall)

    @property
    def longest_in_hour(self) -> int:
        """The longest time between two matches of one hour that has any."""
        turn = 60 - _highest(self._seconds) + _lowest(self._seconds)
        step = _longest_step(self._minutes)
        return max(_longest_step(self._seconds), 60 * (step - 1) + turn if step else 0)

    @property
    def longest_in_day(self) -> int:
        """The longest time between two matches of one day that has any."""
        turn = 3600 - self.last_of_hour + self.first_of_hour
        step = _longest_step(self._hours)
        return max(self.longest_in_hour, 3600 * (step - 1) + turn if step else 0)

    @property
    def first_of_hour(self) -> int:
        """The first match of an hour, in seconds of the hour."""
        return self.first % 3600

    @property
    def last_of_hour(self) -> int:
        """The last match of an hour, in seconds of the hour."""
        return self.last % 3600

    def _count_before(self, second: int) -> int:
        """How many matches a matching day has before that second of the day."""
        (hour, rest), per_minute = divmod(second, 3600), self._seconds.bit_count()
        minute, rest = divmod(rest, 60)
        count = (self._hours & ~(-1 << hour)).bit_count() * self._minutes.bit_count() * per_minute
        if self._hours >> hour & 1:
            count += (self._minutes & ~(-1 << minute)).bit_count() * per_minute
            if self._minutes >> minute & 1:
                count += (self._seconds & ~(-1 << rest)).bit_count()
        return count

    def _count_days(self, day: int, end: int) -> int:
        return end - day if self._every_day else sum(days.bit_count() for _, days in self._months(day, end))

    def _months(self, day: int, end: int) -> Iterator[tuple[int, int]]:
        """For each month from `day` to before `end`: the day before its first, and its matching days between them."""
        day, end = max(day, _FIRST_DAY), min(end, _LAST_DAY + 1)
        while day < end:
            when = date.fromordinal(day + _EPOCH_ORDINAL)
            before = day - when.day
            days = _month_days(self._days, when.year, when.month, (before + 5) % 7)
            yield before, days >> when.day << when.day & ~(-1 << (end - before))
            day = before + _length(when.year, when.month) + 1

    def _matches(self, day: int) -> bool:
        if self._every_day:
            return True
        when = date.fromordinal(min(max(day, _FIRST_DAY), _LAST_DAY) + _EPOCH_ORDINAL)
        return bool(_month_days(self._days, when.year, when.month, (day - when.day + 5) % 7) >> when.day & 1)

    def _second_from(self, second: int) -> int:
        """The first matching second of the day at or after one that is at most the last."""
        hour, rest = divmod(second, 3600)
        if self._hours >> hour & 1:
            minute, start = divmod(rest, 60)
            if self._minutes >> minute & 1 and (later := self._seconds >> start):
                return second + _lowest(later)
            if later := self._minutes >> (minute + 1):
                return hour * 3600 + 60 * (minute + 1 + _lowest(later)) + self.first % 60
        later = self._hours >> (hour + 1)
        return 3600 * (hour + 1 + _lowest(later)) + self.first % 3600

    def _second_until(self, second: int) -> int:
        """The last matching second of the day at or before one that is at least the first."""
        hour, rest = divmod(second, 3600)
        if self._hours >> hour & 1:
            minute, end = divmod(rest, 60)
            if self._minutes >> minute & 1 and (earlier := self._seconds & ((2 << end) - 1)):
                return second - end + _highest(earlier)
            if earlier := self._minutes & ((1 << minute) - 1):
                return hour * 3600 + 60 * _highest(earlier) + self.last % 60
        earlier = self._hours & ((1 << hour) - 1)
        return 3600 * _highest(earlier) + self.last % 3600

    def _of_day(self, midnight: int, low: int, high: int) -> Iterator[int]:
        """The matches of one day, from second `low` to second `high` of it."""
        minutes, seconds = _members(self._minutes), _members(self._seconds)
        for hour in _members(self._hours):
            if hour * 3600 + 3599 < low:
                continue
            for minute in minutes:
                start = hour * 3600 + minute * 60
                if start > high:
                    return
                if start + 59 >= low:
                    yield from (midnight + start + second for second in seconds if low <= start + second <= high)


def _day_from(rule: DayRule, day: int) -> int | None:
    """The first matching day at or after the day."""
    day = max(day, _FIRST_DAY if rule.years is None else 0)
    if day > _LAST_DAY:
        return None
    when = date.fromordinal(day + _EPOCH_ORDINAL)
    year, month, first = when.year, when.month, day - when.day + 1
    last_year = min(year + SEARCHED_YEARS, date.max.year) if rule.years is None else _highest(rule.years)
    days = _month_days(rule, year, month, (first + 4) % 7) >> when.day << when.day
    while not days:
        first += _length(year, month)
        year, month = (year, month + 1) if month < 12 else (year + 1, 1)
        if year > last_year:
            return None
        days = _month_days(rule, year, month, (first + 4) % 7)
    return first + _lowest(days) - 1


def _day_until(rule: DayRule, day: int) -> int | None:
    """The last matching day at or before the day."""
    day = min(day, _LAST_DAY if rule.years is None else _LAST_DAY_WITH_YEAR)
    if day < _FIRST_DAY:
        return None
    when = date.fromordinal(day + _EPOCH_ORDINAL)
    year, month, first = when.year, when.month, day - when.day + 1
    first_year = (
        max(year - SEARCHED_YEARS, date.min.year) if rule.years is None else max(_lowest(rule.years), FIRST_YEAR)
    )
    days = _month_days(rule, year, month, (first + 4) % 7) & ((2 << when.day) - 1)
    while not days:
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
        if year < first_year:
            return None
        first -= _length(year, month)
        days = _month_days(rule, year, month, (first + 4) % 7)
    return first + _highest(days) - 1


def _month_days(rule: DayRule, year: int, month: int, first_weekday: int) -> int:
    """The matching days of a month whose first is that weekday (Sunday is 0)."""
    if not rule.months >> month & 1 or (rule.years is not None and not rule.years >> year & 1):
        return 0
    length = _length(year, month)
    key = first_weekday * 32 + length
    days = rule.by_month.get(key)
    if days is None:
        days = rule.by_month[key] = _matching_days(rule, first_weekday, length)
    return days


def _matching_days(rule: DayRule, first_weekday: int, length: int) -> int:
    """Either of day of month and day of week where both are restricted, else both (cron's star bits)."""
    by_date = rule.days
    if rule.last_day:
        by_date |= 1 << length
    if rule.last_weekday:
        by_date |= 1 << _nearest_weekday(length, first_weekday, length)
    for day in _members(rule.nearest_weekdays):
        if day <= length:
            by_date |= 1 << _nearest_weekday(day, first_weekday, length)
    by_weekday = _on_weekdays(rule.weekdays, first_weekday)
    by_weekday |= _on_weekdays(rule.last_weekdays, first_weekday) & (0x7F << (length - 6))
    for week, weekdays in enumerate(rule.nth_weekdays):
        by_weekday |= _on_weekdays(weekdays, first_weekday) & (0x7F << (7 * week + 1))
    days = by_date & by_weekday if rule.any_day or rule.any_weekday else by_date | by_weekday
    return days & ((2 << length) - 2)


def _nearest_weekday(day: int, first_weekday: int, length: int) -> int:
    """The day of Monday to Friday that is nearest to the day, in the same month."""
    weekday = (first_weekday + day - 1) % 7
    if weekday == 6:
        return day - 1 if day > 1 else 3
    if weekday == 0:
        return day + 1 if day < length else day - 2
    return day


def _on_weekdays(weekdays: int, first_weekday: int) -> int:
    """The days 1 to 31 that fall on one of the weekdays."""
    days = 0
    for weekday in _members(weekdays):
        days |= _EVERY_SEVENTH << (1 + (weekday - first_weekday) % 7)
    return days


_EVERY_SEVENTH = 1 | 1 << 7 | 1 << 14 | 1 << 21 | 1 << 28


def _length(year: int, month: int) -> int:
    if month != 2:
        return _LENGTHS[month]
    return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28


def _lowest(members: int) -> int:
    return (members & -members).bit_length() - 1


def _highest(members: int) -> int:
    return members.bit_length() - 1


def _members(members: int) -> list[int]:
    return [n for n in range(members.bit_length()) if members >> n & 1]


@lru_cache(maxsize=4096)
def _longest_step(members: int) -> int:
    """The longest distance between two neighbours, 0 for a single one."""
    numbers = _members(members)
    return max((high - low for low, high in pairwise(numbers)), default=0)
