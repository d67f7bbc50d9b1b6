"""Runs by hand on a real API server: from kubectl to the Pod, and back into the status that kubectl shows."""

from __future__ import annotations

import pytest

from tests.api.installation import Document, Install, Installation, job

PODS = "/api/v1/namespaces/{}/pods"

pytestmark = [pytest.mark.api, pytest.mark.patient]


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


def asked_for_with_kubectl(install: Install) -> Document:
    """A run with options, the next one, which is skipped, and the end of the first; what the first one's Pod was like."""
    installation = install()
    options = [{"name": "month", "required": True}, {"name": "dry-run", "type": "Boolean", "default": "false"}]
    with installation.fleet(replicas=2):
        installation.apply([job("books", None, concurrencyPolicy="Forbid", options=options)])
        installation.apply([run("may", "books", options={"month": "5"})])
        installation.wait_for("it runs", lambda: pods(installation), seconds=90)
        [pod] = pods(installation)
        installation.apply([run("june", "books", options={"month": "6"})])
        installation.wait_for("the next is skipped", lambda: state(installation, "june") == "Skipped", seconds=90)
        end = ("--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Succeeded"}}')
        installation.kubectl.out("patch", "pod", pod["metadata"]["name"], *end)
        installation.wait_for("it says so", lambda: state(installation, "may") == "Succeeded", seconds=90)
        installation.kubectl.out("wait", "--for=condition=Succeeded", "scheduledjobrun/may", "--timeout=5s")
        installation.apply([run("july", "books", options={"month": "7"})])
        installation.wait_for("another runs", lambda: len(pods(installation)) == 2, seconds=90)
        installation.kubectl.out("delete", "scheduledjobrun", "july")
        installation.wait_for("it is stopped", lambda: len(pods(installation)) == 1, seconds=60)
        return pod


@pytest.mark.parametrize("told", [asked_for_with_kubectl], indirect=True)
def test_a_run_asked_for_with_kubectl_is_told_its_options_and_tells_its_end_and_stops_when_it_is_deleted(
    told: Document,
) -> None:
    env = {line["name"]: line.get("value") for line in told["spec"]["containers"][0]["env"]}

    assert (env["OPTION_MONTH"], env["OPTION_DRY_RUN"], env["RUN_TRIGGER"]) == ("5", "false", "Manual")
