"""Fan-outs, and everything at once by chance: the same chances for the same seed."""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest

from .actors import End
from .engine import Scene, play
from .fan_out import Crowd, print_plans, runs
from .statuses import Document
from .test_engine_chaos import CALM_SECONDS, Disturber
from .witness import Violation

# It goes again and again where other tests have been: coverage would double its time, and tell nothing.
pytestmark = pytest.mark.no_cover

UNITS = ["acme", "globex", "initech", "umbrella"]
FIXED = {"units": UNITS, "maxParallel": 3}
PLANNED = {"plan": {"command": ["list"]}}
AGAIN = {"maxRetries": 1, "delay": "3s"}
JOBS: dict[str, dict[str, Any]] = {
    "planned": {"fanOut": PLANNED},
    "planned-again": {"fanOut": PLANNED, "retry": AGAIN},
    "planned-replace": {"fanOut": PLANNED, "concurrencyPolicy": "Replace"},
    "fixed": {"fanOut": FIXED, "retry": AGAIN, "schedule": "*/30 * * * * *"},
    "fixed-catch-up": {"fanOut": FIXED, "misfirePolicy": "CatchUp", "catchUpLimit": 3},
}


def fails(meta: Document) -> bool:
    """A third of all Pods."""
    return crc32(meta["name"].encode()) % 3 == 0


def incomplete(scene: Scene) -> Iterator[str]:
    """Runs that say of another number of units than they had."""
    for name in JOBS:
        for run in runs(scene, name):
            said = re.search(r" of (\d+) units? succeeded", run.get("message", ""))
            if said is not None and int(said[1]) != len(UNITS):
                yield f"{name}: {run}"


async def chaos(seed: int) -> None:
    scene = Scene()
    seconds = random.Random(seed).choice([1.0, 8.0, 70.0])
    scene.kubelet.ends = lambda pod: End(seconds, "Failed" if fails(pod["metadata"]) else "Succeeded")
    print_plans(scene, "\n".join(UNITS))
    for name, spec in JOBS.items():
        scene.job(name, leaseDuration="1m", **spec)
    crowd = Crowd(scene)
    disturber = Disturber(scene, seed, JOBS)
    await disturber.disturb(600)
    disturber.relent()
    await asyncio.sleep(CALM_SECONDS + 6 * seconds)
    try:
        scene.witness.check(
            calm_seconds=180 + 6 * seconds
        )  # a plan, and its units one after another, with their attempts
        assert list(incomplete(scene)) == []
        assert crowd.most > 3
    except AssertionError as error:
        raise Violation(f"seed {seed}: {error}\nafter\n" + "\n".join(disturber.done)) from None


@pytest.mark.parametrize("seed", range(6))
def test_no_unit_doubles_and_none_is_lost_whatever_goes_wrong(seed: int) -> None:
    play(lambda: chaos(seed))
