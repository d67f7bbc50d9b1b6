"""ScheduledJobs whose Pods run for real, and what their records and Pods say."""

from __future__ import annotations

from typing import Any

from tests.api.installation import JOBS, Document, Installation
from tests.cluster.image import BUSYBOX

# What runs as the first process of a container is deaf to SIGTERM, unless it says otherwise.
FOR_EVER = "sleep 3600"


def container(script: str, *, name: str = "main", **fields: Any) -> Document:
    """A container that runs a shell script."""
    usual = {"name": name, "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", script]}
    return usual | fields


def job(
    name: str, script: str = "", *, pod: Document | None = None, labels: Document | None = None, **spec: Any
) -> Document:
    """A ScheduledJob that runs a script once, a second after it is made, unless it has a schedule."""
    usual = {
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 1,
        "containers": [container(script)],
    }
    template = {"metadata": {"labels": labels or {}}, "spec": usual | (pod or {})}
    timing = {} if "schedule" in spec else {"runAfter": "1s"}
    limits = {"successfulRunsHistoryLimit": 100, "failedRunsHistoryLimit": 100}
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJob",
        "metadata": {"name": name},
        "spec": timing | limits | {"template": template} | spec,
    }


def lines(installation: Installation, name: str) -> list[Document]:
    """The history of a job, the oldest first."""
    path = f"{JOBS.format(installation.namespace)}/{name}"
    history = (_read(installation, path).get("status") or {}).get("history") or []
    return sorted(history, key=lambda line: str(line["scheduledTime"]))


def _read(installation: Installation, path: str) -> Document:
    """What the API server answers; a busy machine may keep it from answering for a while."""
    api = installation.cluster.api
    while (answer := api.get(path)).status == 0:
        assert installation.cluster.running(), answer.text
    assert answer.status == 200, answer.text
    document: Document = answer.json()
    return document


def verdict(line: Document) -> tuple[str, str, str]:
    """What a line says became of its run."""
    return line["state"], line.get("reason", ""), line.get("message", "")


def await_line(installation: Installation, name: str, *states: str, seconds: float = 120) -> Document:
    """The first line of a job's history that is in one of the states, once there is one."""

    def found() -> list[Document]:
        return [line for line in lines(installation, name) if line["state"] in states]

    installation.wait_for(f"a run of {name} is {' or '.join(states)}", found, seconds=seconds)
    return found()[0]


def await_end(installation: Installation, name: str, *, seconds: float = 120) -> Document:
    """The line of a job's first run, once that has ended."""
    return await_line(installation, name, "Succeeded", "Failed", "Stale", seconds=seconds)


def pods(installation: Installation, name: str) -> list[Document]:
    """The Pods of a job, the oldest firing first."""
    path = f"/api/v1/namespaces/{installation.namespace}/pods?labelSelector=quarterjack.dev/job%3D{name}"
    found: list[Document] = _read(installation, path)["items"]
    return sorted(found, key=lambda pod: int(pod["metadata"]["labels"]["quarterjack.dev/firing"]))


def await_pods(installation: Installation, name: str, *, seconds: float = 60) -> None:
    """Wait until the job's first Pod runs."""

    def runs() -> bool:
        return any(pod["status"]["phase"] == "Running" for pod in pods(installation, name))

    installation.wait_for(f"a Pod of {name} runs", runs, seconds=seconds)


def delete_job(installation: Installation, name: str, cascade: str) -> None:
    """`kubectl delete --cascade=...`, which waits until the job is gone."""
    installation.kubectl.out("delete", "scheduledjob", name, f"--cascade={cascade}", "--timeout=120s")
