"""What a skipped firing says of the run that was in its way."""

from __future__ import annotations

from typing import Any

import pytest

from quarterjack.model import State
from quarterjack.runs import Held
from tests.unit.given import NOON, a_pod


@pytest.mark.parametrize(
    ("pod", "resting", "state"),
    [
        pytest.param({"state": State.RUNNING}, False, "was still running", id="a run that runs"),
        pytest.param({"state": State.PENDING}, False, "had not started yet", id="a Pod that is new"),
        pytest.param(
            {"state": State.PENDING, "reason": "ImagePullBackOff"},
            False,
            "had not started yet (ImagePullBackOff)",
            id="a Pod that does not start",
        ),
        pytest.param(None, False, "was about to start", id="a run without a Pod"),
        pytest.param(None, True, "waited to be tried again", id="a run between two attempts"),
    ],
)
def test_another_run_is_said_to_do_what_it_did(pod: dict[str, Any] | None, resting: bool, state: str) -> None:
    held = Held(str(NOON), None if pod is None else a_pod(NOON, **pod), resting)

    assert held.state == state
