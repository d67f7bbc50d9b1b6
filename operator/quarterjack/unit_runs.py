"""The runs of a fan-out's units: what is seen of them goes into the ledger, and from there they are claimed, each once.

A unit is claimed only within a few seconds of a read of its part that shows its line to be claimed: an attempt after the first once
the line that says so is stored. Its claim and its Pod are kept until its end has been stored for minutes, so whatever dies, and
however many replicas think that this job is theirs, the claim decides.

Where runs must not overlap, of two fan-outs the one whose ledger came first (by the revision of its head, which never changes) goes
before: a unit that is open in a ledger that came first is skipped as its own ledger is made; and where that one was not there yet
when it was looked for, the unit waits for it. A claim is made only once all ledgers that came first are known.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from . import logs, names
from .api import Answer
from .attempts import LEDGER_LOST, concluded
from .decision import sighted, takeover_time, untold
from .errors import ApiError
from .ledger import Count, merged, startable
from .ledgers import Ledger, Ledgers, Part
from .model import Entry, Firings, Job, Policy, State
from .names import parent_of
from .signs import RUN_DELETED, silence
from .starter import Starter
from .store import Store
from .transport import TransportError
from .upkeep import Upkeep

log = logging.getLogger(__name__)

LETTERS_MOST = 20  # dead letters of a run that are shown in the job's history; its ledger has them all
_END_SECONDS = 1.0  # an end is stored so soon, with those that come meanwhile
_SEEN_SECONDS = 10.0  # that a unit has begun
_VERIFY_SECONDS = 3.0
_AGAIN_SECONDS = 3.0
_CLAIMS_MOST = 32  # a round
_CLAIMS_BUSY = 8  # while firings are launched
_TOGETHER = 16

Do = Callable[[], Coroutine[Any, Any, None]]


@dataclass(slots=True)
class Fan:
    """A run that is in its units, as the replica that looks after them knows it; the lines are by unit."""

    id: str  # of its line
    line: Entry
    ledger: Ledger | None = None
    lines: dict[str, Entry] = field(default_factory=dict)
    open: dict[str, Entry] = field(default_factory=dict)
    place: dict[str, Part] = field(default_factory=dict)
    due: dict[int, float] = field(default_factory=dict)  # by part: when it is to be written
    before: set[str] | None = None  # the runs whose ledgers came first, as far as they are not over
    told: Entry | None = None
    told_time: float = -math.inf
    trouble_time: float | None = None
    letters: list[Entry] = field(default_factory=list)
    tried: dict[str, float] = field(default_factory=dict)
    missing: dict[str, float] = field(default_factory=dict)  # Pods that no view shows, and since when that is seen

    def take(self, ledger: Ledger) -> None:
        """Begin with a ledger as it was read."""
        self.ledger = ledger
        for part in ledger.parts:
            self.adopt(part)

    def adopt(self, part: Part) -> None:
        """Take a part as it was read: of each line what knows more."""
        assert self.ledger is not None
        if part.number < len(self.ledger.parts):
            self.ledger.parts[part.number] = part
        if part.lost:
            self._lose(part.number)
        for unit, stored in part.lines.items():
            self.place[unit] = part
            known = self.lines.get(unit)
            line = stored if known is None else merged(stored, known)
            self.lines[unit] = line
            self._open(line)

    def _lose(self, number: int) -> None:
        for unit in [unit for unit, part in self.place.items() if part.number == number]:
            for known in (self.lines, self.open, self.place):
                known.pop(unit, None)

    def put(self, line: Entry, due: float) -> None:
        """A line is another now, and is to be stored by an instant."""
        self.lines[line.unit] = line
        self._open(line)
        number = self.place[line.unit].number
        self.due[number] = min(due, self.due.get(number, math.inf))

    def _open(self, line: Entry) -> None:
        if line.ended:
            self.open.pop(line.unit, None)
        else:
            self.open[line.unit] = line

    def stored(self, unit: str) -> Entry:
        """The line of a unit as it was last read or written."""
        return self.place[unit].lines[unit]

    @property
    def lost(self) -> int:
        """How many parts of the ledger are damaged, or gone."""
        return 0 if self.ledger is None else sum(part.lost for part in self.ledger.parts)

    @property
    def count(self) -> Count:
        """How many of the units are how far."""
        return Count.of(self.lines.values(), lost=self.lost)


class UnitRuns:
    """Runs units. `busy`: whether firings are being launched, which go first."""

    def __init__(
        self, store: Store, starter: Starter, upkeep: Upkeep, ledgers: Ledgers, *, busy: Callable[[], bool]
    ) -> None:
        self._store = store
        self._starter = starter
        self._upkeep = upkeep
        self._ledgers = ledgers
        self._busy = busy

    def see(self, job: Job, fan: Fan, now: float) -> None:
        """Bring the lines up to what is seen."""
        units, canceled = self._store.units_of(job.uid), self._store.asked.is_canceled(fan.id)
        for line in list(fan.open.values()):
            claim, pod = units.claims.get(line.id), units.pods.get(line.id)
            if canceled and claim is None and line.to_claim:
                outcome = RUN_DELETED
                end = replace(line, state=outcome.state, reason=outcome.reason, message=outcome.message)
                fan.put(replace(end, completed=int(now)), now)
                continue
            if pod is None and (claim is None or not (claim.outcome or claim.refusal)):
                continue
            seen = sighted(line, claim, pod)
            if seen is None or seen == line:
                continue
            last = concluded(seen, job.spec.retry)[-1] if seen.ended else seen
            fan.put(last, now + (_END_SECONDS if seen.ended else _SEEN_SECONDS))

    async def store(self, job: Job, fan: Fan, now: float) -> None:
        """Write the parts that are due."""
        for number in [number for number, due in fan.due.items() if due <= now]:
            await self._write(job, fan, number, now)

    async def _write(self, job: Job, fan: Fan, number: int, now: float) -> None:
        if fan.ledger is None:
            return
        part = fan.ledger.parts[number]
        lines = {unit: fan.lines[unit] for unit in part.lines}
        del fan.due[number]
        if lines == part.lines:
            return
        written: Part | Answer | None = await self._ledgers.write(job, fan.line, fan.ledger.head, part, lines)
        if written is None:
            fan.due[number] = now + _END_SECONDS
            written = await self._ledgers.read(job, fan.line, fan.ledger.head, number)
        if isinstance(written, Answer):
            return
        fan.adopt(written)
        self._note_ends(job, written)

    def _note_ends(self, job: Job, part: Part) -> None:
        """Their claims and Pods may go, after a while; those of a job that is gone go with it."""
        if job.uid not in self._store.jobs:
            return
        ended = {line.id for line in part.lines.values() if line.ended}
        earlier = (
            names.unit_key(line.id, line.unit, n) for line in part.lines.values() for n in range(1, line.attempt)
        )
        self._store.unit_ends.setdefault(job.uid, set()).update(ended, earlier)

    def note(self, job: Job, fan: Fan) -> None:
        """A ledger has been read: the ends that it tells of are stored."""
        for part in fan.ledger.parts if fan.ledger is not None else ():
            self._note_ends(job, part)

    def forget(self, job_uid: str, fan: Fan) -> None:
        """The run is over, or another replica looks after it."""
        ends = self._store.unit_ends.get(job_uid)
        if ends is None:
            return
        ends -= {key for key in ends if parent_of(key) == parent_of(fan.id)}
        if not ends:
            del self._store.unit_ends[job_uid]

    async def keep_up(self, job: Job, fan: Fan, now: float) -> None:
        """Take over what was left half-way, look for Pods that no view shows, and end what does not start or gives no sign of life."""
        units = self._store.units_of(job.uid)
        fan.tried = {key: when for key, when in fan.tried.items() if when + _AGAIN_SECONDS > now}
        acts = {
            key: act for key, when, act in self._needs(job, fan, units, now) if when <= now and key not in fan.tried
        }
        chosen = dict(islice(acts.items(), _TOGETHER))
        fan.tried |= dict.fromkeys(chosen, now)
        await asyncio.gather(*(_guarded(job, act()) for act in chosen.values()))

    def _needs(self, job: Job, fan: Fan, units: Firings, now: float) -> Iterable[tuple[str, float, Do]]:
        for line in list(fan.open.values()):
            claim, pod = units.claims.get(line.id), units.pods.get(line.id)
            if pod is not None:
                fan.missing.pop(line.id, None)
                if not pod.ended and pod.given_up is None:
                    yield (
                        line.id,
                        self._upkeep.attention_time(job, pod),
                        partial(self._upkeep.look_into, job, pod),
                    )
            elif not line.to_claim:
                since = fan.missing.setdefault(line.id, now)
                yield line.id, since + _VERIFY_SECONDS, partial(self._starter.verify, job, line)
            elif claim is not None and untold(claim, units.pods, {}):
                yield line.id, takeover_time(claim), partial(self._starter.take_over, claim)
        if self._store.asked.is_canceled(fan.id):
            for key, pod in units.pods.items():
                if parent_of(key) == parent_of(fan.id) and not pod.ended and not pod.deleting:
                    yield key, now, partial(self._upkeep.look_into, job, pod)

    async def claim(self, job: Job, fan: Fan, others: Mapping[str, Fan], now: float) -> bool:
        """Claim the units whose turn it is; whether there are more. `others`: the job's other runs in their units."""
        units = self._store.units_of(job.uid)
        parallel = job.spec.fan_out.parallel if job.spec.fan_out is not None else 1
        if fan.before is None and not await self._look_back(job, fan):
            return False
        free = [line for line in fan.open.values() if fan.stored(line.unit) == line or not line.to_claim]
        if job.spec.policy is not Policy.ALLOW:
            blocked = self._blocked(job, fan, others, now)
            if blocked is None:
                return False
            free = [line for line in free if not (line.to_claim and line.unit in blocked)]
        ready = startable(free, units.claims, most=parallel, now=now)
        if not ready or self._store.asked.is_canceled(fan.id):
            return False
        chosen = ready[: _CLAIMS_BUSY if self._busy() else _CLAIMS_MOST]
        if await self._starter.read_job(job.uid) is None or not self._is_open(job, fan):
            return False
        parts = {part.number: part for part in (fan.place.get(line.unit) for line in chosen) if part is not None}
        for part in parts.values():
            known = self._store.jobs.get(job.uid)
            if known is None:
                return False
            await self._claim_of_part(known, fan, part, [line.id for line in chosen])
        return len(ready) > len(chosen)

    async def _look_back(self, job: Job, fan: Fan) -> bool:
        """Find the ledgers that came first; and read the job after that, so that what is known of it tells of all their runs."""
        before = await self._ledgers.before(job, fan.ledger) if fan.ledger is not None else set()
        if await self._starter.read_job(job.uid) is None:
            return False
        fan.before = before
        return True

    def _is_open(self, job: Job, fan: Fan) -> bool:
        known, line = self._store.jobs.get(job.uid), self._store.entries(job.uid).get(fan.id)
        return known is not None and not known.deleting and line is not None and line.reason == fan.line.reason

    def _blocked(self, job: Job, fan: Fan, others: Mapping[str, Fan], now: float) -> set[str] | None:
        """The units that are open in ledgers that came first, or run on without one; None where one of these is not known yet."""
        entries, blocked = self._store.entries(job.uid), set[str]()
        fan.before = {key for key in fan.before or () if key in entries and not entries[key].ended}
        for key in fan.before:
            other = others.get(key)
            if other is None or other.ledger is None:
                return None
            blocked |= other.open.keys()
        return blocked | self.astray(job, fan, others, now).keys()

    def astray(self, job: Job, fan: Fan, others: Mapping[str, Fan], now: float) -> dict[str, Entry]:
        """The units that run on of runs that have lost their ledger, by those runs' lines: nothing but their Pods tells of them."""
        lines = [line for line in self._store.entries(job.uid).values() if line.ended and line.reason == LEDGER_LOST]
        lines += [other.line for other in others.values() if other.lost]
        lost = {parent_of(line.id): line for line in lines if parent_of(line.id) != parent_of(fan.id)}
        if not lost:
            return {}
        silent_since = now - job.spec.lease_seconds
        return {
            pod.unit: lost[parent_of(key)]
            for key, pod in self._store.units_of(job.uid).pods.items()
            if parent_of(key) in lost and not (pod.ended or pod.deleted) and silence(pod)[0] > silent_since
        }

    async def _claim_of_part(self, job: Job, fan: Fan, part: Part, chosen: list[str]) -> None:
        if fan.ledger is None:
            return
        read, date = await self._ledgers.dated(job, fan.line, fan.ledger.head, part.number)
        if isinstance(read, Answer) or date is None:
            return
        fan.adopt(read)
        room = asyncio.Semaphore(_TOGETHER)

        async def start(line: Entry) -> None:
            async with room:
                await _guarded(job, self._starter.unit(job, line, date=date))

        ready = [line for line in read.lines.values() if line.id in chosen and line.to_claim]
        await asyncio.gather(*(start(line) for line in ready if fan.lines[line.unit] == line))

    async def line_to_launch(self, job: Job, fan: Fan, key: str) -> Entry | None:
        """The line of a unit, where a read shows that it is to be claimed, or to be launched by whoever has claimed it."""
        line = next((line for line in fan.open.values() if line.id == key), None)
        if line is None or fan.ledger is None:
            return None
        read, _ = await self._ledgers.dated(job, fan.line, fan.ledger.head, fan.place[line.unit].number)
        if isinstance(read, Answer):
            return None
        fan.adopt(read)
        stored = read.lines.get(line.unit)
        return stored if stored is not None and stored.id == key and stored.to_claim else None


async def _guarded(job: Job, act: Coroutine[Any, Any, None]) -> None:
    try:
        await act
    except (ApiError, TransportError) as error:
        log.warning("a unit could not be seen to: %s", error, extra=logs.of_job(job))


def letters_of(lines: Iterable[Entry]) -> list[Entry]:
    """The dead letters that the history shows: the first that were given up."""
    dead = [line for line in lines if line.state is State.DEAD_LETTERED]
    return sorted(dead, key=lambda line: (line.completed or line.scheduled, line.id))[:LETTERS_MOST]
