"""Signs of life of a run, as its Pod shows them: whether it is believed alive, and whether it has started at all. Pure.

A Pod that is there and has not ended is believed alive, but where no kubelet vouches for it any more:

- its node is lost: the node controller has turned its Ready condition to False, and given no reason, which a kubelet always does;
- it is past its deletion grace: the kubelet would have ended its containers, and a finalizer does not keep their end from its phase;
- it is past `activeDeadlineSeconds` and that grace: the kubelet would have ended it.

After `leaseDuration` of that the run is given up as Stale, and the next one starts. Time counts only while this replica watches: what
is silent because nobody could listen (the API server was away, the replica had stopped) may have lived all the while. A run that is
replaced is not waited for so long: it is given up once its grace has passed.

A Pod none of whose containers has started holds nothing yet but the job's lease. It is ended, as failed, where it is not on a node by
`activeDeadlineSeconds` (a kubelet counts them only from when it has the Pod), or has come no nearer to its start for `leaseDuration`.
It might still start later, beside the next run: so it is deleted, and the lease passes once it is seen to be gone.
"""

from __future__ import annotations

import math
from dataclasses import replace

from .clock import rfc3339
from .durations import format_duration
from .model import Outcome, PodSight, Spec, State

STOPPED_SECONDS = 10
RUN_DELETED = Outcome(State.CANCELED, "RunDeleted", "Its ScheduledJobRun was deleted")
PLAN_LOST = Outcome(State.FAILED, "PlanLost", "The plan's Pod was deleted before its output was read")


def silence(pod: PodSight) -> tuple[float, str, str]:
    """From when on nothing vouches for the run, with reason and message; an instant to come where all is well."""
    signs = [
        (pod.lost_since, "NodeLost", "the node of its Pod has been lost since {}"),
        (pod.gone_by, "LeaseExpired", "its Pod was to be gone by {} and is still there"),
        (pod.end_by, "LeaseExpired", "its Pod was to end by {}, by activeDeadlineSeconds, and has not"),
    ]
    known = [(float(since), reason, text.format(rfc3339(since))) for since, reason, text in signs if since is not None]
    return min(known, default=(math.inf, "", ""))


def expiry_time(pod: PodSight, seconds: int, *, watched_since: float, stop: Outcome | None = None) -> float:
    """When a run is given up of which nothing more is heard. `stop`: what it is once it has been stopped."""
    return min(max(silence(pod)[0], watched_since) + seconds, _replacement_time(pod, stop))


def _replacement_time(pod: PodSight, stop: Outcome | None) -> float:
    """When a replaced run is waited for no more: its kubelet has had its grace, and a while to say that it has ended."""
    if stop is None or stop.state is not State.CANCELED or pod.gone_by is None:
        return math.inf
    return pod.gone_by + STOPPED_SECONDS


def given_up(
    pod: PodSight, seconds: int, *, now: float, watched_since: float, stop: Outcome | None = None
) -> Outcome | None:
    """What has become of a run of which nothing was heard for too long; None where it is believed alive, or has ended."""
    if pod.ended or now < expiry_time(pod, seconds, watched_since=watched_since, stop=stop):
        return None
    if stop is not None and now >= _replacement_time(pod, stop):
        return replace(stop, message=f"{stop.message}; its Pod was still there after its grace, and may still run")
    _, reason, why = silence(pod)
    message = f"Given up after leaseDuration ({format_duration(seconds * 1000)}): {why}; it may still run there"
    return Outcome(State.STALE, reason, message)


def start_limit_seconds(spec: Spec) -> int:
    """How long the Pod of a run may be refused (a quota, an admission) before the run has failed."""
    return min(spec.lease_seconds, spec.active_deadline_seconds or spec.lease_seconds)


def start_limit(pod: PodSight, spec: Spec, *, watched_since: float) -> float:
    """By when a Pod must have started; never where it has, or is being deleted."""
    if pod.state is not State.PENDING or pod.begun or pod.deleting:
        return math.inf
    return min(_on_a_node_by(pod), max(pod.progressed, watched_since) + spec.lease_seconds)


def _on_a_node_by(pod: PodSight) -> float:
    if pod.started is not None or pod.deadline_seconds is None:
        return math.inf
    return pod.created + pod.deadline_seconds


def not_started(pod: PodSight, spec: Spec, *, now: float, watched_since: float) -> Outcome | None:
    """The end of a run whose Pod has not started in time; None where it has, or still may."""
    if now < start_limit(pod, spec, watched_since=watched_since):
        return None
    said = f": {pod.reason}: {pod.message}" if pod.reason else ""
    if now >= _on_a_node_by(pod):
        limit = f"activeDeadlineSeconds ({pod.deadline_seconds})"
        return Outcome(State.FAILED, "DeadlineExceeded", f"Its Pod was not on a node within {limit}{said}")
    limit = f"leaseDuration ({format_duration(spec.lease_seconds * 1000)})"
    return Outcome(State.FAILED, pod.reason or "NotStarted", f"Its Pod did not start within {limit}{said}")
