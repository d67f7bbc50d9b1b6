"""A status as it should be, from the one that stands and what is seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quarterjack.clock import rfc3339
from quarterjack.decision import pending
from quarterjack.model import Claim, Entry, Firings, Job, Outcome, PodSight, Retry, State, Trigger
from quarterjack.plan import plan_of
from quarterjack.reading import read_status
from quarterjack.report import (
    SIZE_MOST,
    condition,
    entry_document,
    lines_of,
    merge_patch,
    next_time,
    report,
    schedule_state,
    size_of,
    with_conditions,
)
from quarterjack.text import LIMIT
from tests.unit.given import CREATED, NOON, a_claim, a_job, a_pod, a_run, a_spec, a_status

MINUTE = 60
MINUTELY = plan_of({"schedule": "* * * * *"}, anchor=CREATED)
ONE, TWO, THREE = (CREATED + n * MINUTE for n in (1, 2, 3))


def a_job_with(*history: Entry, **status: Any) -> Job:
    return a_job(status=a_status(history=[entry_document(entry) for entry in history], **status))


def reported(
    job: Job,
    *,
    claims: tuple[Claim, ...] = (),
    pods: tuple[PodSight, ...] = (),
    now: int = NOON,
    added: tuple[Entry, ...] = (),
) -> dict[str, Any]:
    firings = Firings({claim.key: claim for claim in claims}, {pod.key: pod for pod in pods})
    return report(job, MINUTELY, lines_of(job, firings, added), now=now)


def states(status: dict[str, Any]) -> dict[str, str]:
    return {line["id"]: line["state"] for line in status["history"]}


def done(firing: int, state: State = State.SUCCEEDED, **fields: Any) -> PodSight:
    return a_pod(firing, state, started=firing + 1, completed=firing + 5, **fields)


def test_every_firing_that_is_seen_gets_a_line_and_the_watermark_passes_it() -> None:
    skipped = a_claim(THREE, outcome=Outcome(State.SKIPPED, "ConcurrencyPolicy"))

    status = reported(a_job(), claims=(a_claim(ONE), a_claim(TWO), skipped), pods=(done(ONE), a_pod(TWO)))

    assert states(status) == {str(ONE): "Succeeded", str(TWO): "Running", str(THREE): "Skipped"}
    assert status["watermark"] == rfc3339(THREE)
    assert status["nextScheduleTime"] == rfc3339(NOON + MINUTE)


def test_the_watermark_stops_before_a_firing_of_which_nothing_is_seen() -> None:
    status = reported(a_job(), pods=(done(ONE), done(THREE)))

    assert status["watermark"] == rfc3339(ONE)
    assert states(status).keys() == {str(ONE), str(THREE)}


def test_what_is_left_of_a_recorded_firing_makes_no_new_line() -> None:
    job = a_job(status=a_status(watermark=rfc3339(TWO)))

    status = reported(job, claims=(a_claim(ONE),), pods=(done(TWO),))

    assert status["history"] == []


def test_a_row_of_missed_firings_lifts_the_watermark_over_all_of_them() -> None:
    row = Entry(f"missed-{TWO}", TWO, State.MISSED, count=2, first_scheduled=ONE)

    status = reported(a_job(), added=(row, pending(THREE, Trigger.CATCH_UP)), now=THREE)

    assert status["watermark"] == rfc3339(THREE)
    assert [line["id"] for line in status["history"]] == [str(THREE), f"missed-{TWO}"]


@given(st.dictionaries(st.integers(0, 30), st.sampled_from(State)), st.sets(st.integers(0, 30)), st.integers(0, 40))
def test_the_watermark_never_falls_nor_passes_what_has_no_record(
    pods: dict[int, State], claims: set[int], elapsed: int
) -> None:
    firings = {CREATED + n * MINUTE for n in pods.keys() | claims}
    now = CREATED + elapsed * MINUTE

    status = reported(
        a_job(),
        claims=tuple(a_claim(CREATED + n * MINUTE) for n in claims),
        pods=tuple(done(CREATED + n * MINUTE, state) for n, state in pods.items()),
        now=now,
    )

    watermark = read_status(status).watermark or 0
    assert watermark >= CREATED
    assert set(MINUTELY.between(CREATED, watermark)) <= firings
    assert watermark <= now


@given(st.dictionaries(st.integers(1, 8), st.sampled_from(State)), st.integers(0, 10))
def test_reporting_again_changes_nothing(pods: dict[int, State], elapsed: int) -> None:
    sights = tuple(done(CREATED + n * MINUTE, state) for n, state in pods.items())
    now = CREATED + elapsed * MINUTE

    once = reported(a_job(), pods=sights, now=now)

    assert reported(a_job(status=read_status(once)), pods=sights, now=now) == once


def test_successes_and_failures_are_summed_up_once() -> None:
    job = a_job_with(a_run(ONE, State.FAILED), consecutiveFailures=1, lastFailureTime=rfc3339(ONE + 5))

    status = reported(job, pods=(done(ONE, State.FAILED), done(TWO, State.FAILED)))

    assert (status["consecutiveFailures"], status["lastResult"]) == (2, "Failed")
    assert (status["lastFailureTime"], status["lastScheduleTime"]) == (rfc3339(TWO + 5), rfc3339(TWO))
    assert "lastSuccessfulTime" not in status


def test_a_success_ends_the_row_of_failures() -> None:
    status = reported(a_job_with(consecutiveFailures=4), pods=(done(ONE, State.FAILED), done(TWO)))

    assert (status["consecutiveFailures"], status["lastResult"]) == (0, "Succeeded")
    assert (status["lastSuccessfulTime"], status["firstRunTime"]) == (rfc3339(TWO + 5), rfc3339(ONE + 1))


def health(status: dict[str, Any]) -> tuple[str, str, str]:
    """The summary, and the condition's status and reason."""
    (healthy,) = (c for c in status["conditions"] if c["type"] == "Healthy")
    return status["health"], healthy["status"], healthy["reason"]


@pytest.mark.parametrize(
    ("job", "pods", "expected"),
    [
        pytest.param(a_job(), (), ("Unknown", "Unknown", "NotRunYet"), id="that never ran"),
        pytest.param(a_job(), (done(ONE),), ("Healthy", "True", "Succeeding"), id="that has just succeeded"),
        pytest.param(
            a_job(), (done(ONE, State.FAILED),), ("Unknown", "Unknown", "NoSuccessYet"), id="that has just failed"
        ),
        pytest.param(
            a_job_with(lastSuccessfulTime=rfc3339(CREATED - 1), firstRunTime=rfc3339(CREATED - 1)),
            (done(ONE, State.FAILED),),
            ("Healthy", "True", "Succeeding"),
            id="that succeeded an hour ago, before an edit",
        ),
        pytest.param(
            a_job(spec=a_spec(suspend=True)),
            (done(ONE),),
            ("Suspended", "Unknown", "Suspended"),
            id="that is suspended",
        ),
        pytest.param(
            a_job(spec=a_spec(without_success_seconds=3)),
            (done(ONE),),
            ("Unhealthy", "False", "NoRecentSuccess"),
            id="that has a limit of its own",
        ),
    ],
)
def test_the_health_is_told_of_a_job(job: Job, pods: tuple[PodSight, ...], expected: tuple[str, str, str]) -> None:
    assert health(reported(job, pods=pods, now=ONE + 10)) == expected


def test_a_schedule_that_an_edit_made_invalid_leaves_the_health_unknown() -> None:
    lines = lines_of(a_job(), Firings({}, {str(ONE): done(ONE)}))

    status = report(a_job(), None, lines, now=ONE + 10)

    assert health(status) == ("Unknown", "Unknown", "InvalidSchedule")
    assert states(status) == {str(ONE): "Succeeded"}


def test_a_run_that_failed_without_a_start_was_the_first_run() -> None:
    status = reported(a_job(), claims=(a_claim(ONE, outcome=Outcome(State.FAILED, "FailedCreate", settled=ONE + 900)),))

    assert status["firstRunTime"] == rfc3339(ONE + 900)
    assert health(status) == ("Unhealthy", "False", "NeverSucceeded")


def test_a_run_that_was_given_up_and_ended_well_after_all_is_a_success() -> None:
    job = a_job_with(a_run(ONE, State.STALE, completed=ONE + 900), watermark=rfc3339(ONE))

    status = reported(job, pods=(a_pod(ONE, State.SUCCEEDED, started=ONE, completed=ONE + 2000),))

    assert status["lastSuccessfulTime"] == rfc3339(ONE + 2000)


def test_the_condition_of_a_healthy_job_stays_from_run_to_run() -> None:
    first = reported(a_job(), pods=(done(ONE),), now=ONE + 10)

    second = reported(a_job(status=read_status(first)), pods=(done(ONE), done(TWO)), now=TWO + 10)

    assert second["conditions"] == first["conditions"]


def retried(most: int = 1, *history: Entry, **status: Any) -> Job:
    return replace(a_job_with(*history, **status), spec=a_spec(retry=Retry(most=most, delay_ms=60_000)))


def test_a_failure_that_is_tried_again_is_recorded_together_with_the_attempt_that_follows() -> None:
    status = reported(retried(), claims=(a_claim(ONE),), pods=(done(ONE, State.FAILED, reason="Evicted"),))

    waiting, failed = status["history"]
    assert (failed["id"], failed["state"], failed["reason"]) == (str(ONE), "Failed", "Evicted")
    assert (waiting["id"], waiting["state"], waiting["reason"]) == (f"{ONE}-2", "Pending", "BackOff")
    assert waiting["startTime"] == rfc3339(ONE + 65)


def test_a_failed_attempt_is_not_a_failed_run() -> None:
    status = reported(retried(consecutiveFailures=3, lastResult="Succeeded"), pods=(done(ONE, State.FAILED),))

    assert (status["consecutiveFailures"], status["lastResult"], status["activeCount"]) == (3, "Succeeded", 1)
    assert [line["id"] for line in status["active"]] == [f"{ONE}-2"]
    assert "lastFailureTime" not in status
    assert status["firstRunTime"] == rfc3339(ONE + 1)


@pytest.mark.parametrize(
    ("end", "failures", "result"),
    [
        pytest.param(State.SUCCEEDED, 0, "Succeeded", id="that ends well"),
        pytest.param(State.FAILED, 4, "Failed", id="that fails for good"),
    ],
)
def test_a_run_is_summed_up_once_by_its_last_attempt(end: State, failures: int, result: str) -> None:
    first = reported(retried(consecutiveFailures=3), pods=(done(ONE, State.FAILED),))
    job = replace(retried(), status=read_status(first))

    last = reported(job, pods=(done(ONE, State.FAILED), done(ONE, end, attempt=2)))

    assert (last["consecutiveFailures"], last["lastResult"], last["activeCount"]) == (failures, result, 0)
    assert [line["attempt"] for line in last["history"]] == [2, 1]
    again = reported(replace(job, status=read_status(last)), pods=(done(ONE, State.FAILED), done(ONE, end, attempt=2)))
    assert again == last


def test_a_failure_on_record_is_not_tried_again_when_retries_are_added_later() -> None:
    job = retried(5, a_run(ONE, State.FAILED), watermark=rfc3339(ONE))

    status = reported(job, claims=(a_claim(ONE),), pods=(done(ONE, State.FAILED),))

    assert states(status) == {str(ONE): "Failed"}


def test_a_stale_run_that_fails_late_is_not_tried_again() -> None:
    job = retried(5, a_run(ONE, State.STALE), watermark=rfc3339(ONE))

    assert states(reported(job, pods=(done(ONE, State.FAILED),))) == {str(ONE): "Failed"}


def test_a_skip_is_neither_a_run_nor_a_failure() -> None:
    skipped = a_claim(ONE, outcome=Outcome(State.SKIPPED, "ConcurrencyPolicy"))

    status = reported(a_job_with(consecutiveFailures=4), claims=(skipped,))

    assert status["consecutiveFailures"] == 4
    assert not {"lastResult", "lastScheduleTime", "lastFailureTime", "firstRunTime"} & status.keys()


def test_runs_under_way_are_listed_the_newest_first() -> None:
    status = reported(a_job(), pods=(a_pod(ONE), a_pod(TWO, State.PENDING), done(THREE)))

    assert [line["id"] for line in status["active"]] == [str(TWO), str(ONE)]
    assert status["activeCount"] == 2
    assert status["active"][1]["podName"] == f"report-{ONE}"


def test_at_most_a_hundred_runs_are_listed_and_all_are_counted() -> None:
    status = reported(a_job(), pods=tuple(a_pod(CREATED + n * MINUTE) for n in range(1, 121)))

    assert (len(status["active"]), status["activeCount"]) == (100, 120)


def test_a_firing_that_waits_for_its_pod_is_not_active() -> None:
    status = reported(a_job(), claims=(a_claim(ONE),))

    assert (status["active"], status["activeCount"], states(status)) == ([], 0, {str(ONE): "Pending"})


def test_what_other_writers_keep_in_the_status_stays() -> None:
    assert reported(a_job_with(observedSchedule="* * * * * UTC"))["observedSchedule"] == "* * * * * UTC"


@pytest.mark.parametrize(
    ("suspend", "timing", "state", "following"),
    [
        pytest.param(False, {"schedule": "* * * * *"}, "Scheduled", rfc3339(NOON + 60), id="scheduled"),
        pytest.param(True, {"schedule": "* * * * *"}, "Suspended", None, id="suspended"),
        pytest.param(False, {"runAfter": "1m"}, "Stopped", None, id="over"),
        pytest.param(True, {"runAfter": "1m"}, "Suspended", None, id="over and suspended"),
        pytest.param(False, {}, "Stopped", None, id="by hand"),
    ],
)
def test_the_schedule_is(suspend: bool, timing: dict[str, str], state: str, following: str | None) -> None:
    job, plan = a_job(spec=a_spec(suspend=suspend)), plan_of(timing, anchor=CREATED)

    assert schedule_state(job, plan, watermark=NOON) == state
    assert next_time(job, plan, after=NOON) == following


def test_a_row_is_shown_from_its_first_to_its_last_firing() -> None:
    row = Entry(f"missed-{THREE}", THREE, State.MISSED, count=3, first_scheduled=ONE)

    document = entry_document(row)

    assert (document["scheduledTime"], document["firstScheduledTime"]) == (rfc3339(ONE), rfc3339(ONE))
    assert (document["lastScheduledTime"], document["count"]) == (rfc3339(THREE), 3)


def test_a_line_has_no_empty_fields() -> None:
    assert entry_document(Entry("1", ONE, State.PENDING)).keys() == {
        "id",
        "scheduledTime",
        "trigger",
        "attempt",
        "state",
    }


@pytest.mark.parametrize(
    ("status", "turned"),
    [pytest.param("True", CREATED, id="stays"), pytest.param("False", NOON, id="turns")],
)
def test_a_condition_has_turned_when_its_status_did(status: str, turned: int) -> None:
    old = condition({}, "Ready", "True", "Served", "", generation=1, now=CREATED)

    new = condition({"conditions": [old]}, "Ready", status, "Other", "text", generation=2, now=NOON)

    assert (new["lastTransitionTime"], new["reason"], new["observedGeneration"]) == (rfc3339(turned), "Other", 2)


def test_conditions_of_others_stay_and_ours_keep_their_place() -> None:
    old = {"conditions": [{"type": "A", "status": "True"}, {"type": "B", "status": "True"}]}

    merged = with_conditions(old, [{"type": "A", "status": "False"}, {"type": "C", "status": "True"}])

    assert [(c["type"], c["status"]) for c in merged] == [("A", "False"), ("B", "True"), ("C", "True")]


def test_a_reason_that_the_schema_would_refuse_is_cut() -> None:
    assert len(entry_document(Entry("1", ONE, State.FAILED, reason="R" * 200))["reason"]) == 128


# The size of a status

# Lengths in bytes differ: three bytes, and six where the server escapes.
MESSAGES = st.builds(str.__mul__, st.sampled_from('aé€😀<&"\\'), st.sampled_from([0, 60, 300, LIMIT]))
WIDE = a_spec(successful_limit=100, failed_limit=100)


def chatty(firing: int, state: State, message: str) -> PodSight:
    return done(firing, state, message=message, reason="DeadlineExceeded", name="n" * 52 + f"-{firing}")


FEW = settings(max_examples=25)  # each is a history of a hundred lines and more


@FEW
@given(
    st.lists(
        st.tuples(st.sampled_from([State.RUNNING, State.SUCCEEDED, State.FAILED]), MESSAGES), min_size=90, max_size=200
    ),
    st.sampled_from([0, 30, 250]),
)
def test_a_status_is_never_over_its_size_and_keeps_what_is_under_way_or_above_the_watermark(
    runs: list[tuple[State, str]], gap_after: int
) -> None:
    firings = [CREATED + MINUTE * (n + (n >= gap_after)) for n in range(1, len(runs) + 1)]
    pods = tuple(chatty(firing, *run) for firing, run in zip(firings, runs, strict=True))

    status = reported(a_job(spec=WIDE), pods=pods, now=CREATED + 300 * MINUTE)

    assert size_of(status) <= SIZE_MOST
    must_stay = {pod.key for pod in pods if not pod.ended or rfc3339(pod.firing) > status["watermark"]}
    assert must_stay <= states(status).keys()
    assert status["activeCount"] == sum(not pod.ended for pod in pods)


def test_the_oldest_ends_go_first_where_a_status_grows_too_large() -> None:
    pods = tuple(chatty(CREATED + n * MINUTE, State.FAILED, "€" * LIMIT) for n in range(1, 101))

    status = reported(a_job(spec=WIDE), pods=pods)

    kept = [int(line["id"]) for line in status["history"]]
    assert 50 < len(kept) < 70
    assert kept == sorted((pod.firing for pod in pods), reverse=True)[: len(kept)]
    assert {line["message"] for line in status["history"]} == {"€" * LIMIT}


def test_messages_are_cut_where_runs_under_way_leave_no_room_for_them() -> None:
    waiting = tuple(chatty(CREATED + n * MINUTE, State.PENDING, "€" * LIMIT) for n in range(1, 91))
    ended = tuple(chatty(CREATED + n * MINUTE, State.FAILED, "Exit code 1") for n in range(91, 106))

    status = reported(a_job(spec=WIDE), pods=waiting + ended)

    assert len(status["history"]) == 100
    assert all(line["message"].endswith("…") for line in status["history"] if line["state"] == "Pending")
    assert {line["message"] for line in status["history"] if line["state"] == "Failed"} == {"Exit code 1"}


@FEW
@given(st.lists(st.tuples(st.sampled_from([State.RUNNING, State.FAILED]), MESSAGES), min_size=100, max_size=200))
def test_a_status_that_was_cut_to_size_settles(runs: list[tuple[State, str]]) -> None:
    pods = tuple(chatty(CREATED + MINUTE * n, *run) for n, run in enumerate(runs, start=1))
    status, now = reported(a_job(spec=WIDE), pods=pods, now=CREATED + 300 * MINUTE), CREATED + 300 * MINUTE

    for _ in range(4):
        status = reported(a_job(spec=WIDE, status=read_status(status)), pods=pods, now=now)

    assert reported(a_job(spec=WIDE, status=read_status(status)), pods=pods, now=now) == status


DOCUMENTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 3))


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_turns_the_old_into_the_new_and_says_no_more(old: dict[str, Any], new: dict[str, Any]) -> None:
    patch = merge_patch(old, new)

    assert {key: value for key, value in (old | patch).items() if value is not None} == new
    assert all(old.get(key) != value for key, value in patch.items())
