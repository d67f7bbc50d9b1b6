"""The observing write: what becomes of a spec that is seen for the first time."""

from __future__ import annotations

from typing import Any

import pytest

from quarterjack.clock import rfc3339
from quarterjack.model import Entry, Firings, Job, State, Status
from quarterjack.observing import (
    NO_FIRINGS,
    SHORT_DEADLINE,
    Observation,
    Trial,
    edit_instant,
    is_rescheduled,
    observe,
    observed_status,
    old_plan,
    shown_schedule,
)
from quarterjack.reading import read_status
from quarterjack.report import lines_of
from quarterjack.zones import names as zones_known
from tests.unit.given import CREATED, NOON, a_job, a_spec, a_status

DAILY = "0 0 * * *"
MINUTELY = "* * * * *"
CRON = {"schedule": "* * * * *"}
HOUR = 3600


def seen(job: Job, trial: Trial = Trial()) -> Observation:  # noqa: B008
    return observe(job, trial, anchor=CREATED, default_zone="UTC")


def status_of(job: Job, trial: Trial = Trial(), settled: tuple[Entry, ...] = ()) -> dict[str, Any]:  # noqa: B008
    lines = lines_of(job, Firings(), settled)
    return observed_status(
        job,
        seen(job, trial),
        now=NOON,
        served_by="us",
        namespace="home",
        scheduled_from=NOON,
        watermark=NOON,
        lines=lines,
    )


def conditions(status: dict[str, Any]) -> dict[str, tuple[str, str, str]]:
    return {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}


@pytest.mark.parametrize(
    ("spec", "line", "problem"),
    [
        pytest.param({"timing": CRON}, MINUTELY, None, id="a schedule in the default zone"),
        pytest.param({"timing": {"interval": "90m"}}, "every 90m", None, id="an interval"),
        pytest.param({"timing": {}}, "by hand", None, id="by hand"),
        pytest.param({"timing": {"schedule": "61 * * * *"}}, "61 * * * *", "spec.schedule", id="a wrong schedule"),
        pytest.param({"timing": CRON | {"timeZone": "Mars"}}, "* * * * *", "spec.timeZone", id="a wrong zone"),
        pytest.param({"timing": {}, "invalid": "x\x00"}, "", "spec: x\\x00", id="a spec that cannot be read"),
    ],
)
def test_a_schedule_is_shown_in_one_line_and_what_is_wrong_with_it(
    spec: dict[str, Any], line: str, problem: str | None
) -> None:
    observation = seen(a_job(spec=a_spec(**spec)))

    assert observation.line == line
    assert observation.schedule_error.startswith(problem or "")
    assert (observation.problem is None) is (problem is None)


def test_a_schedule_that_cannot_be_read_fires_nothing() -> None:
    assert seen(a_job(spec=a_spec(timing={"schedule": "x"}))).plan.next_after(CREATED) is None


def test_a_schedule_that_is_shown_as_written_is_made_safe() -> None:
    assert shown_schedule(a_job(spec=a_spec(timing={"schedule": "a\n" + "x" * 300}))) == "a \\n" + "x" * 195 + "…"


def watched(**status: Any) -> Status:
    return a_status(**{"observedSchedule": MINUTELY, "state": "Scheduled"} | status)


def untrue(*kinds: str) -> list[dict[str, str]]:
    return [{"type": kind, "status": "False"} for kind in ("Ready", *kinds)]


@pytest.mark.parametrize(
    ("status", "spec", "changed"),
    [
        pytest.param(watched(), {}, False, id="another image"),
        pytest.param(watched(observedSchedule=DAILY), {}, True, id="another schedule"),
        pytest.param(watched(), {"suspend": True}, True, id="suspended"),
        pytest.param(watched(state="Suspended"), {}, True, id="resumed"),
        pytest.param(watched(state="Suspended"), {"suspend": True}, False, id="another image while suspended"),
        pytest.param(watched(conditions=untrue("ScheduleValid")), {}, True, id="a schedule that was none"),
        pytest.param(watched(conditions=untrue("PodTemplateValid")), {}, False, id="a template that made no Pod"),
        pytest.param(watched(scheduledFrom=None), {}, True, id="never seen"),
    ],
)
def test_a_job_counts_anew_after(status: Status, spec: dict[str, Any], changed: bool) -> None:
    assert is_rescheduled(a_job(spec=a_spec(**spec), status=status), MINUTELY) is changed


@pytest.mark.parametrize(
    ("edited", "status", "instant"),
    [
        pytest.param(CREATED, Status(), CREATED, id="its creation"),
        pytest.param(NOON + HOUR, Status(), NOON, id="now, where it was created in the future"),
        pytest.param(NOON - 60, watched(), NOON - 60, id="the edit"),
        pytest.param(NOON + HOUR, watched(), NOON, id="now, where it was edited in the future"),
        pytest.param(CREATED - 60, watched(), CREATED, id="the last change, where the edit seems older"),
        pytest.param(
            CREATED + 60,
            watched(state="Suspended", watermark=rfc3339(NOON - 60)),
            NOON - 60,
            id="the watermark, where it was suspended",
        ),
    ],
)
def test_a_changed_schedule_counts_from(edited: int, status: Status, instant: int) -> None:
    assert edit_instant(a_job(edited=edited, status=status), now=NOON) == instant


@pytest.mark.parametrize(
    ("status", "line"),
    [
        pytest.param(watched(), MINUTELY, id="the one that was observed"),
        pytest.param(Status(), None, id="none before the first"),
        pytest.param(watched(state="Suspended"), None, id="none while suspended"),
        pytest.param(watched(conditions=untrue("ScheduleValid")), None, id="none where it was none"),
        pytest.param(watched(conditions=untrue("PodTemplateValid")), MINUTELY, id="one whose template made no Pod"),
        pytest.param(watched(observedSchedule="damaged"), None, id="none that can be read"),
    ],
)
def test_the_plan_that_held_until_now_is(status: Status, line: str | None) -> None:
    plan = old_plan(a_job(status=status))

    assert (plan.line() if plan is not None else None) == line


def test_an_old_plan_counts_from_where_it_counted() -> None:
    plan = old_plan(a_job(status=watched(observedSchedule="every 7m")))

    assert plan is not None
    assert plan.next_after(CREATED) == CREATED + 7 * 60


def test_a_first_visit_sets_all_that_others_rely_on() -> None:
    status = status_of(a_job(generation=3, status=Status()))

    read = read_status(status)
    assert (read.observed_generation, read.served_by, read.observed_schedule) == (3, "us", MINUTELY)
    assert (read.scheduled_from, read.watermark, read.next_time) == (NOON, NOON, NOON + 60)
    assert read.ready
    assert conditions(status).keys() == {"Ready", "ScheduleValid", "PodTemplateValid", "Healthy"}
    assert all(c["observedGeneration"] == 3 for c in status["conditions"])


@pytest.mark.parametrize(
    ("spec", "trial", "kind", "expected"),
    [
        pytest.param({}, Trial(), "Ready", ("True", "Served"), id="served"),
        pytest.param({"suspend": True}, Trial(), "Ready", ("True", "Suspended"), id="suspended"),
        pytest.param({}, Trial("no image"), "Ready", ("False", "InvalidPodTemplate"), id="a wrong template"),
        pytest.param({}, Trial("no image"), "PodTemplateValid", ("False", "InvalidPodTemplate"), id="says so itself"),
        pytest.param({}, Trial("", "quota"), "Ready", ("True", "Served"), id="a quota is no reason not to serve"),
        pytest.param({}, Trial("", "quota"), "PodTemplateValid", ("Unknown", "Refused"), id="a doubt"),
        pytest.param(
            {"timing": {"schedule": "x"}}, Trial("bad"), "Ready", ("False", "InvalidSchedule"), id="both wrong"
        ),
        pytest.param({"invalid": "x"}, Trial(), "ScheduleValid", ("False", "InvalidSchedule"), id="an invalid spec"),
        pytest.param(
            {"timing": {"schedule": "0 0 30 2 *"}}, Trial(), "ScheduleValid", ("True", NO_FIRINGS), id="never fires"
        ),
        pytest.param({"timing": {}}, Trial(), "ScheduleValid", ("True", "Valid"), id="by hand"),
        pytest.param(
            {"starting_deadline_seconds": 14}, Trial(), "ScheduleValid", ("True", SHORT_DEADLINE), id="a short deadline"
        ),
        pytest.param({"starting_deadline_seconds": 15}, Trial(), "ScheduleValid", ("True", "Valid"), id="a deadline"),
        pytest.param(
            {"starting_deadline_seconds": 1, "timing": {}},
            Trial(),
            "ScheduleValid",
            ("True", "Valid"),
            id="none to miss",
        ),
    ],
)
def test_a_condition_says(spec: dict[str, Any], trial: Trial, kind: str, expected: tuple[str, str]) -> None:
    job = a_job(spec=a_spec(**spec), status=Status())

    assert conditions(status_of(job, trial))[kind][:2] == expected


@pytest.mark.parametrize("suspend", [False, True])
def test_a_job_says_which_installation_serves_it_whoever_served_it_before(suspend: bool) -> None:
    job = a_job(spec=a_spec(suspend=suspend), status=a_status(servedBy="them"))

    said = conditions(status_of(job))["Ready"][2]

    assert said.endswith("The job is served by the installation in namespace home (UID us)")


def test_lines_of_the_old_schedule_are_recorded_with_the_new_one() -> None:
    line = Entry(f"missed-{NOON - 60}", NOON - 60, State.MISSED, count=1, first_scheduled=NOON - 60)

    status = status_of(a_job(status=watched()), settled=(line,))

    assert [entry["id"] for entry in status["history"]] == [line.id]
    assert status["watermark"] == rfc3339(NOON)


def test_a_suspended_job_has_no_next_firing() -> None:
    status = status_of(a_job(spec=a_spec(suspend=True), status=watched(nextScheduleTime=rfc3339(NOON))))

    assert (status["state"], status["health"]) == ("Suspended", "Suspended")
    assert "nextScheduleTime" not in status


def test_a_schedule_of_very_many_zones_makes_no_condition_that_the_schema_would_refuse() -> None:
    zones = sorted(zones_known())[:400]
    job = a_job(spec=a_spec(timing={"schedule": DAILY, "timeZones": zones}))

    status = status_of(job)

    assert len(status["observedSchedule"]) > 4096
    assert max(len(condition["message"]) for condition in status["conditions"]) <= 1000
