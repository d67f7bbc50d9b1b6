"""What lies between a replica and the API server: a port that leads there, until the network breaks.

It runs in a thread of its own. A break is either noticed at once (connections end, and new ones are refused), or by nothing but
silence, as where a firewall drops what is sent.
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import yaml

_CHUNK_BYTES = 65_536


class Relay:
    """Leads from `port` to `to_port`, both of this machine."""

    def __init__(self, to_port: int) -> None:
        self.port = 0
        self._to_port = to_port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._passes = asyncio.Event()
        self._refuses = False
        self._writers: set[asyncio.StreamWriter] = set()

    def __enter__(self) -> Relay:
        """Listen."""
        self._thread.start()
        self.port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        """End all connections."""
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    def break_off(self) -> None:
        """From now on no connection holds."""
        self._loop.call_soon_threadsafe(self._break_off)

    def fall_silent(self) -> None:
        """From now on nothing arrives, and nobody is told; what is sent meanwhile arrives later."""
        self._loop.call_soon_threadsafe(self._passes.clear)

    def heal(self) -> None:
        """All is well again."""
        self._loop.call_soon_threadsafe(self._heal)

    def kubeconfig(self, original: Path, path: Path) -> Path:
        """A kubeconfig that leads here, otherwise like the original."""
        content = yaml.safe_load(original.read_text())
        for cluster in content["clusters"]:
            cluster["cluster"]["server"] = f"https://127.0.0.1:{self.port}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(content))
        return path

    async def _listen(self) -> int:
        self._passes.set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _close(self) -> None:
        self._server.close()
        self._break_off()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    def _break_off(self) -> None:
        self._refuses = True
        for writer in self._writers:
            writer.transport.abort()

    def _heal(self) -> None:
        self._refuses = False
        self._passes.set()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        ends = {writer}
        with suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
            ends.add(far_writer)
            self._writers |= ends
            await asyncio.gather(self._pass_on(reader, far_writer), self._pass_on(far_reader, writer))
        self._writers -= ends
        for end in ends:
            end.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(_CHUNK_BYTES):
            await self._passes.wait()
            writer.write(chunk)
            await writer.drain()
        writer.close()
