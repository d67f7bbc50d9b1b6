"""Cron in zones: every vector, the cases people met in the field, and what is refused with which words."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from quarterjack.schedule import Schedule, ScheduleError
from tests.unit.oracle import Oracle, quickest, utc

VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "cron_vectors.json").read_text())
at = datetime.fromisoformat


def firings(expression: str, time_zone: str, after: str, until: str) -> list[str]:
    """The firings in (after, until], as `dd HH:MM` in UTC."""
    schedule = Schedule.parse(expression, time_zone=time_zone)
    return [f"{firing:%d %H:%M}" for firing in schedule.between(utc(after), utc(until))]


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in VECTORS["next"]])
def test_next_firings_are_those_of_the_vector(case: dict[str, Any]) -> None:
    schedule = Schedule.parse(case["expression"], time_zone=case["timezone"])
    expected = [at(text) for text in case["expected"]]
    reached = [at(case["after"])]

    for _ in range(len(expected)):
        following = schedule.next_after(reached[-1])
        assert following is not None
        reached.append(following)

    assert reached[1:] == expected
    assert expected or schedule.next_after(reached[0]) is None


@pytest.mark.parametrize("case", [pytest.param(case, id=case["id"]) for case in VECTORS["next"] if case["expected"]])
def test_the_ways_to_ask_agree_on_the_vector(case: dict[str, Any]) -> None:
    schedule = Schedule.parse(case["expression"], time_zone=case["timezone"])
    after, expected = at(case["after"]), [at(text) for text in case["expected"]]

    between = list(schedule.between(after, expected[-1]))

    assert between == expected
    assert [schedule.previous(firing) for firing in expected] == expected
    assert [schedule.previous(firing - timedelta(seconds=1)) for firing in expected[1:]] == expected[:-1]
    assert schedule.count_between(int(after.timestamp()), int(expected[-1].timestamp())) == len(expected)


@pytest.mark.parametrize("case", [pytest.param(case, id=case["expression"]) for case in VECTORS["previous"]])
def test_the_previous_firing_is_that_of_the_vector(case: dict[str, Any]) -> None:
    schedule = Schedule.parse(case["expression"], time_zone=case["timezone"])

    previous = schedule.previous(at(case["before"]) - timedelta(seconds=1))

    assert previous == at(case["expected_previous"])


@pytest.mark.parametrize("case", [pytest.param(case, id=case["expression"]) for case in VECTORS["longest_gap"]])
def test_the_longest_gap_is_that_of_the_vector(case: dict[str, Any]) -> None:
    schedule = Schedule.parse(case["expression"], time_zone=case["timezone"])

    gap = schedule.longest_gap(at(case["from"]), years=case["years"])

    assert gap == timedelta(seconds=case["longest_gap_seconds"])


@pytest.mark.parametrize("case", [pytest.param(case, id=repr(case["expression"])) for case in VECTORS["invalid"]])
def test_an_invalid_vector_is_refused_with_what_to_write_instead(case: dict[str, Any]) -> None:
    with pytest.raises(ScheduleError, match=r"^schedule: .*(write|not supported)"):
        Schedule.parse(case["expression"])


@pytest.mark.parametrize(
    ("expression", "time_zone", "after", "until", "expected"),
    [
        pytest.param(
            *("0 2 * * *", "Europe/Berlin", "2023-10-28T23:55", "2023-10-29T01:30", ["29 00:00"]),
            id="A01 a repeated 02:00 fires once in Berlin",
        ),
        pytest.param(
            *("30 2 * * *", "Europe/Amsterdam", "2026-10-24T12:00", "2026-10-25T12:00", ["25 00:30"]),
            id="A01 a repeated 02:30 fires once in Amsterdam",
        ),
        pytest.param(
            *("0 1 * * *", "America/New_York", "2024-11-03T04:30", "2024-11-03T12:00", ["03 05:00"]),
            id="A01 a repeated 01:00 fires once in New York",
        ),
        pytest.param(
            *("20 */4 * * *", "America/Los_Angeles", "2023-03-12T08:00", "2023-03-12T16:00"),
            ["12 08:20", "12 11:20", "12 15:20"],
            id="A02 every fourth hour goes on after the spring jump",
        ),
        pytest.param(
            *("0 7,9 * * *", "America/Los_Angeles", "2020-03-07T20:00", "2020-03-09T20:00"),
            ["08 14:00", "08 16:00", "09 14:00", "09 16:00"],
            id="A03 nothing fires an hour off after the spring jump",
        ),
        pytest.param(
            *("0 */2 * * *", "America/Toronto", "2023-03-12T04:30", "2023-03-12T09:00"),
            ["12 05:00", "12 07:00", "12 08:00"],
            id="A06 a skipped 02:00 moves to 03:00 and 04:00 follows",
        ),
        pytest.param(
            *("0 * * * *", "Europe/Berlin", "2025-03-29T23:00", "2025-03-30T04:00"),
            ["30 00:00", "30 01:00", "30 02:00", "30 03:00", "30 04:00"],
            id="A07 an hourly job has no hole and no duplicate over the spring jump",
        ),
        pytest.param(
            *("0 8 * * 1", "Europe/Amsterdam", "2026-10-26T05:00", "2026-10-26T08:00", ["26 07:00"]),
            id="A09 the Monday after the autumn change fires once",
        ),
        pytest.param(
            *("0 0 13 * 5", "UTC", "2026-08-01T00:00", "2026-08-31T00:00"),
            ["07 00:00", "13 00:00", "14 00:00", "21 00:00", "28 00:00"],
            id="A17 the 13th or any Friday",
        ),
        pytest.param(
            *("48 14 31 jun sun", "UTC", "2026-06-01T00:00", "2026-06-30T00:00"),
            ["07 14:48", "14 14:48", "21 14:48", "28 14:48"],
            id="A17 31 June never comes but the Sundays of June do",
        ),
        pytest.param(
            *("0 2 29 2 0", "UTC", "2026-02-01T00:00", "2026-03-30T00:00"),
            ["01 02:00", "08 02:00", "15 02:00", "22 02:00"],
            id="A17 29 February or the Sundays of February",
        ),
        pytest.param(
            *("0 30 2 * * 1-5", "UTC", "2026-06-05T00:00", "2026-06-09T00:00", ["05 02:30", "08 02:30"]),
            id="A18 six fields begin with the seconds",
        ),
        pytest.param(
            *("0 48 10 ? * WED", "UTC", "2026-06-01T00:00", "2026-06-14T00:00", ["03 10:48", "10 10:48"]),
            id="A19 a question mark stands for any day",
        ),
        pytest.param(
            *("0/1 * * * ?", "UTC", "2026-06-01T00:00", "2026-06-01T00:03", ["01 00:01", "01 00:02", "01 00:03"]),
            id="A19 from 0 in steps of 1 is every minute",
        ),
        pytest.param(
            *("5-1 * * * *", "UTC", "2026-06-01T00:59", "2026-06-01T01:05", ["01 01:00", "01 01:01", "01 01:05"]),
            id="A19 a range that goes down wraps around the hour",
        ),
        pytest.param(
            *("*/40 * * * *", "UTC", "2026-06-01T00:00", "2026-06-01T02:00"),
            ["01 00:40", "01 01:00", "01 01:40", "01 02:00"],
            id="A19 a step that does not divide the hour starts again at each hour",
        ),
        pytest.param(
            *("0 0 * * 5L", "UTC", "2026-06-01T00:00", "2026-07-31T00:00", ["26 00:00", "31 00:00"]),
            id="A19 the last Friday of the month",
        ),
        pytest.param(
            *("0 0 * * 7", "UTC", "2026-06-01T00:00", "2026-06-15T00:00", ["07 00:00", "14 00:00"]),
            id="A19 7 is Sunday",
        ),
        pytest.param(
            *("0 10 * * *", "America/Phoenix", "2026-07-01T00:00", "2026-07-02T00:00", ["01 17:00"]),
            id="A23 Phoenix has no summer time",
        ),
    ],
)
def test_a_case_from_the_field_fires_when_it_should(
    expression: str, time_zone: str, after: str, until: str, expected: list[str]
) -> None:
    assert firings(expression, time_zone, after, until) == expected


@pytest.mark.parametrize("expression", ["0,15,30,45 6-22 * * *", "15 7,8,13,19 * * *"])
def test_a04_working_hours_go_on_after_the_autumn_night(expression: str) -> None:
    schedule = Schedule.parse(expression, time_zone="Europe/Brussels")

    reached = list(schedule.between(utc("2023-10-28T20:00"), utc("2023-10-30T23:00")))

    assert reached == sorted(set(reached))
    assert next(f for f in reached if f > utc("2023-10-28T23:00")) in {utc("2023-10-29T05:00"), utc("2023-10-29T06:15")}
    assert reached[-1] > utc("2023-10-30T18:00")


@pytest.mark.parametrize("after", ["2026-03-29T00:30", "2026-03-29T00:59", "2026-03-29T00:59:59"])
def test_a_walk_that_begins_just_before_a_jump_still_catches_it_up(after: str) -> None:
    schedule = Schedule.parse("5 2 * * *", time_zone="Europe/Berlin")

    reached = list(schedule.between(utc(after), utc("2026-03-29T12:00")))

    assert reached == [utc("2026-03-29T01:00")]
    assert schedule.count_between(int(utc(after).timestamp()), int(utc("2026-03-29T12:00").timestamp())) == 1


def test_a08_both_copies_of_a_repeated_hour_are_firings_of_an_hourly_job() -> None:
    schedule = Schedule.parse("30 * * * *", time_zone="Europe/Vienna")

    reached = set(schedule.between(utc("2017-10-28T22:00"), utc("2017-10-29T23:00")))

    assert len(reached) == 25
    assert {utc("2017-10-29T00:30"), utc("2017-10-29T01:30")} <= reached


def test_a10_a_daily_job_stays_at_its_local_hour_and_its_gap_is_23_to_25_hours() -> None:
    schedule = Schedule.parse("0 5 * * *", time_zone="America/Los_Angeles")

    spring = list(schedule.between(utc("2026-03-07T00:00"), utc("2026-03-10T00:00")))
    autumn = list(schedule.between(utc("2026-10-31T00:00"), utc("2026-11-03T00:00")))

    assert [f"{f:%d %H}" for f in spring] == ["07 13", "08 12", "09 12"]
    assert [f"{f:%d %H}" for f in autumn] == ["31 12", "01 13", "02 13"]
    assert schedule.longest_gap(utc("2026-01-01T00:00"), years=1) == timedelta(hours=25)


def test_a12_every_second_fires_through_the_repeated_hour() -> None:
    schedule = Schedule.parse("*/1 * * * * *", time_zone="Europe/Vienna")
    after = utc("2025-10-26T00:59:50")

    reached = list(schedule.between(after, after + timedelta(seconds=20)))

    assert reached == [after + timedelta(seconds=n) for n in range(1, 21)]


def test_a16_leap_days_are_found_over_the_gap_of_eight_years() -> None:
    schedule = Schedule.parse("0 9 29 2 *")

    assert schedule.next_after(utc("2026-01-01T00:00")) == utc("2028-02-29T09:00")
    assert schedule.next_after(utc("2097-01-01T00:00")) == utc("2104-02-29T09:00")
    assert schedule.longest_gap(utc("2095-01-01T00:00"), years=12) == timedelta(days=2921)


@pytest.mark.parametrize(
    "expression", ["0 0 31 2 *", "0 0 31 4,6,9,11 *", "0 0 30 2 *", "0 0 0 1 1 * 2020", "0 0 31W 4 *"]
)
def test_a17_a_date_that_never_comes_is_found_out_within_a_millisecond(expression: str) -> None:
    schedule = Schedule.parse(expression, time_zone="Europe/Berlin")
    now = utc("2026-01-01T00:00")

    took = quickest(lambda: schedule.next_after(now))

    assert schedule.next_after(now) is None
    assert took < 0.001


def test_a18_ten_seconds_are_not_every_second() -> None:
    schedule = Schedule.parse("*/10 * * * * *")

    reached = list(islice(schedule.between(utc("2026-06-01T00:00"), utc("2026-06-02T00:00")), 3))

    assert [f.second for f in reached] == [10, 20, 30]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        pytest.param(
            "TZ=Europe/Berlin 0 2 * * *", 'write timeZone: "Europe/Berlin"', id="A20 a zone before the fields"
        ),
        pytest.param("CRON_TZ=Asia/Tokyo 0 2 * * *", 'write timeZone: "Asia/Tokyo"', id="A20 cron's own zone prefix"),
        pytest.param("@every 1h30m", 'write interval: "1h30m"', id="@every is an interval"),
        pytest.param("@reboot", "write runAfter", id="@reboot is a run after creation"),
        pytest.param("@fortnightly", "write five fields or one of @yearly", id="an unknown macro"),
        pytest.param("H 2 * * *", 'minute "H": .*write a number \\(and jitter', id="H is hashed elsewhere"),
        pytest.param("0 H(0-7) * * *", 'hour "H\\(0-7\\)": .*jitter', id="H of a range"),
        pytest.param("R R * * *", 'minute "R": .*jitter', id="R is random"),
        pytest.param("0 0 * * R", 'day of week "R": .*jitter', id="R for a weekday"),
        pytest.param("", "has 0 fields, write 5", id="F08 nothing"),
        pytest.param(" \t\n", "has 0 fields, write 5", id="F08 blanks"),
        pytest.param("* * * *", "has 4 fields, write 5", id="F08 four fields"),
        pytest.param("* * * * * * * *", "has 8 fields, write 5", id="F08 eight fields"),
        pytest.param("５ * * * *", "ASCII", id="F08 full-width digits"),
        pytest.param("0\u00a02 * * *", "ASCII", id="F08 a no-break space"),
        pytest.param("0 2 * * *\0", "ASCII", id="F08 a NUL"),
        pytest.param("0 " * 5000, "over 512 characters", id="F08 ten thousand characters"),
        pytest.param("0 0 L-3 * *", "days before the last", id="days before the last"),
        pytest.param("0 0 W15 * *", "write 15W", id="W before its day"),
        pytest.param("0 0 * * L5", "write 5L", id="L before its weekday"),
        pytest.param("0 0 * * 7/2", "write 0/2", id="a step from 7"),
        pytest.param("0 0 0 1 1 * 2030-2027", "write 2027-2030", id="years that go down"),
        pytest.param("0 0 0 1 1 * 1969", "1970 to 2099", id="a year before 1970"),
        pytest.param("? 0 * * *", "write '\\*'", id="a question mark for the minute"),
        pytest.param("0 0 1,? * *", 'day of month "\\?"', id="a question mark in a list"),
        pytest.param("0 0 * * MONDAY", 'day of week "MONDAY"', id="a weekday in full"),
        pytest.param("0 0 * MON *", 'month "MON"', id="a weekday for a month"),
        pytest.param("0 0 * * 1-5#2", 'day of week "1-5#2"', id="the second of a range"),
        pytest.param("0 24 * * *", 'hour "24": out of range, write 0 to 23', id="hour 24"),
        pytest.param("0 2 * * *,", "both sides of each comma", id="a comma at the end"),
        pytest.param("*/0 * * * *", "write a step of 1 or more", id="a step of 0"),
        pytest.param(17, '"17" is not a text', id="F07 a number"),
        pytest.param(None, '"None" is not a text', id="no text at all"),
    ],
)
def test_an_oddity_is_refused_with_the_field_the_value_and_what_to_write(expression: Any, words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^schedule: .*{words}") as refusal:
        Schedule.parse(expression)

    assert refusal.value.field == "schedule"
    assert len(str(refusal.value)) < 300
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        pytest.param("Mars/Olympus", '"Mars/Olympus" is not a time zone, write a name', id="no such place"),
        pytest.param("europe/berlin", "write Europe/Berlin", id="lower case"),
        pytest.param("America/New York", "write America/New_York", id="a blank for the underscore"),
        pytest.param("America/New_York ", "write America/New_York", id="a blank at the end"),
        pytest.param("Local", "each node has its own", id="Local"),
        pytest.param("localtime", "each node has its own", id="localtime"),
        pytest.param("", '"" is not a time zone', id="nothing"),
        pytest.param("Europe", "write a name", id="a folder of zones"),
        pytest.param("zone.tab", "write a name", id="a table of zones"),
        pytest.param("tzdata.zi", "write a name", id="the source of zones"),
        pytest.param("../../etc/passwd", "write a name", id="a path"),
        pytest.param("/etc/localtime", "write a name", id="an absolute path"),
        pytest.param("Europe/../UTC", "write a name", id="a path through a folder"),
        pytest.param("\0", r'"\\x00" is not', id="a NUL"),
        pytest.param("UTC\0", r'"UTC\\x00" is not', id="a NUL at the end"),
        pytest.param("Factory", "write a name", id="Factory"),
        pytest.param("posixrules", "write a name", id="posixrules"),
        pytest.param("EST5EDT4", "write a name", id="a POSIX rule"),
        pytest.param("+02:00", "write a name", id="an offset"),
        pytest.param("x" * 10_000, "write a name", id="ten thousand characters"),
        pytest.param(None, '"None" is not', id="no text"),
    ],
)
def test_a22_a_zone_that_is_none_is_refused_with_what_to_write(name: Any, words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^timeZone: .*{words}") as refusal:
        Schedule.parse("0 2 * * *", time_zone=name)

    assert refusal.value.field == "timeZone"
    assert str(refusal.value).isprintable()


@pytest.mark.parametrize("written", [" 0 2 * * * ", "0 2 * * *\n", "\t0  2\t*\n* *\r\n"])
def test_whitespace_around_and_between_fields_makes_no_difference(written: str) -> None:
    assert Schedule.parse(written) == Schedule.parse("0 2 * * *")
    assert Schedule.parse(written).expression == "0 2 * * *"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("@Daily", "0 0 * * *"),
        ("0 0 * * sun", "0 0 * * 7"),
        ("0 0 * jan-Mar MON-fri", "0 0 * 1-3 1-5"),
        ("007 0002 * * *", "7 2 * * *"),
        ("0 0 * * 0-7", "0 0 * * *"),
        ("0 0 * * 6-0", "0 0 * * SAT,SUN"),
        ("0 0 * * 7-7", "0 0 * * 0"),
        ("0 0 * * 1,5#2", "0 0 * * 5#2,MON"),
        ("0 0 15W,20 * *", "0 0 20,15W * *"),
        ("*/90 * * * *", "0 * * * *"),
        ("0 0 0 1 1 * 2098-2150", "0 0 0 1 1 * 2098,2099"),
    ],
)
def test_two_spellings_of_one_schedule_fire_alike(one: str, other: str) -> None:
    after, until = utc("2026-01-01T00:00"), utc("2026-12-31T00:00")

    assert list(Schedule.parse(one).between(after, until)) == list(Schedule.parse(other).between(after, until))


def test_a_datetime_without_a_zone_is_no_instant() -> None:
    with pytest.raises(ValueError, match="without a zone"):
        Schedule.parse("0 2 * * *").next_after(datetime(2026, 1, 1))  # noqa: DTZ001


def test_the_end_of_the_calendar_is_no_firing_and_no_error() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)

    assert Schedule.parse("* * * * *", time_zone="Europe/Berlin").next_after(last) is None
    assert Schedule.parse("0 0 29 2 *", time_zone="Europe/Berlin").next_after(last) is None


@pytest.mark.parametrize(
    ("expression", "time_zone", "after"),
    [
        pytest.param("*/20 59 1,2,3 * * *", "Europe/Berlin", "2026-03-29T00:30", id="seconds in a spring night"),
        pytest.param("*/20 0,59 1,2,3 * * *", "Europe/Berlin", "2026-10-25T00:30", id="seconds in an autumn night"),
        pytest.param("15,45 */7 * * * *", "Australia/Lord_Howe", "2026-04-04T14:00", id="half an hour back"),
        pytest.param("0 30 0 * * *", "Africa/Monrovia", "1972-01-07T00:00", id="an offset of seconds ends"),
    ],
)
def test_seconds_are_those_of_the_oracle_over_a_change_of_the_clock(
    expression: str, time_zone: str, after: str
) -> None:
    schedule = Schedule.parse(expression, time_zone=time_zone)
    a = utc(after)
    b = a + timedelta(hours=3)

    assert list(schedule.between(a, b)) == Oracle(expression, time_zone).firings(a, b)


@pytest.mark.parametrize(
    ("time_zone", "after"),
    [
        pytest.param("Antarctica/Casey", "2018-10-06T12:00", id="three hours forward are caught up"),
        pytest.param("Antarctica/Casey", "2020-03-07T10:00", id="three hours back repeat nothing"),
        pytest.param("Pacific/Apia", "2011-12-30T00:00", id="a skipped day is not caught up"),
        pytest.param("Antarctica/Vostok", "1994-01-31T10:00", id="seven hours back repeat nothing"),
        pytest.param("Pacific/Kwajalein", "1993-08-21T00:00", id="a skipped day in Kwajalein"),
    ],
)
@pytest.mark.parametrize("expression", ["30 1-22 * * *", "*/30 * * * *", "0 3,9,21 * * *"])
def test_great_jumps_are_those_of_the_oracle(expression: str, time_zone: str, after: str) -> None:
    schedule = Schedule.parse(expression, time_zone=time_zone)
    a = utc(after)
    b = a + timedelta(hours=40)

    assert list(schedule.between(a, b)) == Oracle(expression, time_zone).firings(a, b)


@pytest.mark.parametrize(
    "expression",
    ["0 9 * * 1-5", "0 0 1 * *", "*/7 3-5 * * *", "30 1 L * 5", "0 0 * * *", "*/10 0 2 * * 6", "5 * 1,15 * *"],
)
@pytest.mark.parametrize("time_zone", ["UTC", "America/New_York", "Australia/Lord_Howe", "Africa/Casablanca"])
def test_the_longest_gap_is_the_longest_of_all_gaps(expression: str, time_zone: str) -> None:
    schedule = Schedule.parse(expression, time_zone=time_zone)
    start = utc("2025-02-11T05:17")
    reached = list(schedule.between(start - timedelta(seconds=1), start.replace(year=2026) - timedelta(seconds=1)))

    gap = schedule.longest_gap(start, years=1)

    assert gap == max(b - a for a, b in pairwise(reached))
