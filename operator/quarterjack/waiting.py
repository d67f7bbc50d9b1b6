"""Which lines of a history want something done now: their run claimed, or its Pod looked for. Pure.

Where runs must not overlap, a retry or a firing that is caught up is not skipped for another run, but waits for its end: retries
first, for their runs have begun, then what is caught up, one after another, the oldest first. The run lease decides in the end; here
is seen to it that nobody asks for it in vain.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from . import names
from .attempts import is_fanned, last_attempts, waits_for_others
from .decision import in_time, is_over
from .model import Entry, Firings, Job, PodSight, Policy, Trigger


def loose_lines(job: Job, entries: Mapping[str, Entry], firings: Firings, *, now: float) -> list[Entry]:
    """The lines of runs that are to be claimed, the oldest first, and of those whose Pod is in no view."""
    if not job.status.live:
        return []
    live = (line for line in entries.values() if not line.ended and not is_fanned(line))
    loose = [line for line in live if line.id not in firings.pods]
    loose = [line for line in loose if not (line.to_claim and line.id in firings.claims)]
    held = {line.id for line in _held_back(job, [line for line in loose if line.to_claim], entries, firings, now)}
    return sorted((line for line in loose if line.id not in held), key=lambda line: (line.firing, line.attempt))


def _held_back(job: Job, lines: list[Entry], entries: Mapping[str, Entry], firings: Firings, now: float) -> list[Entry]:
    """Those that wait for another run. Its end is an event, and then they are looked at again."""
    waiting = [line for line in lines if waits_for_others(line.attempt, line.trigger)]
    if not waiting or job.spec.policy is Policy.ALLOW:
        return []
    alive = {names.run_of(pod.key) for pod in firings.pods.values() if _is_alive(pod, entries.get(pod.key))}
    runs = last_attempts(entries.values())
    begun = {
        run
        for run, line in runs.items()
        if not line.ended and (line.attempt > 1 or not line.to_claim or line.id in firings.claims)
        if not is_over(job, entries, firings, run)
    }
    oldest = min((line.run for line in waiting if line.attempt == 1), key=names.order_of, default="")
    held = []
    for line in waiting:
        if line.attempt > 1:
            others = alive - {line.run}
        elif job.spec.suspend or not in_time(job.spec, line.scheduled, now):
            continue  # it does not run any more, and is to be told so
        else:
            others = (alive | begun | {oldest}) - {line.run}
        if job.spec.policy is Policy.REPLACE:
            others = {run for run in others if names.order_of(run) < names.order_of(line.run)}
        if others:
            held.append(line)
    return held


def _is_alive(pod: PodSight, line: Entry | None) -> bool:
    return not pod.ended and not pod.deleted and pod.given_up is None and not (line is not None and line.ended)


def comes_after_others(job: Job, entries: Mapping[str, Entry], firing: int) -> bool:
    """Whether firings that are caught up come before one that falls due now. Then it is skipped, as for a run that is alive."""
    if job.spec.policy is not Policy.FORBID:
        return False
    caught_up = (line for line in entries.values() if line.to_claim and line.trigger is Trigger.CATCH_UP)
    return any(line.scheduled < firing for line in caught_up)


def resume_time(job: Job, key: str, entries: Mapping[str, Entry], firings: Firings) -> float:
    """When a claimed run that waits for others is to go on: at once, or never, until something is seen of them."""
    pods = [pod for pod in firings.pods.values() if names.run_of(pod.key) != names.run_of(key)]
    others = [pod for pod in pods if _is_alive(pod, entries.get(pod.key))]
    stops = job.spec.policy is Policy.REPLACE and any(not pod.deleting for pod in others)
    return math.inf if others and not stops and job.spec.policy is not Policy.ALLOW else -math.inf
