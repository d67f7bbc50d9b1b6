"""What the real API server makes of the CRDs and the examples, as a user of kubectl sees it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import generate
from tests.cluster import Cluster
from tests.crds.kubectl import Kubectl
from tests.crds.serving import ROOT

pytestmark = pytest.mark.api

EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))
CRD_FILES = sorted((ROOT / "crds").glob("*.yaml"))
TEMPLATE = {"spec": {"containers": [{"name": "main", "image": "busybox:1.36"}]}}


def job(name: str = "nightly", **spec: Any) -> dict[str, Any]:
    """A ScheduledJob."""
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJob",
        "metadata": {"name": name},
        "spec": {"template": TEMPLATE, **spec},
    }


def run(name: str = "by-hand", **spec: Any) -> dict[str, Any]:
    """A ScheduledJobRun."""
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJobRun",
        "metadata": {"name": name},
        "spec": {"scheduledJobName": "nightly", **spec},
    }


def stored(kubectl: Kubectl, document: dict[str, Any]) -> dict[str, Any]:
    """The object as the API server keeps it."""
    result = kubectl.apply(document)
    assert result.code == 0, result.error
    return kubectl.get(document["kind"], document["metadata"]["name"])


# ---- installing -----------------------------------------------------------------------------------------------------


def test_applying_the_crds_again_changes_nothing(kubectl: Kubectl) -> None:
    lines = kubectl.out("apply", "-f", str(ROOT / "crds")).splitlines()

    assert len(lines) == 4
    assert [line for line in lines if not line.endswith("unchanged")] == []


@pytest.mark.parametrize("path", CRD_FILES, ids=lambda path: path.stem)
def test_the_crds_apply_server_side_too(kubectl: Kubectl, path: Path) -> None:
    result = kubectl.apply_file(path, "--server-side", "--force-conflicts", "--dry-run=server")

    assert result.code == 0, result.error


@pytest.mark.parametrize("kind", generate.KINDS)
def test_nothing_of_the_schema_is_in_doubt(kubectl: Kubectl, kind: str) -> None:
    conditions = kubectl.get("crd", f"{kind}.quarterjack.dev")["status"]["conditions"]
    answers = {condition["type"]: condition["status"] for condition in conditions}

    assert answers["NamesAccepted"] == "True"
    assert answers["Established"] == "True"
    assert answers.get("NonStructuralSchema", "False") == "False"


@pytest.mark.parametrize("kind", generate.KINDS)
def test_the_server_keeps_every_word_of_the_schema(kubectl: Kubectl, kind: str) -> None:
    kept = kubectl.get("crd", f"{kind}.quarterjack.dev")["spec"]["versions"][0]["schema"]
    written = yaml.safe_load(generate.compose(kind))["spec"]["versions"][0]["schema"]

    assert kept == written


def test_the_pod_template_is_the_servers_own(served: Cluster) -> None:
    openapi = served.api.get("/openapi/v3/api/v1").json()

    assert generate.load("pod_template.yaml") == generate.pod_template(openapi)


# ---- examples -------------------------------------------------------------------------------------------------------


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_applies_and_applying_it_again_changes_nothing(kubectl: Kubectl, path: Path) -> None:
    first, second = kubectl.apply_file(path), kubectl.apply_file(path)

    assert first.out.endswith("created\n"), first.error
    assert second.out.endswith("unchanged\n"), second.error


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_applies_server_side_and_keeps_its_version(kubectl: Kubectl, path: Path) -> None:
    def apply() -> dict[str, Any]:
        applied = kubectl.out("apply", "--server-side", "-o", "json", "-f", str(path))
        document: dict[str, Any] = json.loads(applied)
        return document

    first, second = apply(), apply()

    assert first["metadata"]["resourceVersion"] == second["metadata"]["resourceVersion"]
    assert second["metadata"]["generation"] == 1


# ---- defaults and pruning -------------------------------------------------------------------------------------------


def test_defaults_can_be_seen(kubectl: Kubectl) -> None:
    spec = stored(kubectl, job(schedule="@daily"))["spec"]

    assert spec == {
        "schedule": "@daily",
        "suspend": False,
        "concurrencyPolicy": "Forbid",
        "leaseDuration": "15m",
        "misfirePolicy": "RunOnce",
        "catchUpLimit": 100,
        "retry": {"maxRetries": 0, "delay": "10s", "maxDelay": "10m"},
        "successfulRunsHistoryLimit": 10,
        "failedRunsHistoryLimit": 10,
        "historyRetention": "30d",
        "podHistoryLimit": 2,
        "template": {
            "spec": {"containers": [{"name": "main", "image": "busybox:1.36"}], "restartPolicy": "Never"},
        },
    }


def test_a_job_needs_neither_schedule_nor_interval(kubectl: Kubectl) -> None:
    assert "schedule" not in stored(kubectl, job())["spec"]


def test_a_fan_out_has_its_default_and_an_option_is_stored_as_it_is_written(kubectl: Kubectl) -> None:
    options = [{"name": "month", "type": "Enum", "values": ["05", "06"]}, {"name": "note"}]

    spec = stored(kubectl, job(options=options, fanOut={"plan": {"command": ["list"]}, "unitOption": "note"}))["spec"]

    assert spec["options"] == options
    assert spec["fanOut"]["maxParallel"] == 100


def test_a_template_keeps_what_a_pod_may_have(kubectl: Kubectl) -> None:
    template = {
        "metadata": {"labels": {"app": "reports"}, "annotations": {"example.org/owner": "the night shift"}},
        "spec": {
            "restartPolicy": "OnFailure",
            "serviceAccountName": "reports",
            "securityContext": {"runAsNonRoot": True, "fsGroup": 1000},
            "tolerations": [{"key": "batch", "operator": "Exists", "effect": "NoSchedule"}],
            "volumes": [
                {"name": "scratch", "emptyDir": {"sizeLimit": "1Gi"}},
                {
                    "name": "claimed",
                    "ephemeral": {
                        "volumeClaimTemplate": {
                            "metadata": {"labels": {"app": "reports"}},
                            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": 5}}},
                        }
                    },
                },
            ],
            "initContainers": [{"name": "proxy", "image": "proxy:1", "restartPolicy": "Always"}],
            "containers": [
                {
                    "name": "main",
                    "image": "busybox:1.36",
                    "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "t"}}}],
                    "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                    "readinessProbe": {"httpGet": {"path": "/", "port": "http"}},
                    "resources": {"limits": {"cpu": 1, "memory": "64Mi"}, "requests": {"cpu": "10m"}},
                    "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                }
            ],
        },
    }

    assert stored(kubectl, job(template=template))["spec"]["template"] == template


# ---- what kubectl shows ---------------------------------------------------------------------------------------------

STATUS = {
    "observedSchedule": "30 2 * * * Europe/Berlin",
    "activeCount": 1,
    "lastResult": "Succeeded",
    "lastScheduleTime": "2026-01-31T01:30:00Z",
    "nextScheduleTime": "2099-02-01T01:30:00Z",
    "health": "Healthy",
    "state": "Scheduled",
}


def test_the_columns_tell_a_job_at_a_glance(kubectl: Kubectl) -> None:
    kubectl.apply(job(schedule="30 2 * * *", timeZone="Europe/Berlin"))
    assert kubectl.patch_status("scheduledjob", "nightly", STATUS).code == 0

    head, row = kubectl.out("get", "scheduledjobs", "-o", "wide").splitlines()

    columns = (
        "NAME",
        "SCHEDULE",
        "TIME ZONE",
        "SUSPEND",
        "ACTIVE",
        "LAST SCHEDULE",
        "LAST RESULT",
        "NEXT",
        "HEALTH",
        "AGE",
    )
    places = [head.index(column) for column in columns]
    assert places == sorted(places)
    cells = [row[a:b].strip() for a, b in zip(places, [*places[1:], None], strict=True)]
    assert cells[:5] == ["nightly", "30 2 * * * Europe/Berlin", "Europe/Berlin", "false", "1"]
    assert cells[6:9] == ["Succeeded", "2099-02-01T01:30:00Z", "Healthy"]


def test_the_time_zone_is_shown_only_in_the_wide_table(kubectl: Kubectl) -> None:
    kubectl.apply(job(schedule="30 2 * * *", timeZone="Europe/Berlin"))

    assert "TIME ZONE" not in kubectl.out("get", "scheduledjobs")


@pytest.mark.parametrize("name", ["scheduledjobs", "scheduledjob", "schedjob", "schj", "quarterjack"])
def test_a_job_is_found_by_each_of_its_names(kubectl: Kubectl, name: str) -> None:
    kubectl.apply(job())

    assert "nightly" in kubectl.out("get", name)


@pytest.mark.parametrize(
    ("selector", "found"),
    [
        pytest.param("spec.suspend=true", ["paused"], id="suspended"),
        pytest.param("spec.suspend=false", ["ailing", "sound"], id="not suspended"),
        pytest.param("status.health=Unhealthy", ["ailing"], id="unhealthy"),
        pytest.param("spec.suspend=false,status.health!=Healthy", ["ailing"], id="both"),
    ],
)
def test_jobs_are_selected_by_field(kubectl: Kubectl, selector: str, found: list[str]) -> None:
    kubectl.apply(job("paused", suspend=True))
    for name, health in (("ailing", "Unhealthy"), ("sound", "Healthy")):
        kubectl.apply(job(name))
        kubectl.patch_status("scheduledjob", name, {"health": health})

    listed = kubectl.get("scheduledjobs", f"--field-selector={selector}")["items"]

    assert [item["metadata"]["name"] for item in listed] == found


def test_runs_are_selected_by_job(kubectl: Kubectl) -> None:
    kubectl.apply(run("one"))
    kubectl.apply(run("other", scheduledJobName="hourly"))

    listed = kubectl.get("schjr", "--field-selector=spec.scheduledJobName=nightly")["items"]

    assert [item["metadata"]["name"] for item in listed] == ["one"]


@pytest.mark.parametrize(
    ("field", "text"),
    [
        pytest.param("scheduledjob.spec.schedule", "as a cron expression", id="schedule"),
        pytest.param("scheduledjob.spec.retry.maxRetries", "more attempts", id="a field within"),
        pytest.param("scheduledjob.status.watermark", "never falls", id="status"),
        pytest.param("scheduledjobrun.spec.options", "Values for options", id="a run"),
    ],
)
def test_kubectl_explains_the_fields(kubectl: Kubectl, field: str, text: str) -> None:
    assert text in kubectl.out("explain", field)


# ---- rules between the old and the new ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("watermark", "answer"),
    [
        pytest.param("2026-01-31T09:00:01Z", "", id="it may rise"),
        pytest.param("2026-01-31T09:00:00Z", "", id="it may stay"),
        pytest.param("2026-01-31T08:59:59Z", 'status.watermark: Invalid value: "2026-01-31T08:59:59Z"', id="nor fall"),
        pytest.param("2026-01-31T09:59:59+01:00", "watermark never falls", id="nor in another zone"),
        pytest.param(None, "watermark never falls", id="nor go"),
    ],
)
def test_the_watermark_never_falls(kubectl: Kubectl, watermark: str | None, answer: str) -> None:
    kubectl.apply(job())
    assert kubectl.patch_status("scheduledjob", "nightly", {"watermark": "2026-01-31T09:00:00Z"}).code == 0

    result = kubectl.patch_status("scheduledjob", "nightly", {"watermark": watermark})

    assert (result.code == 0) == (answer == "")
    assert answer in result.error


def test_the_watermark_stays_through_an_edit_of_the_spec(kubectl: Kubectl) -> None:
    kubectl.apply(job(schedule="@daily"))
    kubectl.patch_status("scheduledjob", "nightly", {"watermark": "2026-01-31T09:00:00Z"})

    edited = stored(kubectl, job(schedule="@hourly"))

    assert edited["status"]["watermark"] == "2026-01-31T09:00:00Z"
    assert edited["metadata"]["generation"] == 2


def test_a_status_write_does_not_raise_the_generation(kubectl: Kubectl) -> None:
    kubectl.apply(job())
    kubectl.patch_status("scheduledjob", "nightly", STATUS)

    assert kubectl.get("scheduledjob", "nightly")["metadata"]["generation"] == 1


def test_history_holds_one_record_an_id(kubectl: Kubectl) -> None:
    kubectl.apply(job())
    record = {"id": "1769850000", "state": "Succeeded"}

    result = kubectl.patch_status("scheduledjob", "nightly", {"history": [record, record]})

    assert 'status.history[1]: Duplicate value: {"id":"1769850000"}' in result.error


def test_a_full_history_is_kept(kubectl: Kubectl) -> None:
    kubectl.apply(job())
    history = [
        {
            "id": f"{1769850000 + i}-1",
            "scheduledTime": "2026-01-31T09:00:00Z",
            "trigger": "CatchUp",
            "attempt": 2,
            "unit": "tenant ä/7",
            "state": "Missed",
            "reason": "TooLate",
            "message": "x" * 500,
            "startTime": "2026-01-31T09:00:01Z",
            "completionTime": "2026-01-31T09:00:02Z",
            "podName": "nightly-abcdefghij",
            "options": {"month": "05"},
            "count": 525600,
            "firstScheduledTime": "2025-01-31T09:00:00Z",
            "lastScheduledTime": "2026-01-31T09:00:00Z",
        }
        for i in range(200)
    ]

    assert kubectl.patch_status("scheduledjob", "nightly", {"history": history}).code == 0

    assert kubectl.get("scheduledjob", "nightly")["status"]["history"] == history


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"scheduledJobName": "hourly"}, id="its job"),
        pytest.param({"options": {"month": "06"}}, id="an option"),
        pytest.param({"unit": "tenant-7"}, id="a unit that is added"),
        pytest.param({"options": None}, id="options taken away"),
    ],
)
def test_a_run_cannot_be_changed(kubectl: Kubectl, edit: dict[str, Any]) -> None:
    kubectl.apply(run(options={"month": "05"}, scheduledTime="2026-01-31T09:00:00Z"))

    result = kubectl.run("patch", "schjr", "by-hand", "--type=merge", "-p", json.dumps({"spec": edit}))

    assert "spec cannot be changed; create another ScheduledJobRun" in result.error


def test_a_run_shows_how_it_went(kubectl: Kubectl) -> None:
    kubectl.apply(run())
    accepted = {
        "type": "Accepted",
        "status": "False",
        "reason": "NotFound",
        "message": 'there is no ScheduledJob "nightly"',
        "lastTransitionTime": "2026-01-31T09:00:00Z",
    }
    kubectl.patch_status("scheduledjobrun", "by-hand", {"state": "Skipped", "conditions": [accepted]})

    head, row = kubectl.out("get", "scheduledjobruns").splitlines()

    assert head.split()[:3] == ["NAME", "JOB", "STATE"]
    assert row.split()[:3] == ["by-hand", "nightly", "Skipped"]
    kubectl.out("wait", "scheduledjobrun/by-hand", "--for=condition=Accepted=False", "--timeout=5s")


def test_a_name_of_52_characters_is_the_longest(kubectl: Kubectl) -> None:
    assert kubectl.apply(job("a" * 52)).code == 0
    assert "metadata.name: Too long: may not be more than 52" in kubectl.apply(job("a" * 53)).error
