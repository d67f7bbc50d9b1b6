"""From the text of a cron expression to sets: croniter expands the fields, a normaliser before it leaves it no guess.

croniter 7 reads `30-30` as the whole field, seconds as the last field, `5,5#2` not at all, and takes `R` for a number
that is random in each process. So each item of a field is matched against one strict grammar here, names become
numbers, wrap-around ranges become lists, and the items that depend on the month (`L`, `LW`, `15W`, `5L`, `5#2`) are
kept apart, for croniter would AND them.

A set of numbers is an int whose bit n says that n is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

from croniter import croniter

from quarterjack.invalid import ScheduleError, quoted

MAX_CHARACTERS = 512
MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTH_NAMES = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_WEEKDAY_NAMES = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
MONTHS = {name: i for i, name in enumerate(_MONTH_NAMES, 1)}
WEEKDAYS = {name: i for i, name in enumerate(_WEEKDAY_NAMES)}
# A year after the last may be written, but nothing fires in it.
FIRST_YEAR, LAST_YEAR, WRITTEN_YEAR = 1970, 2099, 9999


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One place of a cron expression; compared by identity."""

    name: str
    low: int
    high: int
    names: Mapping[str, int]


SECOND = Field("second", 0, 59, {})
MINUTE = Field("minute", 0, 59, {})
HOUR = Field("hour", 0, 23, {})
DAY_OF_MONTH = Field("day of month", 1, 31, {})
MONTH = Field("month", 1, 12, MONTHS)
DAY_OF_WEEK = Field("day of week", 0, 6, WEEKDAYS)
YEAR = Field("year", FIRST_YEAR, LAST_YEAR, {})
_FIVE = (MINUTE, HOUR, DAY_OF_MONTH, MONTH, DAY_OF_WEEK)
_PLACES = {5: _FIVE, 6: (SECOND, *_FIVE), 7: (SECOND, *_FIVE, YEAR)}
_CRONITER_ORDER = (*_FIVE, SECOND, YEAR)

_ITEM = re.compile(
    r"(?:(?P<star>\*)|(?P<low>[0-9]{1,9}|[A-Z]{3})(?:-(?P<high>[0-9]{1,9}|[A-Z]{3}))?)(?:/(?P<step>[0-9]{1,9}))?"
)
_NEAREST_WEEKDAY = re.compile(r"(?P<day>[0-9]{1,9})W")
_LAST_OF_MONTH = re.compile(r"(?P<day>[0-9]{1,9}|[A-Z]{3})L")
_NTH_OF_MONTH = re.compile(r"(?P<day>[0-9]{1,9}|[A-Z]{3})#(?P<nth>[0-9])")


@dataclass(frozen=True, slots=True)
class DayRule:
    """Which days match. `any_day` and `any_weekday` are cron's star bits: the field's text begins with `*` or `?`."""

    days: int
    last_day: bool
    last_weekday: bool
    nearest_weekdays: int
    weekdays: int
    last_weekdays: int
    nth_weekdays: tuple[int, ...]
    any_day: bool
    any_weekday: bool
    months: int
    years: int | None
    # The matching days by (weekday of the first, length) of a month; filled by the walker, the same whoever fills it.
    by_month: dict[int, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def every_day(self) -> bool:
        """Whether no day is left out."""
        day_sets_full = self.days == _full(DAY_OF_MONTH) and self.weekdays == _full(DAY_OF_WEEK)
        return day_sets_full and self.months == _full(MONTH) and self.years is None


@dataclass(frozen=True, slots=True)
class CronFields:
    """A parsed expression: the sets of seconds, minutes, hours, and the rule of its days."""

    seconds: int
    minutes: int
    hours: int
    days: DayRule

    @property
    def every_hour(self) -> bool:
        """Whether the hour field covers all 24: such a schedule follows real time when the clock is changed."""
        return self.hours == _full(HOUR)


def parse(expression: str) -> CronFields:
    """The sets of an expression that `trimmed` returned; ScheduleError names the field, the value and what to write."""
    texts = _texts(expression)
    return CronFields(
        seconds=_set(SECOND, texts.get(SECOND, "0")),
        minutes=_set(MINUTE, texts[MINUTE]),
        hours=_set(HOUR, texts[HOUR]),
        days=_day_rule(texts[DAY_OF_MONTH], texts[MONTH], texts[DAY_OF_WEEK], texts.get(YEAR)),
    )


def trimmed(expression: object) -> str:
    """The expression with its fields one space apart; ScheduleError where it is no text, or not one of cron's."""
    if not isinstance(expression, str):
        raise _not_cron(expression, "is not a text, write five fields in quotes such as '0 2 * * *'")
    if len(expression) > MAX_CHARACTERS:
        raise _not_cron(expression, f"has over {MAX_CHARACTERS} characters, write a shorter one")
    text = re.sub(r"[ \t\r\n]+", " ", expression).strip(" ")
    if not text.isascii() or not text.isprintable():
        raise _not_cron(text, "has a character that cron does not know, write ASCII digits and letters")
    return text


def _texts(expression: str) -> dict[Field, str]:
    """The text of each field, in capitals."""
    _refuse_other_dialects(expression)
    parts = MACROS.get(expression.lower(), expression).upper().split(" ")
    places = _PLACES.get(len(parts))
    if places is None:
        raise _not_cron(
            expression,
            f"has {len(expression.split())} fields, write 5 (minute hour day-of-month month day-of-week), "
            "6 (seconds first) or 7 (seconds first, year last)",
        )
    return dict(zip(places, parts, strict=True))


def _refuse_other_dialects(expression: str) -> None:
    upper = expression.upper()
    for prefix in ("CRON_TZ=", "TZ="):
        if upper.startswith(prefix):
            zone = expression[len(prefix) :].partition(" ")[0]
            raise _not_cron(expression, f"holds a zone, write timeZone: {quoted(zone)} instead")
    if upper.startswith("@EVERY"):
        period = expression[len("@every") :].strip() or "10m"
        raise _not_cron(expression, f"is not cron, write interval: {quoted(period)} instead")
    if upper == "@REBOOT":
        raise _not_cron(expression, 'knows no boot here, write runAfter: "1s" to run once after creation')
    if expression.startswith("@") and expression.lower() not in MACROS:
        raise _not_cron(expression, f"is not known, write five fields or one of {', '.join(MACROS)}")


def _ordinary(place: Field, text: str) -> list[str]:
    """The items of a field that do not depend on the month, as croniter is to read them."""
    if text == "?":
        if place not in (DAY_OF_MONTH, DAY_OF_WEEK):
            raise _wrong(place, text, "'?' stands only for a day, write '*'")
        return ["*"]
    return [plain for item in text.split(",") if not _depends_on_month(place, item) for plain in _plain(place, item)]


def _depends_on_month(place: Field, item: str) -> bool:
    """Whether the item is one of L, LW, 15W (day of month), 5L, 5#2 (day of week); ScheduleError where out of range."""
    if place is DAY_OF_MONTH:
        nearest = _NEAREST_WEEKDAY.fullmatch(item)
        if nearest:
            _number(place, item, nearest["day"])
        return item in {"L", "LW"} or nearest is not None
    if place is DAY_OF_WEEK:
        match = _NTH_OF_MONTH.fullmatch(item) or _LAST_OF_MONTH.fullmatch(item)
        if match:
            _number(place, item, match["day"])
            if not "1" <= match.groupdict().get("nth", "1") <= "5":
                raise _wrong(place, item, "a month has at most five of a weekday, write #1 to #5")
        return match is not None
    return False


def _plain(place: Field, item: str) -> list[str]:
    """The item with numbers for names, in ranges that go upwards; more than one where it wraps around."""
    match = _ITEM.fullmatch(item)
    if match is None:
        raise _wrong(place, item, _advice(place, item))
    step = _step(place, item, match["step"])
    if match["star"]:
        return [f"*/{step}"] if match["step"] else ["*"]
    low, high = _bounds(place, item, match)
    if place is YEAR:
        return _plain_years(item, low, high, step)
    if low == high:
        return [str(low)]
    if low < high <= place.high:
        return [f"{low}-{high}/{step}"]
    span = place.high - place.low + 1
    end = high if low < high else high + span
    return [str(place.low + (value - place.low) % span) for value in range(low, end + 1, step)]


def _plain_years(item: str, low: int, high: int, step: int) -> list[str]:
    if low > high:
        raise _wrong(YEAR, item, f"years do not wrap around, write {high}-{low}")
    high = min(high, LAST_YEAR)
    if low >= high:
        return [str(low)] if low == high else []
    return [f"{low}-{high}/{step}"]


def _step(place: Field, item: str, text: str | None) -> int:
    step = int(text) if text else 1
    if step == 0:
        raise _wrong(place, item, "a step of 0 goes nowhere, write a step of 1 or more")
    return step


def _bounds(place: Field, item: str, match: re.Match[str]) -> tuple[int, int]:
    """First and last number of a range; a single number is a range of one, a number with a step goes up to the end."""
    low = _number(place, item, match["low"])
    if match["high"] is not None:
        high = _number(place, item, match["high"])
        if place is DAY_OF_WEEK and low == 7:
            return 0, high % 7
        return low, high
    if match["step"] is None:
        low = low % 7 if place is DAY_OF_WEEK else low
        return low, low
    if place is DAY_OF_WEEK and low == 7:
        raise _wrong(place, item, f"7 is the last day of a range, write 0/{match['step']} to count from Sunday")
    return low, place.high


def _number(place: Field, item: str, text: str) -> int:
    if not text.isdigit():
        if text not in place.names:
            raise _wrong(place, item, _advice(place, item))
        return place.names[text]
    number = int(text)
    high = 7 if place is DAY_OF_WEEK else place.high
    if not place.low <= number <= (WRITTEN_YEAR if place is YEAR else high):
        raise _wrong(place, item, f"out of range, write {place.low} to {high}")
    return number


def _not_cron(expression: object, advice: str) -> ScheduleError:
    return ScheduleError("schedule", f"{quoted(expression)} {advice}")


def _wrong(place: Field, item: str, advice: str) -> ScheduleError:
    return ScheduleError("schedule", f"{place.name} {quoted(item)}: {advice}")


_JENKINS = re.compile(r"[HR](\([0-9-]*\))?(/[0-9]*)?")


def _advice(place: Field, item: str) -> str:
    """What to write instead of an item that is not in the grammar."""
    if _JENKINS.fullmatch(item):
        return "hashed and random times are not supported, write a number (and jitter, to spread starts)"
    if item == "L" and place is DAY_OF_WEEK:
        return "write the weekday too, such as 5L for the last Friday of the month"
    if re.fullmatch(r"L-[0-9]+", item):
        return "days before the last are not supported, write L, LW or days such as 28"
    if re.fullmatch(r"[LW][0-9]+", item):
        return f"write {item[1:]}{item[0]}"
    if item == "":
        return "empty, write a number on both sides of each comma"
    numbers = f"{place.low} to {place.high}"
    names = f" ({', '.join(place.names)})" if place.names else ""
    return f"not understood, write numbers {numbers}{names}, a range such as {place.low}-{place.high}, a list or a step"


@lru_cache(maxsize=4096)
def _set(place: Field, text: str) -> int:
    """The numbers of a field by croniter's expansion; none where all its items depend on the month."""
    items = _ordinary(place, text)
    if not items:
        return 0
    index = _CRONITER_ORDER.index(place)
    fields = ["*"] * max(index + 1, len(_FIVE))
    fields[index] = ",".join(items)
    values = croniter.expand(" ".join(fields))[0][index]
    return _full(place) if "*" in values else _set_of(int(value) for value in values)


@cache
def _full(place: Field) -> int:
    return _set_of(range(place.low, place.high + 1))


def _set_of(numbers: Iterable[int]) -> int:
    total = 0
    for number in numbers:
        total |= 1 << number
    return total


@lru_cache(maxsize=4096)
def _day_rule(day: str, month: str, weekday: str, year: str | None) -> DayRule:
    """The one rule of these four texts, so that thousands of schedules share its months."""
    days, weekdays = _set(DAY_OF_MONTH, day), _set(DAY_OF_WEEK, weekday)
    nth = [match for item in weekday.split(",") if (match := _NTH_OF_MONTH.fullmatch(item))]
    last = [match for item in weekday.split(",") if (match := _LAST_OF_MONTH.fullmatch(item))]
    nearest = [match for item in day.split(",") if (match := _NEAREST_WEEKDAY.fullmatch(item))]
    return DayRule(
        days=days,
        last_day="L" in day.split(","),
        last_weekday="LW" in day.split(","),
        nearest_weekdays=_set_of(int(match["day"]) for match in nearest),
        weekdays=weekdays,
        last_weekdays=_set_of(_weekday(match["day"]) for match in last),
        nth_weekdays=tuple(
            _set_of(_weekday(match["day"]) for match in nth if match["nth"] == week)
            for week in ("1", "2", "3", "4", "5")
        ),
        any_day=day[0] in "*?",
        any_weekday=weekday[0] in "*?",
        months=_set(MONTH, month),
        years=None if year is None else _set(YEAR, year),
    )


def _weekday(text: str) -> int:
    return int(text) % 7 if text.isdigit() else WEEKDAYS[text]
