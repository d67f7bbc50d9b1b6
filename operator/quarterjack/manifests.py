"""The objects that we create: claim Leases and Pods, as documents. Pure: the same arguments give the same document everywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from . import names
from .clock import rfc3339
from .model import Job, Options, Trigger
from .options import option_environment


@dataclass(frozen=True, slots=True)
class Window:
    """When a create may be stamped by the API server: epoch seconds, both included."""

    not_before: int
    not_after: int

    def annotations(self) -> dict[str, str]:
        """What the fence reads."""
        return {names.NOT_BEFORE: rfc3339(self.not_before), names.NOT_AFTER: rfc3339(self.not_after)}


@dataclass(frozen=True, slots=True)
class Run:
    """What a Pod is created for."""

    job: Job
    firing: int
    trigger: Trigger = Trigger.SCHEDULE
    attempt: int = 1
    zones: tuple[str, ...] = ()
    # Of a run by hand: the UID of its ScheduledJobRun, the time it is to stand for, and what it is passed.
    request: str = ""
    scheduled: int | None = None
    options: Options = ()
    # Of a fan-out: the unit that it runs; whether its Pod is to list the units; whether it is only units, and has no Pod of its own.
    unit: str = ""
    plan: bool = False
    podless: bool = False

    @property
    def key(self) -> str:
        """What tells it apart from the job's other runs."""
        return names.run_key(self.firing, self.attempt, request=self.request, unit=self.unit)

    @property
    def scheduled_time(self) -> int:
        """What its containers are told that they stand for: epoch second."""
        return self.firing if self.scheduled is None else self.scheduled

    @property
    def id(self) -> str:
        """The run's id: its claim's name."""
        return names.claim_name(self.job.uid, self.key)

    @property
    def pod_name(self) -> str:
        """The one Pod name of this firing, unit and attempt."""
        run = names.parent_of(self.key)
        return names.pod_name(self.job.name, self.job.uid, run, unit=self.unit, attempt=self.attempt)


def claim_manifest(run: Run, window: Window, *, holder: str, pods_revision: str) -> dict[str, Any]:
    """The Lease that claims a firing."""
    job = run.job
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": run.id,
            "labels": {
                names.LABEL_MANAGED_BY: names.MANAGER,
                names.LABEL_ROLE: names.ROLE_CLAIM,
                names.LABEL_JOB_UID: job.uid,
                names.LABEL_FIRING: str(run.firing),
                names.LABEL_TRIGGER: run.trigger.value,
                names.LABEL_BUCKET: str(names.bucket_of(window.not_after)),
            },
            "annotations": window.annotations()
            | {
                names.HOLDER: holder,
                names.JOB_REF: f"{job.namespace}/{job.name}",
                names.PODS_REVISION: pods_revision,
            },
        },
        "spec": {"holderIdentity": holder},
    }


def pod_manifest(run: Run, window: Window) -> dict[str, Any]:
    """The Pod of a run: the job's template, owned by the job, named, labelled and told what it stands for.

    Our labels and annotations win over the template's, the template's environment wins over ours.
    """
    job = run.job
    template = _template(run)
    meta, spec = template.get("metadata") or {}, template.get("spec") or {}
    spec.setdefault("restartPolicy", "Never")
    if job.spec.active_deadline_seconds is not None:
        spec.setdefault("activeDeadlineSeconds", job.spec.active_deadline_seconds)
    environment = run_environment(run)
    for container in _containers(spec):
        _tell(container, environment)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": run.pod_name,
            "namespace": job.namespace,
            "labels": (meta.get("labels") or {}) | pod_labels(run),
            "annotations": (meta.get("annotations") or {})
            | window.annotations()
            | {
                names.RUN_ID: run.id,
                names.ATTEMPT: str(run.attempt),
                names.SCHEDULED_TIME: rfc3339(run.scheduled_time),
            }
            | ({names.UNIT: run.unit} if run.unit else {})
            | ({names.PLAN: spec["containers"][0]["name"]} if run.plan and spec.get("containers") else {}),
            "ownerReferences": [names.owner(job.name, job.uid, controller=True)],
        },
        "spec": spec,
    }


def _template(run: Run) -> dict[str, Any]:
    """The job's template; of a plan its own, or the job's with its command in the first container."""
    template: dict[str, Any] = orjson.loads(run.job.spec.template)
    fan_out = run.job.spec.fan_out
    if not run.plan or fan_out is None or fan_out.plan is None:
        return template
    plan = orjson.loads(fan_out.plan)
    if "template" in plan:
        own: dict[str, Any] = plan["template"]
        return own
    containers = (template.get("spec") or {}).get("containers") or [{}]
    containers[0].pop("args", None)
    containers[0].update(plan)
    return template


def pod_labels(run: Run) -> dict[str, str]:
    """By these a Pod is found, and its firing known again."""
    return {
        names.LABEL_MANAGED_BY: names.MANAGER,
        names.LABEL_JOB: run.job.name,
        names.LABEL_JOB_UID: run.job.uid,
        names.LABEL_FIRING: str(run.firing),
        names.LABEL_TRIGGER: run.trigger.value,
    } | ({names.UNIT: names.unit_label(run.unit)} if run.unit else {})


def run_environment(run: Run) -> dict[str, str]:
    """What the containers are told (design.md section 2)."""
    told = {
        "SCHEDULED_JOB_NAME": run.job.name,
        "SCHEDULED_JOB_NAMESPACE": run.job.namespace,
        "SCHEDULED_TIME": rfc3339(run.scheduled_time),
        "RUN_ID": run.id,
        "RUN_TRIGGER": run.trigger.value,
        "RUN_ATTEMPT": str(run.attempt),
    }
    if run.zones:
        told["SCHEDULED_TIME_ZONE"] = run.zones[0]
        told["SCHEDULED_TIME_ZONES"] = ",".join(run.zones)
    options, fan_out = dict(run.options), run.job.spec.fan_out
    if run.unit:
        told["RUN_UNIT"] = run.unit
        options |= {fan_out.unit_option: run.unit} if fan_out is not None and fan_out.unit_option else {}
    return told | option_environment(run.job.spec.options, tuple(options.items()))


def _containers(spec: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _tell(container: dict[str, Any], environment: Mapping[str, str]) -> None:
    given = container.get("env") or []
    taken = {line.get("name") for line in given}
    container["env"] = [{"name": k, "value": v} for k, v in environment.items() if k not in taken] + given
    container.setdefault("terminationMessagePolicy", "FallbackToLogsOnError")
