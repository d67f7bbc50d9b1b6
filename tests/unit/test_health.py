"""When a job counts as unhealthy: read from a few instants, whatever its schedule, zone and night."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterjack.clock import rfc3339
from quarterjack.health import (
    INVALID_SCHEDULE,
    NEVER_SUCCEEDED,
    NO_RECENT_SUCCESS,
    NO_SUCCESS_YET,
    NOT_RUN_YET,
    NOTHING_DUE,
    SUCCEEDING,
    SUSPENDED,
    Health,
    Vitals,
    allowance,
    judge,
    overdue_time,
    surely_healthy_until,
    usual_allowance,
)
from quarterjack.plan import Pace, Plan, plan_of
from tests.unit.given import CREATED, epoch
from tests.unit.oracle import quickest

DAY, HOUR, MINUTE = 86_400, 3600, 60
LONG_AFTER = CREATED + 40 * 365 * DAY
DAILY = {"schedule": "0 5 * * *", "timeZone": "America/Los_Angeles"}


def a_plan(anchor: int = CREATED, /, **spec: Any) -> Plan:
    return plan_of(spec, anchor=anchor)


def vitals(last_success: int | None = None, first_run: int | None = None, **fields: Any) -> Vitals:
    return Vitals(first_run, last_success, **{"counts_from": CREATED} | fields)


def fields(text: str) -> dict[str, Any]:
    """A schedule written as `0 5 * * * America/Los_Angeles`."""
    expression, _, zone = text.rpartition(" ")
    return {"schedule": expression, "timeZone": zone}


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        pytest.param({"schedule": "* * * * *"}, HOUR + MINUTE, id="every minute: the longest gap and an hour"),
        pytest.param({"schedule": "*/5 * * * *"}, HOUR + 5 * MINUTE, id="every five minutes"),
        pytest.param({"schedule": "0 * * * *"}, 4 * HOUR, id="hourly: four periods"),
        pytest.param(fields("0 * * * * Europe/Berlin"), 4 * HOUR, id="hourly where clocks are changed"),
        pytest.param({"schedule": "0 */4 * * *"}, 16 * HOUR, id="every four hours"),
        pytest.param(fields("0 */4 * * * Europe/Berlin"), 16 * HOUR, id="every four hours where clocks are changed"),
        pytest.param({"schedule": "0 */8 * * *"}, DAY, id="every eight hours: at most a day"),
        pytest.param({"schedule": "0 5 * * *"}, 25 * HOUR, id="daily"),
        pytest.param(DAILY, 26 * HOUR, id="daily, with a day of 25 hours"),
        pytest.param({"schedule": "0 9 * * 1"}, 169 * HOUR, id="weekly"),
        pytest.param({"interval": "90m"}, 6 * HOUR, id="an interval"),
        pytest.param({"interval": "10s"}, HOUR + 10, id="a short interval"),
        pytest.param({"interval": "30d"}, 721 * HOUR, id="a long interval"),
        pytest.param({"runAfter": "10d"}, HOUR, id="once"),
        pytest.param({"schedule": "0 0 * * *", "timeZones": ["UTC", "Asia/Tokyo"]}, DAY, id="zones 15 and 9 h apart"),
        pytest.param(
            {"schedule": "0 * * * *", "timeZones": ["UTC", "Asia/Kolkata"]}, 2 * HOUR, id="zones half an hour apart"
        ),
    ],
)
def test_a_job_may_go_without_a_success_for(spec: dict[str, Any], allowed: int) -> None:
    assert allowance(a_plan(**spec), vitals()) == allowed


def test_nights_on_which_clocks_are_changed_leave_no_odd_seconds() -> None:
    assert usual_allowance(Pace(14_399, 18_000)) == 16 * HOUR


@pytest.mark.parametrize("spec", [DAILY, {"schedule": "* * * * *"}, {"interval": "1d"}])
def test_a_limit_of_its_own_is_all_that_counts(spec: dict[str, Any]) -> None:
    success = CREATED + 10 * DAY

    overdue = overdue_time(a_plan(**spec), vitals(success, limit_seconds=600))

    assert overdue == success + 600


@pytest.mark.parametrize(
    ("text", "last_before_gap", "first_after_gap"),
    [
        pytest.param("*/5 6-22 * * * UTC", "2026-03-10T22:55:00", "2026-03-11T06:00:00", id="at night"),
        pytest.param("*/5 6-22 * * * Europe/Berlin", "2026-10-24T20:55:00", "2026-10-25T05:00:00", id="a longer night"),
        pytest.param("* 9 * * * UTC", "2026-03-11T09:59:00", "2026-03-12T09:00:00", id="for 23 hours a day"),
        pytest.param("0 9 * * 1-5 UTC", "2026-03-13T09:00:00", "2026-03-16T09:00:00", id="at weekends"),
        pytest.param("0 0 1 * * UTC", "2026-05-01T00:00:00", "2026-06-01T00:00:00", id="for a month"),
        pytest.param("0 0 29 2 * UTC", "2028-02-29T00:00:00", "2032-02-29T00:00:00", id="for four years"),
        pytest.param("0 0 29 2 * UTC", "2096-02-29T00:00:00", "2104-02-29T00:00:00", id="for eight years"),
    ],
)
def test_e02_a16_a_job_that_rests_is_healthy_and_unhealthy_an_hour_after_a_real_miss(
    text: str, last_before_gap: str, first_after_gap: str
) -> None:
    plan, success, missed = a_plan(**fields(text)), epoch(last_before_gap), epoch(first_after_gap)

    healths = [judge(plan, vitals(success, success), now=now).health for now in (missed, missed + HOUR - 1)]

    assert healths == [Health.HEALTHY, Health.HEALTHY]
    assert judge(plan, vitals(success, success), now=missed + HOUR).health is Health.UNHEALTHY


@pytest.mark.parametrize("anchor", ["2026-01-01T00:00:00", "2097-01-01T00:00:00"])
def test_a16_a_job_for_29_february_is_judged_whenever_it_was_made(anchor: str) -> None:
    plan = a_plan(epoch(anchor), schedule="0 9 29 2 *")
    first, second = list(plan.between(0, plan.anchor + 20 * 366 * DAY))[:2]

    succeeded = vitals(first, first, counts_from=plan.anchor)
    failed = vitals(None, first, counts_from=plan.anchor)

    assert judge(plan, succeeded, now=second + HOUR - 1).health is Health.HEALTHY
    assert judge(plan, succeeded, now=second + HOUR).health is Health.UNHEALTHY
    assert judge(plan, failed, now=second + HOUR - 1).health is Health.UNKNOWN
    assert judge(plan, failed, now=second + HOUR).health is Health.UNHEALTHY


NIGHTS = ["2026-03-06T00:00:00", "2026-10-30T00:00:00"]


@pytest.mark.parametrize("text", ["0 5 * * *", "30 2 * * *", "0 */12 * * *", "30 1 * * *"])
@pytest.mark.parametrize("zone", ["America/Los_Angeles", "America/New_York"])
@pytest.mark.parametrize("night", NIGHTS)
def test_a10_e03_a_job_that_succeeds_at_each_firing_is_never_unhealthy_when_clocks_are_changed(
    text: str, zone: str, night: str
) -> None:
    begin = epoch(night)
    plan = a_plan(begin, schedule=text, timeZone=zone)
    ends = [firing + 59 * MINUTE for firing in plan.between(begin, begin + 5 * DAY)]

    turns = [judge(plan, vitals(end, end, counts_from=begin), now=end).turns for end in ends]

    assert all(turn is not None and turn > following for turn, following in zip(turns, ends[1:], strict=False))


@pytest.mark.parametrize("night", NIGHTS)
def test_e03_a_daily_job_is_unhealthy_at_the_latest_an_hour_after_it_missed_a_day_of_23_hours(night: str) -> None:
    begin = epoch(night)
    plan = a_plan(begin, **DAILY)
    firings = list(plan.between(begin, begin + 5 * DAY))

    latest = [judge(plan, vitals(f, f, counts_from=begin), now=f).turns for f in firings]

    assert all(turn == firing + 26 * HOUR for turn, firing in zip(latest, firings, strict=True))
    assert {b - a for a, b in pairwise(firings)} >= {DAY}


@pytest.mark.parametrize(
    ("spec", "seen", "health", "reason"),
    [
        pytest.param({}, {"suspended": True, "last_success": CREATED}, "Suspended", SUSPENDED, id="suspended"),
        pytest.param({}, {}, "Unknown", NOT_RUN_YET, id="never run"),
        pytest.param({}, {"first_run": 1}, "Unknown", NO_SUCCESS_YET, id="it failed, and has its time"),
        pytest.param({}, {"last_success": 1, "first_run": 1}, "Healthy", SUCCEEDING, id="it succeeded"),
        pytest.param({"interval": "1s"}, {"last_success": -4000, "counts_from": CREATED}, "Unknown", NO_SUCCESS_YET,
                     id="it was edited after an old success"),
        pytest.param({"interval": "1s"}, {"last_success": -3000, "counts_from": CREATED}, "Healthy", SUCCEEDING,
                     id="it was edited after a recent success"),
        pytest.param({"interval": "1s"}, {"last_success": 1, "now": 3602}, "Unhealthy", NO_RECENT_SUCCESS,
                     id="too long without one"),
        pytest.param({"interval": "1s"}, {"first_run": 1, "now": 3602}, "Unhealthy", NEVER_SUCCEEDED,
                     id="too long without the first"),
        pytest.param({"runAfter": "9s"}, {"first_run": 9}, "Unknown", NO_SUCCESS_YET, id="once, and it failed"),
        pytest.param({"runAfter": "9s"}, {"first_run": 9, "now": 3609}, "Unhealthy", NEVER_SUCCEEDED,
                     id="once, and it failed an hour ago"),
        pytest.param({"runAfter": "9s"}, {"last_success": 10, "first_run": 9, "now": DAY}, "Healthy", NOTHING_DUE,
                     id="once, and it succeeded"),
        pytest.param({"by": "hand"}, {"last_success": 10, "first_run": 9, "now": DAY}, "Healthy", NOTHING_DUE,
                     id="by hand, and it succeeded"),
        pytest.param({"by": "hand"}, {"first_run": 9, "now": DAY}, "Unknown", NOTHING_DUE, id="by hand, and it failed"),
        pytest.param({"by": "hand"}, {"last_success": 10, "limit_seconds": 60, "now": 70}, "Unhealthy",
                     NO_RECENT_SUCCESS, id="by hand, with a limit of its own"),
        pytest.param({"by": "hand"}, {"last_success": -DAY, "now": DAY}, "Healthy", NOTHING_DUE,
                     id="by hand, and it succeeded before an edit"),
        pytest.param({"runAfter": "9s"}, {"last_success": 10, "limit_seconds": 60, "now": DAY}, "Healthy", NOTHING_DUE,
                     id="once, with a limit of its own, and it succeeded"),
        pytest.param({"schedule": "0 0 0 1 1 * 2020"}, {"first_run": 9, "now": DAY}, "Unknown", NOTHING_DUE,
                     id="stopped, and it never succeeded"),
    ],
)  # fmt: skip
def test_the_verdict_is(spec: dict[str, Any], seen: dict[str, Any], health: str, reason: str) -> None:
    plan = a_plan(**({} if "by" in spec else spec or {"schedule": "* * * * *"}))
    times = {name: CREATED + seen[name] for name in ("first_run", "last_success") if name in seen}
    rest = {name: seen[name] for name in ("suspended", "limit_seconds", "counts_from") if name in seen}

    verdict = judge(plan, vitals(**times | rest), now=CREATED + seen.get("now", 10))

    assert (verdict.health, verdict.reason) == (health, reason)


def test_a_schedule_that_is_not_valid_has_no_verdict() -> None:
    verdict = judge(None, vitals(CREATED), now=LONG_AFTER)

    assert (verdict.health, verdict.reason, verdict.turns) == (Health.UNKNOWN, INVALID_SCHEDULE, None)


SUCCESS, FIRST_RUN = CREATED + 10 * DAY, CREATED + 2 * MINUTE


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        pytest.param(
            vitals(SUCCESS, FIRST_RUN),
            "Unhealthy since {overdue}: no success for longer than 1h1m; the last was at {success}",
            id="its last success",
        ),
        pytest.param(
            vitals(None, FIRST_RUN),
            "Unhealthy since {overdue}: no success for longer than 1h1m since its first run at {first}; it never succeeded",
            id="its first run",
        ),
        pytest.param(
            vitals(SUCCESS, FIRST_RUN, counts_from=SUCCESS + DAY),
            "Unhealthy since {overdue}: no success for longer than 1h1m since it was edited or resumed at {edit};"
            " the last was at {success}",
            id="an edit",
        ),
        pytest.param(
            vitals(None, FIRST_RUN, counts_from=SUCCESS + DAY),
            "Unhealthy since {overdue}: no success for longer than 1h1m since it was edited or resumed at {edit};"
            " it never succeeded",
            id="an edit after failures only",
        ),
        pytest.param(
            vitals(SUCCESS, FIRST_RUN, limit_seconds=90),
            "Unhealthy since {overdue}: no success for longer than 1m30s; the last was at {success}",
            id="its last success, with a limit of its own",
        ),
    ],
)
def test_the_message_says_since_when_what_was_allowed_and_the_last_success(seen: Vitals, message: str) -> None:
    plan = a_plan(seen.counts_from, schedule="* * * * *")
    times = {"success": SUCCESS, "first": FIRST_RUN, "edit": seen.counts_from, "overdue": overdue_time(plan, seen) or 0}

    verdict = judge(plan, seen, now=LONG_AFTER)

    assert verdict.message == message.format_map({name: rfc3339(when) for name, when in times.items()})


def test_the_message_of_a_healthy_job_does_not_change_from_run_to_run() -> None:
    plan = a_plan(**DAILY)
    firings = list(plan.between(CREATED, CREATED + 3 * DAY))

    messages = {judge(plan, vitals(firing + 60), now=firing + 90).message for firing in firings}

    assert messages == {"Its last success is not longer ago than 1d2h"}


def test_time_in_which_a_job_was_suspended_does_not_make_it_unhealthy_after_the_resume() -> None:
    resumed = CREATED + 30 * DAY
    plan = a_plan(resumed, schedule="* * * * *")
    seen = vitals(CREATED + DAY, CREATED, counts_from=resumed)

    verdict = judge(plan, seen, now=resumed + 1)

    assert (verdict.health, verdict.turns) == (Health.UNKNOWN, resumed + HOUR + MINUTE)
    assert judge(plan, seen, now=resumed + HOUR + MINUTE).health is Health.UNHEALTHY


def test_a_success_before_the_firing_of_a_job_that_runs_once_does_not_stand_for_it() -> None:
    plan = a_plan(runAfter="1d")

    by_hand = vitals(CREATED + HOUR, CREATED + HOUR)

    assert judge(plan, by_hand, now=CREATED + DAY + HOUR - 1).health is Health.HEALTHY
    assert judge(plan, by_hand, now=CREATED + DAY + HOUR).health is Health.UNHEALTHY


specs = st.sampled_from(
    [
        {"schedule": "* * * * *"},
        {"schedule": "*/20 8-18 * * 1-5", "timeZone": "Europe/Berlin"},
        {"schedule": "30 2 * * *", "timeZone": "Australia/Lord_Howe"},
        {"schedule": "0 0 29 2 *"},
        {"schedule": "15 6 * * *", "timeZones": ["Asia/Tokyo", "America/New_York", "UTC"]},
        {"interval": "7h"},
        {"runAfter": "3d"},
        {},
    ]
)
moments = st.integers(CREATED - 400 * DAY, CREATED + 400 * DAY)
seen_vitals = st.builds(
    Vitals,
    first_run=st.none() | moments,
    last_success=st.none() | moments,
    counts_from=st.just(CREATED),
    suspended=st.sampled_from([False, False, False, True]),
    limit_seconds=st.none() | st.none() | st.integers(1, 10 * DAY),
)


@settings(max_examples=300, deadline=None)
@given(specs, seen_vitals, st.integers(CREATED, CREATED + 800 * DAY))
def test_a_verdict_stands_until_it_turns_and_not_longer(spec: dict[str, Any], seen: Vitals, now: int) -> None:
    plan = a_plan(**spec)

    verdict = judge(plan, seen, now=now)

    if verdict.turns is None:
        assert judge(plan, seen, now=LONG_AFTER).health is verdict.health
    else:
        assert now < verdict.turns
        assert judge(plan, seen, now=verdict.turns - 1).health is verdict.health
        assert judge(plan, seen, now=verdict.turns).health is not verdict.health


@settings(max_examples=300, deadline=None)
@given(specs, seen_vitals, st.integers(CREATED, CREATED + 800 * DAY))
def test_a_job_stays_healthy_until_the_instant_that_is_quickly_found(
    spec: dict[str, Any], seen: Vitals, now: int
) -> None:
    plan = a_plan(**spec)

    surely = surely_healthy_until(plan, seen)

    if surely is not None and now < surely:
        assert judge(plan, seen, now=now).health is Health.HEALTHY
        assert judge(plan, seen, now=now).turns == overdue_time(plan, seen)


@settings(max_examples=200, deadline=None)
@given(specs, st.integers(1, 200), st.integers(0, HOUR - 1))
def test_a_job_whose_runs_all_succeed_within_an_hour_is_never_unhealthy(
    spec: dict[str, Any], skipped: int, took: int
) -> None:
    plan = a_plan(**spec)
    firing = plan.next_after(CREATED + skipped * DAY)

    following = plan.next_after(firing) if firing is not None else None

    if firing is not None and following is not None:
        seen = vitals(firing + took, firing)
        assert judge(plan, seen, now=following + HOUR - 1).health is Health.HEALTHY


@settings(max_examples=100, deadline=None)
@given(specs, moments, st.integers(0, 400 * DAY))
def test_a_later_success_never_makes_a_job_unhealthy_sooner(spec: dict[str, Any], success: int, later: int) -> None:
    plan = a_plan(**spec)

    first, second = overdue_time(plan, vitals(success, 1)), overdue_time(plan, vitals(success + later, 1))

    assert second is None or (first is not None and first <= second)


def test_fifty_thousand_verdicts_cost_a_second_or_two() -> None:
    plan, seen = a_plan(**DAILY), vitals(SUCCESS, FIRST_RUN)
    plan.pace()

    one = quickest(lambda: [judge(plan, seen, now=SUCCESS + 5) for _ in range(100)]) / 100

    assert one < 0.000_1
