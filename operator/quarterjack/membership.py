"""Which replicas are there, and in which order they act for a job.

Each replica holds a Lease that it renews; others judge it by when they last saw it renewed, on their own monotonic clock. Only one
that they have never seen renewed is judged by what its Lease says (on the server's clock): whoever starts anew where replicas have
just died must not wait for the dead. Membership decides who acts first, never who may.
"""

from __future__ import annotations

import asyncio
import logging
import random
from itertools import takewhile

from . import names
from .api import LEASES, Answer, Api, Ending, object_path
from .clock import micro_time, rfc3339
from .ranks import ranked
from .store import EXPIRE_SECONDS, Store, member_lease_name

log = logging.getLogger(__name__)

RENEW_SECONDS = 3.0
SILENT_SECONDS = 5.0  # who lives renews its membership every three: one that is silent for longer is not waited for
_RANKS_MOST = 200_000


def is_silent(store: Store, name: str) -> bool:
    """Whether a replica has given no sign of life for so long that it is not waited for."""
    member = store.members.get(name)
    return member is None or asyncio.get_running_loop().time() - member.sign_time > SILENT_SECONDS


class Membership:
    """This replica's membership, and the ranks that follow from all of them."""

    def __init__(self, api: Api, store: Store, *, namespace: str, replica: str) -> None:
        self._api = api
        self._store = store
        self._namespace = namespace
        self.replica = replica
        self._members: tuple[str, ...] = (replica,)
        self._ranks: dict[str, tuple[str, ...]] = {}
        self._uid = ""
        store.on_members.append(self._changed)

    @property
    def members(self) -> tuple[str, ...]:
        """All replicas that are there, this one included, sorted."""
        return self._members

    def ranks(self, uid: str) -> tuple[str, ...]:
        """The replicas in the order in which they act for a job."""
        known = self._ranks.get(uid)
        if known is None:
            if len(self._ranks) > _RANKS_MOST:
                self._ranks.clear()
            known = self._ranks[uid] = ranked(self._members, uid)
        return known

    def is_first(self, uid: str) -> bool:
        """Whether no replica that has lately given a sign of life comes before this one for a job."""
        before = takewhile(lambda name: name != self.replica, self.ranks(uid))
        return all(is_silent(self._store, name) for name in before)

    def forget(self, uid: str) -> None:
        """The job is gone."""
        self._ranks.pop(uid, None)

    def _changed(self) -> None:
        self._members = tuple(sorted({*self._store.members, self.replica}))
        self._ranks.clear()
        log.info("replicas: %s", ", ".join(self._members))

    async def run(self) -> None:
        """Join, renew, and take those that have not renewed for too long for gone."""
        while True:
            await self._renew()
            self._expire()
            # Not in step with the second: the answers' Date headers, cut to seconds, then tell the server's clock to a few ms.
            await asyncio.sleep(RENEW_SECONDS * random.uniform(0.8, 1.2))  # noqa: S311

    async def leave(self) -> None:
        """Give the membership up."""
        if self._uid:
            await self._api.delete(self._path(self.replica), uid=self._uid)

    async def _renew(self) -> None:
        now = self._api.clock.now()
        spec = {
            "holderIdentity": self.replica,
            "renewTime": micro_time(now),
            "leaseDurationSeconds": int(EXPIRE_SECONDS),
        }
        answer = None
        if self._uid:
            change = {"metadata": {"annotations": {names.RENEWED: rfc3339(now)}}, "spec": spec}
            answer = await self._api.patch(self._path(self.replica), change, metadata_only=True)
        if answer is None or answer.ending is Ending.ABSENT:
            answer = await self._join(spec, rfc3339(now))
        if not answer.done:
            log.warning("membership was not renewed: %s %s", answer.ending, answer.message)

    async def _join(self, spec: dict[str, object], now: str) -> Answer:
        document = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": member_lease_name(self.replica),
                "labels": {names.LABEL_MANAGED_BY: names.MANAGER, names.LABEL_ROLE: names.ROLE_MEMBER},
                "annotations": {names.HOLDER: self.replica, names.RENEWED: now},
            },
            "spec": spec,
        }
        answer = await self._api.create(LEASES.format(self._namespace), document, metadata_only=True)
        if answer.done:
            self._uid = answer.document["metadata"]["uid"]
        elif answer.ending is Ending.EXISTS:  # an earlier create of ours whose answer was lost
            answer = await self._api.get(self._path(self.replica), metadata_only=True)
            self._uid = answer.document["metadata"]["uid"] if answer.done else ""
        return answer

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        for name, member in list(self._store.members.items()):
            if name != self.replica and now - member.renewed_time > EXPIRE_SECONDS:
                log.warning(
                    "replica %s has not renewed for %.0f s and is taken for gone", name, now - member.renewed_time
                )
                self._store.drop_member(name)

    def _path(self, member: str) -> str:
        return object_path(LEASES, self._namespace, member_lease_name(member))
