"""One timer for all jobs: a heap of the instants at which a job wants attention. No task, timer or daemon per job."""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections.abc import Callable
from itertools import count

from .clock import ServerClock

log = logging.getLogger(__name__)

_SLICE = 200  # jobs attended before others on the loop get their turn
_LONGEST_SECONDS = 30.0  # a clock that was set is noticed after so long
_SET_BACK_SECONDS = 2.0  # by less, the estimate of the server's clock may change
STALL_SECONDS = 2.0
_SUPERSEDED_MOST = 1000


class Agenda:
    """When each job wants attention next, on the server's clock. `set_back`: called where that clock goes back."""

    def __init__(
        self, clock: ServerClock, attend: Callable[[str], None], *, set_back: Callable[[], None] | None = None
    ) -> None:
        self._clock = clock
        self._attend = attend
        self._set_back = set_back
        self._now = float("-inf")
        self._heap: list[tuple[float, int, str]] = []
        self._times: dict[str, tuple[float, int]] = {}
        self._numbers = count()
        self._changed = asyncio.Event()
        self._ran_time = 0.0
        self.lag_seconds = 0.0

    def __len__(self) -> int:
        return len(self._times)

    def set(self, uid: str, when: float) -> None:
        """Attend to a job at an instant: in the place of what was set before."""
        known = self._times.get(uid)
        if known is not None and known[0] == when:
            return
        number = next(self._numbers)
        self._times[uid] = when, number
        if len(self._heap) > 2 * len(self._times) + _SUPERSEDED_MOST:
            self._drop_superseded()
        else:
            heapq.heappush(self._heap, (when, number, uid))
        if self._heap[0][1] == number:
            self._changed.set()

    def _drop_superseded(self) -> None:
        """Entries that were set anew leave the heap when their time comes: which may be in a year."""
        self._heap = [(when, number, uid) for uid, (when, number) in self._times.items()]
        heapq.heapify(self._heap)

    def bring_forward(self, uid: str, when: float) -> None:
        """Attend to a job at an instant, or earlier where that is set."""
        known = self._times.get(uid)
        if known is None or when < known[0]:
            self.set(uid, when)

    def drop(self, uid: str) -> None:
        """Attend no more."""
        self._times.pop(uid, None)

    async def run(self) -> None:
        """Attend to each job when its time has come, never before. An early wake sleeps again, a late one goes on at once."""
        while True:
            self._changed.clear()
            now = self._clock.now()
            if now < self._now - _SET_BACK_SECONDS:
                self._start_over(now)
            self._now = now
            self.lag_seconds = max(0.0, now - self._heap[0][0]) if self._heap else 0.0
            if self._attend_due(now):
                await asyncio.sleep(0)
                continue
            delay = min(_LONGEST_SECONDS, self._heap[0][0] - now) if self._heap else _LONGEST_SECONDS
            try:
                async with asyncio.timeout(delay):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _start_over(self, now: float) -> None:
        """The clock had gone ahead, and is right again: no instant that was set meanwhile means anything."""
        log.warning("the clock went back by %.1f s: all is looked at again", self._now - now)
        if self._set_back is not None:
            self._set_back()
        for uid in list(self._times):
            self.set(uid, now)

    def _attend_due(self, now: float) -> int:
        attended = 0
        while self._heap and self._heap[0][0] <= now and attended < _SLICE:
            when, number, uid = heapq.heappop(self._heap)
            if self._times.get(uid) != (when, number):
                continue  # was set anew
            del self._times[uid]
            self._attend(uid)
            attended += 1
        return attended
