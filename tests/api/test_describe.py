"""`kubectl describe scheduledjob` tells a job's story."""

from __future__ import annotations

from functools import partial

import pytest

from tests.api.installation import Install, Installation, job, simulated_template

JOBS = [
    job("succeeds", None, runAfter="3s", template=simulated_template()),
    job(
        "gives-up",
        None,
        runAfter="3s",
        template=simulated_template(exit_code=3),
        retry={"maxRetries": 1, "delay": "1s"},
    ),
    job("is-skipped", "*/5 * * * * *", template=simulated_template(seconds=600), concurrencyPolicy="Forbid"),
]
TOLD = [
    ("succeeds", "Normal", "SawCompletedJob", "succeeded"),
    ("gives-up", "Warning", "BackoffLimitExceeded", "Gave up after 2 attempts: Exit code 3"),
    ("is-skipped", "Normal", "SuccessfulCreate", "created Pod"),
    ("is-skipped", "Normal", "JobAlreadyActive", "was skipped"),
]

pytestmark = [pytest.mark.api, pytest.mark.patient]


def events_of(installation: Installation, name: str) -> list[str]:
    """What `kubectl describe` ends with."""
    described = installation.kubectl.out("describe", "scheduledjob", name)
    return described.partition("\nEvents:")[2].splitlines()


def three_jobs(install: Install) -> dict[str, list[str]]:
    """What is told of each, in the end."""
    installation = install()
    with installation.fleet(replicas=2):
        installation.apply(JOBS)
        for name, _, reason, _ in TOLD:
            is_told = partial(lambda n, r: any(r in line for line in events_of(installation, n)), name, reason)
            installation.wait_for(f"{reason} is told of {name}", is_told, seconds=90)
        return {
            document["metadata"]["name"]: events_of(installation, document["metadata"]["name"]) for document in JOBS
        }


@pytest.mark.parametrize("told", [three_jobs], indirect=True)
@pytest.mark.parametrize(("name", "kind", "reason", "words"), TOLD)
def test_what_becomes_of_runs_is_told_by_describe(
    told: dict[str, list[str]], name: str, kind: str, reason: str, words: str
) -> None:
    lines = [line for line in told[name] if line.split()[:2] == [kind, reason]]

    assert [line for line in lines if words in line]
