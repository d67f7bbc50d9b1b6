"""`kubectl describe scheduledjob` tells a job's story."""

from __future__ import annotations

from functools import partial

import pytest

from tests.api.installation import Document, Installation, job, simulated_template
from tests.cluster import Cluster

pytestmark = pytest.mark.api


@pytest.mark.parametrize(
    ("schedule", "spec", "told"),
    [
        pytest.param(
            None,
            {"runAfter": "3s", "template": simulated_template()},
            [("Normal", "SawCompletedJob", "succeeded")],
            id="it succeeds",
        ),
        pytest.param(
            None,
            {"runAfter": "3s", "template": simulated_template(exit_code=3), "retry": {"maxRetries": 1, "delay": "1s"}},
            [("Warning", "BackoffLimitExceeded", "Gave up after 2 attempts: Exit code 3")],
            id="it gives up",
        ),
        pytest.param(
            "*/5 * * * * *",
            {"template": simulated_template(seconds=600), "concurrencyPolicy": "Forbid"},
            [("Normal", "SuccessfulCreate", "created Pod"), ("Normal", "JobAlreadyActive", "was skipped")],
            id="it is skipped",
        ),
    ],
)
def test_what_becomes_of_runs_is_told_by_describe(
    simulated: Cluster,
    installation: Installation,
    schedule: str | None,
    spec: Document,
    told: list[tuple[str, str, str]],
) -> None:
    del simulated  # its Pods run and end there

    def story() -> list[str]:
        described = installation.kubectl.out("describe", "scheduledjob", "told")
        return described.partition("\nEvents:")[2].splitlines()

    def is_told(kind: str, reason: str, words: str) -> bool:
        return any(line.split()[:2] == [kind, reason] and words in line for line in story())

    with installation.fleet():
        installation.apply([job("told", schedule, **spec)])
        for kind, reason, words in told:
            installation.wait_for(f"{reason} is told", partial(is_told, kind, reason, words), seconds=60)
