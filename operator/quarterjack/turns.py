"""Whose turn it is to start a firing that is due.

Every replica hears of every due firing, in the same order. A replica's own firings (those for which it ranks first) start at once.
Those of another wait: for its claim; or until it has been silent for 300 ms, then the next in rank has them; or until this
replica has nothing else to do, then it helps from the far end, a few at a time.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from . import logs
from .clock import ServerClock
from .membership import is_silent
from .model import Claim
from .names import run_key
from .store import Store
from .windows import ON_TIME_SECONDS

log = logging.getLogger(__name__)

SILENCE_SECONDS = 0.3
_POLL_SECONDS = 0.05
_BACKLOG_SECONDS = 0.25  # what a live replica has not claimed for so long may be helped with
_HELP_MOST = 4
_HELP_PAUSE_SECONDS = 0.1
_LOSS_PAUSE_SECONDS = 0.5
_SLOW_CREATES = 4
_SLOWNESS_MOST_SECONDS = 2.0
_CALM_CREATE_SECONDS = 0.25  # where creates take longer, more of them at a time only wait longer, up to their timeout
_IN_FLIGHT_LEAST = 4
_AGAIN_SECONDS = 0.5
_GIVE_UP_SECONDS = ON_TIME_SECONDS - 3


@dataclass(frozen=True, slots=True)
class Due:
    """A firing whose time has come. `start`: when it should start (jitter included), epoch seconds."""

    uid: str
    firing: int
    start: float
    generation: int
    careful: bool = False

    @property
    def key(self) -> tuple[str, int]:
        """Its identity."""
        return self.uid, self.firing

    @property
    def run(self) -> str:
        """The key of its run."""
        return run_key(self.firing)


@dataclass(slots=True)
class Waiting:
    """A firing that waits for a replica that comes before us."""

    due: Due
    ranks: tuple[str, ...]
    place: int  # of the replica that we wait for
    since: float


class Turns:
    """The queue of due firings of one replica."""

    def __init__(
        self,
        replica: str,
        store: Store,
        clock: ServerClock,
        *,
        ranks: Callable[[str], tuple[str, ...]],
        start: Callable[[Due], Awaitable[bool]],
        create_seconds: Callable[[], float],
        lost: Callable[[], int],
        in_flight: int,
    ) -> None:
        self._replica = replica
        self._store = store
        self._clock = clock
        self._ranks = ranks
        self._start = start
        self._create_seconds = create_seconds
        self._lost = lost
        self._lost_before = 0
        self._in_flight_most = in_flight
        self._own: list[
            tuple[float, int, Due]
        ] = []  # a heap: those that have waited longest are the next to be too late
        self._numbers = count()
        self._others: dict[str, OrderedDict[tuple[str, int], Waiting]] = {}
        self._leaders: dict[tuple[str, int], str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._poll: asyncio.TimerHandle | None = None
        self._no_help_until = 0.0
        self._closed = False
        store.on_claim.append(self._claimed)

    def __len__(self) -> int:
        return len(self._own) + len(self._leaders)

    @property
    def busy(self) -> bool:
        """Whether launches are under way or waiting, here or with another replica: other writes yield to them."""
        return bool(self._own or self._leaders) or len(self._tasks) > self._in_flight_most // 4

    @property
    def under_way(self) -> int:
        """Launches that have been begun and not ended."""
        return len(self._tasks)

    def add(self, due: Due) -> None:
        """Take a firing that is due."""
        ranks = self._ranks(due.uid)
        if self._closed or due.key in self._leaders:
            return
        place = self._next(ranks, 0)
        if not ranks or ranks[place] == self._replica or self._replica not in ranks:
            self._take(due if place == 0 else replace(due, careful=True))
            self._fill()
        else:
            self._wait(Waiting(due, ranks, place, self._now()))

    async def close(self) -> None:
        """Start nothing more, and finish the launches that are under way."""
        self._closed = True
        self._own.clear()
        self._others.clear()
        self._leaders.clear()
        if self._poll is not None:
            self._poll.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)

    def _next(self, ranks: tuple[str, ...], place: int) -> int:
        """The first place from here on that is ours, or of a replica that has not been silent for long."""
        while place < len(ranks) - 1 and ranks[place] != self._replica and is_silent(self._store, ranks[place]):
            place += 1
        return place

    def _now(self) -> float:
        return asyncio.get_running_loop().time()

    def _claimed(self, claim: Claim) -> None:
        if claim.key == run_key(claim.firing):
            self._remove((claim.job_uid, claim.firing))

    def _remove(self, key: tuple[str, int]) -> None:
        leader = self._leaders.pop(key, None)
        if leader is not None:
            self._others[leader].pop(key, None)
            if not self._others[leader]:
                del self._others[leader]

    def _wait(self, waiting: Waiting) -> None:
        leader = waiting.ranks[waiting.place]
        self._others.setdefault(leader, OrderedDict())[waiting.due.key] = waiting
        self._leaders[waiting.due.key] = leader
        if self._poll is None:
            self._poll = asyncio.get_running_loop().call_later(_POLL_SECONDS, self._look_around)

    def _take(self, due: Due) -> None:
        heapq.heappush(self._own, (due.start, next(self._numbers), due))

    def _fill(self) -> None:
        """Start own firings as far as requests may be in flight."""
        while self._own and len(self._tasks) < self._room() and not self._closed:
            _, _, due = heapq.heappop(self._own)
            if due.run in self._store.firings_of(due.uid).claims or self._is_too_late(due):
                continue
            task = asyncio.get_running_loop().create_task(self._run(due))
            self._tasks.add(task)
            task.add_done_callback(partial(self._done, due))

    def _room(self) -> int:
        """How many launches may be under way: fewer where the API server is slow."""
        calm = self._in_flight_most * _CALM_CREATE_SECONDS / max(_CALM_CREATE_SECONDS, self._create_seconds())
        return max(min(_IN_FLIGHT_LEAST, self._in_flight_most), int(calm))

    def _is_too_late(self, due: Due) -> bool:
        """Whether the fence would most likely refuse it: it is settled as a late one, and others behind it are still in time."""
        return self._clock.now() > due.start + _GIVE_UP_SECONDS

    def _done(self, due: Due, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            fields = logs.of_job(self._store.jobs.get(due.uid)) | {"firing": str(due.firing)}
            log.error("a firing failed", exc_info=task.exception(), extra=fields)
        self._fill()

    async def _run(self, due: Due) -> None:
        again = await self._start(due)
        if again and not self._is_too_late(due):
            asyncio.get_running_loop().call_later(_AGAIN_SECONDS, self._retry, due)

    def _retry(self, due: Due) -> None:
        if not self._closed:
            self._take(due)
            self._fill()

    def _look_around(self) -> None:
        """Every 50 ms while firings wait for other replicas."""
        self._poll = None
        now = self._now()
        # Where creates are slow for us they are slow for all: taking another's firings then only doubles the load.
        slowness = min(_SLOW_CREATES * self._create_seconds(), _SLOWNESS_MOST_SECONDS)
        self._heed_losses(now)
        for leader in list(self._others):
            waiting = next(iter(self._others[leader].values()))
            member = self._store.members.get(leader)
            sign = max(waiting.since, member.sign_time if member is not None else 0.0)
            if is_silent(self._store, leader) or now - sign >= max(SILENCE_SECONDS, slowness):
                self._inherit(leader, now)
            elif not self._own and now >= self._no_help_until and self._is_behind(waiting, now, slowness):
                self._help(leader)
        if self._others and self._poll is None and not self._closed:
            self._poll = asyncio.get_running_loop().call_later(_POLL_SECONDS, self._look_around)

    def _is_behind(self, waiting: Waiting, now: float, slowness: float) -> bool:
        return now - waiting.since >= max(_BACKLOG_SECONDS, slowness)

    def _heed_losses(self, now: float) -> None:
        """Claims that others had already made say that help is not needed now."""
        lost = self._lost()
        if lost > self._lost_before:
            self._no_help_until = now + _LOSS_PAUSE_SECONDS
        self._lost_before = lost

    def _inherit(self, leader: str, now: float) -> None:
        """A replica is silent: its firings go to the next in rank. It may have been told what we have not, so the job is read."""
        for key, waiting in self._others.pop(leader).items():
            del self._leaders[key]
            if self._is_too_late(waiting.due):
                continue
            place = self._next(waiting.ranks, waiting.place + 1)
            if waiting.ranks[place] == self._replica:
                self._take(replace(waiting.due, careful=True))
            else:
                self._wait(Waiting(waiting.due, waiting.ranks, place, now))
        self._fill()

    def _help(self, leader: str) -> None:
        """A live replica is behind and we are not: take a few of its firings, those that it would come to last.

        It may also know better: the job is read before.
        """
        room = min(_HELP_MOST, self._room() - len(self._tasks))
        for _ in range(min(room, len(self._others[leader]))):
            key, waiting = self._others[leader].popitem(last=True)
            del self._leaders[key]
            self._take(replace(waiting.due, careful=True))
        if not self._others[leader]:
            del self._others[leader]
        self._no_help_until = self._now() + _HELP_PAUSE_SECONDS
        self._fill()
