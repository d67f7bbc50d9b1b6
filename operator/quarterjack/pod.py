"""What a Pod's status says of its run: state, reason and message, in the words of the field."""

from __future__ import annotations

import signal
from collections.abc import Iterable
from typing import Any

from . import names
from .clock import epoch_of
from .model import Entry, Job, PodSight, Raw, State, Trigger, instant
from .text import first_line, last_line, safe

_STUCK = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "ErrImageNeverPull",
        "ErrImagePull",
        "ImageInspectError",
        "ImagePullBackOff",
        "InvalidImageName",
        "RunContainerError",
        "CrashLoopBackOff",
    }
)
# Why a Pod was deleted, by its condition DisruptionTarget; other reasons stay as they are.
_DISRUPTIONS = {
    "DeletionByPodGC": "NodeLost",
    "DeletionByTaintManager": "Evicted",
    "EvictionByEvictionAPI": "Evicted",
}
_SIGNAL_EXIT = 128
_GRACE_SECONDS = 30
_SIGNAL_MOST = 64


def read_pod(raw: Raw, *, deleted: bool = False) -> PodSight | None:
    """A Pod of ours, None where its labels do not say whose it is."""
    meta, status = raw["metadata"], raw.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    try:
        firing, uid = int(labels[names.LABEL_FIRING]), labels[names.LABEL_JOB_UID]
        attempt = int(notes.get(names.ATTEMPT, 1))
        trigger = Trigger(labels.get(names.LABEL_TRIGGER, Trigger.SCHEDULE))
        request = names.request_of(names.key_of(notes.get(names.RUN_ID, "")))
    except (KeyError, ValueError):
        return None
    if (names.UNIT in labels) != (names.UNIT in notes):
        return None  # somebody has damaged it: which unit it is of cannot be told
    state, reason, message = _verdict(raw)
    cut_short = _cut_short(state, status, meta, deleted=deleted or (state is State.PENDING and _never_bound(raw)))
    if cut_short:
        deletion = "PodDeleted", "The Pod was deleted before its end"
        state, (reason, message) = State.FAILED, _disruption(status) or deletion
    return PodSight(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        job_uid=uid,
        firing=firing,
        state=state,
        created=epoch_of(meta["creationTimestamp"]),
        trigger=trigger,
        request=request,
        unit=notes.get(names.UNIT, ""),
        plan=notes.get(names.PLAN, ""),
        attempt=attempt,
        reason=reason,
        message=safe(message),
        started=instant(status.get("startTime")),
        completed=_completed(raw) if state in {State.SUCCEEDED, State.FAILED} else None,
        deleting="deletionTimestamp" in meta,
        deleted=deleted,
        cut_short=cut_short,
        revision=int(meta.get("resourceVersion", 0)),
        **_life(meta, raw.get("spec") or {}, status),
    )


def lost_pod(job: Job, entry: Entry, *, now: int) -> PodSight:
    """The Pod of a run that is on record and whose end nobody has seen: it is gone."""
    return PodSight(
        name=names.pod_name(job.name, job.uid, names.parent_of(entry.id), unit=entry.unit, attempt=entry.attempt),
        namespace=job.namespace,
        uid="",
        job_uid=job.uid,
        firing=entry.firing,
        state=State.FAILED,
        created=entry.started or entry.firing,
        trigger=entry.trigger,
        request=names.request_of(entry.id),
        unit=entry.unit,
        attempt=entry.attempt,
        reason="PodDeleted",
        message="The Pod was deleted before its end was seen",
        started=entry.started,
        completed=now,
        deleted=True,
        cut_short=True,
    )


def _life(meta: Raw, spec: Raw, status: Raw) -> dict[str, Any]:
    """What `signs` goes by."""
    conditions = {c["type"]: c for c in status.get("conditions") or () if c.get("lastTransitionTime")}
    turned = [epoch_of(c["lastTransitionTime"]) for c in conditions.values() if c.get("status") == "True"]
    deadline, started = spec.get("activeDeadlineSeconds"), instant(status.get("startTime"))
    grace = spec.get("terminationGracePeriodSeconds", _GRACE_SECONDS)
    ready = conditions.get("Ready", {})
    lost = ready.get("status") == "False" and not ready.get("reason")
    return {
        "begun": any(_has_begun(container) for container in _container_statuses(status)),
        "progressed": max([epoch_of(meta["creationTimestamp"]), started or 0, *turned]),
        "lost_since": epoch_of(ready["lastTransitionTime"]) if lost else None,
        "gone_by": instant(meta.get("deletionTimestamp")),
        "end_by": started + deadline + grace if started is not None and deadline is not None else None,
        "deadline_seconds": deadline,
    }


def _has_begun(container: Raw) -> bool:
    state = container.get("state") or {}
    return "running" in state or "terminated" in state or bool(container.get("lastState"))


def _never_bound(raw: Raw) -> bool:
    """Whether it is being deleted before it had a node: it is given none any more, whatever keeps the object."""
    return "deletionTimestamp" in raw["metadata"] and not (raw.get("spec") or {}).get("nodeName")


def _cut_short(state: State, status: Raw, meta: Raw, *, deleted: bool) -> bool:
    """Whether it was a deletion that ended it: the kubelet then reports containers that failed, but no reason."""
    if state is State.FAILED:
        return "deletionTimestamp" in meta and not status.get("reason")
    return deleted and state is not State.SUCCEEDED


def _verdict(raw: Raw) -> tuple[State, str, str]:
    status = raw.get("status") or {}
    phase = status.get("phase", "Pending")
    if phase == "Succeeded":
        return State.SUCCEEDED, "", first_line(_summary(raw))
    if phase == "Failed":
        return State.FAILED, *_failure(raw)
    # Unknown: its node cannot be asked, and the run goes on or not
    return State.PENDING if phase == "Pending" else State.RUNNING, *_waiting(status)


def _summary(raw: Raw) -> str:
    """The termination message of the first container that left one; an init container speaks last."""
    said = [*_ended(raw, "containers"), *_ended(raw, "initContainers")]
    return next((m for t in said if (m := t.get("message", "")).strip()), "")


def _failure(raw: Raw) -> tuple[str, str]:
    status = raw["status"]
    if status.get("reason"):  # Evicted, DeadlineExceeded, NodeShutdown…: the Pod itself says why
        return str(status["reason"]), status.get("message", "")
    failed = [t for t in _all_ended(raw) if t.get("exitCode", 0) != 0]
    return _disruption(status) or (_exit(failed[0]) if failed else ("Failed", status.get("message", "")))


def _disruption(status: Raw) -> tuple[str, str] | None:
    """Which part of the cluster ended the Pod, where its condition names one."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            reason = condition.get("reason") or "Disrupted"
            return _DISRUPTIONS.get(reason, reason), condition.get("message", "")
    return None


def _exit(terminated: Raw) -> tuple[str, str]:
    code = int(terminated.get("exitCode", 1))
    reason = terminated.get("reason") or "Error"
    said = last_line(terminated.get("message", ""))
    number = int(terminated.get("signal") or code - _SIGNAL_EXIT)
    if reason == "Error" and 0 < number <= _SIGNAL_MOST:
        return "Signal", said or f"Ended by {_signal_name(number)} (exit code {code})"
    if reason == "Error":
        return "ExitCode", said or f"Exit code {code}"
    return reason, said or f"{reason} (exit code {code})"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _waiting(status: Raw) -> tuple[str, str]:
    """Why a Pod does not start, so that its record can say it while it waits."""
    for container in _container_statuses(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STUCK:
            return waiting["reason"], f"{container.get('name', '')}: {waiting.get('message', '')}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason", ""), condition.get("message", "")
    return "", ""


def _container_statuses(status: Raw) -> Iterable[Raw]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _all_ended(raw: Raw) -> list[Raw]:
    """The containers that have ended, in the order in which they were started."""
    return [*_ended(raw, "initContainers"), *_ended(raw, "containers")]


def _ended(raw: Raw, kind: str) -> list[Raw]:
    """How the containers of a kind ended. Not native sidecars: the kubelet ends them, and their end says nothing of the run."""
    given = (raw.get("spec") or {}).get(kind) or ()
    sidecars = {c.get("name") for c in given if c.get("restartPolicy") == "Always"}
    statuses = (raw.get("status") or {}).get(f"{kind.removesuffix('s')}Statuses") or ()
    states = [c.get("state") or {} for c in statuses if c.get("name") not in sidecars]
    return [state["terminated"] for state in states if state.get("terminated")]


def _completed(raw: Raw) -> int:
    """When the last container ended; where none says, when it was deleted, its condition turned, or it was created."""
    meta, status = raw["metadata"], raw.get("status") or {}
    times = [epoch_of(t["finishedAt"]) for t in _all_ended(raw) if t.get("finishedAt")]
    times += [epoch_of(meta["deletionTimestamp"])] if not times and meta.get("deletionTimestamp") else []
    if not times:
        turned = (
            epoch_of(c["lastTransitionTime"]) for c in status.get("conditions") or () if c.get("lastTransitionTime")
        )
        times = [max(turned, default=epoch_of(meta["creationTimestamp"]))]
    return max(times)
