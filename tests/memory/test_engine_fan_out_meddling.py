"""What people do amid a fan-out: they edit its ledger and its job, ask for its units by hand, and delete what it stands on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from .actors import End, ask, objects, succeed
from .engine import Scene, play
from .fan_out import are_over, ends, fan_out, made, runs, times_made
from .resources import CONFIG_MAPS
from .virtual import START

BEGIN = START + 50  # the firing is due ten seconds later
LOST = "1 part of the ledger damaged or gone"


def edit_ledger(scene: Scene, edit: Callable[[list[str]], list[str]]) -> None:
    """Somebody edits the lines of the one part that there is."""
    [part] = [document for document in objects(scene.api, CONFIG_MAPS) if "units" in document["data"]]
    text = "".join(f"{line}\n" for line in edit(part["data"]["units"].splitlines()))
    path = CONFIG_MAPS.path("default", part["metadata"]["name"])
    succeed(ask(scene.api, "PATCH", path, {"data": {"units": text}}))


# The ledger


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(lambda lines: lines[:-1], id="takes the line of a unit out"),
        pytest.param(lambda lines: [*lines, lines[-1]], id="writes the line of a unit twice"),
        pytest.param(lambda lines: [*lines, '{"unit":"other"}'], id="puts a unit in"),
        pytest.param(lambda lines: [*lines[:-1], '{"unit":"other"}'], id="renames a unit"),
        pytest.param(lambda lines: [], id="takes all lines out"),
    ],
)
@pytest.mark.parametrize("crash", [False, True], ids=["and its replica goes on", "and its replica dies"])
def test_a_run_ends_though_somebody(edit: Any, crash: bool) -> None:
    async def scenario() -> Scene:
        scene = Scene()
        ends(scene, End(1.5))
        uid = fan_out(scene, *"abcdefgh", parallel=2)
        scene.start("a", "b")
        await scene.until(lambda: len(made(scene)) == 4)
        edit_ledger(scene, edit)
        if crash:
            scene.crash(scene.first(uid).name)
        await scene.until(lambda: are_over(scene), at_most=60)
        await asyncio.sleep(20)
        scene.witness.check()
        return scene

    scene = play(scenario, start=BEGIN)

    [run] = runs(scene)
    assert (run["state"], run["reason"]) == ("Failed", "LedgerLost")
    assert run["message"].endswith(LOST)
    assert set(times_made(scene).values()) == {1}
    assert times_made(scene).keys() <= set("abcdefgh")
