"""What the server keeps: objects under one global revision, and the history of their changes."""

from __future__ import annotations

import base64
from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

import orjson

from .resources import ALL, Resource
from .statuses import Document, Refused, expired

Key = tuple[str, str]  # namespace, name

_META_HEAD = b'{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":'


class Version:
    """An object as it was at one revision, and its bytes, made once for all who read them. Never changed."""

    __slots__ = ("_full", "_meta", "document", "revision")

    def __init__(self, document: Document, revision: int) -> None:
        self.document = document
        self.revision = revision
        self._full: bytes | None = None
        self._meta: bytes | None = None

    def encoded(self, *, metadata_only: bool) -> bytes:
        """The object, or its PartialObjectMetadata."""
        if metadata_only:
            if self._meta is None:
                self._meta = _META_HEAD + orjson.dumps(self.document["metadata"]) + b"}"
            return self._meta
        if self._full is None:
            self._full = orjson.dumps(self.document)
        return self._full


class Change(NamedTuple):
    """One write: no `before` where it created, `deleted` where it removed."""

    key: Key
    before: Version | None
    after: Version
    deleted: bool


class Table:
    """The objects of one resource, its latest changes, and who listens to them."""

    def __init__(self, resource: Resource) -> None:
        self.resource = resource
        self.objects: dict[Key, Version] = {}
        self.changes: list[Change] = []
        self.compacted = 0  # changes up to this revision are forgotten
        self.listeners: dict[int, Callable[[Change], None]] = {}

    def since(self, revision: int) -> Iterator[Change]:
        """The changes after a revision; a Refused of 410 where they do not reach back so far."""
        if revision < self.compacted:
            raise expired(f"too old resource version: {revision} ({self.compacted})")
        yield from self.changes[bisect_right(self.changes, revision, key=lambda change: change.after.revision) :]

    def forget(self, keep: int) -> None:
        """Keep only so many changes."""
        if len(self.changes) > keep:
            gone = len(self.changes) - keep
            self.compacted = self.changes[gone - 1].after.revision
            del self.changes[:gone]


class Store:
    """All tables under one revision."""

    def __init__(self, *, history: int = 100_000, revision: int = 1000) -> None:
        self.revision = revision
        self.history = history
        self.tables = {resource: Table(resource) for resource in ALL}
        self._pages: dict[str, tuple[int, list[Version]]] = {}
        self._pages_made = 0

    def get(self, resource: Resource, namespace: str, name: str) -> Version | None:
        """The object as it is now."""
        return self.tables[resource].objects.get((namespace, name))

    def put(self, resource: Resource, document: Document) -> Version:
        """Write an object; it is given the new revision."""
        return self._commit(resource, document, deleted=False)

    def remove(self, resource: Resource, document: Document) -> Version:
        """Take an object out; its last version has the revision of its end."""
        return self._commit(resource, document, deleted=True)

    def compact(self) -> None:
        """Forget all history: every watch that is not at the present, and every list half read, has to begin anew."""
        for table in self.tables.values():
            table.forget(0)
            table.compacted = self.revision
        self._pages.clear()

    def keep_page(self, revision: int, rest: list[Version]) -> str:
        """Keep what is left of a list as it was at a revision; the token under which to ask for it."""
        self._pages_made += 1
        token = base64.urlsafe_b64encode(orjson.dumps({"v": "meta.k8s.io/v1", "rv": revision, "n": self._pages_made}))
        self._pages[token.decode()] = (revision, rest)
        return token.decode()

    def page(self, token: str) -> tuple[int, list[Version]]:
        """What was kept under a token; a Refused of 410 where it is forgotten."""
        kept = self._pages.get(token)
        if kept is None:
            raise _page_expired()
        return kept

    def _commit(self, resource: Resource, document: Document, *, deleted: bool) -> Version:
        self.revision += 1
        table, meta = self.tables[resource], document["metadata"]
        key = (meta.get("namespace", ""), meta["name"])
        document = {**document, "metadata": {**meta, "resourceVersion": str(self.revision)}}
        version = Version(document, self.revision)
        change = Change(key, table.objects.get(key), version, deleted)
        if deleted:
            del table.objects[key]
        else:
            table.objects[key] = version
        table.changes.append(change)
        table.forget(self.history)
        for listener in tuple(table.listeners.values()):
            listener(change)
        return version


def _page_expired() -> Refused:
    return expired(
        "The provided continue parameter is too old to display a consistent list result. You can start a new list "
        "without the continue parameter."
    )
