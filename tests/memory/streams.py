"""Open watches as a replica sees them: lines that come after a delay, in order, until the stream ends or goes wrong."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from quarterjack.transport import TransportError, Unanswered

from .faults import Break, Fault
from .statuses import expired, internal_error
from .virtual import OUTSIDE, virtual_loop
from .watches import Watch

if TYPE_CHECKING:
    from .connection import Connection


class Stream(AsyncIterator[bytes]):
    """The lines of one watch. The server's side of it runs outside of the replica, the reader's side within."""

    def __init__(self, connection: Connection, resource: str, fault: Fault, *, silence_seconds: float) -> None:
        self.resource = resource
        self.open = True
        self.watch: Watch | None = None
        self._connection = connection
        self._fault = fault
        self._silence_seconds = silence_seconds
        self._sent = 0
        self._under_way: deque[tuple[float, bytes | None]] = deque()  # due time and line; None: the end
        self._lines: deque[bytes | None] = deque()
        self._silent = False
        self._broken: TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._last_line_at = virtual_loop().time()
        self._silence_timer: asyncio.TimerHandle | None = None

    # The server's side

    def send(self, line: bytes) -> None:
        """A line leaves the server."""
        if self._fault.stream is not None and self._sent == self._fault.stream_after:
            self._sent += 1
            self.go_wrong(self._fault.stream)
        self._sent += 1
        self._travel(line)

    def end(self) -> None:
        """The server ends the stream."""
        self._travel(None)

    def go_wrong(self, how: Break) -> None:
        """Spoil the stream, now."""
        match how:
            case Break.CUT:
                self._break(Unanswered(f"{self._connection.name}: the watch of {self.resource} broke"))
            case Break.SILENT:
                self._silent = True
                self._leave()
            case Break.END if self.watch is not None:
                self.watch.close()
            case Break.GONE if self.watch is not None:
                self.watch.fail(expired("too old resource version"))
            case Break.ERROR if self.watch is not None:
                self.watch.fail(internal_error("etcdserver: mvcc: required revision has been compacted"))
            case Break.GARBAGE:
                self._travel(b'{"type":"MODIFIED","object":{"apiVer')

    def _travel(self, line: bytes | None) -> None:
        if self._silent or not self.open:
            return
        loop = virtual_loop()
        due = loop.time() + self._connection.watch_delay(self.resource)
        if self._under_way:
            self._under_way.append((due, line))  # behind the earlier ones, even where its own time comes first
        elif due <= loop.time():
            self._arrive(line)
        else:
            self._under_way.append((due, line))
            loop.call_at(due, self._arrivals, context=OUTSIDE)

    def _arrivals(self) -> None:
        loop = virtual_loop()
        while self._under_way and self._under_way[0][0] <= loop.time() + 1e-6:
            self._arrive(self._under_way.popleft()[1])
        if self._under_way:
            loop.call_at(self._under_way[0][0], self._arrivals, context=OUTSIDE)

    def _arrive(self, line: bytes | None) -> None:
        self._last_line_at = virtual_loop().time()
        self._lines.append(line)
        self._wake()

    def _break(self, error: TransportError) -> None:
        self._broken = error
        self._under_way.clear()
        self.drop()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _leave(self) -> None:
        if self.watch is not None:
            self.watch.drop()

    # The reader's side

    async def __anext__(self) -> bytes:
        while not self._lines and self._broken is None:
            await self._wait()
        await self._connection.pause()
        if self._broken is not None:
            raise self._broken
        line = self._lines.popleft()
        if line is None:
            self._lines.append(None)
            self.open = False
            raise StopAsyncIteration
        return line

    def drop(self) -> None:
        """The reader has left."""
        self.open = False
        self._leave()
        if self._silence_timer is not None:
            self._silence_timer.cancel()

    async def _wait(self) -> None:
        if self._silence_timer is None:
            self._await_silence(self._silence_seconds)
        self._waiter = virtual_loop().create_future()
        await self._waiter

    def _await_silence(self, seconds: float) -> None:
        self._silence_timer = virtual_loop().call_later(seconds, self._on_silence)

    def _on_silence(self) -> None:
        """One timer for many lines: it looks how long ago the last one came."""
        left = self._last_line_at + self._silence_seconds - virtual_loop().time()
        if left > 1e-6:
            self._await_silence(left)
        elif not self._lines:
            self._break(Unanswered(f"{self.resource}: nothing for {self._silence_seconds} s"))
        else:
            self._silence_timer = None
