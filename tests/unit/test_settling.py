"""What becomes of firings that nobody claimed: tables, and properties against a plain enumeration of the firings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack.decision import RUNS_MOST, in_time, pending, start_time
from quarterjack.model import Claim, Entry, Job, Misfire, Policy, State, Trigger
from quarterjack.names import run_key
from quarterjack.plan import Plan, plan_of
from quarterjack.settling import Missed, Settlement, settle
from quarterjack.windows import LATE_SECONDS
from tests.unit.given import CREATED, NOON, a_claim, a_job, a_pod, a_spec, a_status

MINUTE = 60
MINUTELY = plan_of({"schedule": "* * * * *"}, anchor=CREATED)
PLANS = [
    plan_of({"schedule": "* * * * *"}, anchor=CREATED),
    plan_of({"schedule": "*/7 * * * * *"}, anchor=CREATED - 100),
    plan_of({"schedule": "0,30 10-12 * * *", "timeZones": ["UTC", "Asia/Kolkata"]}, anchor=CREATED - 100),
    plan_of({"interval": "13s"}, anchor=CREATED - 5),
    plan_of({"runAfter": "5m"}, anchor=CREATED),
    plan_of({}, anchor=CREATED),
]


def settled(
    job: Job,
    *,
    until: int,
    now: int,
    plan: Plan = MINUTELY,
    claims: dict[int, Claim] | None = None,
    entries: frozenset[int] = frozenset(),
    latest: bool = True,
) -> Settlement:
    claimed = {claim.key: claim for claim in (claims or {}).values()}
    return settle(job, plan, until=until, claims=claimed, entries={run_key(f) for f in entries}, now=now, latest=latest)


def rows(settlement: Settlement) -> list[Entry]:
    return [entry for entry in settlement.entries if entry.count]


def lines(settlement: Settlement) -> dict[int, Entry]:
    return {entry.scheduled: entry for entry in settlement.entries if not entry.count}


class Case(NamedTuple):
    """A job with a past, and what is known of it when it is settled."""

    job: Job
    plan: Plan
    until: int
    claims: dict[int, Claim]
    entries: frozenset[int]
    now: int
    latest: bool

    def settle(self) -> Settlement:
        return settled(**self._asdict())

    @property
    def firings(self) -> list[int]:
        return list(self.plan.between(self.job.recorded_until, self.until))

    @property
    def unknown(self) -> set[int]:
        return {f for f in self.firings if f not in self.claims and f not in self.entries}


@st.composite
def cases(draw: st.DrawFn) -> Case:
    plan = draw(st.sampled_from(PLANS))
    span_seconds = draw(st.integers(0, 2 * 3600) | st.integers(0, 300))
    until = CREATED + span_seconds
    near = list(plan.between(CREATED - 100, until + 100))
    instants = st.integers(CREATED - 100, until + 100) | (st.sampled_from(near) if near else st.nothing())
    claimed = draw(st.sets(instants, max_size=30))
    spec = a_spec(
        misfire=draw(st.sampled_from(Misfire)),
        jitter_ms=draw(st.sampled_from([0, 0, 1, 500, 20_000, 200_000, 86_400_000])),
        starting_deadline_seconds=draw(st.none() | st.integers(0, 600)),
        catch_up_limit=draw(st.sampled_from([1, 3, 100])),
        suspend=draw(st.sampled_from([False, False, False, True])),
    )
    active = draw(st.sampled_from([0, 0, 0, RUNS_MOST - 5, RUNS_MOST]))
    return Case(
        job=a_job(spec=spec, status=a_status(activeCount=active)),
        plan=plan,
        until=until,
        claims={f: a_claim(f, trigger=draw(st.sampled_from(Trigger))) for f in claimed},
        entries=frozenset(draw(st.sets(instants, max_size=30))),
        now=until + draw(st.sampled_from([0, 1, 30, LATE_SECONDS, 61, 300])),
        latest=draw(st.booleans()),
    )


@given(cases())
def test_every_firing_in_the_span_has_a_line_or_is_counted_or_was_known_and_only_once(case: Case) -> None:
    settlement = case.settle()

    shown = [e.scheduled for e in settlement.entries if not e.count]
    missed = case.unknown - set(shown)
    assert len(shown) == len(set(shown))
    assert not case.entries & set(shown)
    assert set(shown) - set(case.claims) <= case.unknown
    assert sum(row.count for row in rows(settlement)) == len(missed)
    assert [(row.first_scheduled, row.scheduled) for row in rows(settlement)] == (
        [(min(missed), max(missed))] if missed else []
    )


@given(cases())
def test_what_is_claimed_in_the_span_gets_a_line_and_nothing_outside_it(case: Case) -> None:
    shown = lines(case.settle())

    span = range(case.job.recorded_until + 1, case.until + 1)
    told = {f: case.claims[f].trigger for f in case.claims if f in span and f not in case.entries}
    assert {f: entry.trigger for f, entry in shown.items() if f in case.claims} == told
    assert all(f in span for f in shown)


@given(cases())
def test_only_what_can_no_longer_be_claimed_on_time_is_missed(case: Case) -> None:
    shown = lines(case.settle())

    in_time_yet = {f for f in case.unknown if start_time(case.job, case.plan, f) > case.now - LATE_SECONDS}
    assert {f for f, e in shown.items() if f not in case.claims and e.trigger is Trigger.SCHEDULE} == in_time_yet


@pytest.mark.parametrize(
    ("seconds", "missed"),
    [pytest.param(59, 0, id="a second before"), pytest.param(60, 1, id="on the second")],
)
def test_a_firing_is_late_a_minute_after_its_start(seconds: int, missed: int) -> None:
    firing = CREATED + MINUTE

    settlement = settled(a_job(), until=firing, now=firing + seconds, latest=False)

    assert sum(row.count for row in rows(settlement)) == missed
    assert len(lines(settlement)) == 1 - missed


@given(cases())
def test_of_the_missed_firings_the_latest_run_as_many_as_the_policy_says_and_there_is_room_for(case: Case) -> None:
    shown = lines(case.settle())

    spec = case.job.spec
    late = sorted(f for f in case.unknown if start_time(case.job, case.plan, f) <= case.now - LATE_SECONDS)
    others = {f for f in shown if f in case.claims or f not in late}
    followed = not case.latest or any(f > late[-1] for f in others if late)
    asked = {Misfire.SKIP: 0, Misfire.RUN_ONCE: int(not followed), Misfire.CATCH_UP: spec.catch_up_limit}[spec.misfire]
    room = max(0, RUNS_MOST - case.job.status.active - len(others))
    most = 0 if spec.suspend else min(asked, room)
    eligible = [f for f in late if in_time(spec, f, case.now)]
    assert sorted(shown.keys() - others) == eligible[max(0, len(eligible) - most) :]
    assert all(shown[f].trigger is Trigger.CATCH_UP for f in shown.keys() - others)


@given(cases())
def test_the_watermark_goes_to_the_end_of_the_span_and_never_back(case: Case) -> None:
    settlement = case.settle()

    assert settlement.watermark == max(case.until, case.job.recorded_until)
    assert settled(**case._replace(until=CREATED - 500)._asdict()) == Settlement((), CREATED)


@given(cases())
def test_settling_again_after_a_lost_write_gives_the_same(case: Case) -> None:
    first = case.settle()
    again = case._replace(
        job=replace(case.job, status=replace(case.job.status, watermark=first.watermark)),
        entries=case.entries | lines(first).keys(),
    )

    assert case.settle() == first
    assert again.settle().entries == ()


@given(cases())
def test_missed_firings_are_counted_as_an_enumeration_counts_them(case: Case) -> None:
    known = case.claims.keys() | case.entries

    missed = Missed.among(case.plan, known, after=CREATED, until=case.until)

    plain = [f for f in case.plan.between(CREATED, case.until) if f not in known]
    assert missed == (Missed(plain[0], plain[-1], len(plain)) if plain else Missed())
    assert missed.without_last(case.plan, known) == (
        Missed(plain[0], plain[-2], len(plain) - 1) if len(plain) > 1 else Missed()
    )


class Counting:
    """A plan that counts the firings that it is asked to list or to follow."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.asked = 0

    def __getattr__(self, name: str) -> Any:
        self.asked += name in {"next_after", "previous"}
        return getattr(self.plan, name)


@pytest.mark.parametrize("misfire", Misfire)
@pytest.mark.parametrize("jitter_ms", [0, 86_400_000, 365 * 86_400_000])
def test_a_year_of_seconds_is_settled_without_walking_it_whatever_its_jitter(jitter_ms: int, misfire: Misfire) -> None:
    year = 365 * 86400
    plan: Any = Counting(plan_of({"schedule": "* * * * * *"}, anchor=CREATED))
    job = a_job(spec=a_spec(jitter_ms=jitter_ms, misfire=misfire))

    settlement = settled(job, plan=plan, until=CREATED + year, now=CREATED + year)

    assert sum(row.count for row in rows(settlement)) + len(lines(settlement)) == year
    assert plan.asked < 600


@pytest.mark.parametrize(
    ("spec", "reason", "why"),
    [
        pytest.param({"misfire": Misfire.SKIP}, "Misfire", "misfirePolicy is Skip", id="Skip"),
        pytest.param({}, "Misfire", "misfirePolicy RunOnce runs only the latest", id="RunOnce"),
        pytest.param({"suspend": True}, "Misfire", "the job was suspended", id="suspended"),
        pytest.param(
            {"misfire": Misfire.CATCH_UP, "catch_up_limit": 3}, "Misfire", "catchUpLimit is 3", id="beyond the limit"
        ),
        pytest.param(
            {"misfire": Misfire.CATCH_UP, "starting_deadline_seconds": 400},
            "StartingDeadlineExceeded",
            "startingDeadlineSeconds is 400",
            id="those that CatchUp still could start are within the deadline",
        ),
        pytest.param(
            {"starting_deadline_seconds": 100},
            "StartingDeadlineExceeded",
            "startingDeadlineSeconds is 100",
            id="past the deadline",
        ),
    ],
)
def test_a_row_says_how_many_when_and_why(spec: dict[str, Any], reason: str, why: str) -> None:
    until = CREATED + 10 * MINUTE

    (row,) = rows(settled(a_job(spec=a_spec(**spec)), until=until, now=until + 300))

    assert (row.state, row.reason, row.id) == (State.MISSED, reason, f"missed-{row.scheduled}")
    assert f"{row.count} missed (2026-03-10T10:01:00Z to 2026-03-10T10:" in row.message
    assert row.message.endswith(why)


def test_catch_up_runs_the_latest_in_order_and_tells_of_the_older_ones_in_one_row() -> None:
    until = CREATED + 500 * MINUTE
    job = a_job(spec=a_spec(misfire=Misfire.CATCH_UP, catch_up_limit=2))

    settlement = settled(job, until=until, now=until + 300, latest=False)

    (row,) = rows(settlement)
    assert (row.count, row.scheduled) == (498, until - 2 * MINUTE)
    assert settlement.entries[1:] == tuple(pending(until - n * MINUTE, Trigger.CATCH_UP) for n in (1, 0))


@pytest.mark.parametrize(
    ("policy", "status", "caught"),
    [
        pytest.param(Policy.FORBID, {}, 100, id="all that may wait"),
        pytest.param(Policy.FORBID, {"waiting": 30}, 70, id="beside those that wait already"),
        pytest.param(
            Policy.ALLOW, {"waiting": 30, "active": 30}, 40, id="beside those that run, where all run at once"
        ),
        pytest.param(Policy.FORBID, {"waiting": 100}, 0, id="none where so many wait"),
    ],
)
def test_catch_up_lets_no_more_than_a_hundred_wait(policy: Policy, status: dict[str, int], caught: int) -> None:
    until = CREATED + 500 * MINUTE
    spec = a_spec(misfire=Misfire.CATCH_UP, policy=policy)
    occupied = replace(a_status(), waiting=status.get("waiting", 0), active=status.get("active", 0))

    settlement = settled(a_job(spec=spec, status=occupied), until=until, now=until + 300)

    (row,) = rows(settlement)
    assert (len(lines(settlement)), row.count) == (caught, 500 - caught)
    assert row.reason == ("Misfire" if caught == 100 else "TooManyRuns")


def test_a_job_with_a_full_history_catches_nothing_up_and_says_so() -> None:
    job = a_job(status=a_status(activeCount=RUNS_MOST))

    settlement = settled(job, until=CREATED + MINUTE, now=CREATED + 300)

    (row,) = settlement.entries
    assert (row.count, row.reason) == (1, "TooManyRuns")
    assert row.message == (
        "1 missed (2026-03-10T10:01:00Z): nothing could start it in time, for 100 runs of the job were under way"
    )


def test_the_latest_of_those_missed_that_finds_no_room_is_not_said_to_be_left_to_a_later_one() -> None:
    job = a_job(status=a_status(activeCount=RUNS_MOST - 1))
    claimed = CREATED + MINUTE

    settlement = settled(job, until=CREATED + 2 * MINUTE, now=CREATED + 400, claims={claimed: a_claim(claimed)})

    (row,) = rows(settlement)
    assert (row.count, row.reason) == (1, "TooManyRuns")


def test_a_claimed_firing_after_the_missed_ones_makes_up_for_them() -> None:
    until = CREATED + 3 * MINUTE

    settlement = settled(a_job(), until=until, now=until + 300, claims={until: a_claim(until)})

    (row,) = rows(settlement)
    assert (row.count, row.scheduled) == (2, until - MINUTE)
    assert row.message.endswith("and misfirePolicy RunOnce runs none of them where a later firing has come due")
    assert lines(settlement).keys() == {until}


def test_a_pod_without_a_claim_is_not_missed() -> None:
    firing = CREATED + MINUTE

    settlement = settle(
        a_job(), MINUTELY, until=firing, claims={run_key(firing): a_pod(firing)}, entries=(), now=NOON, latest=True
    )

    assert settlement.entries == (pending(firing, Trigger.SCHEDULE),)
