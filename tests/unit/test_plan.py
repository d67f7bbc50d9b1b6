"""Plans: cron in one zone or several, intervals, once, by hand; their lines, and the jitter of their starts."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterjack import zones
from quarterjack.plan import Pace, Plan, ScheduleError, plan_from_line, plan_of, start_delay_ms
from quarterjack.schedule import Schedule
from tests.unit.oracle import Oracle, quickest, utc

DAY, HOUR, MINUTE = 86_400, 3600, 60
CREATED = int(utc("2026-03-10T10:00:20").timestamp())
LONG_AFTER = CREATED + 400 * DAY
EVERYWHERE = sorted(zones.names())

KINDS = [
    pytest.param({}, id="by hand"),
    pytest.param({"schedule": "*/5 * * * *"}, id="cron in the default zone"),
    pytest.param({"schedule": "30 2 * * SUN", "timeZone": "Europe/Berlin"}, id="cron in one zone"),
    pytest.param({"schedule": "@daily", "timeZones": ["Asia/Tokyo", "UTC", "America/New_York"]}, id="cron in zones"),
    pytest.param({"schedule": "0 0 30 2 *", "timeZone": "UTC"}, id="cron that never fires"),
    pytest.param({"interval": "90m"}, id="interval"),
    pytest.param({"runAfter": "90s"}, id="once"),
]


def epoch(text: str) -> int:
    return int(utc(text).timestamp())


def times(plan: Plan, after: str, until: str) -> list[str]:
    return [f"{datetime.fromtimestamp(f, UTC):%d %H:%M}" for f in plan.between(epoch(after), epoch(until))]


@pytest.mark.parametrize("spec", KINDS)
def test_all_ways_to_ask_a_plan_agree(spec: dict[str, Any]) -> None:
    plan = plan_of(spec, anchor=CREATED)

    reached = list(islice(plan.between(CREATED - DAY, LONG_AFTER), 200))

    following: list[int] = []
    while len(following) < 200 and (f := plan.next_after(following[-1] if following else CREATED - DAY)) is not None:
        following.append(f)
    assert [f for f in following if f <= LONG_AFTER] == reached
    assert [plan.previous(f) for f in reached] == reached
    assert [plan.previous(f - 1) for f in reached] == [None, *reached[:-1]][: len(reached)]
    if reached:
        assert plan.count_between(CREATED - DAY, reached[-1], limit=1000) == len(reached)
        assert plan.count_between(CREATED - DAY, reached[-1], limit=1) == 1
        assert plan.count_between(reached[0], reached[-1], limit=1000) == len(reached) - 1
    assert plan.count_between(CREATED + DAY, CREATED, limit=9) == 0
    assert list(plan.between(CREATED + DAY, CREATED)) == []


@pytest.mark.parametrize("spec", KINDS)
def test_no_plan_fires_at_or_before_its_anchor(spec: dict[str, Any]) -> None:
    plan = plan_of(spec, anchor=epoch("2026-03-10T10:00:00"))

    first = plan.next_after(0)

    assert first is None or first > plan.anchor
    assert plan.previous(plan.anchor) is None
    assert list(plan.between(0, plan.anchor)) == []
    assert plan.count_between(0, plan.anchor, limit=9) == 0


@pytest.mark.parametrize("spec", KINDS)
def test_the_line_of_a_plan_is_read_back_exactly(spec: dict[str, Any]) -> None:
    plan = plan_of(spec, anchor=CREATED)

    again = plan_from_line(plan.line(), anchor=CREATED)

    assert again == plan
    assert again.line() == plan.line()


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({}, "by hand"),
        ({"schedule": " 0  2 * * *\n"}, "0 2 * * *"),
        ({"schedule": "0 2 * * *", "timeZone": "UTC"}, "0 2 * * *"),
        ({"schedule": "0 2 * * *", "timeZones": ["UTC"]}, "0 2 * * *"),
        ({"schedule": "0 2 * * *", "timeZone": "Etc/UTC"}, "0 2 * * * Etc/UTC"),
        ({"schedule": "0 2 * * *", "timeZone": "Europe/Berlin"}, "0 2 * * * Europe/Berlin"),
        ({"schedule": "0 0 * * SUN", "timeZone": "EST"}, "0 0 * * SUN EST"),
        ({"schedule": "@daily", "timeZones": ["UTC", "Asia/Tokyo", "UTC"]}, "@daily Asia/Tokyo,UTC"),
        ({"interval": "600s"}, "every 10m"),
        ({"interval": "86400s"}, "every 1d"),
        ({"interval": "1500ms"}, "every 2s"),
        ({"runAfter": "90s"}, "once after 90s"),
    ],
)
def test_a_schedule_is_one_line_for_people(spec: dict[str, Any], line: str) -> None:
    assert plan_of(spec, anchor=CREATED).line() == line


def test_the_line_names_the_default_zone_it_was_made_with() -> None:
    plan = plan_of({"schedule": "0 2 * * *"}, anchor=CREATED, default_zone="Asia/Tokyo")

    assert plan.line() == "0 2 * * * Asia/Tokyo"
    assert plan.zones_at(epoch("2026-03-10T17:00")) == ("Asia/Tokyo",)


def test_the_line_of_all_zones_is_read_back_and_fits_the_status() -> None:
    plan = plan_of({"schedule": "0 2 * * *", "timeZones": EVERYWHERE}, anchor=CREATED)

    line = plan.line()

    assert plan_from_line(line, anchor=CREATED) == plan
    assert len(line) < 16_000


@pytest.mark.parametrize("expression", ["0 0 * * *", "0 0 0 * * SUN", "0 0 0 1 1 * 2027", "@daily"])
def test_no_zone_is_read_back_as_a_field(expression: str) -> None:
    for name in EVERYWHERE:
        plan = plan_of({"schedule": expression, "timeZone": name}, anchor=CREATED)
        assert plan_from_line(plan.line(), anchor=CREATED) == plan


@pytest.mark.parametrize(
    "line",
    ["", " ", "every", "every ", "every 1x", "once after", "0 2 * * * Mars/Olympus", "0 2 * * * UTC,", "nonsense"],
)
def test_a_damaged_line_is_no_plan(line: str) -> None:
    assert plan_from_line(line, anchor=CREATED) is None


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        pytest.param({"schedule": "60 * * * *"}, "schedule", 'minute "60".*write 0 to 59', id="a wrong minute"),
        pytest.param({"schedule": ""}, "schedule", "has 0 fields", id="an empty schedule"),
        pytest.param({"schedule": 17}, "schedule", '"17" is not a text', id="a number"),
        pytest.param({"schedule": {"a": 1}}, "schedule", "is not a text", id="a map"),
        pytest.param({"schedule": "* * * * *", "timeZone": "Mars"}, "timeZone", '"Mars" is not', id="no such zone"),
        pytest.param({"schedule": "* * * * *", "timeZone": ""}, "timeZone", '"" is not', id="an empty zone"),
        pytest.param({"schedule": "* * * * *", "timeZone": ["UTC"]}, "timeZone", "is not", id="a list for a zone"),
        pytest.param(
            *({"schedule": "* * * * *", "timeZones": ["UTC", "utc"]}, "timeZones", '"utc" is not .*write UTC'),
            id="one wrong zone of two",
        ),
        pytest.param(
            *({"schedule": "61 * * * *", "timeZones": ["UTC"]}, "schedule", "minute"), id="wrong schedule in zones"
        ),
        pytest.param({"schedule": "* * * * *", "timeZones": []}, "timeZones", "at least one", id="no zones"),
        pytest.param({"schedule": "* * * * *", "timeZones": "UTC"}, "timeZones", "not a list", id="a text for zones"),
        pytest.param({"schedule": "* * * * *", "timeZones": [None]}, "timeZones", '"None"', id="null among zones"),
        pytest.param(
            *({"schedule": "* * * * *", "timeZone": "UTC", "timeZones": ["UTC"]}, "timeZones", "beside timeZone"),
            id="zone and zones",
        ),
        pytest.param({"interval": "10 minutes"}, "interval", '"10 minutes" is not a duration', id="a wrong interval"),
        pytest.param({"interval": 600}, "interval", '"600" is not a duration', id="a number for an interval"),
        pytest.param({"runAfter": "0s"}, "runAfter", '"0s" is out of range', id="after nothing"),
        pytest.param({"interval": "1m", "timeZone": "UTC"}, "timeZone", "leave it out", id="an interval with a zone"),
        pytest.param({"timeZones": ["UTC"]}, "timeZones", "leave it out", id="by hand with zones"),
        pytest.param(
            *({"schedule": "* * * * *", "interval": "1m"}, "interval", "beside schedule, keep one"),
            id="schedule and interval",
        ),
        pytest.param({"interval": "1m", "runAfter": "1m"}, "runAfter", "beside interval", id="interval and runAfter"),
    ],
)
def test_a_wrong_spec_is_refused_with_the_field_and_what_to_write(spec: dict[str, Any], field: str, words: str) -> None:
    with pytest.raises(ScheduleError, match=f"^{field}: .*{words}") as refusal:
        plan_of(spec, anchor=CREATED)

    assert refusal.value.field == field


def test_null_fields_are_fields_left_out() -> None:
    spec = {"schedule": None, "interval": "1m", "runAfter": None, "timeZone": None, "timeZones": None}

    assert plan_of(spec, anchor=CREATED) == plan_of({"interval": "1m"}, anchor=CREATED)


def test_an_interval_does_not_drift_over_ten_thousand_periods_and_restarts() -> None:
    spec, firing = {"interval": "7m"}, CREATED

    for _ in range(10_000):
        restarted = plan_of(spec, anchor=CREATED)
        late = firing + 3
        following = restarted.next_after(late)
        assert following is not None
        firing = following

    assert firing == CREATED + 10_000 * 7 * MINUTE


def test_an_interval_first_fires_one_period_after_its_anchor() -> None:
    plan = plan_of({"interval": "1h"}, anchor=CREATED)

    assert plan.next_after(0) == CREATED + HOUR
    assert plan.previous(CREATED + HOUR - 1) is None
    assert plan.pace() == Pace(HOUR, HOUR)


def test_a_run_after_fires_once_and_never_again_until_it_is_anchored_anew() -> None:
    plan = plan_of({"runAfter": "90s"}, anchor=CREATED)
    resumed = plan_of({"runAfter": "90s"}, anchor=CREATED + DAY)

    assert list(plan.between(0, LONG_AFTER)) == [CREATED + 90]
    assert plan.next_after(CREATED + 90) is None
    assert plan.pace() == Pace()
    assert resumed.next_after(0) == CREATED + DAY + 90


def test_zones_with_one_instant_are_one_firing_that_knows_them_all() -> None:
    plan = plan_of(
        {"schedule": "0 9 * * *", "timeZones": ["Europe/Paris", "Europe/Berlin", "Asia/Kolkata", "Asia/Kathmandu"]},
        anchor=CREATED,
    )

    assert times(plan, "2026-03-11T00:00", "2026-03-12T00:00") == ["11 03:15", "11 03:30", "11 08:00"]
    assert plan.zones_at(epoch("2026-03-11T08:00")) == ("Europe/Berlin", "Europe/Paris")
    assert plan.zones_at(epoch("2026-03-11T03:15")) == ("Asia/Kathmandu",)
    assert plan.zones_at(epoch("2026-03-11T03:16")) == ()


def test_a_change_of_the_clock_moves_a_zone_to_another_instant_by_itself() -> None:
    plan = plan_of({"schedule": "0 9 * * *", "timeZones": ["Africa/Lagos", "Europe/Berlin"]}, anchor=CREATED)

    assert times(plan, "2026-03-28T00:00", "2026-03-30T00:00") == ["28 08:00", "29 07:00", "29 08:00"]
    assert plan.zones_at(epoch("2026-03-28T08:00")) == ("Africa/Lagos", "Europe/Berlin")
    assert plan.zones_at(epoch("2026-03-29T07:00")) == ("Europe/Berlin",)


def test_four_hundred_zones_cost_some_forty_firings_a_day() -> None:
    plan = plan_of({"schedule": "0 2 * * *", "timeZones": EVERYWHERE[:400]}, anchor=CREATED)

    firings = list(plan.between(CREATED, CREATED + DAY))

    assert 24 < len(firings) <= 40
    assert sorted(name for f in firings for name in plan.zones_at(f)) == EVERYWHERE[:400]


@pytest.mark.parametrize("schedule", ["0 2 * * *", "*/20 * * * *", "0 0 1 * *", "30 1,2,3 * * SUN"])
@pytest.mark.parametrize("anchor", ["1973-05-01T00:00", "2010-03-14T08:30", "2026-10-25T00:30", "2090-01-01T00:00"])
def test_many_zones_fire_as_each_of_them_alone(schedule: str, anchor: str) -> None:
    names, since = EVERYWHERE[::7], epoch(anchor)
    plan = plan_of({"schedule": schedule, "timeZones": names}, anchor=since)
    until = since + 300 * DAY
    # From the first days, and from the last: those are after many a change of the clock.
    for a, b in ((since, since + 2 * DAY), (until - 2 * DAY, until)):
        alone = {f for name in names for f in Schedule.parse(schedule, time_zone=name).between_epochs(a, b)}

        assert list(plan.between(a, b)) == sorted(alone)


def test_the_question_for_the_next_firing_in_all_zones_is_quick() -> None:
    plan = plan_of({"schedule": "0 2 * * *", "timeZones": EVERYWHERE}, anchor=CREATED)
    plan.next_after(CREATED)

    took = quickest(lambda: plan.next_after(CREATED + DAY))

    assert took < 0.002


def test_the_pace_of_many_zones_is_that_of_their_firings_together() -> None:
    plan = plan_of({"schedule": "0 0 * * *", "timeZones": ["Europe/Berlin", "Asia/Tokyo"]}, anchor=CREATED)
    gaps = [b - a for a, b in pairwise(plan.between(CREATED, CREATED + 732 * DAY))]

    pace = plan.pace()

    assert pace.longest_gap_seconds == max(gaps)
    assert pace.period_seconds == pytest.approx(12 * HOUR, abs=MINUTE)


@pytest.mark.parametrize(
    ("spec", "period", "longest_gap"),
    [
        pytest.param({"schedule": "0 5 * * *", "timeZone": "America/Los_Angeles"}, DAY, 25 * HOUR, id="a 25 h day"),
        pytest.param({"schedule": "* * * * * *", "timeZones": ["Asia/Tokyo", "UTC"]}, 1, 1, id="every second in zones"),
        pytest.param({"schedule": "*/15 9-16 * * *"}, 45 * MINUTE, 16 * HOUR + 15 * MINUTE, id="in office hours"),
        pytest.param({"schedule": "0 0 1 1 *"}, 365.25 * DAY, 366 * DAY, id="once a year"),
        pytest.param({"schedule": "0 0 29 2 *"}, 1461 * DAY, 1461 * DAY, id="every four years"),
        pytest.param({"schedule": "0 0 1 1 1 * 2031"}, 0, 0, id="once for ever"),
        pytest.param({"schedule": "0 0 30 2 *"}, 0, 0, id="never"),
        pytest.param({}, 0, 0, id="by hand"),
    ],
)
def test_the_pace_of_a_plan_is(spec: dict[str, Any], period: float, longest_gap: int) -> None:
    pace = plan_of(spec, anchor=CREATED).pace()

    assert pace.period_seconds == pytest.approx(period, rel=0.001)
    assert pace.longest_gap_seconds == longest_gap


expressions = st.tuples(
    st.sampled_from(["0", "*", "*/7", "5,50"]),
    st.sampled_from(["*", "2", "*/6", "9-17", "1,2,3"]),
    st.sampled_from(["* * *", "* * 1-5", "1,15 * *", "L * *"]),
).map(" ".join)


@settings(max_examples=50, deadline=None)
@given(expressions, st.sampled_from(EVERYWHERE))
def test_no_two_neighbouring_firings_are_further_apart_than_the_pace_says(expression: str, zone: str) -> None:
    plan = plan_of({"schedule": expression, "timeZone": zone}, anchor=CREATED)

    pace = plan.pace()

    reached = list(islice(plan.between(CREATED, CREATED + 700 * DAY), 3000))
    assert max(b - a for a, b in pairwise(reached)) <= pace.longest_gap_seconds
    assert 0 < pace.period_seconds <= pace.longest_gap_seconds


def test_the_pace_is_found_in_a_fraction_of_a_millisecond_and_kept() -> None:
    def plans() -> list[Plan]:
        """Of a hundred jobs that have no schedule in common."""
        specs = [{"schedule": f"{n % 60} {n % 24} * * {n % 7}", "timeZone": "Europe/Berlin"} for n in range(100)]
        return [plan_of(spec, anchor=CREATED + n) for n, spec in enumerate(specs)]

    kept = plans()

    first = quickest(lambda: [plan.pace() for plan in plans()])
    again = quickest(lambda: [plan.pace() for plan in kept])

    assert first / 100 < 0.001
    assert again / 100 < 0.000_01


@pytest.mark.parametrize("schedule", ["* * * * * *", "* * * * *", "*/5 8-18 * * 1-5"])
def test_c01_a_year_of_missed_firings_is_counted_at_once(schedule: str) -> None:
    plan = plan_of({"schedule": schedule, "timeZone": "Europe/Berlin"}, anchor=CREATED)

    took = quickest(lambda: plan.count_between(CREATED, CREATED + 365 * DAY, limit=10**9))
    took += quickest(lambda: plan.previous(CREATED + 365 * DAY))

    assert plan.count_between(CREATED, CREATED + 365 * DAY, limit=10**9) > 30_000
    assert took < 0.005


def test_a_plan_in_two_zones_is_the_union_of_two_oracles() -> None:
    names = ["America/New_York", "Australia/Lord_Howe"]
    plan = plan_of({"schedule": "*/30 1,2 * * *", "timeZones": names}, anchor=epoch("2026-03-01T00:00"))
    a, b = utc("2026-04-03T00:00"), utc("2026-04-06T00:00")

    expected = sorted({f for name in names for f in Oracle("*/30 1,2 * * *", name).firings(a, b)})

    assert [
        datetime.fromtimestamp(f, UTC) for f in plan.between(epoch("2026-04-03T00:00"), epoch("2026-04-06T00:00"))
    ] == (expected)


def test_jitter_is_the_same_on_every_replica() -> None:
    script = "from quarterjack.plan import start_delay_ms; print(start_delay_ms('uid-1', 1790000000, 300000, None))"
    operator = str(Path(__file__).parents[2] / "operator")

    delays = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": operator, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    }

    assert delays == {str(start_delay_ms("uid-1", 1_790_000_000, 300_000, None))}


def test_jitter_is_uniform_over_a_population_of_jobs_and_over_the_firings_of_one() -> None:
    over_jobs = [start_delay_ms(f"uid-{n}", 1_790_000_000, 1000, None) for n in range(20_000)]
    over_firings = [start_delay_ms("uid", 1_790_000_000 + 60 * n, 1000, None) for n in range(20_000)]

    for delays in (over_jobs, over_firings):
        tenths = [sum(1 for delay in delays if delay // 100 == tenth) for tenth in range(10)]
        # Each tenth is 2,000 give or take 42; six times that has a chance of one in a hundred million.
        assert all(abs(count - 2000) < 260 for count in tenths)


@settings(max_examples=500)
@given(st.text(), st.integers(0, 2**33), st.integers(0, 86_400_000), st.none() | st.integers(1, 86_400_000))
def test_a_start_is_within_its_jitter_and_before_the_next_firing(
    uid: str, firing: int, jitter_ms: int, gap_ms: int | None
) -> None:
    delay = start_delay_ms(uid, firing, jitter_ms, gap_ms)

    assert 0 <= delay <= jitter_ms
    assert delay < jitter_ms or jitter_ms == 0
    assert gap_ms is None or delay < gap_ms


def test_c15_jitter_longer_than_the_period_still_starts_each_firing_before_the_next() -> None:
    plan = plan_of({"schedule": "*/2 * * * *"}, anchor=CREATED)
    firings = list(plan.between(CREATED, CREATED + timedelta(days=1) // timedelta(seconds=1)))

    starts = [
        1000 * firing + start_delay_ms("uid", firing, 600_000, 1000 * (following - firing))
        for firing, following in pairwise(firings)
    ]

    assert all(start < 1000 * following for start, following in zip(starts, firings[1:], strict=True))
    assert starts == sorted(starts)
