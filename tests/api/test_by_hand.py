"""Runs by hand on a real API server: from kubectl to the Pod, and back into the status that kubectl shows."""

from __future__ import annotations

import json

import pytest

from tests.api.installation import Document, Installation, job

PODS = "/api/v1/namespaces/{}/pods"

pytestmark = pytest.mark.api


def run(name: str, job_name: str, **spec: object) -> Document:
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJobRun",
        "metadata": {"name": name},
        "spec": {"scheduledJobName": job_name} | spec,
    }


def pods(installation: Installation) -> list[Document]:
    found: list[Document] = installation.cluster.api.get(PODS.format(installation.namespace)).json()["items"]
    return found


def state(installation: Installation, name: str) -> str:
    status = installation.kubectl.get("scheduledjobrun", name).get("status") or {}
    return str(status.get("state", ""))


def test_a_run_asked_for_with_kubectl_runs_with_its_options_and_says_how_it_ended(installation: Installation) -> None:
    options = [{"name": "month", "required": True}, {"name": "dry-run", "type": "Boolean", "default": "false"}]
    with installation.fleet():
        installation.apply([job("books", None, concurrencyPolicy="Forbid", options=options)])
        installation.kubectl.out("create", "-f", "-", stdin=json.dumps(run("may", "books", options={"month": "5"})))
        installation.wait_for("it runs", lambda: pods(installation), seconds=30)
        [pod] = pods(installation)
        told = {line["name"]: line.get("value") for line in pod["spec"]["containers"][0]["env"]}
        assert (told["OPTION_MONTH"], told["OPTION_DRY_RUN"], told["RUN_TRIGGER"]) == ("5", "false", "Manual")
        installation.kubectl.out("create", "-f", "-", stdin=json.dumps(run("june", "books", options={"month": "6"})))
        installation.wait_for("the next is skipped", lambda: state(installation, "june") == "Skipped", seconds=30)
        name = pod["metadata"]["name"]
        installation.kubectl.out(
            "patch", "pod", name, "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Succeeded"}}'
        )
        installation.wait_for("it says so", lambda: state(installation, "may") == "Succeeded", seconds=30)
        installation.kubectl.out("wait", "--for=condition=Succeeded", "scheduledjobrun/may", "--timeout=5s")


def test_a_run_that_is_deleted_with_kubectl_is_stopped(installation: Installation) -> None:
    with installation.fleet():
        installation.apply([job("books", None)])
        installation.kubectl.out("create", "-f", "-", stdin=json.dumps(run("may", "books")))
        installation.wait_for("it runs", lambda: pods(installation), seconds=30)
        installation.kubectl.out("delete", "scheduledjobrun", "may")
        installation.wait_for("it is stopped", lambda: not pods(installation), seconds=60)
