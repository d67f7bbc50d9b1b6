"""kopf: the feed of ScheduledJobs and ScheduledJobRuns. Nothing else passes through it.

Handlers return None: a result would be written to the object. They are coroutines: kopf runs plain functions in threads, and the
store belongs to the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

import kopf

from . import names
from .cluster import Credentials
from .feed import Feed
from .requests import RunRequests

_WATCH_SECONDS = 240
_SILENCE_SECONDS = 300


class _NoDifference(kopf.DiffBaseStorage):
    """kopf would copy each object at each event to see what has changed in it; nobody here asks."""

    def build(self, *, body: kopf.Body, extra_fields: object = None) -> kopf.BodyEssence:
        del body, extra_fields
        return kopf.BodyEssence()

    def fetch(self, *, body: kopf.Body) -> kopf.BodyEssence | None:
        del body
        return None

    def store(self, *, body: kopf.Body, patch: kopf.Patch, essence: kopf.BodyEssence) -> None:
        del body, patch, essence


def registry_of(feed: Feed, requests: RunRequests, credentials: Credentials) -> kopf.OperatorRegistry:
    """What kopf calls."""
    registry = kopf.OperatorRegistry()

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        configuration = credentials.configuration
        scheme, _separator, token = credentials.header.partition(" ")
        return kopf.ConnectionInfo(
            server=credentials.host,
            ca_path=configuration.ssl_ca_cert,
            insecure=not configuration.verify_ssl or urlsplit(credentials.host).scheme != "https",
            scheme=scheme if token else None,
            token=token or None,
            certificate_path=configuration.cert_file,
            private_key_path=configuration.key_file,
        )

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def job(event: kopf.RawEvent, **_: Any) -> None:
        feed.apply(event["type"], event["object"])

    @kopf.on.event(names.GROUP, names.VERSION, names.RUNS_PLURAL, registry=registry)
    async def request(event: kopf.RawEvent, **_: Any) -> None:
        requests.apply(event["type"], event["object"])

    return registry


def operator_settings() -> kopf.OperatorSettings:
    """kopf as a feed: it writes nothing, peers with nobody, and comes to 10,000 objects in seconds (measured)."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.scanning.disabled = True
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = _WATCH_SECONDS
    settings.watching.client_timeout = _SILENCE_SECONDS
    settings.persistence.diffbase_storage = _NoDifference()
    settings.queueing.worker_limit = 200
    settings.queueing.idle_timeout = 0.05
    return settings


async def run(
    feed: Feed,
    requests: RunRequests,
    credentials: Credentials,
    namespaces: Sequence[str],
    stop: asyncio.Event,
    started: Callable[[], None],
) -> None:
    """Feed until `stop` is set; it also ends where kopf gives up, and then so must the process.

    kopf takes SIGTERM and SIGINT for itself when it starts: `started` is called then, to take them back.
    """
    ready = asyncio.Event()
    telling = asyncio.create_task(_tell(ready, started))
    try:
        await kopf.operator(
            registry=registry_of(feed, requests, credentials),
            settings=operator_settings(),
            clusterwide=not namespaces,
            namespaces=namespaces,
            ready_flag=ready,
            stop_flag=stop,
        )
    finally:
        telling.cancel()


async def _tell(ready: asyncio.Event, started: Callable[[], None]) -> None:
    await ready.wait()
    started()
