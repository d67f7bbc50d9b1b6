"""Claims: who runs a firing is decided by the API server, when it creates a Lease named after the firing.

Guaranteed: of all replicas at most one holds the claim at any revision of the Lease; every change of a claim is conditional on the
revision that it rests on; a claim is created within its window or not at all (where the fence is installed).
Not guaranteed: that its holder lives. A claim without Pod or outcome is taken over, see `launcher`.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from . import logs, names
from .api import LEASES, Answer, Api, Ending, object_path
from .manifests import Run, Window, claim_manifest
from .model import Claim, Outcome
from .reading import outcome_text, read_claim
from .windows import takeover_timeout, takeover_window

log = logging.getLogger(__name__)

_UNDECIDED = frozenset({Ending.DOUBT, Ending.THROTTLED, Ending.NOT_SENT})
_DOUBTED_MOST = 10_000
# Together more than the second by which a clock may be misjudged at worst, for Date headers are cut to whole seconds.
_EARLY_SECONDS = 0.01
_EARLY_SECONDS_MOST = 0.64


@dataclass(slots=True)
class ClaimCounts:
    """What became of our claims, for the metrics."""

    won: int = 0
    lost: int = 0
    fenced: int = 0
    taken_over: int = 0


class Claims:
    """The claims in the operator's own namespace."""

    def __init__(self, api: Api, *, namespace: str, replica: str) -> None:
        self._api = api
        self._namespace = namespace
        self._replica = replica
        self._doubted: dict[str, str] = {}  # by claim name: the nonce of a send without an answer
        self.counts = ClaimCounts()

    async def create(self, run: Run, window: Window, *, pods_revision: str) -> Claim | Ending:
        """Claim a firing: the claim if this replica is now its holder, else how the create ended.

        1. Create the Lease. 2. It exists: another has it, unless an earlier send of ours was left in doubt: read it and
        compare the nonce. 3. In doubt: remember the nonce, and send again (a Lease that exists cannot be created twice).
        """
        nonce = self._doubted.get(run.id) or secrets.token_hex(4)
        manifest = claim_manifest(run, window, holder=self._replica, pods_revision=pods_revision)
        manifest["spec"]["holderIdentity"] = f"{self._replica}/{nonce}"
        for _ in range(3):
            answer = await self._send(manifest, window)
            if answer.ending is not Ending.DOUBT:
                break
            self._doubt(run, nonce)
        doubted = run.id in self._doubted
        if answer.ending not in _UNDECIDED:
            self._doubted.pop(run.id, None)
        if answer.done:
            self.counts.won += 1
            return read_claim(answer.document) or Ending.DOUBT
        if answer.ending is Ending.EXISTS and doubted:
            return await self._ours(run, nonce)
        self._count_loss(run, answer)
        return answer.ending

    async def _send(self, manifest: Mapping[str, Any], window: Window) -> Answer:
        """Create the Lease. Fenced before its window is over it came too early: the server's clock is behind what we took it for."""
        pause = _EARLY_SECONDS
        while True:
            offset = self._api.clock.offset_seconds
            answer = await self._api.create(LEASES.format(self._namespace), manifest, metadata_only=True)
            early = answer.ending is Ending.FENCED and answer.date is not None and answer.date <= window.not_after
            if not early or pause > _EARLY_SECONDS_MOST:
                return answer
            self._api.clock.at_most(offset - pause)
            await asyncio.sleep(pause)
            pause *= 2

    def _doubt(self, run: Run, nonce: str) -> None:
        self._doubted[run.id] = nonce
        if len(self._doubted) > _DOUBTED_MOST:
            del self._doubted[next(iter(self._doubted))]

    def _count_loss(self, run: Run, answer: Answer) -> None:
        if answer.ending is Ending.EXISTS:
            self.counts.lost += 1
        elif answer.ending is Ending.FENCED:
            self.counts.fenced += 1
            log.warning("its claim came too late and was fenced: %s", answer.message, extra=logs.of_run(run))
        else:
            log.warning("its claim failed: %s %s", answer.ending, answer.message, extra=logs.of_run(run))

    async def _ours(self, run: Run, nonce: str) -> Claim | Ending:
        """The Lease exists and may be what an earlier send of ours made: its nonce tells."""
        answer = await self._api.get(self.path(run.id))
        if not answer.done:
            self._doubt(run, nonce)
            return Ending.DOUBT
        if (answer.document.get("spec") or {}).get("holderIdentity") != f"{self._replica}/{nonce}":
            self.counts.lost += 1
            return Ending.EXISTS
        self.counts.won += 1
        return read_claim(answer.document) or Ending.DOUBT

    async def read(self, claim: Claim) -> Answer:
        """The claim as it is now, metadata only."""
        return await self._api.get(self.path(claim.name), metadata_only=True)

    async def take(self, claim: Claim, *, now: int, pods_revision: str) -> Claim | None:
        """Take a claim over, at the revision at which it was read; None where somebody else was faster.

        `pods_revision`: one at which it is proved that no Pod of the claim had been, so that later traces begin there.
        """
        notes = self._holding(claim, now, pods_revision) | {names.TAKEOVERS: str(claim.takeovers + 1)}
        taken = await self._change(claim, notes)
        if taken is not None:
            self.counts.taken_over += 1
        return taken

    def _holding(self, claim: Claim, now: int, pods_revision: str) -> dict[str, str | None]:
        """What makes a claim that of a new holder: until when it may launch, and from where its traces begin."""
        return {
            names.PODS_REVISION: pods_revision,
            names.HOLDER: self._replica,
            names.LAUNCH_BEFORE: str(now + takeover_window(claim.takeovers)),
            names.LAUNCH_TIMEOUT: str(takeover_timeout(claim.takeovers)),
        }

    async def wait(self, claim: Claim, other: str) -> Claim | None:
        """Note, in the place of a launch, that another run is in its way: its holder sends no Pod."""
        return await self._change(claim, {names.WAITS_FOR: other})

    async def resume(self, claim: Claim, *, now: int, pods_revision: str) -> Claim | None:
        """Take a claim that waits, at the revision at which it was read: it has had no Pod until then."""
        return await self._change(claim, self._holding(claim, now, pods_revision) | {names.WAITS_FOR: None})

    async def settle(self, claim: Claim, outcome: Outcome) -> Claim | None:
        """Give a claim its outcome (skipped, or failed without a Pod): final, and no Pod will follow."""
        settled = replace(outcome, settled=int(self._api.clock.now()))
        return await self._change(claim, {names.OUTCOME: outcome_text(settled)})

    async def stop(self, claim: Claim, why: Outcome) -> Claim | None:
        """Note that the claim's Pod is to be deleted, and what its run is then."""
        return await self._change(claim, {names.STOP: outcome_text(why)})

    async def refuse(self, claim: Claim, refusal: str) -> Claim | None:
        """Note on the claim why its Pod was refused; it is tried again by a takeover."""
        return await self._change(claim, {names.REFUSAL: refusal, names.REFUSED_TAKEOVER: str(claim.takeovers)})

    async def _change(self, claim: Claim, notes: Mapping[str, str | None]) -> Claim | None:
        document = {
            "metadata": {"uid": claim.uid, "resourceVersion": str(claim.revision), "annotations": notes},
            "spec": {"holderIdentity": notes.get(names.HOLDER, claim.holder)},
        }
        answer = await self._api.patch(self.path(claim.name), document, metadata_only=True)
        if not answer.done:
            log.info("its claim was not changed: %s %s", answer.ending, answer.message, extra=logs.of_claim(claim))
            return None
        return read_claim(answer.document)

    def path(self, name: str) -> str:
        """The path of a claim."""
        return object_path(LEASES, self._namespace, name)
