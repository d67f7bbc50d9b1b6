"""What a replica serves over HTTP, asked as a kubelet and Prometheus ask."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request

from quarterjack.clock import SystemClock
from quarterjack.probes import serving
from quarterjack.replica import Replica
from quarterjack.settings import Settings

from .connection import Connection
from .server import MemoryApi


def page(path: str) -> tuple[int, str]:
    """Status and text of a page of a replica that has just been started and has not yet listed anything."""
    return asyncio.run(_page(path))


async def _page(path: str) -> tuple[int, str]:
    replica = Replica(Connection(MemoryApi()), SystemClock(), Settings())
    async with serving(replica, "127.0.0.1:0") as port:
        return await asyncio.to_thread(_get, f"http://127.0.0.1:{port}{path}")


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


def test_metrics_are_served_while_the_loop_goes_on() -> None:
    status, text = page("/metrics")

    assert status == 200
    assert 'quarterjack_claims_total{outcome="won"} 0.0' in text
    assert 'quarterjack_watch_age_seconds{resource="leases"}' in text


def test_a_replica_that_has_listed_nothing_is_alive_but_not_ready() -> None:
    assert page("/livez") == (200, "ok\n")
    status, text = page("/readyz")

    assert status == 503
    assert "the ScheduledJobs have not all come yet" in text
