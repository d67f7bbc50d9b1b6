"""What a replica holds, and what a cluster does: counted, so that a test can say that nothing grows."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Set
from types import MethodType
from typing import Any

from prometheus_client import CollectorRegistry

from quarterjack.replica import Replica

from .actors import objects
from .resources import EVENTS, JOBS, LEASES, PODS, RUNS
from .scrape import scrape
from .server import MemoryApi

_PACKAGE = "quarterjack."
# The transport is the test's; what upkeep has tried is cut back where it has come to a thousand.
_LEFT_OUT = frozenset({"_transport", "_tried"})


def holdings(replica: Replica) -> Counter[str]:
    """The length of every collection that can be reached from a replica, by the path to it; those within others are summed up."""
    counts: Counter[str] = Counter()
    seen: set[int] = set()
    left: list[tuple[str, object]] = [("replica", replica)]
    while left:
        path, held = left.pop()
        if id(held) in seen:
            continue
        seen.add(id(held))
        if isinstance(held, Mapping | Set | list | deque) and held:
            counts[path] += len(held)
        left.extend(_within(path, held))
    return counts


def _within(path: str, held: object) -> Iterator[tuple[str, object]]:
    if isinstance(held, Mapping):
        for value in tuple(held.values()):
            yield f"{path}[]", value
    elif isinstance(held, list | tuple | set | frozenset | deque):
        for value in tuple(held):
            yield f"{path}[]", value
    elif isinstance(held, asyncio.Task):
        yield path, None
    elif isinstance(held, MethodType):
        yield path, held.__self__  # of a part that is reached in no other way
    elif type(held).__module__.startswith(_PACKAGE) or type(held) is CollectorRegistry:
        for name, value in _attributes(held):
            yield f"{path}.{name}", value


def _attributes(held: object) -> Iterator[tuple[str, Any]]:
    names = [name for kind in type(held).__mro__ for name in getattr(kind, "__slots__", ())]
    for name in (*names, *getattr(held, "__dict__", {})):
        if name not in _LEFT_OUT and hasattr(held, name):
            yield name, getattr(held, name)


def series(replica: Replica) -> int:
    """The metric series that a scrape of a replica brings."""
    return sum(len(metric.samples) for metric in scrape(replica))


def kept(api: MemoryApi) -> dict[str, int]:
    """The objects that a cluster holds, by plural."""
    return {resource.plural: len(objects(api, resource)) for resource in (JOBS, RUNS, LEASES, PODS, EVENTS)}


def grown(before: Mapping[str, int], after: Mapping[str, int], *, give: int = 8) -> dict[str, tuple[int, int]]:
    """What is more than it was, by more than what happens to be under way."""
    return {name: (before.get(name, 0), count) for name, count in after.items() if count > before.get(name, 0) + give}
