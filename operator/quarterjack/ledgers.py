"""Ledgers in the API server: created once, read as they are now, and changed only at the revision that was read.

A ledger exists once its head does. What is created before that, and left by a crash, has names that only the same units have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from . import logs, names
from .api import CONFIG_MAPS, Answer, Api, Ending, object_path
from .ledger import (
    Head,
    head_manifest,
    head_name,
    part_data,
    part_manifest,
    part_name,
    read_head,
    read_part,
)
from .model import Entry, Job

log = logging.getLogger(__name__)

_TOGETHER = 4
_THERE = frozenset({Ending.DONE, Ending.EXISTS})


@dataclass(slots=True)
class Part:
    """A part of a ledger as it was last read or written: the line of each of its units. `lost`: it is damaged, or gone."""

    number: int
    uid: str = ""
    revision: int = 0
    lines: dict[str, Entry] = field(default_factory=dict)
    lost: bool = False


@dataclass(slots=True)
class Ledger:
    """A ledger that exists. Of two the one with the lower revision came first."""

    head: Head
    revision: int
    parts: list[Part]


class Ledgers:
    """The ledgers of jobs. `parent` is everywhere the line of the attempt that has planned the units."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def open(self, job: Job, parent: Entry) -> Ledger | Answer:
        """The ledger as it is now; an answer of ABSENT where there is none, and any other where it cannot be read."""
        answer = await self._api.get(object_path(CONFIG_MAPS, job.namespace, head_name(job, parent)))
        if not answer.done:
            return answer
        head = read_head(answer.document)
        if head is None:
            return Ledger(Head(0, ()), 0, [Part(0, lost=True)])
        room = asyncio.Semaphore(_TOGETHER)

        async def read(number: int) -> Part | Answer:
            async with room:
                return await self.read(job, parent, head, number)

        read_parts = await asyncio.gather(*(read(number) for number in range(head.parts)))
        parts: list[Part] = []
        for part in read_parts:
            if isinstance(part, Answer):
                return part
            parts.append(part)
        return Ledger(head, int(answer.document["metadata"]["resourceVersion"]), parts)

    async def read(self, job: Job, parent: Entry, head: Head, number: int) -> Part | Answer:
        """A part as it is now."""
        return (await self.dated(job, parent, head, number))[0]

    async def dated(self, job: Job, parent: Entry, head: Head, number: int) -> tuple[Part | Answer, int | None]:
        """A part as it is now, and when that was, by the server's clock."""
        answer = await self._api.get(object_path(CONFIG_MAPS, job.namespace, part_name(job, parent, head, number)))
        if answer.ending is Ending.ABSENT:
            return Part(number, lost=True), answer.date
        if not answer.done:
            return answer, None
        return _part(answer, parent, head, number), answer.date

    async def create(self, job: Job, parent: Entry, head: Head, lines: Iterable[list[Entry]]) -> Ledger | Answer:
        """Make the ledger with this head, or find that it is there. `lines`: of each part."""
        path, room = CONFIG_MAPS.format(job.namespace), asyncio.Semaphore(_TOGETHER)

        async def make(number: int, of_part: list[Entry]) -> Answer:
            async with room:
                return await self._api.create(
                    path, part_manifest(job, parent, head, number, of_part), metadata_only=True
                )

        answers = await asyncio.gather(*(make(number, of_part) for number, of_part in enumerate(lines)))
        for answer in answers:
            if answer.ending not in _THERE:
                return answer
        answer = await self._api.create(path, head_manifest(job, parent, head), metadata_only=True)
        return await self.open(job, parent) if answer.ending in _THERE else answer

    async def write(self, job: Job, parent: Entry, head: Head, part: Part, lines: Mapping[str, Entry]) -> Part | None:
        """A part with these lines, at its revision; None where it was not written: it is to be read before it is tried again."""
        document: dict[str, Any] = {
            "metadata": {"uid": part.uid, "resourceVersion": str(part.revision)},
            "data": part_data(lines.values()),
        }
        path = object_path(CONFIG_MAPS, job.namespace, part_name(job, parent, head, part.number))
        answer = await self._api.patch(path, document, metadata_only=True)
        if not answer.done:
            log.info("the ledger was not written: %s %s", answer.ending, answer.message, extra=logs.of_job(job))
            return None
        return Part(part.number, part.uid, int(answer.document["metadata"]["resourceVersion"]), dict(lines))

    async def before(self, job: Job, ledger: Ledger) -> set[str]:
        """The runs, by the keys of the attempts that have planned, whose ledgers came before this one; as of `list`."""
        selector = f"{names.LABEL_JOB_UID}={job.uid},{names.LABEL_ROLE}={names.ROLE_LEDGER}"
        path = CONFIG_MAPS.format(job.namespace)
        listing = await self._api.list(path, query={"labelSelector": selector}, metadata_only=True)
        metas = [item["metadata"] for item in listing.items]
        earlier = [meta for meta in metas if int(meta["resourceVersion"]) < ledger.revision]
        return {meta["labels"].get(names.LABEL_LEDGER, "") for meta in earlier}


def _part(answer: Answer, parent: Entry, head: Head, number: int) -> Part:
    meta, lines = answer.document["metadata"], read_part(answer.document, parent, head, number)
    if lines is None:
        return Part(number, lost=True)
    return Part(number, meta["uid"], int(meta["resourceVersion"]), {line.unit: line for line in lines})
