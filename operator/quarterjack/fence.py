"""Whether the fence stands: at start and every minute, a dry-run create outside its own window must be refused."""

from __future__ import annotations

import asyncio
import logging

from . import names
from .api import LEASES, Api, Ending
from .manifests import Window

log = logging.getLogger(__name__)

PROBE_SECONDS = 60.0
_FIRST_SECONDS = 2.0


class Fence:
    """What the last probe said."""

    def __init__(self, api: Api, *, namespace: str) -> None:
        self._api = api
        self._namespace = namespace
        self.stands = False
        self.known = asyncio.Event()

    async def run(self) -> None:
        """Probe for ever; sooner again where there was no answer."""
        while True:
            answered = await self.probe()
            await asyncio.sleep(PROBE_SECONDS if answered else _FIRST_SECONDS)

    async def probe(self) -> bool:
        """Ask once; whether that told anything. A window in 1970 lies in the past whatever the clocks say.

        A refusal by anything else does not: a server that is starting up refuses all writes for a while.
        """
        document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "fence-probe",
                "labels": {names.LABEL_MANAGED_BY: names.MANAGER, names.LABEL_FIRING: "0"},
                "annotations": Window(0, 1).annotations(),
            },
            "spec": {"holderIdentity": "fence-probe"},
        }
        answer = await self._api.create(LEASES.format(self._namespace), document, dry_run=True, metadata_only=True)
        if answer.ending not in {Ending.FENCED, Ending.DONE, Ending.EXISTS}:
            log.warning("the fence could not be probed: %s %s", answer.ending, answer.message)
            return False
        self._learn(stands=answer.ending is Ending.FENCED)
        return True

    def _learn(self, *, stands: bool) -> None:
        if not stands and (self.stands or not self.known.is_set()):
            log.error(
                "the fence policy quarterjack-fence is not installed or not in force: a replica that stalls may launch late, and"
                " firings whose launch is in doubt are recorded as LaunchUnknown instead of being taken over;"
                " install it with kubectl apply -f crds/"
            )
        if stands and not self.stands:
            log.info("the fence stands")
        self.stands = stands
        self.known.set()
