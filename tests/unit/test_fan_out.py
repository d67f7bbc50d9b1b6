"""Fan-out as values: Pods of plans and units, the line of a run that is in its units, dead letters, and runs by hand of one unit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest

from quarterjack import names
from quarterjack.by_hand import line_of, refusal_of
from quarterjack.decision import is_over, prune, sighted
from quarterjack.fan import FanOut
from quarterjack.manifests import Run, Window, claim_manifest, pod_manifest
from quarterjack.model import Entry, Firings, Job, Option, Options, Outcome, PodSight, Request, Retry, State, Trigger
from quarterjack.plan import plan_of
from quarterjack.pod import lost_pod, read_pod
from quarterjack.reading import read_claim
from quarterjack.report import entry_document, is_active, lines_of, report
from quarterjack.settling import settle
from quarterjack.store import Store
from quarterjack.story import story
from quarterjack.waiting import loose_lines
from tests.unit.given import CREATED, NOON, UID, a_claim, a_job, a_pod, a_run, a_spec, a_status

WINDOW = Window(NOON, NOON + 3)
MINUTELY = plan_of({"schedule": "* * * * *"}, anchor=CREATED)
TENANT = Option("tenant", default="all")
CONTAINERS = [{"name": "main", "image": "i", "command": ["work"], "args": ["hard"]}, {"name": "other", "image": "i"}]
TEMPLATE = orjson.dumps({"spec": {"containers": CONTAINERS}})
PLANNED = a_run(NOON, State.RUNNING, reason="Planned", message="Its units are about to be queued", started=NOON)
QUEUED = replace(PLANNED, reason="Queued", message="Queued 2 units")
LETTER = Entry(
    names.unit_key(QUEUED.id, "acme", 3),
    NOON,
    State.DEAD_LETTERED,
    attempt=3,
    reason="ExitCode",
    message="Gave up after 3 attempts: no such tenant",
    completed=NOON + 60,
    unit="acme",
)


def a_fan_out(**fields: Any) -> Job:
    usual = {"plan": orjson.dumps({"command": ["list"]}), "unit_option": "tenant"}
    return a_job(spec=a_spec(template=TEMPLATE, options=(TENANT,), fan_out=FanOut(**usual | fields)))


def environment(pod: dict[str, Any]) -> dict[str, str]:
    return {line["name"]: line["value"] for line in pod["spec"]["containers"][0]["env"]}


# Pods and claims


def test_the_pod_of_a_unit_is_told_its_unit_and_read_as_its_run() -> None:
    run = Run(a_fan_out(), NOON, attempt=2, unit="acme corp")

    pod = pod_manifest(run, WINDOW)
    pod["metadata"] |= {"uid": "p", "creationTimestamp": "2026-03-10T12:00:01Z"}
    sight = read_pod(pod)

    assert (environment(pod)["RUN_UNIT"], environment(pod)["OPTION_TENANT"]) == ("acme corp", "acme corp")
    assert sight is not None
    assert (sight.unit, sight.plan, sight.key) == ("acme corp", "", names.unit_key(str(NOON), "acme corp", 2))
    assert pod["metadata"]["labels"][names.UNIT] == names.unit_hash("acme corp")


def test_a_pod_of_which_somebody_has_taken_the_unit_away_is_no_other_runs() -> None:
    pod = pod_manifest(Run(a_fan_out(), NOON, unit="acme"), WINDOW)
    pod["metadata"] |= {"uid": "p", "creationTimestamp": "2026-03-10T12:00:01Z"}
    del pod["metadata"]["annotations"][names.UNIT]

    assert read_pod(pod) is None


@pytest.mark.parametrize(
    ("plan", "command", "args"),
    [
        pytest.param({"command": ["list"]}, ["list"], None, id="a command, without the arguments of another"),
        pytest.param({"command": ["list"], "args": ["all"]}, ["list"], ["all"], id="a command and its arguments"),
        pytest.param(
            {"template": {"spec": {"containers": [{"name": "main", "command": ["own"]}]}}}, ["own"], None, id="its own"
        ),
    ],
)
def test_a_plan_is_the_jobs_pod_with_another_command_or_its_own(
    plan: dict[str, Any], command: list[str], args: list[str] | None
) -> None:
    pod = pod_manifest(Run(a_fan_out(plan=orjson.dumps(plan)), NOON, plan=True), WINDOW)

    first = pod["spec"]["containers"][0]
    assert (first["command"], first.get("args")) == (command, args)
    assert pod["metadata"]["annotations"][names.PLAN] == "main"
    assert "RUN_UNIT" not in environment(pod)
    assert environment(pod)["OPTION_TENANT"] == "all"
    assert pod_manifest(Run(a_fan_out(), NOON), WINDOW)["spec"]["containers"][0]["args"] == ["hard"]


def test_the_claim_of_a_unit_is_read_as_that_of_its_run() -> None:
    run = Run(a_fan_out(), NOON, attempt=2, request=UID, unit="acme", trigger=Trigger.MANUAL)
    lease = claim_manifest(run, WINDOW, holder="a", pods_revision="1")
    lease["metadata"] |= {"uid": "l", "creationTimestamp": "2026-03-10T12:00:01Z", "resourceVersion": "7"}

    claim = read_claim(lease)

    assert claim is not None
    assert claim.key == run.key == names.unit_key(names.run_key(NOON, request=UID), "acme", 2)
    assert (claim.attempt, claim.firing) == (2, NOON)


def test_the_pod_of_a_unit_that_is_gone_has_the_name_that_it_had() -> None:
    run = Run(a_fan_out(), NOON, attempt=3, unit="acme")

    lost = lost_pod(run.job, replace(LETTER, state=State.RUNNING), now=NOON)

    assert (lost.name, lost.key) == (run.pod_name, run.key)


# The line of a run


def a_plan(state: State, **fields: Any) -> PodSight:
    return a_pod(NOON, state, plan="main", **fields)


UNITS_ONLY = a_claim(NOON, outcome=Outcome(State.RUNNING, "Planned", settled=NOON + 1))


@pytest.mark.parametrize(
    ("entry", "pod", "state", "reason"),
    [
        pytest.param(None, a_plan(State.RUNNING), State.RUNNING, "", id="a plan that runs"),
        pytest.param(None, a_plan(State.SUCCEEDED), State.RUNNING, "Planned", id="a plan that has ended"),
        pytest.param(None, a_plan(State.FAILED, reason="x"), State.FAILED, "x", id="a plan that has failed"),
        pytest.param(QUEUED, a_plan(State.SUCCEEDED), State.RUNNING, "Queued", id="its units are queued"),
        pytest.param(QUEUED, a_plan(State.FAILED, deleted=True), State.RUNNING, "Queued", id="its Pod is gone"),
        pytest.param(QUEUED, None, State.RUNNING, "Queued", id="nothing is seen of it"),
        pytest.param(
            a_run(NOON, State.STALE),
            a_plan(State.SUCCEEDED),
            State.STALE,
            "",
            id="a plan that ends after it was given up",
        ),
    ],
)
def test_the_end_of_a_plan_is_not_the_end_of_its_run(
    entry: Entry | None, pod: PodSight | None, state: State, reason: str
) -> None:
    line = sighted(entry, None, pod)

    assert line is not None
    assert (line.state, line.reason, line.completed) == (state, reason, None)


def test_a_run_that_is_only_units_has_begun_when_its_claim_said_so() -> None:
    line = sighted(None, UNITS_ONLY, None)

    assert line is not None
    assert (line.state, line.reason, line.started, line.completed) == (State.RUNNING, "Planned", NOON + 1, None)
    assert is_active(line)


@pytest.mark.parametrize("line", [PLANNED, QUEUED], ids=["Planned", "Queued"])
def test_a_run_that_is_in_its_units_is_in_nobodys_way_and_its_pod_is_not_looked_for(line: Entry) -> None:
    job = a_job(status=a_status(history=[entry_document(line)]))

    assert job.status.fanned
    assert is_over(job, {line.id: line}, Firings(), line.id)
    assert loose_lines(job, {line.id: line}, Firings(), now=NOON) == []


def a_job_in_units(line: Entry = QUEUED, **spec: Any) -> Job:
    return a_job(spec=a_spec(**spec), status=a_status(history=[entry_document(line)]))


def shown(status: dict[str, Any]) -> list[tuple[str, str]]:
    return [(line["id"], line["state"]) for line in status["history"]]


def test_what_is_told_of_units_ends_the_run_and_its_dead_letters_are_shown_with_it() -> None:
    job = a_job_in_units(retry=Retry(most=3))
    end = replace(QUEUED, state=State.FAILED, reason="DeadLetters", completed=NOON + 60)

    status = report(job, MINUTELY, lines_of(job, Firings(), told=[end, LETTER]), now=NOON + 90)

    assert shown(status) == [(LETTER.id, "DeadLettered"), (QUEUED.id, "Failed")]
    assert (status["lastResult"], status["consecutiveFailures"], status["activeCount"]) == ("Failed", 1, 0)


def test_a_plan_that_cannot_be_read_is_followed_by_another_attempt() -> None:
    job = a_job_in_units(PLANNED, retry=Retry(most=1))
    end = replace(PLANNED, state=State.FAILED, reason="PlanInvalid", completed=NOON + 5)

    lines = lines_of(job, Firings(), told=[end])

    assert [(line.state, line.attempt) for line in lines.values()] == [(State.FAILED, 1), (State.PENDING, 2)]


def test_nothing_is_told_of_a_run_that_is_over() -> None:
    ended = a_run(NOON, State.SUCCEEDED)
    job = a_job_in_units(ended)

    lines = lines_of(job, Firings(), told=[QUEUED, replace(QUEUED, state=State.FAILED)])

    assert {line.state for line in lines.values()} == {State.SUCCEEDED}
    assert lines_of(a_job(), Firings(), told=[QUEUED, LETTER]) == {}


def test_dead_letters_stay_as_long_as_their_run_and_take_no_room_from_other_runs() -> None:
    runs = [a_run(NOON - n, State.FAILED, completed=NOON - n) for n in range(4)]
    letters = [
        replace(LETTER, id=names.unit_key(run.id, unit), attempt=1, scheduled=run.scheduled)
        for run in runs
        for unit in "abc"
    ]

    kept = prune([*runs, *letters], a_spec(failed_limit=2), watermark=NOON, now=NOON)

    assert {line.id for line in kept if not names.is_unit_key(line.id)} == {runs[0].id, runs[1].id}
    assert {names.parent_of(line.id) for line in kept} == {runs[0].id, runs[1].id}
    assert len(kept) == 8


def test_that_units_are_queued_is_told_and_that_one_is_given_up() -> None:
    lines = {line.id: line for line in (QUEUED, LETTER)}

    told = {event.reason: event.message for event in story([PLANNED], lines)}

    assert told == {
        "Queued": "The firing of 2026-03-10T12:00:00Z: Queued 2 units",
        "BackoffLimitExceeded": "The firing of 2026-03-10T12:00:00Z, unit acme, failed: ExitCode: "
        "Gave up after 3 attempts: no such tenant",
    }


def test_the_claim_of_a_unit_makes_no_line_of_its_run_where_what_is_late_is_settled() -> None:
    key = names.unit_key(str(CREATED + 60), "acme", 2)
    claim = a_claim(CREATED + 60, name=names.claim_name(UID, key))

    settled = settle(
        a_job(), MINUTELY, until=CREATED + 60, claims={key: claim}, entries=(), now=CREATED + 300, latest=False
    )

    assert settled.entries == ()


# Views


def test_what_is_seen_of_units_is_kept_apart_and_is_on_record_once_its_ledger_or_its_run_is() -> None:
    store, job, key = Store(), a_job_in_units(), names.unit_key(QUEUED.id, "acme")
    store.put_job(job)
    store.put_pod(a_pod(NOON, unit="acme"))
    store.put_claim(a_claim(NOON, name=names.claim_name(UID, key)))

    assert store.firings == {}
    assert (set(store.units_of(UID).pods), set(store.units_of(UID).claims)) == ({key}, {key})
    assert not store.recorded(UID, key, ended=True)
    store.unit_ends[UID] = {key}
    assert store.recorded(UID, key, ended=True)
    del store.unit_ends[UID]
    store.put_job(replace(a_job_in_units(replace(QUEUED, state=State.FAILED)), revision=8))
    assert store.recorded(UID, key, ended=True)


# Runs by hand


def a_request(unit: str = "", options: Options = ()) -> Request:
    return Request(
        "0b4f7c0e-6f0c-4f0c-9d0e-000000000001", "default", "r", 1, 1, NOON, "report", options=options, unit=unit
    )


@pytest.mark.parametrize(
    ("request_", "unit"),
    [
        pytest.param(a_request(), "", id="of the whole"),
        pytest.param(a_request("acme"), "acme", id="of a unit"),
        pytest.param(a_request(options=(("tenant", "acme"),)), "acme", id="of a unit, by its option"),
        pytest.param(a_request("acme", (("tenant", "acme"),)), "acme", id="by both"),
    ],
)
def test_a_run_by_hand_is_of_the_whole_or_of_one_unit(request_: Request, unit: str) -> None:
    assert refusal_of(request_, a_fan_out()) is None
    assert line_of(request_, a_fan_out()).unit == unit


@pytest.mark.parametrize(
    ("request_", "job", "says"),
    [
        pytest.param(a_request("acme"), a_job(), "the job has no fanOut", id="of a job that has none"),
        pytest.param(
            a_request("acme", (("tenant", "globex"),)), a_fan_out(), '"acme" is given, and "globex"', id="of two units"
        ),
        pytest.param(a_request(options=(("tenant", ""),)), a_fan_out(), "unit 1 is empty", id="of an empty unit"),
        pytest.param(
            a_request(options=(("tenant", "a\nb"),)), a_fan_out(), "control characters", id="of one with a line break"
        ),
    ],
)
def test_a_run_by_hand_of_a_unit_that_cannot_be_is_refused(request_: Request, job: Job, says: str) -> None:
    refusal = refusal_of(request_, job)

    assert refusal is not None
    assert refusal.reason == "InvalidUnit"
    assert says in refusal.message


def test_the_option_of_the_unit_need_not_be_passed_where_all_of_them_run() -> None:
    job = a_fan_out()
    required = replace(
        job, spec=replace(job.spec, options=(Option("tenant", required=True), Option("month", required=True)))
    )

    refusal = refusal_of(a_request(), required)

    assert refusal is not None
    assert refusal.message == "spec.options.month: is required, pass a value"
