"""Requests to the API server, and what their answers mean for us.

A write has one of few endings, and callers decide by them, not by status codes: done, refused for a reason that is the user's
(quota, admission, invalid), refused by the fence, lost against another (exists, conflict), turned away for now (throttled,
not sent), or in doubt: then it may have been done, or be done a little later, and only a read can tell.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any
from urllib.parse import quote

import orjson

from .clock import ServerClock, http_date_epoch
from .errors import ApiError, Gone
from .text import safe
from .transport import (
    JSON,
    MERGE_PATCH,
    METADATA_LIST,
    METADATA_ONLY,
    NotSent,
    Response,
    StreamAnswer,
    Transport,
    Unanswered,
)
from .windows import REQUEST_SECONDS

FENCE_MARK = "quarterjack fence:"
READ_SECONDS = 30.0
_GRACE_SECONDS = 1.5  # the client waits so much longer than the server may take
_CHUNK = 500
_RETRY_AFTER_MOST = 60.0

LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
PODS = "/api/v1/namespaces/{}/pods"
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps"
ALL_CONFIG_MAPS = "/api/v1/configmaps"
JOBS = "/apis/quarterjack.dev/v1alpha1/namespaces/{}/scheduledjobs"
ALL_PODS = "/api/v1/pods"
ALL_JOBS = "/apis/quarterjack.dev/v1alpha1/scheduledjobs"


class Ending(StrEnum):
    """How a request ended."""

    DONE = "done"
    ABSENT = "absent"
    EXISTS = "exists"
    CONFLICT = "conflict"
    FENCED = "fenced"
    REFUSED = "refused"
    THROTTLED = "throttled"
    NOT_SENT = "not sent"
    DOUBT = "doubt"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read. `date` is the server's clock (epoch seconds, cut down) when it answered."""

    ending: Ending
    document: Mapping[str, Any] = field(default_factory=dict)
    status: int = 0
    message: str = ""
    date: int | None = None
    retry_after_seconds: float = 0.0

    @property
    def done(self) -> bool:
        """Whether it was done."""
        return self.ending is Ending.DONE


@dataclass(frozen=True, slots=True)
class Listing:
    """A consistent list, or a page of one: its items, its revision, and the server's clock before any of it was read."""

    items: list[Mapping[str, Any]]
    revision: str
    date: int | None


class Api:
    """One API server. Every write is sent once: whether to send again is the caller's to decide."""

    def __init__(self, transport: Transport, clock: ServerClock) -> None:
        self._transport = transport
        self.clock = clock
        self.create_seconds = 0.0  # how long a create takes of late
        self.requests: Counter[tuple[str, str]] = Counter()  # by verb and status code

    async def get(self, path: str, *, metadata_only: bool = False) -> Answer:
        """Read one object as it is now (a quorum read)."""
        return await self._send("GET", path, accept=METADATA_ONLY if metadata_only else JSON)

    async def log(self, path: str, *, container: str, most: int) -> bytes | Answer:
        """What a container of the Pod at this path has printed, up to `most` bytes; where it cannot be read, why.

        Its standard error is among it where API server or kubelet cannot part the two: without PodLogsQuerySplitStreams (KEP 3288,
        alpha since Kubernetes 1.32, off by default) they refuse to, and older ones do not know the question.
        """
        query = {"container": container, "limitBytes": str(most)}
        answer = await self._log(path, query | {"stream": "Stdout"})
        refused = isinstance(answer, Answer) and answer.status in {400, 422}
        return await self._log(path, query) if refused else answer

    async def _log(self, path: str, query: Mapping[str, str]) -> bytes | Answer:
        response = await _attempted(self._request("GET", f"{path}/log", query=query, accept="*/*"))
        if isinstance(response, Answer):
            return response
        return response.body if response.status == 200 else read_answer("GET", response)

    async def create(
        self,
        path: str,
        document: Mapping[str, Any],
        *,
        timeout_seconds: int = REQUEST_SECONDS,
        metadata_only: bool = False,
        dry_run: bool = False,
    ) -> Answer:
        """Create an object; the server gives up (or has committed) after `timeout_seconds`."""
        query = {"timeout": f"{timeout_seconds}s"} | ({"dryRun": "All"} if dry_run else {})
        return await self._send(
            "POST",
            path,
            query=query,
            body=orjson.dumps(document),
            accept=METADATA_ONLY if metadata_only else JSON,
            timeout_seconds=timeout_seconds + _GRACE_SECONDS,
        )

    async def patch(self, path: str, document: Mapping[str, Any], *, metadata_only: bool = False) -> Answer:
        """Merge-patch an object: conditional where the document names uid and resourceVersion."""
        return await self._send(
            "PATCH",
            path,
            body=orjson.dumps(document),
            content_type=MERGE_PATCH,
            accept=METADATA_ONLY if metadata_only else JSON,
        )

    async def delete(self, path: str, *, uid: str, revision: int | None = None) -> Answer:
        """Delete the object of that UID (and, if given, at that revision)."""
        preconditions: dict[str, str] = {"uid": uid} | ({"resourceVersion": str(revision)} if revision else {})
        body = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions}
        return await self._send("DELETE", path, body=orjson.dumps(body), accept=METADATA_ONLY)

    async def delete_all(self, path: str, *, label_selector: str) -> Answer:
        """Delete a collection. The answer's body is not read."""
        return await self._send("DELETE", path, query={"labelSelector": label_selector}, accept=METADATA_LIST)

    async def list(self, path: str, *, query: Mapping[str, str] | None = None, metadata_only: bool = False) -> Listing:
        """List as it is now (a quorum read); ApiError, Gone, NotSent or Unanswered if it cannot be had whole."""
        pages = [page async for page in self.pages(path, query=query, metadata_only=metadata_only)]
        return Listing([item for page in pages for item in page.items], pages[-1].revision, pages[0].date)

    async def pages(
        self, path: str, *, query: Mapping[str, str] | None = None, metadata_only: bool = False
    ) -> AsyncIterator[Listing]:
        """The pages of a list, for what may be too long to be held whole; all of one revision, and errors as of `list`."""
        asked = {"limit": str(_CHUNK)} | dict(query or {})
        date: int | None = None
        while True:
            response = await self._request("GET", path, query=asked, accept=METADATA_LIST if metadata_only else JSON)
            if response.status != 200:
                raise_for(response.status, response.body)
            document = orjson.loads(response.body)
            date = date if date is not None else http_date_epoch(response.headers.get("date"))
            meta = document["metadata"]
            yield Listing(document.get("items") or [], meta["resourceVersion"], date)
            if not meta.get("continue"):
                return
            asked["continue"] = meta["continue"]

    @asynccontextmanager
    async def watch(
        self,
        path: str,
        *,
        revision: str,
        query: Mapping[str, str] | None = None,
        metadata_only: bool = False,
        seconds: int,
        silence_seconds: float,
    ) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        """Watch events from a revision on; the server ends the watch after `seconds`. Errors as of `list`, also in the midst."""
        asked = dict(query or {}) | {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": revision,
            "timeoutSeconds": str(seconds),
        }
        accept = METADATA_ONLY if metadata_only else JSON
        async with self._transport.stream(path, query=asked, accept=accept, silence_seconds=silence_seconds) as answer:
            self.requests["WATCH", str(answer.status)] += 1
            yield _events(answer)

    async def _send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes = b"",
        content_type: str = JSON,
        accept: str = JSON,
        timeout_seconds: float = READ_SECONDS,
    ) -> Answer:
        request = self._request(
            method,
            path,
            query=query or {},
            body=body,
            content_type=content_type,
            accept=accept,
            timeout_seconds=timeout_seconds,
        )
        response = await _attempted(request)
        return response if isinstance(response, Answer) else read_answer(method, response)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        accept: str,
        body: bytes = b"",
        content_type: str = JSON,
        timeout_seconds: float = READ_SECONDS,
    ) -> Response:
        sent = self.clock.wall()
        began = asyncio.get_running_loop().time()
        code = "none"
        try:
            response = await self._transport.request(
                method,
                path,
                query=query,
                body=body,
                content_type=content_type,
                accept=accept,
                timeout_seconds=timeout_seconds,
            )
            code = str(response.status)
        finally:
            self.requests[method, code] += 1
            if method == "POST":
                took = asyncio.get_running_loop().time() - began
                self.create_seconds += (took - self.create_seconds) / 8
        self.clock.learn(response.headers.get("date"), sent=sent, received=self.clock.wall())
        return response


async def _attempted(request: Awaitable[Response]) -> Response | Answer:
    """The response to a request; an answer that says so where it was not sent, or nothing came back."""
    try:
        return await request
    except NotSent as error:
        return Answer(Ending.NOT_SENT, message=str(error))
    except Unanswered as error:
        return Answer(Ending.DOUBT, message=str(error))


def raise_for(status: int, body: bytes) -> None:
    """Raise what a refused list or watch means."""
    message = safe(str(_document(body).get("message") or "") or body[:200].decode(errors="replace"))
    raise Gone(status, message) if status == 410 else ApiError(status, message)


async def _events(answer: StreamAnswer) -> AsyncIterator[Mapping[str, Any]]:
    if answer.status != 200:
        raise_for(answer.status, b"".join([line async for line in answer.lines]))
    async for line in answer.lines:
        try:
            event = orjson.loads(line)
            kind, document = event["type"], event["object"]
        except (ValueError, KeyError, TypeError) as error:
            raise Unanswered(f"a watch brought no event: {line[:80]!r}") from error
        if kind == "ERROR":
            raise_for(int(document.get("code", 500)), orjson.dumps(document))
        yield event


def read_answer(method: str, response: Response) -> Answer:
    """What a response means."""
    document = _document(response.body)
    date = http_date_epoch(response.headers.get("date"))
    ending = Ending.DONE if response.status < 300 else _ending(method, response.status, document)
    return Answer(
        ending,
        document,
        response.status,
        "" if ending is Ending.DONE else str(document.get("message", ""))[:4000],
        date,
        _retry_after(response.headers.get("retry-after")),
    )


def _ending(method: str, status: int, document: Mapping[str, Any]) -> Ending:
    if status >= 500 or status == 408:
        return Ending.DOUBT
    if status in {429, 401}:  # 401: the token has just been rotated
        return Ending.THROTTLED
    if status == 409:
        return Ending.EXISTS if document.get("reason") == "AlreadyExists" else Ending.CONFLICT
    if FENCE_MARK in str(document.get("message", "")) and method == "POST":
        return Ending.FENCED
    if status in {404, 410} and method != "POST":
        return Ending.ABSENT if _names_object(document) else Ending.DOUBT
    return Ending.REFUSED


def _names_object(document: Mapping[str, Any]) -> bool:
    """Whether it is the object that was not found, and not the path: a server that is starting up may not serve a kind yet."""
    return bool((document.get("details") or {}).get("name"))


def _document(body: bytes) -> Mapping[str, Any]:
    try:
        document = orjson.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _retry_after(text: str | None) -> float:
    try:
        seconds = float(text or 0)
    except ValueError:
        return 0.0
    return min(max(0.0, seconds), _RETRY_AFTER_MOST)


def object_path(collection: str, namespace: str, name: str) -> str:
    """The path of one object in a namespaced collection."""
    return f"{collection.format(namespace)}/{quote(name, safe='')}"
