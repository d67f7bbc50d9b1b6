"""Time zones from the pinned `tzdata` package, whatever zone files and TZ the host has.

A zone is a row of segments of constant UTC offset. Segment i begins at the instant `starts[i]` (epoch seconds), ends
where the next begins, and its wall reads `instant + offsets[i]`: wall seconds are counted from 1970-01-01 00:00 on the
wall, so that they divide into days and seconds of the day without a datetime.

The files are those of RFC 9636 (TZif); after their last transition the rule in their footer goes on.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_right
from datetime import date
from functools import cache
from importlib import resources

from quarterjack.invalid import quoted

DAY = 86_400
NEVER = 1 << 62
# What a longer jump skips is not caught up (cronie's limit): it is the calendar that changed, not the clock.
MAX_CAUGHT_UP_JUMP = 3 * 3600
_NOT_A_PLACE = frozenset({"Factory", "localtime", "posixrules", "posix", "right"})
_FIRST_HORIZON_YEAR = 2100
_LAST_YEAR = 9998


class UnknownZoneError(ValueError):
    """Not the name of a zone in tzdata; the text says what to write instead."""


class Zone:
    """The segments of one zone. Names with the same rules (links) share one."""

    __slots__ = ("_rule", "complete_until", "fresh_from", "offsets", "starts")

    def __init__(self, starts: list[int], offsets: list[int], rule: Rule | None) -> None:
        """`starts[0]` is taken as the beginning of time; `rule` goes on after the last start."""
        self.starts = array("q", [-NEVER, NEVER])
        self.offsets = array("q", offsets[:1])
        # The first wall second of each segment that no earlier segment had, and that none has caught up.
        self.fresh_from = array("q", [-NEVER])
        self.complete_until = NEVER
        self._rule = rule
        for start, offset in zip(starts[1:], offsets[1:], strict=True):
            self._append(start, offset)
        if rule is not None:
            self.complete_until = max(starts[-1] + 1, 0)
            self._extend_to_year(_FIRST_HORIZON_YEAR)

    def segment_at(self, instant: int) -> int:
        """The index of the segment that holds the instant."""
        if instant >= self.complete_until:
            self.extend(instant)
        return bisect_right(self.starts, instant) - 1

    def extend(self, instant: int) -> None:
        """Follow the rule until the instant is covered, and a year more."""
        self._extend_to_year(_year_of(instant // DAY) + 2)

    def tail(self, instant: int) -> tuple[int, bytes, bytes, bytes, Rule | None]:
        """What decides all firings after the instant: zones with equal tails fire alike from there on."""
        first = self.segment_at(instant)
        fresh_from = self.fresh_from[first:]
        fresh_from[0] = max(fresh_from[0] - self.offsets[first], instant)
        return (
            self.complete_until,
            self.starts[first + 1 :].tobytes(),
            self.offsets[first:].tobytes(),
            fresh_from.tobytes(),
            self._rule,
        )

    def _extend_to_year(self, year: int) -> None:
        """Append the rule's transitions up to the end of the year before."""
        year = min(year, _LAST_YEAR)
        until = _days_to(year, 1, 1) * DAY
        for each_year in range(_year_of(self.complete_until // DAY) - 1, year + 1):
            for start, offset in self._rule.transitions(each_year) if self._rule else ():
                if self.complete_until <= start < until:
                    self._append(start, offset)
        self.complete_until = until if year < _LAST_YEAR else NEVER

    def _append(self, start: int, offset: int) -> None:
        before = self.offsets[-1]
        if offset == before or start <= self.starts[-2]:
            return
        fresh_from = max(self.fresh_from[-1], start + before)
        if offset - before > MAX_CAUGHT_UP_JUMP:
            fresh_from = max(fresh_from, start + offset)
        self.starts.insert(len(self.starts) - 1, start)
        self.offsets.append(offset)
        self.fresh_from.append(fresh_from)


class Rule:
    """The footer of a zone file: a POSIX TZ string with daylight saving time."""

    __slots__ = ("_changes",)

    def __init__(self, changes: tuple[tuple[str, int, int, int], tuple[str, int, int, int]]) -> None:
        """Each change: the day's form, its wall second of the day, the offset before and after."""
        self._changes = changes

    def __eq__(self, other: object) -> bool:
        """Rules are equal that change alike."""
        return isinstance(other, Rule) and self._changes == other._changes

    def __hash__(self) -> int:
        """By the changes."""
        return hash(self._changes)

    def transitions(self, year: int) -> list[tuple[int, int]]:
        """The year's changes in order: the instant, and the offset from then on."""
        return sorted(
            (_rule_day(form, year) * DAY + second - before, after) for form, second, before, after in self._changes
        )


def load(name: object) -> Zone:
    """The zone of that name, spelt as in tzdata; UnknownZoneError otherwise."""
    if not isinstance(name, str) or name not in names():
        raise UnknownZoneError(_advice(name))
    return _load(name)


@cache
def names() -> frozenset[str]:
    """All zone names of the tzdata package."""
    listed = resources.files("tzdata").joinpath("zones").read_text(encoding="ascii").split()
    return frozenset(listed) - _NOT_A_PLACE


def _advice(name: object) -> str:
    problem = f"{quoted(name)} is not a time zone"
    if isinstance(name, str) and len(name) < 64:
        wanted = name.strip().replace(" ", "_").casefold()
        for known in names():
            if known.casefold() == wanted:
                return f"{problem}, write {known}"
    if isinstance(name, str) and name.casefold() in {"local", "localtime"}:
        return f"{problem} (each node has its own), write a name from the IANA list such as Europe/Berlin"
    return f"{problem}, write a name from the IANA list such as Europe/Berlin or UTC"


@cache
def _load(name: str) -> Zone:
    return _parsed(resources.files("tzdata").joinpath("zoneinfo", *name.split("/")).read_bytes())


@cache
def _parsed(content: bytes) -> Zone:
    """The zone of a TZif file of version 2 or later; its first block, of 32-bit times, is passed over."""
    second_header = 44 + _block_length(content, 0, time_size=4)
    times, types, names_length, leaps, standards, utcs = _counts(content, second_header)
    at = second_header + 44
    starts = list(struct.unpack_from(f">{times}q", content, at))
    indices = content[at + 8 * times : at + 9 * times]
    at += 9 * times
    type_offsets = [struct.unpack_from(">l", content, at + 6 * i)[0] for i in range(types)]
    at += 6 * types + names_length + 12 * leaps + standards + utcs
    footer = content[at:].strip(b"\n").decode("ascii")
    return Zone([-NEVER, *starts], [type_offsets[0], *(type_offsets[i] for i in indices)], rule_of(footer))


def _counts(content: bytes, header: int) -> tuple[int, int, int, int, int, int]:
    if content[header : header + 4] != b"TZif":
        raise ValueError("tzdata holds a file that is not TZif")
    utcs, standards, leaps, times, types, names_length = struct.unpack_from(">6l", content, header + 20)
    return times, types, names_length, leaps, standards, utcs


def _block_length(content: bytes, header: int, *, time_size: int) -> int:
    times, types, names_length, leaps, standards, utcs = _counts(content, header)
    return times * (time_size + 1) + types * 6 + names_length + leaps * (time_size + 4) + standards + utcs


_TZ_STRING = re.compile(
    r"(?:<[^>]+>|[A-Za-z]+)(?P<standard>[-+]?[0-9:]+)"
    r"(?:(?:<[^>]+>|[A-Za-z]+)(?P<saving>[-+]?[0-9:]+)?,(?P<to_saving>[^,]+),(?P<to_standard>[^,]+))?"
)


def rule_of(footer: str) -> Rule | None:
    """The rule of a footer, None where it names a single offset for ever."""
    match = _TZ_STRING.fullmatch(footer)
    if match is None:
        raise ValueError(f"tzdata holds a rule that is not understood: {footer!r}")
    if match["to_saving"] is None:
        return None
    standard = -_seconds(match["standard"])
    saving = -_seconds(match["saving"]) if match["saving"] else standard + 3600
    return Rule((_change(match["to_saving"], standard, saving), _change(match["to_standard"], saving, standard)))


def _change(text: str, before: int, after: int) -> tuple[str, int, int, int]:
    form, _, time_of_day = text.partition("/")
    return form, _seconds(time_of_day or "2"), before, after


def _seconds(text: str) -> int:
    """`[+-]h[:m[:s]]` in seconds."""
    sign = -1 if text.startswith("-") else 1
    parts = [int(part) for part in text.lstrip("+-").split(":")]
    return sign * sum(part * size for part, size in zip(parts, (3600, 60, 1), strict=False))


def _rule_day(form: str, year: int) -> int:
    """The day number of `Mm.w.d` (week 5 is the last), of `Jn` (1 to 365, never 29 February) or of `n` (0 to 365)."""
    if form.startswith("M"):
        month, week, weekday = (int(part) for part in form[1:].split("."))
        first = _days_to(year, month, 1)
        day = first + (weekday - (first + 4)) % 7 + 7 * (week - 1)
        return day if day < _days_to(year + month // 12, month % 12 + 1, 1) else day - 7
    if form.startswith("J"):
        day_of_year = int(form[1:])
        leap_day_passed = day_of_year >= 60 and _days_to(year, 3, 1) - _days_to(year, 2, 1) == 29
        return _days_to(year, 1, 1) + day_of_year - (0 if leap_day_passed else 1)
    return _days_to(year, 1, 1) + int(form)


_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()


def _days_to(year: int, month: int, day: int) -> int:
    return date(year, month, day).toordinal() - _EPOCH_ORDINAL


def _year_of(day: int) -> int:
    return date.fromordinal(min(max(day + _EPOCH_ORDINAL, 1), date.max.toordinal())).year
