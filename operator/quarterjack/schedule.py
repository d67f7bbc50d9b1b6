"""When a cron expression fires in a zone.

The rule for nights on which the clock is changed:

- A fixed-time schedule (its hour field does not cover all 24) fires a wall time that the spring jump skips once, at the
  first instant after the jump, and a repeated wall time once, the first time. Jumps over three hours are not caught up.
- A schedule for every hour follows real time, in both copies of a repeated hour.

Firings are epoch seconds; datetimes that differ only in `fold` are equal in Python, so no local ones are compared here.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from quarterjack import cron_fields, zones
from quarterjack.invalid import ScheduleError
from quarterjack.wall import DAY, WallTimes

__all__ = ["Schedule", "ScheduleError"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LAST_EPOCH = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // timedelta(seconds=1)
_HOUR = 3600


class Schedule:
    """One expression in one zone. Immutable, so equal ones may be one object."""

    __slots__ = ("_every_hour", "_wall_times", "_zone", "expression", "time_zone")

    def __init__(self, expression: str, time_zone: str) -> None:
        """Use `parse`, which trims the expression and shares the instance."""
        self.expression = expression
        self.time_zone = time_zone
        self._wall_times, self._every_hour = _parsed(expression)
        try:
            self._zone = zones.load(time_zone)
        except zones.UnknownZoneError as error:
            raise ScheduleError("timeZone", str(error)) from None

    @classmethod
    def parse(cls, expression: str, *, time_zone: str = "UTC") -> Schedule:
        """The schedule; ScheduleError names the field (`schedule`, `timeZone`), the value and what to write instead."""
        text = cron_fields.trimmed(expression)
        return _shared(text, time_zone) if isinstance(time_zone, str) else cls(text, time_zone)

    def __eq__(self, other: object) -> bool:
        """Schedules are equal that have the same text and zone name."""
        if not isinstance(other, Schedule):
            return NotImplemented
        return (self.expression, self.time_zone) == (other.expression, other.time_zone)

    def __hash__(self) -> int:
        """By text and zone name."""
        return hash((self.expression, self.time_zone))

    def next_after(self, t: datetime) -> datetime | None:
        """The first firing strictly after the aware datetime, in UTC; None where none ever comes."""
        return _datetime(self.next_epoch(_epoch(t)))

    def previous(self, t: datetime) -> datetime | None:
        """The last firing at or before the aware datetime, in UTC; None where there was none."""
        return _datetime(self.previous_epoch(_epoch(t)))

    def between(self, a: datetime, b: datetime) -> Iterator[datetime]:
        """The firings after `a`, up to and including `b`, ascending, in UTC."""
        return (_EPOCH + timedelta(seconds=firing) for firing in self.between_epochs(_epoch(a), _epoch(b)))

    def next_epoch(self, after: int) -> int | None:
        """The first firing strictly after the epoch second."""
        zone = self._zone
        segment = zone.segment_at(after)
        offset = zone.offsets[segment]
        low = after + 1 + offset
        if not self._every_hour:
            low = max(low, zone.fresh_from[segment])
        wall = self._wall_times.at_or_after(low)
        if wall is not None and wall - offset < zone.starts[segment + 1] and wall - offset < zone.complete_until:
            return wall - offset
        return self._next_beyond(segment, searched=low, wall=wall)

    def _next_beyond(self, segment: int, *, searched: int, wall: int | None) -> int | None:
        """The first firing from the segment on, given the first match `wall` at or after the wall second `searched`."""
        zone = self._zone
        while True:
            if wall is not None:
                firing = max(wall - zone.offsets[segment], zone.starts[segment])
                if firing >= zone.complete_until:
                    zone.extend(firing)
                if firing < zone.starts[segment + 1]:
                    return firing
            segment += 1
            if segment == len(zone.offsets):
                return None
            low = self._low(segment)
            if low < searched or (wall is not None and wall < low):
                searched, wall = low, self._wall_times.at_or_after(low)
            elif wall is None:
                return None

    def previous_epoch(self, at: int) -> int | None:
        """The last firing at or before the epoch second."""
        zone = self._zone
        segment = zone.segment_at(at)
        high = at + zone.offsets[segment]
        wall = self._wall_times.at_or_before(high)
        while wall is None or wall < self._low(segment):
            segment -= 1
            if segment < 0:
                return None
            end = zone.starts[segment + 1] + zone.offsets[segment] - 1
            if end > high or (wall is not None and wall > end):
                high, wall = end, self._wall_times.at_or_before(end)
            elif wall is None:
                return None
        return max(wall - zone.offsets[segment], zone.starts[segment])

    def between_epochs(self, a: int, b: int) -> Iterator[int]:
        """The firings after epoch second `a`, up to and including `b`, ascending."""
        for caught_up, low, high, offset in self._pieces(a, b):
            yield from caught_up
            for wall in self._wall_times.within(low, high):
                yield wall - offset

    def count_between(self, a: int, b: int) -> int:
        """How many firings `between_epochs` would yield; a year of them in microseconds."""
        return sum(
            len(caught_up) + self._wall_times.count_within(low, high) for caught_up, low, high, _ in self._pieces(a, b)
        )

    def _pieces(self, a: int, b: int) -> Iterator[tuple[list[int], int, int, int]]:
        """For each segment in (a, b]: the firing that catches up a jump, if any, first and last wall second, offset."""
        zone = self._zone
        zone.segment_at(b)
        for segment in range(zone.segment_at(a), len(zone.offsets)):
            start, offset = zone.starts[segment], zone.offsets[segment]
            if start > b or a >= b:
                return
            low, high = self._low(segment), min(b, zone.starts[segment + 1] - 1) + offset
            if a >= start:
                low = max(low, a + 1 + offset)
            caught_up = []
            if low <= start + offset:
                caught_up = [start] if self._wall_times.any_within(low, start + offset) else []
                low = start + offset + 1
            yield caught_up, low, high, offset

    def fires_at(self, instant: int) -> bool:
        """Whether the epoch second is a firing."""
        return self.previous_epoch(instant) == instant

    def longest_gap(self, from_time: datetime, *, years: int) -> timedelta:
        """The longest time between two neighbouring firings in [from_time, from_time + years); zero without two."""
        start = _epoch(from_time)
        end = _epoch(_years_later(from_time, years))
        longest = 0
        firing = self.next_epoch(start - 1)
        while firing is not None and firing < end:
            firing, inside = self._stretch(firing, end)
            following = self.next_epoch(firing)
            across = following - firing if following is not None and following < end else 0
            longest = max(longest, inside, across)
            firing = following
        return timedelta(seconds=longest)

    def tail(self, instant: int) -> object:
        """Schedules of one expression with equal tails fire alike after the instant."""
        return self._zone.tail(instant)

    def _stretch(self, firing: int, end: int) -> tuple[int, int]:
        """The last firing of the regular days or hour that begin with this one, and the longest gap in them."""
        zone, times = self._zone, self._wall_times
        segment = zone.segment_at(firing)
        wall = firing + zone.offsets[segment]
        wall_end = min(zone.starts[segment + 1], zone.complete_until, end) + zone.offsets[segment]
        day, second = divmod(wall, DAY)
        if second == times.first and (day + 1) * DAY <= wall_end:
            last_day, longest_step = times.span(day, wall_end // DAY)
            overnight = longest_step * DAY - times.last + times.first if longest_step else 0
            return firing + (last_day - day) * DAY + times.last - times.first, max(times.longest_in_day, overnight)
        hour = wall - wall % _HOUR
        if wall - hour == times.first_of_hour and hour + _HOUR <= wall_end and times.matches(wall):
            return firing + times.last_of_hour - times.first_of_hour, times.longest_in_hour
        return firing, 0

    def _low(self, segment: int) -> int:
        """The first wall second that can fire in the segment; before the segment's own where it catches up a jump."""
        zone = self._zone
        return zone.starts[segment] + zone.offsets[segment] if self._every_hour else zone.fresh_from[segment]


@lru_cache(maxsize=8192)
def _shared(expression: str, time_zone: str) -> Schedule:
    return Schedule(expression, time_zone)


@lru_cache(maxsize=8192)
def _parsed(expression: str) -> tuple[WallTimes, bool]:
    fields = cron_fields.parse(expression)
    return WallTimes(fields), fields.every_hour


def _epoch(t: datetime) -> int:
    """The epoch second in which the instant lies."""
    if t.utcoffset() is None:
        raise ValueError(f"a datetime without a zone names no instant: {t}")
    return (t - _EPOCH) // timedelta(seconds=1)


def _datetime(epoch: int | None) -> datetime | None:
    if epoch is None or epoch > _LAST_EPOCH:
        return None
    return _EPOCH + timedelta(seconds=epoch)


def _years_later(t: datetime, years: int) -> datetime:
    """The same day so many years later, 1 March for a 29 February that is not there."""
    t = t.astimezone(UTC)
    try:
        return t.replace(year=t.year + years)
    except ValueError:
        return t.replace(year=t.year + years, month=3, day=1)
