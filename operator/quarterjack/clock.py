"""Time as the engine sees it: a wall clock, and the API server's clock estimated from it.

Waits are measured with the event loop's monotonic clock. Due times are on the server's clock: a replica whose own clock is
off still starts its firings when the server, which fences them, says that it is time.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

MEMORY_SECONDS = 300.0


class Clock(Protocol):
    """The replica's own wall clock."""

    def wall(self) -> float:
        """Seconds since the epoch."""
        ...


class SystemClock:
    """The wall clock of this machine."""

    def wall(self) -> float:
        """Seconds since the epoch."""
        return time.time()


class ServerClock:
    """The API server's clock, from the Date headers of its answers.

    A Date header is cut to whole seconds, so one answer bounds the offset to [date - received, date + 1 - sent]. The bounds of
    the last five minutes are intersected, and the offset nearest to zero within them is taken: clocks that agree need no
    correction, and one that jumped is believed after five minutes at the latest, at once where its bounds exclude the old ones.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._bounds: deque[tuple[float, float, float]] = deque(maxlen=64)  # monotonic time, low, high
        self._last_kept = float("-inf")
        self.offset_seconds = 0.0

    def wall(self) -> float:
        """The replica's own clock, uncorrected."""
        return self._clock.wall()

    def now(self) -> float:
        """The server's time, in seconds since the epoch."""
        return self._clock.wall() + self.offset_seconds

    def learn(self, date: str | None, *, sent: float, received: float) -> None:
        """Take the Date header of an answer; `sent` and `received` are readings of `wall`."""
        if not date:
            return
        try:
            stamp = parsedate_to_datetime(date).timestamp()
        except (TypeError, ValueError):
            return
        low, high = stamp - received, stamp + 1 - sent
        monotonic = asyncio.get_running_loop().time()
        fits = low <= self.offset_seconds <= high
        if fits and monotonic - self._last_kept < MEMORY_SECONDS / 64:
            return
        if not fits:
            self._bounds = deque((b for b in self._bounds if b[1] <= high and low <= b[2]), maxlen=64)
        self._last_kept = monotonic
        self._bounds.append((monotonic, low, high))
        self._estimate(monotonic)

    def at_most(self, offset_seconds: float) -> None:
        """Take an offset for a bound: the server has shown that it is not further ahead of the replica's clock."""
        monotonic = asyncio.get_running_loop().time()
        offset = max([offset_seconds, *(low for _, low, _ in self._bounds)])
        self._bounds.append((monotonic, float("-inf"), offset))
        self._estimate(monotonic)

    def _estimate(self, monotonic: float) -> None:
        while self._bounds[0][0] < monotonic - MEMORY_SECONDS:
            self._bounds.popleft()
        low = max(b[1] for b in self._bounds)
        high = min(b[2] for b in self._bounds)
        if low > high:
            _, low, high = self._bounds[-1]
        self.offset_seconds = min(max(0.0, low), high)


def rfc3339(epoch: float) -> str:
    """An instant as the API writes it: whole seconds, UTC."""
    return datetime.fromtimestamp(int(epoch), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def micro_time(epoch: float) -> str:
    """An instant as Leases and Events write it: microseconds, UTC."""
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def epoch_of(text: str) -> int:
    """The epoch second of an RFC 3339 text, cut to whole seconds; ValueError where it is none."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"not an RFC 3339 time with a zone: {text!r}")
    return int(moment.timestamp())


def http_date_epoch(date: str | None) -> int | None:
    """The epoch second of a Date header, None where there is none."""
    if not date:
        return None
    try:
        return int(parsedate_to_datetime(date).timestamp())
    except (TypeError, ValueError):
        return None
