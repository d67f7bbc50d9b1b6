"""Runs by hand in real containers: what they are told, and that they end when their ScheduledJobRun is deleted."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.api.installation import Document, Installation
from tests.node.jobs import await_line, await_pods, job, pods

pytestmark = pytest.mark.node

TELLS = 'echo "$OPTION_MONTH|$OPTION_DRY_RUN|$RUN_TRIGGER|$SCHEDULED_TIME" > /dev/termination-log'
FOR_EVER = "sleep 36917"  # told from all other processes
SCRIPT = "$(echo 5); `id` && \"'"  # to a shell it would be something to do


def by_hand(name: str, script: str, **spec: Any) -> Document:
    document = job(name, script, **spec)
    del document["spec"]["runAfter"]
    return document


def run(name: str, **spec: object) -> Document:
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJobRun",
        "metadata": {"name": name},
        "spec": {"scheduledJobName": name} | spec,
    }


def is_alive(command: str) -> bool:
    """Whether some process of this machine, on which the node is, runs a command."""
    words = b"\0".join(word.encode() for word in command.split()) + b"\0"
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if path.read_bytes() == words:
                return True
    return False


def test_a_run_by_hand_tells_its_container_its_options_as_they_are(stage: Installation) -> None:
    options = [{"name": "month", "required": True}, {"name": "dry-run", "type": "Boolean", "default": "false"}]
    stage.apply([by_hand("tells-its-options", TELLS, options=options)])
    stage.apply([run("tells-its-options", options={"month": SCRIPT}, scheduledTime="2026-02-01T03:00:00Z")])

    line = await_line(stage, "tells-its-options", "Succeeded", "Failed")

    assert (line["state"], line["message"]) == ("Succeeded", f"{SCRIPT}|false|Manual|2026-02-01T03:00:00Z")
    assert line["options"] == {"month": SCRIPT}


def test_a_run_by_hand_that_is_deleted_ends_its_container(stage: Installation) -> None:
    stage.apply([by_hand("is-called-off", FOR_EVER, retry={"maxRetries": 2, "delay": "1s"})])
    stage.apply([run("is-called-off")])
    await_pods(stage, "is-called-off")
    stage.wait_for("its process runs", lambda: is_alive(FOR_EVER), seconds=90)

    stage.kubectl.out("delete", "scheduledjobrun", "is-called-off")

    line = await_line(stage, "is-called-off", "Canceled", "Failed")
    assert (line["state"], line["reason"]) == ("Canceled", "RunDeleted")
    assert not is_alive(FOR_EVER)
    stage.wait_for("no Pod is left", lambda: pods(stage, "is-called-off") == [], seconds=90)
