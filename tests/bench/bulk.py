"""Many requests to an API server, from one process over a fixed number of connections."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson

from tests.cluster import Cluster

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@dataclass(frozen=True, slots=True)
class Address:
    """An API server, and what it takes to be let in."""

    url: str
    ca_path: str
    token: str

    @classmethod
    def of(cls, cluster: Cluster) -> Address:
        """A cluster's, as its administrator."""
        return cls(cluster.url, str(cluster.ca_path), cluster.admin_token)


@dataclass(frozen=True, slots=True)
class Write:
    """One write, its body ready to be sent."""

    method: str
    path: str
    body: bytes
    accept: str = JSON

    @classmethod
    def of(cls, method: str, path: str, document: Mapping[str, Any], *, accept: str = METADATA_ONLY) -> Write:
        """A write of a document."""
        return cls(method, path, orjson.dumps(document), accept)


class Bulk:
    """A session with a number of connections."""

    def __init__(self, address: Address, *, connections: int) -> None:
        self._connections = connections
        context = ssl.create_default_context(cafile=address.ca_path)
        self._session = aiohttp.ClientSession(
            address.url,
            connector=aiohttp.TCPConnector(ssl=context, limit=connections, keepalive_timeout=120),
            headers={"Authorization": f"Bearer {address.token}"},
        )

    async def __aenter__(self) -> Bulk:
        """Open every connection, so that none is opened while time counts."""
        async with asyncio.TaskGroup() as group:
            for _ in range(self._connections):
                group.create_task(self._warm())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close."""
        await self._session.close()

    async def _warm(self) -> None:
        async with self._session.get("/version") as answer:
            await answer.read()

    async def send(self, write: Write) -> tuple[int, bytes]:
        """Send one: status and body."""
        kind = MERGE_PATCH if write.method == "PATCH" else JSON
        headers = {"Content-Type": kind, "Accept": write.accept}
        async with self._session.request(write.method, write.path, data=write.body, headers=headers) as answer:
            return answer.status, await answer.read()

    async def send_in_turn(self, writes: Iterable[Write]) -> None:
        """Send one after the other; the first refusal is an error."""
        for write in writes:
            status, body = await self.send(write)
            if status >= 300:
                raise RuntimeError(f"{write.method} {write.path}: {status} {body[:300].decode(errors='replace')}")

    async def send_together(self, sequences: Iterable[list[Write]]) -> None:
        """Send sequences side by side, each one's writes in turn, as many at once as there are connections."""
        waiting = iter(sequences)

        async def lane() -> None:
            for writes in waiting:
                await self.send_in_turn(writes)

        async with asyncio.TaskGroup() as group:
            for _ in range(self._connections):
                group.create_task(lane())


def send_together(cluster: Cluster, writes: Iterable[Write], *, connections: int = 32) -> None:
    """Send independent writes, and wait for them."""
    address = Address.of(cluster)

    async def send() -> None:
        async with Bulk(address, connections=connections) as bulk:
            await bulk.send_together([write] for write in writes)

    asyncio.run(send())
