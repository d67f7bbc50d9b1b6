"""Waits until a firing of an example has run as a real container, from its due time to its record."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from tests.cluster.errors import ClusterError
from tests.up.kubectl import Kubectl
from tests.up.words import say

_POLL_SECONDS = 0.5


def await_first_run(kubectl: Kubectl, namespace: str, names: set[str], *, within_seconds: float) -> None:
    """Wait for a success that was scheduled from now on, telling what is seen; ClusterError after `within_seconds`."""
    since = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    deadline_seconds = time.monotonic() + within_seconds
    told = ""
    while time.monotonic() < deadline_seconds:
        jobs = kubectl.json("get", "scheduledjobs", f"--namespace={namespace}")["items"]
        jobs = [job for job in jobs if job["metadata"]["name"] in names]
        runs = _runs(jobs, since)
        line = _line(jobs, runs)
        if line != told:
            say(told := line)
        for _, run in runs:
            if run["state"] == "Succeeded":
                say(f"its container said: {_said(kubectl, namespace, run['podName'])}")
                return
        time.sleep(_POLL_SECONDS)
    raise ClusterError(f"no firing has run to its end within {within_seconds:.0f} s; last seen: {told}")


def _runs(jobs: list[dict[str, Any]], since: str) -> list[tuple[str, dict[str, Any]]]:
    """Those scheduled from `since` on, the oldest first, by job and history line."""
    found = [
        (job["metadata"]["name"], run)
        for job in jobs
        for run in job.get("status", {}).get("history", ())
        if run.get("scheduledTime", "") >= since and run["state"] != "Skipped"
    ]
    return sorted(found, key=lambda each: str(each[1]["scheduledTime"]))


def _line(jobs: list[dict[str, Any]], runs: list[tuple[str, dict[str, Any]]]) -> str:
    if runs:
        name, run = runs[0]
        return f"{name}, due {run['scheduledTime']}: {run['state']} {run.get('message', '')}".rstrip()
    due = [
        (job["status"]["nextScheduleTime"], job["metadata"]["name"])
        for job in jobs
        if job.get("status", {}).get("nextScheduleTime")
    ]
    if not due:
        return "no job has been looked at yet"
    when, name = min(due)
    return f"the next firing is {name}'s, due {when}"


def _said(kubectl: Kubectl, namespace: str, pod: str) -> str:
    result = kubectl.run("logs", f"--namespace={namespace}", pod, "--tail=1")
    return result.stdout.strip() or f"(its log cannot be read: {result.stderr.strip()})"
