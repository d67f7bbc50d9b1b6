"""What a request to the API server is, and what may become of it: the edge at which tests put an API server of their own.

A request that got no answer is one of two things, and the difference decides whether a create may be sent again:
`NotSent`: nothing left this process, so nothing was done; `Unanswered`: it may have been done, now or a little later.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"


class TransportError(Exception):
    """A request had no answer."""


class NotSent(TransportError):
    """The request never left: no connection to the server. It has certainly done nothing."""


class Unanswered(TransportError):
    """The request may have reached the server: it may have been done, or be done a little later, or never."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer: HTTP status, body, and the headers that we read, their names in lower case."""

    status: int
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


class Transport(Protocol):
    """One connection pool to one API server, with credentials. Paths start with `/api/` or `/apis/`."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: bytes,
        content_type: str,
        accept: str,
        timeout_seconds: float,
    ) -> Response:
        """Send one request and read its answer, whatever its status; NotSent or Unanswered if there is none."""
        ...

    def stream(
        self, path: str, *, query: Mapping[str, str], accept: str, silence_seconds: float
    ) -> AbstractAsyncContextManager[StreamAnswer]:
        """Open a watch. NotSent or Unanswered if there is no answer, and in the midst of it when the connection breaks
        or brings nothing for `silence_seconds`."""
        ...


@dataclass(frozen=True, slots=True)
class StreamAnswer:
    """An open watch: where `status` is 200 the lines are watch events, one JSON document each; else one Status document."""

    status: int
    lines: AsyncIterator[bytes]
    headers: Mapping[str, str] = field(default_factory=dict)
