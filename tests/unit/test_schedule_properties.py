"""What holds for every expression in every zone at every instant, checked against the oracle."""

from __future__ import annotations

import calendar
import re
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise

from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from quarterjack import zones
from quarterjack.schedule import Schedule, ScheduleError
from tests.unit.oracle import Oracle

ZONES = sorted(zones.names())
WEEKDAYS = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"]
MONTHS = ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"]
EARLIEST, LATEST = datetime(1973, 1, 1, tzinfo=UTC), datetime(2105, 1, 1, tzinfo=UTC)

REFUSED_FIELD = re.compile(r'schedule: (second|minute|hour|day of month|month|day of week|year) "')

thorough = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))


def items(low: int, high: int, *, names: list[str] | None = None) -> st.SearchStrategy[str]:
    """One item of a field: star, number, name, range (also wrapping), each with or without a step."""
    single = st.integers(low, high).map(str)
    if names:
        single |= st.sampled_from(names)
    ranges = st.tuples(single, single).map("-".join)
    steps = st.integers(1, high - low + 1).map(lambda step: f"/{step}")
    stepped = st.tuples(single | ranges | st.just("*"), steps).map("".join)
    return st.one_of(single, ranges, st.just("*"), stepped)


def fields(item: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    """A star, or a list of one to three items."""
    return st.just("*") | st.lists(item, min_size=1, max_size=3).map(",".join)


days = fields(items(1, 31) | st.just("L") | st.just("LW") | st.integers(1, 31).map(lambda day: f"{day}W")) | st.just(
    "?"
)
weekdays = fields(
    items(0, 6, names=WEEKDAYS)
    | st.sampled_from(["7", "5-7", "7-2", "0-7", "SAT-TUE/2"])
    | st.tuples(st.integers(0, 7), st.integers(1, 5)).map(lambda pair: f"{pair[0]}#{pair[1]}")
    | st.sampled_from([*(f"{name}L" for name in WEEKDAYS), "7L"])
) | st.just("?")
months = st.just("*") | fields(items(1, 12, names=MONTHS))
minutes, hours, seconds = fields(items(0, 59)), fields(items(0, 23)), fields(items(0, 59))
five_fields = st.tuples(minutes, hours, days, months, weekdays).map(" ".join)
any_fields = five_fields | st.tuples(seconds, five_fields).map(" ".join)
everyday = st.tuples(minutes, hours, st.just("* * *")).map(" ".join)


def refusal_of(text: str) -> str | None:
    """The words with which an expression is refused; one that is not refused can be asked."""
    try:
        Schedule.parse(text).next_epoch(0)
    except ScheduleError as refusal:
        return str(refusal)
    return None


@st.composite
def instants(draw: st.DrawFn, time_zone: str) -> datetime:
    """Any instant, every second one within two days of a change of the clock."""
    anywhere = draw(st.datetimes(EARLIEST.replace(tzinfo=None), LATEST.replace(tzinfo=None), timezones=st.just(UTC)))
    earliest = int(EARLIEST.timestamp())
    changes = [start for start in zones.load(time_zone).starts if earliest < start < int(LATEST.timestamp())]
    if not changes or draw(st.booleans()):
        return anywhere.replace(microsecond=0)
    near = draw(st.sampled_from(changes)) + draw(st.integers(-2 * 86_400, 86_400) | st.integers(-7200, 7200))
    return datetime.fromtimestamp(near, UTC)


@st.composite
def questions(draw: st.DrawFn, expressions: st.SearchStrategy[str]) -> tuple[str, str, datetime]:
    """An expression, a zone and an instant."""
    time_zone = draw(st.sampled_from(ZONES))
    return draw(expressions), time_zone, draw(instants(time_zone))


@thorough
@given(questions(five_fields | everyday))
def test_firings_of_three_days_are_those_of_the_oracle(question: tuple[str, str, datetime]) -> None:
    expression, time_zone, t = question
    a = t.replace(second=0)
    b = a + timedelta(days=3)

    found = list(Schedule.parse(expression, time_zone=time_zone).between(a, b))

    assert found == Oracle(expression, time_zone).firings(a, b)


@thorough
@given(questions(any_fields))
@example(("30 2 * * *", "Europe/Berlin", datetime(2026, 3, 29, 1, 0, tzinfo=UTC)))
def test_next_lies_after_and_is_its_own_previous(question: tuple[str, str, datetime]) -> None:
    expression, time_zone, t = question
    schedule = Schedule.parse(expression, time_zone=time_zone)

    following = schedule.next_after(t)
    previous = schedule.previous(t)

    assert previous is None or previous <= t
    if following is not None:
        assert following > t
        assert following.microsecond == 0
        assert schedule.previous(following) == following
        assert schedule.previous(following - timedelta(seconds=1)) == previous


@thorough
@given(questions(any_fields), st.integers(1, 30))
@example(("* 0 * * *", "America/Port-au-Prince", datetime(1983, 5, 8, 4, 59, 59, tzinfo=UTC)), 1)
def test_between_is_next_again_and_again(question: tuple[str, str, datetime], count: int) -> None:
    expression, time_zone, t = question
    schedule = Schedule.parse(expression, time_zone=time_zone)
    reached: list[datetime] = []
    while len(reached) < count and (following := schedule.next_after(reached[-1] if reached else t)):
        reached.append(following)
    assume(reached)

    assert list(schedule.between(t, reached[-1])) == reached
    assert schedule.count_between(int(t.timestamp()), int(reached[-1].timestamp())) == len(reached)
    assert all(earlier < later for earlier, later in pairwise(reached))


@thorough
@given(st.text("0123456789*/-,#?LWHRSUNMOJA= @Tt\t\n\0é", max_size=30) | st.text(max_size=20))
def test_any_text_is_a_schedule_or_refused_by_name(text: str) -> None:
    refusal = refusal_of(text)

    assert refusal is None or (refusal.startswith("schedule: ") and refusal.isprintable())


@thorough
@given(st.lists(st.text("0123456789*/-,#?LWHRSUNMOJA", min_size=1, max_size=6), min_size=5, max_size=7).map(" ".join))
def test_any_fields_are_a_schedule_or_refused_with_the_field(text: str) -> None:
    refusal = refusal_of(text)

    assert refusal is None or REFUSED_FIELD.match(refusal)


@settings(thorough, max_examples=80)
@given(questions(five_fields | everyday))
def test_no_gap_is_longer_than_the_longest(question: tuple[str, str, datetime]) -> None:
    expression, time_zone, t = question
    schedule = Schedule.parse(expression, time_zone=time_zone)
    assume(not (t.month == 2 and t.day == 29))
    end = t.replace(year=t.year + 1)
    count = schedule.count_between(int(t.timestamp()) - 1, int(end.timestamp()) - 1)
    assume(count < 2000)
    reached = list(schedule.between(t - timedelta(seconds=1), end - timedelta(seconds=1)))

    gap = schedule.longest_gap(t, years=1)

    assert gap == max((later - earlier for earlier, later in pairwise(reached)), default=timedelta())
    assert count == len(reached)


def test_a_leap_day_on_each_weekday_is_found_over_its_gap_of_forty_years() -> None:
    for name in WEEKDAYS:
        schedule = Schedule.parse(f"0 0 * 2 {name}#5")
        start = datetime(1900, 3, 1, tzinfo=UTC)

        leap_days = list(islice(schedule.between(start, datetime(2301, 1, 1, tzinfo=UTC)), 20))

        assert leap_days == [
            day
            for year in range(1904, 2301, 4)
            if calendar.isleap(year)
            and (day := datetime(year, 2, 29, tzinfo=UTC)).isoweekday() % 7 == WEEKDAYS.index(name)
        ]
