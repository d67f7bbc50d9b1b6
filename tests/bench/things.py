"""The objects that are measured. Their Pods ask for a scheduler that is not there: so only what creates them counts."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

NO_SCHEDULER = "none"


def template(*, scheduler: str = NO_SCHEDULER) -> dict[str, Any]:
    """The same Pod for all."""
    return {
        "spec": {
            "restartPolicy": "Never",
            "schedulerName": scheduler,
            "containers": [{"name": "main", "image": "busybox:1.36", "command": ["true"]}],
        }
    }


def scheduled_job(
    namespace: str, name: str, *, schedule: str, policy: str, scheduler: str = NO_SCHEDULER
) -> dict[str, Any]:
    """A ScheduledJob."""
    spec = {"schedule": schedule, "concurrencyPolicy": policy, "template": template(scheduler=scheduler)}
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def cron_job(namespace: str, name: str) -> Mapping[str, Any]:
    """A CronJob of every minute."""
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "schedule": "* * * * *",
            "concurrencyPolicy": "Allow",
            "jobTemplate": {"spec": {"template": template()}},
        },
    }


def once_at(instant: int) -> str:
    """The schedule that fires at an instant (epoch seconds, this year's), and not again for a year."""
    when = datetime.fromtimestamp(instant, UTC)
    return f"{when.second} {when.minute} {when.hour} {when.day} {when.month} *"
