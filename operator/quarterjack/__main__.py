"""`python -m quarterjack`: one replica, until SIGTERM."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import sys
from collections.abc import Callable, Sequence

import uvloop

from . import handlers, logs
from .clock import SystemClock
from .cluster import Credentials, HttpTransport
from .errors import QuarterjackError
from .probes import serving
from .replica import Replica
from .settings import Settings, read_settings
from .transport import Transport

log = logging.getLogger("quarterjack")

_GARBAGE_AT_ONCE = 50_000


def main(arguments: Sequence[str] | None = None, *, wrap: Callable[[Transport], Transport] = lambda t: t) -> int:
    """Run a replica; the exit code. `wrap` may put something between the engine and the API server."""
    try:
        settings = read_settings(sys.argv[1:] if arguments is None else arguments)
        logs.set_up(style=settings.log_format, level=settings.log_level)
        credentials = Credentials(kubeconfig=settings.kubeconfig, context=settings.context, insecure=settings.insecure)
        _spare_collections()
        return uvloop.run(serve(settings, credentials, wrap))
    except QuarterjackError as error:
        print(f"quarterjack: {error}", file=sys.stderr)  # noqa: T201
        return 2


def _spare_collections() -> None:
    """What was imported stays, and views hold very many objects, of which few go in cycles: look for those seldom."""
    gc.freeze()
    gc.set_threshold(_GARBAGE_AT_ONCE, 20, 20)


async def serve(settings: Settings, credentials: Credentials, wrap: Callable[[Transport], Transport]) -> int:
    """Run until a signal (0) or until a part ends that must not (1)."""
    stop = asyncio.Event()
    _heed_signals(stop)
    transport = HttpTransport(credentials, connections=2 * settings.in_flight + 16)
    try:
        replica = Replica(wrap(transport), SystemClock(), settings)
        async with serving(replica, settings.listen) as port:
            log.info("replica %s serves %s on port %d", replica.name, credentials.host, port)
            return await _run(replica, credentials, settings, stop)
    except OSError as error:
        raise QuarterjackError(f"--listen {settings.listen}: {error}") from error
    finally:
        await transport.close()


def _heed_signals(stop: asyncio.Event) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)


async def _run(replica: Replica, credentials: Credentials, settings: Settings, stop: asyncio.Event) -> int:
    parts = asyncio.create_task(replica.run())
    feed_stop = asyncio.Event()
    feed = asyncio.create_task(
        handlers.run(
            replica.feed,
            replica.requests,
            credentials,
            settings.watch_namespaces,
            feed_stop,
            lambda: _heed_signals(stop),
        )
    )
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait({parts, feed, stopping}, return_when=asyncio.FIRST_COMPLETED)
    failed = not stopping.done()
    if failed:
        log.error("a part has ended that must not")
    for left in await replica.shut_down():
        log.warning("left undone: %s", left)
    feed_stop.set()
    parts.cancel()
    stopping.cancel()
    results = await asyncio.gather(parts, feed, stopping, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            log.error("ended: %s", result, exc_info=result)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
