"""Pods: created once per holder, behind the fence, under a name that only one Pod of the firing can have.

Absence of a Pod is proved, never assumed: by `trace`, which reads whether the name exists, then every event of the name since the
claim was made.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from . import logs, names
from .api import PODS, Answer, Api, Ending, object_path
from .errors import ApiError, Gone
from .manifests import Run, Window, pod_manifest
from .model import Claim, PodSight, Raw
from .pod import read_pod
from .text import safe
from .transport import TransportError

log = logging.getLogger(__name__)

_TRACE_SECONDS = 5
_TRACE_ATTEMPTS = 3


class Launch(StrEnum):
    """What became of the one create of a Pod."""

    LAUNCHED = "launched"
    REFUSED = "refused"  # quota, admission: may be granted later
    INVALID = "invalid"  # the template cannot make a Pod
    TAKEN = "taken"  # a stranger's Pod has the name
    LEAVING = "leaving"  # the namespace is being deleted, and with it the job
    UNKNOWN = "unknown"  # fenced or in doubt: the claim is taken over once that is safe


@dataclass(frozen=True, slots=True)
class Launched:
    """The result of a launch, and the server's words where it said no."""

    launch: Launch
    message: str = ""


class Traced(StrEnum):
    """Whether a Pod of a name ever was."""

    NEVER = "never"
    PRESENT = "present"
    GONE = "gone"
    UNKNOWN = "unknown"  # the events are no longer kept (410)
    UNREAD = "unread"  # try again


@dataclass(frozen=True, slots=True)
class Trace:
    """What is left of a Pod: its last sight, where there is one."""

    traced: Traced
    sight: PodSight | None = None


class Launcher:
    """Creates Pods, and finds out what became of them."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def create(self, run: Run, window: Window, *, timeout_seconds: int) -> Launched:
        """Create the run's Pod. Sent once: an answer that leaves doubt is UNKNOWN, and stays so."""
        answer = await self._api.create(
            PODS.format(run.job.namespace),
            pod_manifest(run, window),
            timeout_seconds=timeout_seconds,
            metadata_only=True,
        )
        match answer.ending:
            case Ending.DONE:
                return Launched(Launch.LAUNCHED)
            case Ending.EXISTS:
                return await self._whose(run)
            case Ending.REFUSED if _is_leaving(answer):
                return Launched(Launch.LEAVING, _without_name(answer.message, run.pod_name))
            case Ending.REFUSED | Ending.CONFLICT:  # a conflict here is the quota's
                launch = Launch.INVALID if answer.status == 422 else Launch.REFUSED
                return Launched(launch, _without_name(answer.message, run.pod_name))
            case Ending.FENCED:
                log.warning("its Pod came too late and was fenced: %s", answer.message, extra=logs.of_run(run))
        return Launched(Launch.UNKNOWN, safe(answer.message))

    async def _whose(self, run: Run) -> Launched:
        found = await self.read(run)
        if isinstance(found, PodSight):
            return Launched(Launch.LAUNCHED)
        if found is not Ending.EXISTS:
            return Launched(Launch.UNKNOWN)
        return Launched(Launch.TAKEN, f"A Pod named {run.pod_name} exists and is not of this run")

    async def read(self, run: Run) -> PodSight | Ending:
        """What the run's Pod looks like now, or how the read ended. ABSENT: it is not there. EXISTS: a stranger has its name."""
        answer = await self._api.get(object_path(PODS, run.job.namespace, run.pod_name))
        if not answer.done:
            return answer.ending
        return _sight(answer.document, run) or Ending.EXISTS

    async def look(self, pod: PodSight) -> PodSight | Ending:
        """What a Pod that a view shows looks like now, or how the read ended. ABSENT: it is gone, whatever has its name now."""
        answer = await self._api.get(object_path(PODS, pod.namespace, pod.name))
        if not answer.done:
            return answer.ending
        sight = read_pod(answer.document)
        return sight if sight is not None and sight.uid == pod.uid else Ending.ABSENT

    async def trial(self, run: Run, window: Window) -> Answer:
        """What the API server would say to the run's Pod, without creating it."""
        return await self._api.create(PODS.format(run.job.namespace), pod_manifest(run, window), dry_run=True)

    async def trace(self, run: Run, claim: Claim) -> Trace:
        """Whether a Pod of this run exists or ever did.

        1. List the name: there it is, or the list's revision r is a moment at which it was not there.
        2. Watch the name from the claim's revision: an event is its trace; an event or bookmark at r or later ends the search.
        """
        path = PODS.format(run.job.namespace)
        query = {"fieldSelector": f"metadata.name={run.pod_name}"}
        try:
            listing = await self._api.list(path, query=query)
            if listing.items:
                return Trace(Traced.PRESENT, _sight(listing.items[0], run))
            if not claim.pods_revision:
                return Trace(Traced.UNKNOWN)
            for _ in range(_TRACE_ATTEMPTS):
                trace = await self._search(path, query, run, since=claim.pods_revision, until=int(listing.revision))
                if trace is not None:
                    return trace
        except Gone:
            return Trace(Traced.UNKNOWN)
        except (ApiError, TransportError) as error:
            log.warning("the trace of its Pod failed: %s", error, extra=logs.of_run(run))
        return Trace(Traced.UNREAD)

    async def _search(self, path: str, query: Mapping[str, str], run: Run, *, since: str, until: int) -> Trace | None:
        """One watch; None where it ended before it had shown all up to `until`."""
        if int(since) >= until:
            return Trace(Traced.NEVER)
        async with self._api.watch(
            path, revision=since, query=query, seconds=_TRACE_SECONDS, silence_seconds=2 * _TRACE_SECONDS
        ) as events:
            last: Mapping[str, Any] | None = None
            async for event in events:
                if event["type"] != "BOOKMARK":
                    last = event
                if last is not None and last["type"] == "DELETED":
                    return Trace(Traced.GONE, _sight(last["object"], run, deleted=True))
                if int(event["object"]["metadata"]["resourceVersion"]) >= until and last is None:
                    return Trace(Traced.NEVER)
            return Trace(Traced.PRESENT, _sight(last["object"], run)) if last is not None else None


def _is_leaving(answer: Answer) -> bool:
    causes = (answer.document.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _without_name(message: str, pod: str) -> str:
    """A refusal without the name of the Pod that never was: so the same refusal of each firing is the same text, and one Event."""
    for told in (f'pods "{pod}" is forbidden: ', f'Pod "{pod}" is invalid: '):
        message = message.removeprefix(told)
    return safe(message)


def _sight(document: Raw, run: Run, *, deleted: bool = False) -> PodSight | None:
    return read_pod(document, deleted=deleted) if stands_for(document, run) else None


def stands_for(document: Raw, run: Run) -> bool:
    """Whether a Pod is of this run: the job's UID as owner, and the firing and attempt that it was made for."""
    meta = document["metadata"]
    labels, notes = meta.get("labels") or {}, meta.get("annotations") or {}
    return (
        any(owner.get("uid") == run.job.uid for owner in meta.get("ownerReferences") or ())
        and labels.get(names.LABEL_FIRING) == str(run.firing)
        and names.request_of(names.key_of(notes.get(names.RUN_ID, ""))) == names.request_of(run.key)
        and notes.get(names.ATTEMPT) == str(run.attempt)
        and notes.get(names.UNIT, "") == run.unit
    )
