"""What is due, late or missed: tables, and properties against a plain enumeration of the firings."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack.attempts import last_attempts, next_attempt
from quarterjack.clock import rfc3339
from quarterjack.decision import (
    RUNS_MOST,
    Missed,
    Settlement,
    advance,
    first_unclaimed,
    in_time,
    is_over,
    is_recorded,
    may_fire,
    pending,
    prune,
    settle,
    sighted,
    start_time,
    surplus_pods,
    takeover_time,
    untold,
)
from quarterjack.model import Claim, Entry, Firings, Job, Misfire, Outcome, PodSight, Retry, State, Status, Trigger
from quarterjack.names import run_key
from quarterjack.plan import Plan, plan_of
from quarterjack.windows import LATE_SECONDS
from tests.unit.given import CREATED, NOON, a_claim, a_job, a_pod, a_run, a_spec, a_status, epoch

MINUTE = 60
MINUTELY = plan_of({"schedule": "* * * * *"}, anchor=CREATED)
HALF_PAST_TEN = epoch("2026-03-10T10:30:00")
BY_HAND = plan_of({}, anchor=CREATED)
PLANS = [
    plan_of({"schedule": "* * * * *"}, anchor=CREATED),
    plan_of({"schedule": "*/7 * * * * *"}, anchor=CREATED - 100),
    plan_of({"schedule": "0,30 10-12 * * *", "timeZones": ["UTC", "Asia/Kolkata"]}, anchor=CREATED - 100),
    plan_of({"interval": "13s"}, anchor=CREATED - 5),
    plan_of({"runAfter": "5m"}, anchor=CREATED),
    BY_HAND,
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
    )
    active = draw(st.sampled_from([0, 0, 0, RUNS_MOST]))
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
def test_at_most_the_latest_missed_firing_runs_and_only_where_nothing_follows_it(case: Case) -> None:
    settlement = case.settle()

    shown = lines(settlement)
    late = [f for f in case.unknown if start_time(case.job, case.plan, f) <= case.now - LATE_SECONDS]
    once = (
        bool(late)
        and case.latest
        and case.job.spec.misfire is Misfire.RUN_ONCE
        and case.job.status.active < RUNS_MOST
        and in_time(case.job.spec, max(late), case.now)
        and all(f < max(late) for f in shown if f != max(late))
    )
    caught_up = [f for f, e in shown.items() if f not in case.claims and e.trigger is Trigger.CATCH_UP]
    assert caught_up == ([max(late)] if once else [])


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


@pytest.mark.parametrize("jitter_ms", [0, 86_400_000, 365 * 86_400_000])
def test_a_year_of_seconds_is_settled_without_walking_it_whatever_its_jitter(jitter_ms: int) -> None:
    year = 365 * 86400
    plan: Any = Counting(plan_of({"schedule": "* * * * * *"}, anchor=CREATED))
    job = a_job(spec=a_spec(jitter_ms=jitter_ms))

    settlement = settled(job, plan=plan, until=CREATED + year, now=CREATED + year)

    assert sum(row.count for row in rows(settlement)) + len(lines(settlement)) == year
    assert plan.asked < 300


@pytest.mark.parametrize(
    ("spec", "reason", "why"),
    [
        pytest.param({"misfire": Misfire.SKIP}, "Misfire", "misfirePolicy is Skip", id="Skip"),
        pytest.param({}, "Misfire", "misfirePolicy RunOnce runs only the latest", id="RunOnce"),
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


def test_a_job_with_a_full_history_catches_nothing_up_and_says_so() -> None:
    job = a_job(status=a_status(activeCount=RUNS_MOST))

    settlement = settled(job, until=CREATED + MINUTE, now=CREATED + 300)

    (row,) = settlement.entries
    assert (row.count, row.reason) == (1, "TooManyRuns")
    assert row.message == (
        "1 missed (2026-03-10T10:01:00Z): nothing could start it in time, for 100 runs of the job were under way"
    )


def test_a_claimed_firing_after_the_missed_ones_makes_up_for_them() -> None:
    until = CREATED + 3 * MINUTE

    settlement = settled(a_job(), until=until, now=until + 300, claims={until: a_claim(until)})

    (row,) = rows(settlement)
    assert (row.count, row.scheduled) == (2, until - MINUTE)
    assert row.message.endswith("and a later firing makes up for them")
    assert lines(settlement).keys() == {until}


def test_a_pod_without_a_claim_is_not_missed() -> None:
    firing = CREATED + MINUTE

    settlement = settle(
        a_job(), MINUTELY, until=firing, claims={run_key(firing): a_pod(firing)}, entries=(), now=NOON, latest=True
    )

    assert settlement.entries == (pending(firing, Trigger.SCHEDULE),)


@pytest.mark.parametrize(
    ("deadline_seconds", "seconds_late", "starts"),
    [
        pytest.param(None, 10**8, True, id="no deadline"),
        pytest.param(60, 60, True, id="at the deadline"),
        pytest.param(60, 61, False, id="past the deadline"),
        pytest.param(0, 0, True, id="a deadline of zero, on the second"),
    ],
)
def test_a_firing_may_start_until_its_deadline(deadline_seconds: int | None, seconds_late: int, starts: bool) -> None:
    spec = a_spec(starting_deadline_seconds=deadline_seconds)

    assert in_time(spec, NOON, NOON + seconds_late) is starts


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"generation": 2}, id="a generation that is not observed"),
        pytest.param({"deleting": True}, id="being deleted"),
        pytest.param({"spec": a_spec(suspend=True)}, id="suspended"),
        pytest.param({"spec": a_spec(unserved=("spec.fanOut",))}, id="a field that is not served"),
        pytest.param({"spec": a_spec(invalid="jitter")}, id="an invalid spec"),
        pytest.param({"status": a_status(servedBy="them")}, id="served by another installation"),
        pytest.param({"status": a_status(conditions=[])}, id="not ready"),
        pytest.param({"status": Status()}, id="never visited"),
    ],
)
def test_a_job_does_not_fire_when(change: dict[str, Any]) -> None:
    assert may_fire(a_job(), served_by="us")
    assert not may_fire(replace(a_job(), **change), served_by="us")


@pytest.mark.parametrize(
    ("entry", "recorded"),
    [
        pytest.param(None, False, id="no line"),
        pytest.param(pending(NOON, Trigger.CATCH_UP), False, id="a line that is to be claimed"),
        pytest.param(a_run(NOON, State.PENDING), True, id="a Pod that has not started"),
        pytest.param(a_run(NOON, State.FAILED), True, id="an end"),
    ],
)
def test_a_firing_is_recorded_by(entry: Entry | None, recorded: bool) -> None:
    entries = {} if entry is None else {entry.id: entry}

    assert is_recorded(a_job(), entries, run_key(NOON)) is recorded


def test_a_firing_at_the_watermark_is_recorded_and_the_next_is_not() -> None:
    assert is_recorded(a_job(), {}, run_key(CREATED))
    assert not is_recorded(a_job(), {}, run_key(CREATED + 1))


def test_the_first_unclaimed_firing_has_neither_claim_nor_line() -> None:
    one, two, three = (CREATED + n * MINUTE for n in (1, 2, 3))

    known = {"claims": {run_key(one)}, "entries": {run_key(two)}}
    assert first_unclaimed(MINUTELY, after=CREATED, until=NOON, **known) == three
    assert first_unclaimed(MINUTELY, after=CREATED, until=two, **known) is None


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        pytest.param({}, 3 + 5 + 1, id="window, gap and a second"),
        pytest.param({"launch_timeout_seconds": 4}, 3 + 7 + 1, id="a longer timeout"),
        pytest.param({"refusal": "quota"}, 3 + 5 + 1 + 5, id="the first refusal"),
        pytest.param({"refusal": "quota", "takeovers": 2}, 3 + 5 + 1 + 20, id="the third refusal"),
        pytest.param({"refusal": "quota", "takeovers": 1000}, 3 + 5 + 1 + 300, id="refused for a long time"),
    ],
)
def test_a_claim_is_taken_over_once_its_pod_can_no_longer_come(fields: dict[str, Any], seconds: int) -> None:
    assert takeover_time(a_claim(NOON, **fields)) == NOON + seconds


@pytest.mark.parametrize(
    ("claim", "pods", "entry", "silent"),
    [
        pytest.param(a_claim(NOON), set(), None, True, id="nothing"),
        pytest.param(a_claim(NOON), set(), pending(NOON, Trigger.SCHEDULE), True, id="a line without a Pod"),
        pytest.param(a_claim(NOON), {run_key(NOON)}, None, False, id="a Pod"),
        pytest.param(a_claim(NOON), set(), a_run(NOON, State.PENDING), False, id="a line with a Pod"),
        pytest.param(a_claim(NOON, outcome=Outcome(State.SKIPPED, "x")), set(), None, False, id="an outcome"),
    ],
)
def test_a_claim_is_untold_with(claim: Claim, pods: set[str], entry: Entry | None, silent: bool) -> None:
    assert untold(claim, pods, {} if entry is None else {entry.id: entry}) is silent


@pytest.mark.parametrize(
    ("jitter_ms", "plan", "most"),
    [
        pytest.param(0, MINUTELY, 0.0, id="without jitter"),
        pytest.param(5_000, MINUTELY, 5.0, id="within the jitter"),
        pytest.param(3_600_000, MINUTELY, 60.0, id="before the next firing"),
        pytest.param(600_000, plan_of({"runAfter": "2h"}, anchor=CREATED), 600.0, id="no next firing"),
    ],
)
def test_a_start_lies_at_or_after_its_firing(jitter_ms: int, plan: Plan, most: float) -> None:
    delay = start_time(a_job(spec=a_spec(jitter_ms=jitter_ms)), plan, NOON) - NOON

    assert 0 <= delay < most or delay == most == 0


@given(st.sampled_from(PLANS), st.sets(st.integers(0, 200)), st.integers(0, 3600))
def test_the_watermark_never_passes_a_firing_without_a_record(plan: Plan, absent: set[int], span: int) -> None:
    firings = list(plan.between(CREATED, CREATED + 2 * span))
    unrecorded = {f for n, f in enumerate(firings) if n in absent}

    reached = advance(plan, CREATED, now=CREATED + span, recorded=lambda f: f not in unrecorded)

    first = min(unrecorded, default=CREATED + 2 * span + 1)
    assert reached == max([f for f in firings if f < first and f <= CREATED + span], default=CREATED)


ENDS = [State.SUCCEEDED, State.FAILED, State.SKIPPED, State.STALE]
LINES = st.builds(
    a_run,
    st.integers(NOON - 40 * 86400, NOON + 300),
    st.sampled_from(State),
    completed=st.none() | st.integers(NOON - 40 * 86400, NOON),
)


@given(
    st.lists(LINES, max_size=260, unique_by=lambda e: e.id),
    st.integers(NOON - 40 * 86400, NOON),
    st.integers(0, 150),
    st.integers(0, 150),
)
def test_pruning_never_drops_a_line_that_is_not_final_or_lies_above_the_watermark(
    history: list[Entry], watermark: int, good: int, bad: int
) -> None:
    spec = a_spec(successful_limit=good, failed_limit=bad)

    kept = prune(history, spec, watermark=watermark, now=NOON)

    needed = {e.id for e in history if not e.ended or e.scheduled > watermark}
    extra = [e for e in kept if e.id not in needed]
    assert needed <= {e.id for e in kept} <= {e.id for e in history}
    assert sum(e.state is State.SUCCEEDED for e in extra) <= good
    assert sum(e.state is not State.SUCCEEDED for e in extra) <= bad
    assert len(kept) <= max(200, len(needed))
    assert [e.scheduled for e in kept] == sorted((e.scheduled for e in kept), reverse=True)


def test_pruning_keeps_the_newest_and_drops_what_is_older_than_the_retention() -> None:
    old, older, newest = a_run(NOON - 86400), a_run(NOON - 2 * 86400), a_run(NOON - 60)
    spec = a_spec(successful_limit=2, retention_seconds=10 * 86400)

    assert prune([older, newest, old], spec, watermark=NOON, now=NOON) == [newest, old]
    assert prune([old], replace(spec, retention_seconds=86400), watermark=NOON, now=NOON) == []


@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 11), st.sampled_from([State.RUNNING, *ENDS])),
        unique_by=lambda run: run[0],
    ),
    st.integers(0, 60),
    st.integers(0, 30),
)
def test_pruning_keeps_the_last_attempt_of_a_run_longest_and_counts_runs(
    runs: list[tuple[int, int, State]], recorded: int, limit: int
) -> None:
    history = [
        a_run(NOON + firing, State.FAILED if attempt < last else state, attempt=attempt)
        for firing, last, state in runs
        for attempt in range(1, last + 1)
    ]
    spec = a_spec(successful_limit=limit, failed_limit=limit)

    kept = prune(history, spec, watermark=NOON + recorded, now=NOON)

    shown = last_attempts(kept)
    over = [e for e in shown.values() if e.ended and e.scheduled <= NOON + recorded]
    needed = {str(NOON + firing) for firing, _, state in runs if state is State.RUNNING or firing > recorded}
    assert needed <= shown.keys()
    assert sum(e.state is State.SUCCEEDED for e in over) <= limit
    assert sum(e.state is not State.SUCCEEDED for e in over) <= limit
    assert all(
        shown[run].attempt == last for run, last in {str(NOON + f): a for f, a, _ in runs}.items() if run in shown
    )
    assert len(kept) <= 200


def test_a_run_and_its_attempts_are_kept_and_dropped_as_one() -> None:
    first, second = a_run(NOON, State.FAILED), a_run(NOON, attempt=2)
    later = a_run(NOON + 60)

    assert prune([first, second, later], a_spec(successful_limit=2), watermark=NOON + 60, now=NOON) == [
        later,
        second,
        first,
    ]
    assert prune([first, second, later], a_spec(successful_limit=1), watermark=NOON + 60, now=NOON) == [later]


FAILED, STALE = a_run(NOON, State.FAILED), a_run(NOON, State.STALE)
PLAIN = pending(NOON, Trigger.SCHEDULE)
SKIPPED = a_claim(NOON, outcome=Outcome(State.SKIPPED, "ConcurrencyPolicy", "a run is alive"))


@pytest.mark.parametrize(
    ("entry", "claim", "pod", "state", "reason"),
    [
        pytest.param(None, a_claim(NOON), None, State.PENDING, "Starting", id="a claim alone"),
        pytest.param(None, None, a_pod(NOON), State.RUNNING, "", id="a Pod alone"),
        pytest.param(None, SKIPPED, None, State.SKIPPED, "ConcurrencyPolicy", id="an outcome"),
        pytest.param(PLAIN, SKIPPED, None, State.SKIPPED, "ConcurrencyPolicy", id="an outcome of a pending line"),
        pytest.param(PLAIN, SKIPPED, a_pod(NOON), State.RUNNING, "", id="a Pod outweighs an outcome"),
        pytest.param(a_run(NOON, State.RUNNING), SKIPPED, None, State.RUNNING, "", id="a run outweighs an outcome"),
        pytest.param(PLAIN, a_claim(NOON, refusal="quota"), None, State.PENDING, "FailedCreate", id="a refusal"),
        pytest.param(FAILED, None, a_pod(NOON, State.SUCCEEDED), State.FAILED, "", id="an end is final"),
        pytest.param(STALE, None, a_pod(NOON, State.SUCCEEDED), State.SUCCEEDED, "", id="a late finisher"),
        pytest.param(STALE, None, None, State.STALE, "", id="stale, and nothing seen"),
        pytest.param(PLAIN, None, None, State.PENDING, "Starting", id="nothing seen"),
    ],
)
def test_a_line_is_read_from_what_stands_and_what_is_seen(
    entry: Entry | None, claim: Claim | None, pod: Any, state: State, reason: str
) -> None:
    line = sighted(entry, claim, pod)

    assert line is not None
    assert (line.state, line.reason, line.id, line.scheduled) == (state, reason, str(NOON), NOON)


def test_a_refused_attempt_ends_when_its_claim_was_settled() -> None:
    outcome = Outcome(State.FAILED, "FailedCreate", "quota", settled=NOON + 900)

    line = sighted(None, a_claim(NOON, outcome=outcome), None)

    assert line is not None
    assert line.completed == NOON + 900


def test_a_claim_ends_the_back_off_of_its_attempt() -> None:
    waiting = next_attempt(a_run(NOON, State.FAILED, trigger=Trigger.CATCH_UP), Retry(most=1))

    line = sighted(waiting, a_claim(NOON, 2), None)

    assert line == pending(NOON, Trigger.CATCH_UP, 2)


def over(*lines: Entry, claims: tuple[Claim, ...] = (), pods: tuple[PodSight, ...] = (), most: int = 2) -> bool:
    firings = Firings({claim.key: claim for claim in claims}, {pod.key: pod for pod in pods})
    job = a_job(spec=a_spec(retry=Retry(most=most)))
    return is_over(job, {line.id: line for line in lines}, firings, run_key(NOON))


FAILED_POD, SECOND_FAILED = a_pod(NOON, State.FAILED), a_run(NOON, State.FAILED, attempt=2)
WAITING = pending(NOON, Trigger.SCHEDULE, 3)


@pytest.mark.parametrize(
    ("lines", "seen", "most", "ends"),
    [
        pytest.param([], {"pods": (a_pod(NOON),)}, 2, False, id="its Pod runs"),
        pytest.param([], {"pods": (a_pod(NOON, State.SUCCEEDED),)}, 2, True, id="its Pod ended well"),
        pytest.param([], {"pods": (FAILED_POD,)}, 2, False, id="its Pod failed, and is tried again"),
        pytest.param([], {"pods": (FAILED_POD,)}, 0, True, id="its Pod failed, and is not tried again"),
        pytest.param([a_run(NOON, State.RUNNING)], {"pods": (FAILED_POD,)}, 2, False, id="a failure not yet on record"),
        pytest.param([a_run(NOON, State.FAILED)], {}, 2, True, id="a failure on record, with no attempt after it"),
        pytest.param([a_run(NOON, State.FAILED), SECOND_FAILED, WAITING], {}, 2, False, id="it waits for an attempt"),
        pytest.param([a_run(NOON, State.FAILED), SECOND_FAILED, WAITING], {}, 0, False, id="though retry was edited"),
        pytest.param(
            [WAITING], {"pods": (a_pod(NOON, State.FAILED, attempt=3),)}, 2, True, id="the last attempt failed"
        ),
        pytest.param(
            [WAITING], {"pods": (a_pod(NOON, State.RUNNING, attempt=3),)}, 2, False, id="the last attempt runs"
        ),
        pytest.param([], {"claims": (a_claim(NOON),)}, 2, False, id="a claim without a Pod"),
        pytest.param([], {"claims": (SKIPPED,)}, 2, True, id="skipped"),
        pytest.param([a_run(NOON, State.STALE)], {}, 2, True, id="stale"),
        pytest.param([], {}, 2, False, id="nothing is known of it, above the watermark"),
    ],
)
def test_a_run_is_over_when_its_last_attempt_is_and_none_follows(
    lines: list[Entry], seen: dict[str, Any], most: int, ends: bool
) -> None:
    assert over(*lines, **seen, most=most) is ends


def test_a_run_below_the_watermark_of_which_nothing_is_left_is_over() -> None:
    job = a_job(status=a_status(watermark=rfc3339(NOON)))

    assert is_over(job, {}, Firings(), run_key(NOON))


def test_nothing_is_seen_of_a_firing_of_which_nothing_is_known() -> None:
    assert sighted(None, None, None) is None


def test_a_caught_up_run_stays_one_when_its_pod_is_seen() -> None:
    line = sighted(pending(NOON, Trigger.CATCH_UP), None, a_pod(NOON))

    assert line is not None
    assert line.trigger is Trigger.CATCH_UP


def test_pods_beyond_the_newest_of_each_kind_are_surplus() -> None:
    ends = [State.SUCCEEDED, State.FAILED, State.SUCCEEDED, State.FAILED, State.RUNNING, State.SUCCEEDED]
    pods = [a_pod(NOON + n, state) for n, state in enumerate(ends)]

    surplus = surplus_pods(pods, 1)

    assert [pod.firing - NOON for pod in surplus] == [2, 1, 0]
    assert surplus_pods([replace(pod, deleted=True) for pod in pods], 0) == []
