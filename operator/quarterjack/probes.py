"""`/livez`, `/readyz` and `/metrics`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from .metrics import page
from .replica import Replica
from .settings import address

_LAG_SECONDS = 30.0


@asynccontextmanager
async def serving(replica: Replica, listen: str) -> AsyncIterator[int]:
    """Serve while the context lasts; gives the port."""
    app = web.Application()
    pages = Pages(replica)
    app.add_routes(
        [web.get("/livez", pages.livez), web.get("/readyz", pages.readyz), web.get("/metrics", pages.metrics)]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    host, port = address(listen)
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        yield runner.addresses[0][1]
    finally:
        await runner.cleanup()


class Pages:
    """What is shown."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica

    async def livez(self, request: web.Request) -> web.Response:
        """Whether the loop turns (it answers) and the timer keeps up: after 30 s without, the kubelet may restart it."""
        del request
        lag = self._replica.desk.agenda.lag_seconds
        if lag > _LAG_SECONDS:
            return web.Response(status=503, text=f"the timer is {lag:.0f} s late\n")
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        """Whether this replica does its share; what is amiss, where it does not."""
        del request
        unready = self._replica.unready()
        lines = [*(unready or ["ok"]), *(f"warning: {text}" for text in self._replica.warnings())]
        return web.Response(status=503 if unready else 200, text="\n".join(lines) + "\n")

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """The Prometheus text format, part by part, each written by a thread: a scrape of 50,000 jobs delays no firing."""
        response = web.StreamResponse(headers={"Content-Type": CONTENT_TYPE_LATEST})
        await response.prepare(request)
        for part in page(self._replica):
            await response.write(await asyncio.to_thread(part))
        await response.write_eof()
        return response
