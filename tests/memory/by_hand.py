"""Runs by hand as those who ask for them see them."""

from __future__ import annotations

from .actors import read
from .engine import Scene
from .resources import RUNS
from .statuses import Document


def run_of(scene: Scene, name: str = "run") -> Document:
    """The status of a ScheduledJobRun; empty until it is seen."""
    document = read(scene.api, RUNS, name)
    assert document is not None, f"no run {name}"
    status: Document = document.get("status") or {}
    return status


def state_of(scene: Scene, name: str = "run") -> str:
    return str(run_of(scene, name).get("state", ""))


def by_hand(scene: Scene) -> list[Document]:
    """The lines of runs by hand, the oldest first."""
    lines = reversed(scene.status().get("history") or [])
    return [line for line in lines if line["trigger"] == "Manual"]


async def until_over(scene: Scene, *runs: str) -> None:
    await scene.until(lambda: all(run_of(scene, run).get("completionTime") for run in runs), at_most=120)
