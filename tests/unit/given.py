"""What the tests of the pure modules are about: jobs, claims, Pods and lines, each named for what is special about it."""

from __future__ import annotations

from typing import Any

import orjson

from quarterjack import names
from quarterjack.clock import rfc3339
from quarterjack.model import Claim, Entry, Job, PodSight, Spec, State, Status, Trigger
from quarterjack.reading import read_status
from tests.unit.oracle import utc

UID = "0b4f7c0e-6f0c-4f0c-9d0e-2a1b3c4d5e6f"


def epoch(text: str) -> int:
    """The epoch second of a UTC time such as 2026-03-10T12:00:00."""
    return int(utc(text).timestamp())


CREATED = epoch("2026-03-10T10:00:00")
NOON = epoch("2026-03-10T12:00:00")


def a_spec(**fields: Any) -> Spec:
    usual: dict[str, Any] = {"timing": {"schedule": "* * * * *"}, "template": b"{}"}
    return Spec(**usual | fields)


def a_status(**fields: Any) -> Status:
    """A status as the API has it: read, so that its document and its fields agree."""
    seen = {"observedGeneration": 1, "servedBy": "us", "scheduledFrom": rfc3339(CREATED), "watermark": rfc3339(CREATED)}
    ready = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": rfc3339(CREATED)}]}
    return read_status(seen | ready | fields)


def a_job(*, spec: Spec | None = None, status: Status | None = None, **fields: Any) -> Job:
    usual: dict[str, Any] = {"uid": UID, "namespace": "default", "name": "report", "revision": 7, "generation": 1}
    times = {"created": CREATED, "edited": CREATED}
    return Job(**usual | times | fields, spec=spec or a_spec(), status=status or a_status())


def a_claim(firing: int, attempt: int = 1, **fields: Any) -> Claim:
    key = names.run_key(firing, attempt)
    usual: dict[str, Any] = {
        "name": names.claim_name(UID, key),
        "uid": f"lease-{key}",
        "revision": 8,
        "created": firing,
        "job_uid": UID,
        "job_namespace": "default",
        "job_name": "report",
        "firing": firing,
        "holder": "a replica",
        "trigger": Trigger.SCHEDULE,
        "bucket": names.bucket_of(firing + 30),
        "launch_before": firing + 3,
        "launch_timeout_seconds": 2,
    }
    return Claim(**usual | fields)


def a_pod(firing: int, state: State = State.RUNNING, **fields: Any) -> PodSight:
    key = names.run_key(firing, fields.get("attempt", 1))
    usual: dict[str, Any] = {"name": f"report-{key}", "namespace": "default", "uid": f"pod-{key}", "job_uid": UID}
    return PodSight(**usual | {"firing": firing, "state": state, "created": firing} | fields)


def a_run(firing: int, state: State = State.SUCCEEDED, **fields: Any) -> Entry:
    """The history line of a run, or of one of its attempts."""
    key = names.run_key(firing, fields.get("attempt", 1))
    usual: dict[str, Any] = {"id": key, "scheduled": firing, "state": state, "pod_name": f"report-{key}"}
    return Entry(**usual | fields)


def json(document: Any) -> bytes:
    return orjson.dumps(document)
