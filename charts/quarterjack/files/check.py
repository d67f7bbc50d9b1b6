"""What `helm test` runs: wait until the job that was made for it has ended well. `check.py NAMESPACE NAME SECONDS`."""

from __future__ import annotations

import sys
import time
from typing import Any

from kubernetes import client, config


def main(namespace: str, name: str, seconds: str) -> str | None:
    """What is wrong, None where nothing is."""
    config.load_incluster_config()  # type: ignore[no-untyped-call]
    api = client.CustomObjectsApi()
    deadline_seconds = time.monotonic() + float(seconds)
    status: dict[str, Any] = {}
    while time.monotonic() < deadline_seconds:
        job = api.get_namespaced_custom_object("quarterjack.dev", "v1alpha1", namespace, "scheduledjobs", name)
        status = job.get("status") or {}
        for run in status.get("history", ()):
            told = (
                f"scheduled for {run['scheduledTime']}: {run['state']} {run.get('reason', '')} {run.get('message', '')}"
            )
            if run["state"] == "Succeeded":
                print(told)  # noqa: T201  the log of the Pod is where people look
                return None
            if run["state"] not in {"Pending", "Running"}:
                return told
        time.sleep(1)
    return f"no run of {namespace}/{name} has ended within {seconds} s; its status is {status}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
