"""Fan-outs: jobs with units, what their plans print, and what became of each unit."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import orjson

from quarterjack import names

from .actors import End, objects
from .engine import Scene
from .ledger import Entry
from .resources import CONFIG_MAPS, PODS
from .statuses import Document
from .store import Change

ONCE_A_DAY = "1 9 * * *"
PLAN = {"command": ["list-tenants"]}


def fan_out(scene: Scene, *units: str, name: str = "job", parallel: int = 100, **spec: Any) -> str:
    """Create a job with these units, always the same; its UID."""
    of_units = {"units": list(units), "maxParallel": parallel}
    return scene.job(name, **{"schedule": ONCE_A_DAY, "fanOut": of_units} | spec)


def planned(scene: Scene, *outputs: str, name: str = "job", parallel: int = 100, **spec: Any) -> str:
    """Create a job whose plans print these, one after the other; the last output stays. Its UID."""
    print_plans(scene, *outputs)
    return scene.job(name, **{"schedule": ONCE_A_DAY, "fanOut": {"plan": PLAN, "maxParallel": parallel}} | spec)


def print_plans(scene: Scene, *outputs: str, warnings: str = "") -> None:
    """What plans print from now on; `warnings`: to their standard error."""
    left = list(outputs)

    def on_change(change: Change) -> None:
        if change.before is None and names.PLAN in change.after.document["metadata"]["annotations"]:
            scene.api.logs[change.key] = left.pop(0) if len(left) > 1 else left[0]
            scene.api.warnings[change.key] = warnings

    scene.api.store.tables[PODS].listeners[id(print_plans)] = on_change


def ends(scene: Scene, usual: End, **others: End) -> None:
    """How the Pods of units end, by unit; `plan`: how those of plans do."""
    others.setdefault("plan", End(1.0))
    scene.kubelet.ends = lambda pod: others.get(unit_of(pod) or "plan", usual)


def unit_of(pod: Document) -> str:
    """The unit that a Pod runs; empty where it is a plan's."""
    return str(pod["metadata"]["annotations"].get(names.UNIT, ""))


def environment_of(pod: Document) -> dict[str, str]:
    """What a Pod's first container is told."""
    return {line["name"]: line["value"] for line in pod["spec"]["containers"][0]["env"]}


def made(scene: Scene) -> list[Entry]:
    """The Pods of units that were ever made."""
    return [pod for pod in scene.api.ledger.pods if pod.unit]


def plans(scene: Scene) -> list[Entry]:
    """All other Pods that were ever made."""
    return [pod for pod in scene.api.ledger.pods if not pod.unit]


def times_made(scene: Scene) -> Counter[str]:
    """How often each unit had a Pod."""
    return Counter(pod.unit for pod in made(scene))


def ledger_lines(scene: Scene) -> list[Document]:
    """What the ledgers say of each unit."""
    parts = [part["data"].get("units", "") for part in objects(scene.api, CONFIG_MAPS)]
    return [{"state": "Pending"} | orjson.loads(text) for part in parts for text in part.splitlines()]


def unit_states(scene: Scene) -> dict[str, str]:
    """What the ledgers say of each unit, where each is in one of them."""
    return {line["unit"]: line["state"] for line in ledger_lines(scene)}


def runs(scene: Scene, name: str = "job") -> list[Document]:
    """The lines of a job's runs, the oldest first; without those of dead letters."""
    lines = reversed(scene.status(name).get("history") or [])
    return [line for line in lines if not names.is_unit_key(line["id"])]


def letters(scene: Scene, name: str = "job") -> list[Document]:
    """The lines of dead letters in a job's history."""
    return [line for line in scene.status(name).get("history") or [] if names.is_unit_key(line["id"])]


def are_over(scene: Scene, number: int = 1, name: str = "job") -> bool:
    """Whether so many runs of a job have ended, and no other is under way."""
    lines = runs(scene, name)
    over = all(line["state"] not in ("Pending", "Running") for line in lines)
    return over and len({names.run_of(line["id"]) for line in lines}) == number


async def seen_out(scene: Scene, number: int = 1, *, at_most: float, calm: float = 5) -> Scene:
    """The scene once so many runs are over, and nothing has gone wrong for some seconds after."""
    await scene.until(lambda: are_over(scene, number), at_most=at_most)
    await asyncio.sleep(calm)
    scene.witness.check()
    return scene


class Crowd:
    """How many Pods of units are alive at once, at most; and how many of one unit."""

    def __init__(self, scene: Scene) -> None:
        self.most = self.most_of_one = 0
        self._alive: dict[str, str] = {}
        scene.api.store.tables[PODS].listeners[id(self)] = self._on_pod

    def _on_pod(self, change: Change) -> None:
        pod = change.after.document
        unit, name = unit_of(pod), pod["metadata"]["name"]
        if change.deleted or pod["status"].get("phase") in ("Succeeded", "Failed"):
            self._alive.pop(name, None)
        elif unit:
            self._alive[name] = unit
            self.most = max(self.most, len(self._alive))
            self.most_of_one = max(self.most_of_one, *Counter(self._alive.values()).values())
