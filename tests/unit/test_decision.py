"""What is due, what is recorded, what a line says and which are kept: tables and properties."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack.attempts import last_attempts, next_attempt
from quarterjack.clock import rfc3339
from quarterjack.decision import (
    advance,
    first_unclaimed,
    in_time,
    is_over,
    is_recorded,
    may_fire,
    pending,
    prune,
    sighted,
    start_time,
    surplus_pods,
    takeover_time,
    untold,
)
from quarterjack.model import Claim, Entry, Firings, Outcome, PodSight, Retry, State, Status, Trigger
from quarterjack.names import run_key
from quarterjack.plan import Plan, plan_of
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

    known = {run_key(one), run_key(two)}
    assert first_unclaimed(MINUTELY, after=CREATED, until=NOON, known=known) == three
    assert first_unclaimed(MINUTELY, after=CREATED, until=two, known=known) is None


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        pytest.param({}, 3 + 5 + 1, id="window, gap and a second"),
        pytest.param({"launch_timeout_seconds": 4}, 3 + 7 + 1, id="a longer timeout"),
        pytest.param({"refusal": "quota"}, 3 + 5 + 1 + 5, id="the first refusal"),
        pytest.param({"refusal": "quota", "takeovers": 2}, 3 + 5 + 1 + 20, id="the third refusal"),
        pytest.param({"refusal": "quota", "takeovers": 1000}, 3 + 5 + 1 + 120, id="refused for a long time"),
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


def test_an_old_firing_that_ran_late_is_kept_as_long_as_those_that_ended_with_it() -> None:
    late = a_run(NOON - 86400, completed=NOON)
    others = [a_run(NOON - n * 60, completed=NOON - n * 60 + 5) for n in (1, 2)]

    assert prune([late, *others], a_spec(successful_limit=2), watermark=NOON, now=NOON) == [others[0], late]


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
LOST_POD = a_pod(NOON, State.FAILED, reason="PodDeleted", cut_short=True, deleted=True)
GIVEN_UP = Outcome(State.STALE, "NodeLost")
STOPPED = a_claim(NOON, stop=Outcome(State.CANCELED, "Replaced"))
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
        pytest.param(STALE, None, a_pod(NOON), State.STALE, "", id="stale, and its Pod still there"),
        pytest.param(STALE, None, LOST_POD, State.STALE, "", id="stale, and its Pod gone before its end was seen"),
        pytest.param(None, None, a_pod(NOON, given_up=GIVEN_UP), State.STALE, "NodeLost", id="given up"),
        pytest.param(None, STOPPED, a_pod(NOON), State.RUNNING, "Replaced", id="being stopped"),
        pytest.param(None, STOPPED, LOST_POD, State.CANCELED, "Replaced", id="stopped"),
        pytest.param(
            None,
            STOPPED,
            a_pod(NOON, State.FAILED, deleting=True),
            State.CANCELED,
            "Replaced",
            id="stopped, its Pod held",
        ),
        pytest.param(
            None,
            STOPPED,
            a_pod(NOON, State.SUCCEEDED, reason="x"),
            State.SUCCEEDED,
            "x",
            id="it ended before it was stopped",
        ),
        pytest.param(
            PLAIN, a_claim(NOON, waits_for="another"), None, State.PENDING, "Waiting", id="it waits for another"
        ),
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


def test_the_pod_of_an_old_firing_that_ran_late_is_kept_as_long_as_those_that_ended_with_it() -> None:
    late = a_pod(NOON - 86400, State.FAILED, completed=NOON)
    others = [a_pod(NOON - n * 60, State.FAILED, completed=NOON - n * 60 + 5) for n in (1, 2)]

    assert surplus_pods([late, *others], 2) == [others[1]]


def test_pods_beyond_the_newest_of_each_kind_are_surplus() -> None:
    ends = [State.SUCCEEDED, State.FAILED, State.SUCCEEDED, State.FAILED, State.RUNNING, State.SUCCEEDED]
    pods = [a_pod(NOON + n, state) for n, state in enumerate(ends)]

    surplus = surplus_pods(pods, 1)

    assert [pod.firing - NOON for pod in surplus] == [2, 1, 0]
    assert surplus_pods([replace(pod, deleted=True) for pod in pods], 0) == []
