"""A replica that stops itself (SIGSTOP) between deciding and sending: `STOP_BEFORE=claim` or `pod`, once, the first time.

It is the operator's own `main`; only its transport is wrapped, and what the wrapper does is what a suspended machine does.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager

import orjson

from quarterjack.__main__ import main
from quarterjack.transport import Response, StreamAnswer, Transport

KINDS = {"claim": "/leases", "pod": "/pods"}


class StopsBefore:
    """Stops the process before the first create of a kind that carries a firing."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._path_end = KINDS[os.environ["STOP_BEFORE"]]

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
        """Pass on, but for the one."""
        if method == "POST" and path.endswith(self._path_end) and "dryRun" not in query and self._has_firing(body):
            self._path_end = "never again"
            os.kill(os.getpid(), signal.SIGSTOP)
        return await self._transport.request(
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout_seconds=timeout_seconds,
        )

    @staticmethod
    def _has_firing(body: bytes) -> bool:
        return "quarterjack.dev/firing" in (orjson.loads(body)["metadata"].get("labels") or {})

    def stream(
        self, path: str, *, query: Mapping[str, str], accept: str, silence_seconds: float
    ) -> AbstractAsyncContextManager[StreamAnswer]:
        """Pass on."""
        return self._transport.stream(path, query=query, accept=accept, silence_seconds=silence_seconds)


if __name__ == "__main__":
    sys.exit(main(wrap=StopsBefore))
