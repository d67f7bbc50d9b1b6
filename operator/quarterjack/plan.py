"""When a job fires, whatever the kind of its schedule: cron in one zone or several, an interval, once, or by hand only.

A plan's firings lie after its anchor: the epoch second from which they count (creation, last change of the schedule,
last resume). Each plan writes itself in one line, which `plan_from_line` reads back, so that the firings of an old
schedule can be settled after its spec has been edited.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from typing import Any, Protocol

from quarterjack import zones
from quarterjack.durations import format_duration, whole_seconds
from quarterjack.invalid import ScheduleError, quoted
from quarterjack.schedule import Schedule

__all__ = ["Plan", "ScheduleError", "plan_from_line", "plan_of", "start_delay_ms"]

BY_HAND = "by hand"
YEAR_SECONDS = 366 * 86_400
_MERGED_FIRINGS = 5_000  # of all zones together, in some ten milliseconds
_DENSE_YEARS, _RARE_YEARS = 2, 9
_RARE_FIRINGS = 24  # in the dense years
_KINDS = ("schedule", "interval", "runAfter")
_EVERY, _ONCE = "every ", "once after "


@dataclass(frozen=True, slots=True)
class Pace:
    """The mean and the longest time between two neighbouring firings, in seconds; zeros where there are no two."""

    period_seconds: int = 0
    longest_gap_seconds: int = 0


class Plan(Protocol):
    """The firings of a job, in epoch seconds, all of them after the plan's anchor."""

    @property
    def anchor(self) -> int:
        """The epoch second after which firings count."""
        ...

    def next_after(self, epoch: int) -> int | None:
        """The first firing strictly after the epoch second; None where none ever comes."""
        ...

    def previous(self, epoch: int) -> int | None:
        """The last firing at or before the epoch second; None where there was none."""
        ...

    def between(self, a: int, b: int) -> Iterator[int]:
        """The firings after `a`, up to and including `b`, ascending."""
        ...

    def count_between(self, a: int, b: int, *, limit: int) -> int:
        """How many firings `between` has, `limit` where there are more."""
        ...

    def pace(self) -> Pace:
        """How far apart its firings are, measured over the first years after the anchor."""
        ...

    def zones_at(self, epoch: int) -> tuple[str, ...]:
        """The zones whose firing the epoch second is, sorted; empty for a plan without a wall clock."""
        ...

    def line(self) -> str:
        """The schedule in one line, zones included (UTC alone is left out); equal for schedules that are equal."""
        ...


@dataclass(frozen=True, slots=True)
class CronPlan:
    """A wall-clock schedule in one or several zones; one firing per distinct instant."""

    anchor: int
    schedules: tuple[Schedule, ...]
    # One schedule for all that fire alike after the anchor: 400 zones are about 80. Found at the first question, as the pace is.
    _distinct: list[Schedule] = field(default_factory=list, compare=False, repr=False)
    _pace: list[Pace] = field(default_factory=list, compare=False, repr=False)

    def next_after(self, epoch: int) -> int | None:
        """The first firing strictly after the epoch second; None where none ever comes."""
        after = max(epoch, self.anchor)
        if len(self.schedules) == 1:
            return self.schedules[0].next_epoch(after)
        firings = [schedule.next_epoch(after) for schedule in self._groups()]
        return min((firing for firing in firings if firing is not None), default=None)

    def previous(self, epoch: int) -> int | None:
        """The last firing at or before the epoch second; None where there was none."""
        firings = [schedule.previous_epoch(epoch) for schedule in self._groups()]
        return max((firing for firing in firings if firing is not None and firing > self.anchor), default=None)

    def between(self, a: int, b: int) -> Iterator[int]:
        """The firings after `a`, up to and including `b`, ascending."""
        a = max(a, self.anchor)
        groups = self._groups()
        if len(groups) == 1:
            return groups[0].between_epochs(a, b)
        return _distinct(heapq.merge(*(schedule.between_epochs(a, b) for schedule in groups)))

    def count_between(self, a: int, b: int, *, limit: int) -> int:
        """How many firings `between` has, `limit` where there are more; in one zone found without listing them."""
        groups = self._groups()
        if len(groups) == 1:
            return min(groups[0].count_between(max(a, self.anchor), b), limit)
        return sum(1 for _ in islice(self.between(a, b), limit))

    def pace(self) -> Pace:
        """Measured once: over two years, nine where firings are rare; over fewer firings the more zones there are."""
        if not self._pace:
            groups = self._groups()
            self._pace.append(_pace_of(groups[0], self.anchor) if len(groups) == 1 else self._merged_pace())
        return self._pace[0]

    def _merged_pace(self) -> Pace:
        firings = self.between(self.anchor, self.anchor + _RARE_YEARS * YEAR_SECONDS)
        sample = list(islice(firings, _MERGED_FIRINGS // len(self._groups())))
        gaps = [b - a for a, b in pairwise(sample)]
        return Pace(sum(gaps) // len(gaps), max(gaps)) if gaps else Pace()

    def zones_at(self, epoch: int) -> tuple[str, ...]:
        """The zones whose firing the epoch second is, sorted."""
        return tuple(schedule.time_zone for schedule in self.schedules if schedule.fires_at(epoch))

    def line(self) -> str:
        """The expression and its zones: with all of tzdata's 10,000 characters, the bound."""
        names = ",".join(schedule.time_zone for schedule in self.schedules)
        expression = self.schedules[0].expression
        return expression if names == "UTC" else f"{expression} {names}"

    def _groups(self) -> Sequence[Schedule]:
        if not self._distinct:
            by_tail = {schedule.tail(self.anchor): schedule for schedule in self.schedules}
            self._distinct.extend(by_tail.values())
        return self._distinct


@dataclass(frozen=True, slots=True)
class IntervalPlan:
    """Every so long from the anchor, the first time one period after it; counted from the anchor, so without drift."""

    anchor: int
    period_seconds: int

    def next_after(self, epoch: int) -> int | None:
        """The first firing strictly after the epoch second."""
        periods = (max(epoch, self.anchor) - self.anchor) // self.period_seconds
        return self.anchor + (periods + 1) * self.period_seconds

    def previous(self, epoch: int) -> int | None:
        """The last firing at or before the epoch second; None where there was none."""
        periods = (epoch - self.anchor) // self.period_seconds
        return self.anchor + periods * self.period_seconds if periods > 0 else None

    def between(self, a: int, b: int) -> Iterator[int]:
        """The firings after `a`, up to and including `b`, ascending."""
        first = self.next_after(a)
        return iter(() if first is None else range(first, b + 1, self.period_seconds))

    def count_between(self, a: int, b: int, *, limit: int) -> int:
        """How many firings `between` has, `limit` where there are more."""
        first = self.anchor + self.period_seconds
        before = (max(a, self.anchor) - self.anchor) // self.period_seconds
        return 0 if b < first else min(max((b - self.anchor) // self.period_seconds - before, 0), limit)

    def pace(self) -> Pace:
        """The period, always."""
        return Pace(self.period_seconds, self.period_seconds)

    def zones_at(self, epoch: int) -> tuple[str, ...]:
        """None: an interval has no wall clock."""
        del epoch
        return ()

    def line(self) -> str:
        """Such as `every 10m`."""
        return _EVERY + format_duration(1000 * self.period_seconds)


@dataclass(frozen=True, slots=True)
class OncePlan:
    """Once, so long after the anchor."""

    anchor: int
    delay_seconds: int

    def next_after(self, epoch: int) -> int | None:
        """The firing, where it lies after the epoch second."""
        firing = self.anchor + self.delay_seconds
        return firing if firing > epoch else None

    def previous(self, epoch: int) -> int | None:
        """The firing, where it lies at or before the epoch second."""
        firing = self.anchor + self.delay_seconds
        return firing if firing <= epoch else None

    def between(self, a: int, b: int) -> Iterator[int]:
        """The firing, where it lies after `a` and not after `b`."""
        firing = self.anchor + self.delay_seconds
        return iter((firing,) if a < firing <= b else ())

    def count_between(self, a: int, b: int, *, limit: int) -> int:
        """How many firings `between` has."""
        return min(len(list(self.between(a, b))), limit)

    def pace(self) -> Pace:
        """None: no two firings."""
        return Pace()

    def zones_at(self, epoch: int) -> tuple[str, ...]:
        """None: a delay has no wall clock."""
        del epoch
        return ()

    def line(self) -> str:
        """Such as `once after 90s`."""
        return _ONCE + format_duration(1000 * self.delay_seconds)


@dataclass(frozen=True, slots=True)
class ByHandPlan:
    """No firing by itself."""

    anchor: int

    def next_after(self, epoch: int) -> int | None:
        """None."""
        del epoch
        return None

    def previous(self, epoch: int) -> int | None:
        """None."""
        del epoch
        return None

    def between(self, a: int, b: int) -> Iterator[int]:
        """Nothing."""
        del a, b
        return iter(())

    def count_between(self, a: int, b: int, *, limit: int) -> int:
        """Zero."""
        del a, b, limit
        return 0

    def pace(self) -> Pace:
        """None: no two firings."""
        return Pace()

    def zones_at(self, epoch: int) -> tuple[str, ...]:
        """None."""
        del epoch
        return ()

    def line(self) -> str:
        """`by hand`."""
        return BY_HAND


def plan_of(spec: Mapping[str, Any], *, anchor: int, default_zone: str = "UTC") -> Plan:
    """The plan of a ScheduledJob's spec; ScheduleError names the field that is wrong, and what to write instead."""
    kinds = [kind for kind in _KINDS if spec.get(kind) is not None]
    if len(kinds) > 1:
        raise ScheduleError(kinds[1], f"stands beside {kinds[0]}, keep one of {', '.join(_KINDS)}")
    if kinds != ["schedule"]:
        _refuse_zones(spec)
    if kinds == ["schedule"]:
        return CronPlan(anchor, _schedules(spec, default_zone))
    if kinds == ["interval"]:
        return IntervalPlan(anchor, _seconds(spec, "interval"))
    if kinds == ["runAfter"]:
        return OncePlan(anchor, _seconds(spec, "runAfter"))
    return ByHandPlan(anchor)


def given_zones(spec: Mapping[str, Any]) -> tuple[str, ...]:
    """The zones that a spec names: what a run by hand is told that is of no firing."""
    one = spec.get("timeZone")
    return (one,) if one else tuple(sorted(spec.get("timeZones") or ()))


def plan_from_line(line: str, *, anchor: int) -> Plan | None:
    """The plan that wrote the line; None where it is damaged, or names a zone that tzdata has no more."""
    try:
        if line == BY_HAND:
            return ByHandPlan(anchor)
        if line.startswith(_EVERY):
            return IntervalPlan(anchor, whole_seconds(line.removeprefix(_EVERY)))
        if line.startswith(_ONCE):
            return OncePlan(anchor, whole_seconds(line.removeprefix(_ONCE)))
        expression, _, last = line.rpartition(" ")
        names = last.split(",")
        # No zone is called like a field of cron, so the last word is either zones or a field.
        if expression and zones.names().issuperset(names):
            return CronPlan(anchor, _in_zones(expression, names))
        return CronPlan(anchor, _in_zones(line, ["UTC"]))
    except ValueError:
        return None


def start_delay_ms(uid: str, firing: int, jitter_ms: int, gap_ms: int | None) -> int:
    """How long after the firing its start is, the same on every replica: uniform over [0, jitter_ms).

    `gap_ms` is the time to the next firing, None where there is none; the start stays before it.
    """
    bound = jitter_ms if gap_ms is None else min(jitter_ms, gap_ms)
    digest = hashlib.blake2b(f"{firing} {uid}".encode(), digest_size=8).digest()
    return max(bound, 0) * int.from_bytes(digest) >> 64


def _schedules(spec: Mapping[str, Any], default_zone: str) -> tuple[Schedule, ...]:
    one, several = spec.get("timeZone"), spec.get("timeZones")
    if several is None:
        return _in_zones(spec["schedule"], [default_zone if one is None else one])
    if one is not None:
        raise ScheduleError("timeZones", "stands beside timeZone, keep one of them")
    if not isinstance(several, Sequence) or isinstance(several, str) or not several:
        raise ScheduleError("timeZones", f"{quoted(several)} is not a list of zones, write at least one")
    try:
        return _in_zones(spec["schedule"], several)
    except ScheduleError as error:
        raise ScheduleError("timeZones" if error.field == "timeZone" else error.field, error.problem) from None


def _in_zones(expression: str, names: Sequence[str]) -> tuple[Schedule, ...]:
    """The expression in each zone, sorted by name."""
    by_name = {schedule.time_zone: schedule for schedule in [Schedule.parse(expression, time_zone=n) for n in names]}
    return tuple(by_name[name] for name in sorted(by_name))


def _pace_of(schedule: Schedule, anchor: int) -> Pace:
    """The pace of one zone: counted, not walked."""
    years = _DENSE_YEARS
    if schedule.count_between(anchor, anchor + years * YEAR_SECONDS) < _RARE_FIRINGS:
        years = _RARE_YEARS
    end = anchor + years * YEAR_SECONDS
    count = schedule.count_between(anchor, end)
    first, last = schedule.next_epoch(anchor), schedule.previous_epoch(end)
    if count < 2 or first is None or last is None:
        return Pace()
    period = (last - first) // (count - 1)
    gap = schedule.longest_gap(datetime.fromtimestamp(anchor + 1, UTC), years=years) // timedelta(seconds=1)
    return Pace(period, max(gap, period))


def _refuse_zones(spec: Mapping[str, Any]) -> None:
    for name in ("timeZone", "timeZones"):
        if spec.get(name) is not None:
            raise ScheduleError(name, "is the zone of a schedule and there is none, leave it out or write schedule")


def _seconds(spec: Mapping[str, Any], name: str) -> int:
    try:
        return whole_seconds(spec[name])
    except ValueError as error:
        raise ScheduleError(name, str(error)) from None


def _distinct(ascending: Iterator[int]) -> Iterator[int]:
    """Each number once."""
    last = None
    for number in ascending:
        if number != last:
            yield number
        last = number
