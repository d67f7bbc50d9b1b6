"""One replica's connection to the server in memory: `quarterjack.transport.Transport`, with a network that may fail.

A request is on its way for a while, arrives and is stamped, is committed, and is answered: three moments, and its
sender may be gone, stopped or cut off at each of them without the others being stopped by that. Watches bring their
lines after a delay, in order, and may be delayed, silenced, cut or spoilt at any moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from types import TracebackType

from quarterjack.transport import NotSent, Response, StreamAnswer, TransportError, Unanswered

from .calls import Call
from .faults import Break, Fault, Outcome, Plan, Point, Request
from .replica import Replica
from .server import MemoryApi
from .statuses import refusal
from .streams import Stream
from .virtual import later, virtual_loop

Answer = Response | TransportError


class Connection:
    """What a replica's client is given in place of its HTTP session."""

    def __init__(
        self, api: MemoryApi, *, replica: Replica | None = None, name: str = "", plan: Plan | None = None
    ) -> None:
        self.api = api
        self.replica = replica
        self.name = name or (replica.name if replica else "test")
        self.plan = plan or Plan()
        self.cut_off = False
        self.silent = False
        self.requests: list[Request] = []
        self.streams: list[Stream] = []
        self.delays: dict[str, float] = {}  # of watches, by resource; "" for all others
        self._waiting: set[asyncio.Future[Answer]] = set()
        if replica is not None:
            replica.when_crashed(self.break_off)

    # Transport

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
        """As the protocol says. The answer that has come before the timeout counts, even when it is read later."""
        request = Request(self.name, method, path, dict(query), body, virtual_loop().time())
        fault = await self.depart(request)
        answer = self.expect(timeout_seconds)
        if not self.silent:
            flight = _Flight(self, request, fault, answer, content_type=content_type, accept=accept)
            later(flight.arrival_seconds, flight.arrive)
        self.stop_at(Point.AFTER_SEND, fault)
        return await self.outcome(answer)

    def stream(
        self, path: str, *, query: Mapping[str, str], accept: str, silence_seconds: float
    ) -> AbstractAsyncContextManager[StreamAnswer]:
        """As the protocol says."""
        return _Opening(self, path, query, accept=accept, silence_seconds=silence_seconds)

    # What tests do to it

    def cut(self, resource: str = "") -> None:
        """Break the open streams of a resource, or all; they can be opened again at once."""
        for stream in self.open_streams(resource):
            stream.go_wrong(Break.CUT)

    def spoil(self, how: Break, resource: str = "") -> None:
        """Have the open streams of a resource, or all, go wrong, now."""
        for stream in self.open_streams(resource):
            stream.go_wrong(how)

    def delay_watches(self, seconds: float, resource: str = "") -> None:
        """From now on the events of a resource, or of all that have no delay of their own, take so long more."""
        self.delays[resource] = seconds

    def partition(self, *, silent: bool = False) -> None:
        """Cut the replica off: connections are refused; or, silently, nothing comes back, and only timeouts tell."""
        self.cut_off, self.silent = not silent, silent
        if silent:
            self.spoil(Break.SILENT)
        else:
            self.break_off()

    def heal(self) -> None:
        """End the partition. Streams that fell silent stay so."""
        self.cut_off = self.silent = False

    def break_off(self) -> None:
        """Break every connection: no answer comes any more to what is on its way, though it may still be done."""
        for stream in self.open_streams():
            stream.go_wrong(Break.CUT)
        for answer in tuple(self._waiting):
            settle(answer, Unanswered(f"{self.name}: the connection broke"))

    def open_streams(self, resource: str = "") -> list[Stream]:
        """The streams that are open now."""
        self.streams = [stream for stream in self.streams if stream.open]
        return [stream for stream in self.streams if resource in ("", stream.resource)]

    def watch_delay(self, resource: str) -> float:
        """How long an event takes at present."""
        return self.plan.watch_seconds + self.delays.get(resource, self.delays.get("", 0.0))

    # The way of a request

    async def depart(self, request: Request) -> Fault:
        """Everything up to the send. A sender that is stopped here goes on after its stall, or never."""
        await self.pause()
        fault = self.plan.choose(request)
        if self.stop_at(Point.BEFORE_SEND, fault):
            await asyncio.sleep(0)
        if fault.outcome is Outcome.NOT_SENT or self.cut_off or not self.api.options.up or self._buried():
            await asyncio.sleep(0)
            raise NotSent(f"{self.name}: no connection for {request.method} {request.path}")
        self.requests.append(request)
        if self.replica is not None:
            self.replica.send_steps.append(self.replica.steps)
        return fault

    async def pause(self) -> None:
        """Where the replica was stopped within the very step that runs: end that step."""
        if self.replica is not None and self.replica.stopped:
            await asyncio.sleep(0)

    def stop_at(self, point: Point, fault: Fault) -> bool:
        """Crash or stall the replica, if the fault says so for this point."""
        if self.replica is None or point not in (fault.crash, fault.stall):
            return False
        if fault.crash is point:
            self.replica.crash()
        else:
            self.replica.stall(fault.stall_seconds)
        return True

    def _buried(self) -> bool:
        return self.replica is not None and self.replica.crashed

    def expect(self, timeout_seconds: float) -> asyncio.Future[Answer]:
        """Where an answer will be; Unanswered after the timeout."""
        answer: asyncio.Future[Answer] = virtual_loop().create_future()
        self._waiting.add(answer)
        timer = virtual_loop().call_later(
            timeout_seconds, settle, answer, Unanswered(f"{self.name}: no answer within {timeout_seconds} s")
        )
        answer.add_done_callback(lambda _: timer.cancel())
        return answer

    async def outcome(self, answer: asyncio.Future[Answer]) -> Response:
        """Wait for the answer; a TransportError where there is none."""
        try:
            got = await answer
        finally:
            self._waiting.discard(answer)
        await self.pause()
        if isinstance(got, TransportError):
            raise got
        return got


def settle(answer: asyncio.Future[Answer], got: Answer) -> None:
    """Give the answer to who waits for it; the first one counts."""
    if not answer.done():
        answer.set_result(got)


class _Flight:
    """A request on its way, outside of every replica."""

    def __init__(
        self,
        connection: Connection,
        request: Request,
        fault: Fault,
        answer: asyncio.Future[Answer],
        *,
        content_type: str,
        accept: str,
    ) -> None:
        plan = connection.plan
        self._connection = connection
        self._request = request
        self._fault = fault
        self._answer = answer
        self._content_type = content_type
        self._accept = accept
        self.arrival_seconds = _given(fault.arrival_seconds, plan.arrival_seconds)
        self._commit_seconds = _given(fault.commit_seconds, plan.commit_seconds)
        self._answer_seconds = _given(fault.answer_seconds, plan.answer_seconds)

    def arrive(self) -> None:
        """The server stamps the request; or it never arrives, or is refused."""
        api, fault = self._connection.api, self._fault
        if fault.outcome is Outcome.LOST or not api.options.up:
            self._lose()
            return
        if fault.outcome is Outcome.REFUSED:
            self._reply(api.refuse(refusal(fault.status, retry_after_seconds=fault.retry_after_seconds)))
            return
        request = self._request
        call = api.arrive(
            request.method,
            request.path,
            query=request.query,
            body=request.body,
            content_type=self._content_type,
            accept=self._accept,
        )
        self._commit_later(call)

    def _commit_later(self, call: Call) -> None:
        seconds = self._commit_seconds
        if not seconds:
            self._commit(call)
        elif seconds <= call.timeout_seconds:
            later(seconds, self._commit, call)
        else:
            later(call.timeout_seconds, lambda: self._reply(self._connection.api.give_up()))
            if self._fault.commits_anyway:
                later(seconds, self._commit, call)

    def _commit(self, call: Call) -> None:
        api, fault = self._connection.api, self._fault
        response = api.commit(call)
        self._connection.stop_at(Point.AFTER_COMMIT, fault)
        if fault.outcome is Outcome.UNANSWERED:
            self._lose()
        elif fault.outcome is Outcome.BROKEN:
            self._reply(api.refuse(refusal(fault.status)))
        else:
            self._reply(response)

    def _reply(self, response: Response) -> None:
        if self._answer_seconds:
            later(self._answer_seconds, self._hand_over, response)
        else:
            self._hand_over(response)

    def _hand_over(self, response: Response) -> None:
        if not self._connection.silent:
            settle(self._answer, response)

    def _lose(self) -> None:
        if not self._fault.unnoticed:
            request = self._request
            settle(self._answer, Unanswered(f"connection reset: {request.method} {request.path}"))


def _given(asked: float | None, usual: float) -> float:
    return usual if asked is None else asked


class _Opening(AbstractAsyncContextManager[StreamAnswer]):
    """A stream from its request to its close."""

    def __init__(
        self, connection: Connection, path: str, query: Mapping[str, str], *, accept: str, silence_seconds: float
    ) -> None:
        self._connection = connection
        self._path = path
        self._query = {"watch": "1", **query}
        self._accept = accept
        self._silence_seconds = silence_seconds
        self._stream: Stream | None = None

    async def __aenter__(self) -> StreamAnswer:
        connection = self._connection
        request = Request(connection.name, "WATCH", self._path, self._query, b"", virtual_loop().time())
        fault = await connection.depart(request)
        answer = connection.expect(self._silence_seconds)
        if not connection.silent:
            seconds = _given(fault.arrival_seconds, connection.plan.arrival_seconds)
            later(seconds, self._arrive, request, fault, answer)
        connection.stop_at(Point.AFTER_SEND, fault)
        response = await connection.outcome(answer)
        if self._stream is None:
            return StreamAnswer(response.status, _only(response.body), response.headers)
        return StreamAnswer(200, self._stream, response.headers)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.drop()

    def _arrive(self, request: Request, fault: Fault, answer: asyncio.Future[Answer]) -> None:
        api = self._connection.api
        if answer.done():
            return
        if fault.outcome in (Outcome.LOST, Outcome.UNANSWERED) or not api.options.up:
            if not fault.unnoticed:
                settle(answer, Unanswered(f"connection reset: WATCH {self._path}"))
            return
        if fault.outcome in (Outcome.REFUSED, Outcome.BROKEN):
            response = api.refuse(refusal(fault.status, retry_after_seconds=fault.retry_after_seconds))
        else:
            response = self._open(request, fault)
        seconds = _given(fault.answer_seconds, self._connection.plan.answer_seconds)
        later(seconds, self._hand_over, answer, response)

    def _open(self, request: Request, fault: Fault) -> Response:
        api = self._connection.api
        call = api.arrive("GET", self._path, query=self._query, accept=self._accept)
        stream = Stream(self._connection, request.resource, fault, silence_seconds=self._silence_seconds)
        opened = api.watch(call, stream)
        if isinstance(opened, Response):
            return opened
        self._stream = stream
        self._connection.streams.append(stream)
        return Response(200, b"", api.headers())

    def _hand_over(self, answer: asyncio.Future[Answer], response: Response) -> None:
        if answer.done() and self._stream is not None:
            self._stream.drop()  # who asked for it has left meanwhile
        if not self._connection.silent:
            settle(answer, response)


async def _only(body: bytes) -> AsyncIterator[bytes]:
    yield body
