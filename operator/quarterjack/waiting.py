"""Which lines of a history want something done now: their run claimed, or its Pod looked for. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from .attempts import waits_for_others
from .model import Entry, Firings, Job, Policy


def loose_lines(job: Job, entries: Mapping[str, Entry], firings: Firings) -> list[Entry]:
    """The lines of runs that are to be claimed, the oldest first, and of those whose Pod is in no view."""
    if not job.status.live:
        return []
    loose = [line for line in entries.values() if not line.ended and line.id not in firings.pods]
    loose = [line for line in loose if not (line.to_claim and line.id in firings.claims)]
    held = [line for line in loose if line.to_claim and _is_held_back(job, line, firings)]
    return sorted((line for line in loose if line not in held), key=lambda line: (line.scheduled, line.attempt))


def _is_held_back(job: Job, line: Entry, firings: Firings) -> bool:
    """Whether a run waits for another whose Pod a view shows alive: its end is an event, and then this line is looked at again."""
    if job.spec.policy is Policy.ALLOW or not waits_for_others(line.attempt, line.trigger):
        return False
    return any(pod.firing != line.scheduled and not pod.ended and not pod.deleted for pod in firings.pods.values())
