"""Open watches: what they show, their bookmarks, their end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import orjson

from .resources import Target
from .selectors import selector
from .statuses import Refused, expired
from .store import Change, Version
from .virtual import later

if TYPE_CHECKING:
    from .calls import Call
    from .server import MemoryApi

LAST_BOOKMARK_SECONDS = 2.0  # so long before the end of a watch the server sends one more


class Listener(Protocol):
    """Who gets the lines of a watch."""

    watch: Watch | None

    def send(self, line: bytes) -> None:
        """One event."""
        ...

    def end(self) -> None:
        """There will be no more."""
        ...


class Watch:
    """One open watch. Everything happens outside of the replica that asked for it."""

    def __init__(self, api: MemoryApi, call: Call, target: Target, listener: Listener) -> None:
        self.target = target
        self._api = api
        self._listener = listener
        listener.watch = self
        self._metadata_only = call.metadata_only
        self._bookmarks = call.query.get("allowWatchBookmarks", "") in ("1", "true")
        self._timers: list[asyncio.TimerHandle] = []
        self._regular: asyncio.TimerHandle | None = None
        names = {"fieldSelector": f"metadata.name={target.name}"} if target.name else {}
        self._shows = selector(target.resource, target.namespace, {**call.query, **names})
        self._table = api.store.tables[target.resource]
        self._shown = 0
        self.open = True
        self._begin(call)

    def _begin(self, call: Call) -> None:
        asked = call.query.get("resourceVersion", "") or "0"
        self._api.reached(asked)
        self._shown = int(asked) or self._api.store.revision
        try:
            self._catch_up(int(asked))
        except Refused as gone:
            if not self._api.options.gone_as_event:
                raise
            self._api.watches.add(self)
            self.fail(gone)
            return
        self._table.listeners[id(self)] = self._on_change
        self._api.watches.add(self)
        seconds = float(call.query.get("timeoutSeconds") or 0)
        if seconds:
            self._timers.append(later(seconds, self.close))
        if self._bookmarks and seconds > LAST_BOOKMARK_SECONDS:
            self._timers.append(later(seconds - LAST_BOOKMARK_SECONDS, self.bookmark))
        if self._bookmarks:
            self._next_bookmark()

    def _catch_up(self, revision: int) -> None:
        if revision:
            for change in self._table.since(revision):
                self._on_change(change)
            return
        for version in self._api.select(self.target.resource, self._shows):
            self._show(b"ADDED", version)

    def _on_change(self, change: Change) -> None:
        """ADDED and DELETED are said of what the selector shows, not of what exists."""
        was = change.before is not None and self._shows(change.before.document)
        shown = not change.deleted and self._shows(change.after.document)
        if shown:
            self._show(b"MODIFIED" if was else b"ADDED", change.after)
        elif was and change.before is not None:
            last = change.after if change.deleted else _as_of(change.before, change.after.revision)
            self._show(b"DELETED", last)

    def _show(self, kind: bytes, version: Version) -> None:
        self._shown = max(self._shown, version.revision)
        self._listener.send(
            b'{"type":"' + kind + b'","object":' + version.encoded(metadata_only=self._metadata_only) + b"}"
        )

    def bookmark(self) -> None:
        """Say how far this watch has come."""
        resource = self.target.resource
        kind, api_version = resource.kind, resource.api_version
        if self._metadata_only:
            kind, api_version = "PartialObjectMetadata", "meta.k8s.io/v1"
        revision = self._shown if self._api.options.bookmarks_behind else self._api.store.revision
        meta = {"resourceVersion": str(revision), "creationTimestamp": None}
        mark = {"type": "BOOKMARK", "object": {"kind": kind, "apiVersion": api_version, "metadata": meta}}
        self._listener.send(orjson.dumps(mark))

    def _next_bookmark(self) -> None:
        self._regular = later(self._api.options.bookmark_seconds, self._regular_bookmark)

    def _regular_bookmark(self) -> None:
        self.bookmark()
        self._next_bookmark()

    def fail(self, why: Refused | None = None) -> None:
        """End the watch by an ERROR event: 410 unless said otherwise."""
        status = (why or expired("too old resource version")).document()
        self._listener.send(orjson.dumps({"type": "ERROR", "object": status}))
        self.close()

    def close(self) -> None:
        """End the watch: the server says no more."""
        if self.open:
            self.drop()
            self._listener.end()

    def drop(self) -> None:
        """The client is gone."""
        self.open = False
        self._table.listeners.pop(id(self), None)
        self._api.watches.discard(self)
        for timer in (*self._timers, self._regular):
            if timer is not None:
                timer.cancel()


def _as_of(version: Version, revision: int) -> Version:
    """An object that is shown no more: as it was last shown, at the revision that hid it."""
    meta = {**version.document["metadata"], "resourceVersion": str(revision)}
    return Version({**version.document, "metadata": meta}, revision)
