"""What a Pod's status says of its run: state, reason and message, in the words of the field."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping
from typing import Any

from . import names
from .clock import epoch_of
from .model import PodSight, Raw, State, Trigger
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
_SIGNAL_EXIT = 128


def read_pod(raw: Raw, *, deleted: bool = False) -> PodSight | None:
    """A Pod of ours, None where its labels do not say whose it is."""
    meta, status = raw["metadata"], raw.get("status") or {}
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    try:
        firing, uid = int(labels[names.LABEL_FIRING]), labels[names.LABEL_JOB_UID]
        attempt = int(notes.get(names.ATTEMPT, 1))
        trigger = Trigger(labels.get(names.LABEL_TRIGGER, Trigger.SCHEDULE))
    except (KeyError, ValueError):
        return None
    state, reason, message = _verdict(status)
    if _cut_short(state, status, meta, deleted=deleted):
        state, reason, message = State.FAILED, "PodDeleted", "The Pod was deleted before its end"
    return PodSight(
        name=meta["name"],
        namespace=meta["namespace"],
        uid=meta["uid"],
        job_uid=uid,
        firing=firing,
        state=state,
        created=epoch_of(meta["creationTimestamp"]),
        trigger=trigger,
        attempt=attempt,
        reason=reason,
        message=safe(message),
        started=epoch_of(status["startTime"]) if status.get("startTime") else None,
        completed=_completed(status, meta) if state in {State.SUCCEEDED, State.FAILED} else None,
        deleting="deletionTimestamp" in meta,
        deleted=deleted,
    )


def _cut_short(state: State, status: Raw, meta: Raw, *, deleted: bool) -> bool:
    """Whether it was a deletion that ended it: the kubelet then reports containers that failed, but no reason."""
    if state is State.FAILED:
        return "deletionTimestamp" in meta and not status.get("reason")
    return deleted and state is not State.SUCCEEDED


def _verdict(status: Mapping[str, Any]) -> tuple[State, str, str]:
    phase = status.get("phase", "Pending")
    if phase == "Succeeded":
        return State.SUCCEEDED, "", first_line(_summary(status))
    if phase == "Failed":
        return State.FAILED, *_failure(status)
    if phase == "Running":
        return State.RUNNING, *_waiting(status)
    return State.PENDING, *_waiting(status)


def _summary(status: Mapping[str, Any]) -> str:
    """The termination message of the first container that left one."""
    return next((m for t in _terminated(status) if (m := t.get("message", "")).strip()), "")


def _failure(status: Mapping[str, Any]) -> tuple[str, str]:
    if status.get("reason"):  # Evicted, DeadlineExceeded, NodeLost, NodeShutdown…: the Pod itself says why
        return str(status["reason"]), status.get("message", "")
    for condition in status.get("conditions") or ():
        if condition.get("type") == "DisruptionTarget" and condition.get("status") == "True":
            return condition.get("reason", "Disrupted"), condition.get("message", "")
    ended = [t for t in _terminated(status) if t.get("exitCode", 0) != 0]
    return _exit(ended[0]) if ended else ("Failed", status.get("message", ""))


def _exit(terminated: Mapping[str, Any]) -> tuple[str, str]:
    code = int(terminated.get("exitCode", 1))
    reason = terminated.get("reason") or "Error"
    said = last_line(terminated.get("message", ""))
    if reason == "Error" and (number := terminated.get("signal") or max(0, code - _SIGNAL_EXIT)):
        return "Signal", said or f"Ended by {_signal_name(int(number))} (exit code {code})"
    if reason == "Error":
        return "ExitCode", said or f"Exit code {code}"
    return reason, said or f"{reason} (exit code {code})"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _waiting(status: Mapping[str, Any]) -> tuple[str, str]:
    """Why a Pod does not start, so that its record can say it while it waits."""
    for container in _container_statuses(status):
        waiting = (container.get("state") or {}).get("waiting") or {}
        if waiting.get("reason") in _STUCK:
            return waiting["reason"], f"{container.get('name', '')}: {waiting.get('message', '')}"
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodScheduled" and condition.get("status") == "False":
            return condition.get("reason", ""), condition.get("message", "")
    return "", ""


def _container_statuses(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _terminated(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    for container in _container_statuses(status):
        terminated = (container.get("state") or {}).get("terminated")
        if terminated:
            yield terminated


def _completed(status: Mapping[str, Any], meta: Mapping[str, Any]) -> int:
    """When the last container ended; where none says, when the Pod's condition turned, or its creation."""
    times = [epoch_of(t["finishedAt"]) for t in _terminated(status) if t.get("finishedAt")]
    times += [epoch_of(meta["deletionTimestamp"])] if not times and meta.get("deletionTimestamp") else []
    if not times:
        turned = (
            epoch_of(c["lastTransitionTime"]) for c in status.get("conditions") or () if c.get("lastTransitionTime")
        )
        times = [max(turned, default=epoch_of(meta["creationTimestamp"]))]
    return max(times)
