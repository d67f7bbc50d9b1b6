"""An alert on its whole way: replicas, Prometheus, Alertmanager, and who is told; fired by a failing job, ended by one run by hand."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.alerts.monitoring import Monitoring
from tests.api.installation import Document, Installation, job, simulated_template
from tests.cluster import Cluster

pytestmark = pytest.mark.api
ALERTS = ("ScheduledJobFailing", "ScheduledJobUnhealthy")


BY_HAND = {
    "apiVersion": "quarterjack.dev/v1alpha1",
    "kind": "ScheduledJobRun",
    "metadata": {"name": "mends-it"},
    "spec": {"scheduledJobName": "nightly"},
}


def thrice(first: int) -> str:
    """A schedule of three firings, three seconds apart, from about an instant on; the next is a day later."""
    at = time.gmtime(first if first % 60 < 50 else first // 60 * 60 + 60)
    return f"{at.tm_sec},{at.tm_sec + 3},{at.tm_sec + 6} {at.tm_min} {at.tm_hour} * * *"


def is_observed(document: Document) -> bool:
    """Whether the operator has seen the job's last edit."""
    return bool(document["status"]["observedGeneration"] == document["metadata"]["generation"])


def test_a_failing_job_is_told_to_people_once_and_its_mending_too(
    simulated: Cluster, installation: Installation, tmp_path: Path
) -> None:
    del simulated  # its Pods end there
    limit = {"maxTimeWithoutSuccess": "20s"}
    with (
        installation.fleet() as fleet,
        Monitoring(tmp_path / "monitoring", [replica.port for replica in fleet.replicas]) as monitoring,
    ):

        def told(status: str) -> bool:
            return all(any(said == status for said, _ in monitoring.of(alert, "nightly")) for alert in ALERTS)

        installation.apply(
            [
                job("well", "*/5 * * * * *", template=simulated_template(), health=limit),
                job("nightly", thrice(int(time.time()) + 8), template=simulated_template(exit_code=3), health=limit),
            ]
        )
        installation.wait_for("both alerts are told", lambda: told("firing"), seconds=120)
        assert not told("resolved")
        mended = json.dumps({"spec": {"template": simulated_template()}})
        installation.kubectl.out("patch", "scheduledjob", "nightly", "--type=merge", "-p", mended)
        installation.wait_for("the edit is seen", lambda: is_observed(installation.jobs()["nightly"]), seconds=60)
        assert not told("resolved")
        installation.apply([BY_HAND])
        installation.wait_for("their ends are told", lambda: told("resolved"), seconds=120)
        nightly = installation.jobs()["nightly"]

    assert [line["trigger"] for line in nightly["status"]["history"] if line["state"] == "Succeeded"] == ["Manual"]
    for alert in ALERTS:
        assert [status for status, _ in monitoring.of(alert, "nightly")] == ["firing", "resolved"]
        assert monitoring.of(alert, "nightly")[0][1]["labels"]["namespace"] == installation.namespace
        assert monitoring.of(alert, "well") == []
