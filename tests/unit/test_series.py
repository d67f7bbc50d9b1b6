"""The series of jobs as text: what they say, and what a page of 50,000 jobs costs."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from quarterjack.clock import rfc3339
from quarterjack.model import Entry, Job, State
from quarterjack.report import entry_document
from quarterjack.series import GAUGES, JobPage
from tests.unit.given import CREATED, NOON, a_job, a_run, a_spec, a_status
from tests.unit.oracle import quickest

BUSY = {
    "activeCount": 2,
    "active": [{"id": "1", "startTime": rfc3339(NOON - 60)}, {"id": "2", "startTime": rfc3339(NOON - 30)}],
    "nextScheduleTime": rfc3339(NOON + 60),
    "lastScheduleTime": rfc3339(NOON),
    "lastSuccessfulTime": rfc3339(NOON - 90),
    "consecutiveFailures": 3,
    "health": "Healthy",
}


def page(*jobs: Job) -> list[Metric]:
    text = b"".join(part() for part in JobPage(jobs).families()).decode()
    return list(text_string_to_metric_families(text))


def values(job: Job) -> dict[str, float]:
    """The gauges of a job, without the prefix of their names."""
    return {s.name.removeprefix("scheduledjob_"): s.value for metric in page(job) for s in metric.samples}


def a_job_with(*history: Entry, **status: Any) -> Job:
    return a_job(status=a_status(history=[entry_document(entry) for entry in history], **status))


def test_a_job_is_told_of_by_its_status() -> None:
    found = values(a_job_with(**BUSY))

    assert found == {
        "info": 1,
        "suspended": 0,
        "ready": 1,
        "schedule_valid": 1,
        "stopped": 0,
        "healthy": 1,
        "active_runs": 2,
        "active_since_time_seconds": NOON - 60,
        "scheduled_from_time_seconds": CREATED,
        "next_schedule_time_seconds": NOON + 60,
        "last_schedule_time_seconds": NOON,
        "last_success_time_seconds": NOON - 90,
        "consecutive_failures": 3,
        "dead_letters": 0,
    }


@pytest.mark.parametrize(
    ("job", "name", "value"),
    [
        pytest.param(a_job_with(health="Unhealthy"), "healthy", 0, id="it is unhealthy"),
        pytest.param(a_job_with(health="Suspended"), "healthy", None, id="nobody judges it"),
        pytest.param(a_job(spec=a_spec(suspend=True)), "suspended", 1, id="it is suspended"),
        pytest.param(a_job_with(conditions=[]), "ready", 0, id="it is not served"),
        pytest.param(
            a_job_with(conditions=[{"type": "ScheduleValid", "status": "False"}]), "schedule_valid", 0, id="it is wrong"
        ),
        pytest.param(a_job_with(state="Stopped"), "stopped", 1, id="its schedule has ended"),
        pytest.param(
            a_job(spec=a_spec(timing={}), status=a_status(state="Stopped")), "stopped", 0, id="it runs by hand only"
        ),
        pytest.param(
            a_job_with(Entry("missed-9", NOON, State.MISSED, count=9, first_scheduled=NOON - 600)),
            "last_missed_time_seconds",
            NOON,
            id="it missed a row of firings",
        ),
        pytest.param(
            a_job_with(
                a_run(NOON - 60, started=NOON - 60, completed=NOON + 40), a_run(NOON, started=NOON, completed=NOON + 9)
            ),
            "last_duration_seconds",
            100,
            id="the run that ended last took so long",
        ),
        pytest.param(a_job_with(a_run(NOON, State.DEAD_LETTERED)), "dead_letters", 1, id="a unit was given up"),
    ],
)
def test_a_series_says_that(job: Job, name: str, value: float | None) -> None:
    assert values(job).get(name) == value


def test_labels_are_escaped_and_schedules_cut() -> None:
    schedule = '"a\\b\n' + "x" * 300

    (info,) = (metric for metric in page(a_job(status=a_status(observedSchedule=schedule))) if "info" in metric.name)

    assert info.samples[0].labels["schedule"] == schedule[:200]
    assert info.samples[0].labels["concurrency_policy"] == "Forbid"


def test_each_family_stands_together_and_has_each_job_once() -> None:
    jobs = [a_job(name=f"job-{n}", uid=str(n), status=a_status(**BUSY)) for n in range(3)]

    metrics = page(*jobs)

    assert len({metric.name for metric in metrics}) == len(metrics) == len(GAUGES) + 1
    for metric in metrics:
        labels = [sample.labels["scheduledjob"] for sample in metric.samples]
        assert labels in ([], ["job-0", "job-1", "job-2"])


def test_a_page_of_fifty_thousand_jobs_takes_a_second_or_so_of_a_processor() -> None:
    jobs = [a_job(name=f"job-{n}", uid=str(n), status=a_status(**BUSY)) for n in range(1000)]

    took = quickest(lambda: [part() for part in JobPage(jobs).families()])

    assert took * 50 < 2
