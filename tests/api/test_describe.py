"""`kubectl describe scheduledjob` tells a job's story."""

from __future__ import annotations

from functools import partial

import pytest

from tests.api.installation import Document, Installation, job
from tests.cluster import Cluster

pytestmark = pytest.mark.api


def template(seconds: float, exit_code: int) -> Document:
    """Of Pods that run so long and end so, as objects only."""
    how = {"duration": f"{int(seconds * 1000)}ms", "exit-code": str(exit_code)}
    annotations = {f"simulated.quarterjack.dev/{key}": value for key, value in how.items()}
    return {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]},
    }


@pytest.mark.parametrize(
    ("schedule", "spec", "told"),
    [
        pytest.param(
            None,
            {"runAfter": "3s", "template": template(1, 0)},
            [("Normal", "SawCompletedJob", "succeeded")],
            id="it succeeds",
        ),
        pytest.param(
            None,
            {"runAfter": "3s", "template": template(1, 3), "retry": {"maxRetries": 1, "delay": "1s"}},
            [("Warning", "BackoffLimitExceeded", "Gave up after 2 attempts: Exit code 3")],
            id="it gives up",
        ),
        pytest.param(
            "*/5 * * * * *",
            {"template": template(600, 0), "concurrencyPolicy": "Forbid"},
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
