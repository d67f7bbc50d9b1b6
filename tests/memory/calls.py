"""Requests that have arrived."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from .admission import parse_seconds
from .statuses import Document, bad_request

REQUEST_SECONDS = 60.0


@dataclass(slots=True)
class Call:
    """A request that has arrived: it has its stamp, and is not committed yet."""

    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    content_type: str
    accept: str
    stamp: float  # the server's clock at arrival
    by: str = "quarterjack"  # the field manager

    @property
    def metadata_only(self) -> bool:
        """Whether the answer is to be PartialObjectMetadata."""
        return "as=PartialObjectMetadata" in self.accept

    @property
    def is_watch(self) -> bool:
        """Whether it is to be answered by a stream."""
        return self.method == "GET" and self.query.get("watch", "0") in ("1", "true")

    @property
    def timeout_seconds(self) -> float:
        """How long after its arrival it is still worked on."""
        return parse_seconds(self.query["timeout"]) if "timeout" in self.query else REQUEST_SECONDS

    def json(self) -> Document:
        """The body, an object; a Refused of 400 where it is none."""
        try:
            body = orjson.loads(self.body)
        except ValueError as error:
            raise bad_request(f"couldn't get version/kind; json parse error: {error}") from None
        if not isinstance(body, dict):
            raise bad_request("the body is not an object")
        return body


def merged(old: Any, patch: Any) -> Any:
    """A JSON merge patch applied (RFC 7386); the old document is left as it is."""
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            new.pop(key, None)
        else:
            new[key] = merged(new.get(key), value)
    return new
