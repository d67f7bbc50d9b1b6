"""A collection of the API server, followed: list, watch, and list again whenever the thread is lost.

The sink is told of every object by `apply`, and after each list by `sweep` which there are, so that what vanished unseen goes. A list
is taken page by page, never held whole. Nothing here is evidence of absence: what acts on it reads again.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping, Set
from typing import Any, Protocol

from .api import Api
from .errors import ApiError, Gone
from .transport import TransportError

log = logging.getLogger(__name__)

WATCH_SECONDS = 240
SILENCE_SECONDS = 90.0  # the server sends a bookmark each minute; a stream that is silent for longer is dead
_FIRST_PAUSE_SECONDS = 0.1
_LONGEST_PAUSE_SECONDS = 10.0
_STABLE_SECONDS = 5.0


class Sink(Protocol):
    """Whoever keeps a view."""

    def sweep(self, present: Set[str]) -> None:
        """By their UIDs, all there is: the others are gone."""
        ...

    def apply(self, kind: str, item: Mapping[str, Any]) -> None:
        """One event: ADDED, MODIFIED or DELETED."""
        ...


class Reflector:
    """Keeps one sink up to date with one collection."""

    def __init__(self, api: Api, path: str, sink: Sink, *, label_selector: str, metadata_only: bool = False) -> None:
        self._api = api
        self._path = path
        self._sink = sink
        self._query = {"labelSelector": label_selector}
        self._metadata_only = metadata_only
        self.synced = asyncio.Event()
        self.revision = ""
        self.sign_time = float("-inf")
        self._live_time = float("-inf")
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    @property
    def age_seconds(self) -> float:
        """How long ago the server last gave a sign of life on this watch: an event, a bookmark, a list."""
        return asyncio.get_running_loop().time() - self.sign_time

    @property
    def live(self) -> bool:
        """Whether the view is listed and its watch not given up for dead."""
        return self.synced.is_set() and self.age_seconds < SILENCE_SECONDS + _LONGEST_PAUSE_SECONDS

    @property
    def live_seconds(self) -> float:
        """For how long the view has been live without a break; 0 where it is not."""
        return asyncio.get_running_loop().time() - self._live_time if self.live else 0.0

    async def run(self) -> None:
        """Follow for ever."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                if not self.revision:
                    await self._list()
                await self._watch()
            except Gone:
                log.info("watch of %s is too old, listing again", self._path)
                self.revision = ""
            except (ApiError, TransportError) as error:
                log.warning("watch of %s ended: %s", self._path, error)
                if self._was_barren(began):
                    self.revision = ""
            await self._pause(loop.time() - began)

    def _was_barren(self, began: float) -> bool:
        """Whether a stream brought nothing until it was given up: behind what swallows streams, lists still keep a view."""
        return asyncio.get_running_loop().time() - began >= SILENCE_SECONDS and self.sign_time <= began

    async def _list(self) -> None:
        present: set[str] = set()
        async for page in self._api.pages(self._path, query=self._query, metadata_only=self._metadata_only):
            for item in page.items:
                present.add(item["metadata"]["uid"])
                self._sink.apply("ADDED", item)
        self._sink.sweep(present)
        self._sign(page.revision)
        self.synced.set()

    async def _watch(self) -> None:
        async with self._api.watch(
            self._path,
            revision=self.revision,
            query=self._query,
            metadata_only=self._metadata_only,
            seconds=WATCH_SECONDS + random.randrange(60),  # noqa: S311  spreads the reconnects of many replicas
            silence_seconds=SILENCE_SECONDS,
        ) as events:
            async for event in events:
                item = event["object"]
                if event["type"] != "BOOKMARK":
                    self._sink.apply(event["type"], item)
                self._sign(item["metadata"]["resourceVersion"])

    def _sign(self, revision: str) -> None:
        if not self.live:
            self._live_time = asyncio.get_running_loop().time()
        self.revision = revision
        self.sign_time = asyncio.get_running_loop().time()

    async def _pause(self, lasted_seconds: float) -> None:
        """Back off while watches end at once (an error, or an empty answer), go on at once when they lasted."""
        if lasted_seconds >= _STABLE_SECONDS:
            self._pause_seconds = _FIRST_PAUSE_SECONDS
        else:
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        await asyncio.sleep(self._pause_seconds * random.uniform(0.5, 1.0))  # noqa: S311
