"""Turns among the processes of a test run: clusters come before all else, and a test that is marked `alone` has all of the machine.

What needs no cluster measures no time, so it takes the processor time that the clusters leave. What loads the whole machine would tell
of the tests beside it. They wait at a gate, one after the other, so that a test that is to be alone comes to its turn however many
there are.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.house.order import cluster_of


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Hold the floor during a test, its fixtures included: alone, or with all others."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    if not cluster_of(item):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))  # for good: what needs a cluster came first
    of_all_processes = Path(item.config.option.basetemp).parent
    mode = fcntl.LOCK_EX if item.get_closest_marker("alone") else fcntl.LOCK_SH
    with (of_all_processes / "gate").open("w") as gate, (of_all_processes / "floor").open("w") as floor:
        fcntl.flock(gate, fcntl.LOCK_EX)
        fcntl.flock(floor, mode)
        fcntl.flock(gate, fcntl.LOCK_UN)
        return (yield)
