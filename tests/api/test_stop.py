"""A replica is stopped between deciding and sending, for two minutes, and goes on as if nothing had been."""

from __future__ import annotations

import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from tests.api.installation import Install, Installation, job, runs
from tests.api.observer import Firing, PodObserver
from tests.fleet import ReplicaProcess

STOPPED_SECONDS = 120.0
NAMES = {f"once-{i}" for i in range(30)}

pytestmark = [pytest.mark.api, pytest.mark.patient]


def _is_stopped(replica: ReplicaProcess) -> bool:
    assert replica.process is not None
    state = Path(f"/proc/{replica.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


def asleep(install: Install, before: str) -> Counter[Firing]:
    """One of three replicas stops itself before its first send; the other two live on. Pods by firing, in the end."""
    installation = install()
    fleet = installation.fleet()
    sleeper = fleet.replicas[0]
    sleeper.module, sleeper.environment, sleeper.preloaded = "tests.api.stopping", {"STOP_BEFORE": before}, None
    with fleet, PodObserver(installation.cluster, installation.namespace) as observer:
        # A burst, so that each replica ranks first for some of the jobs.
        at = time.gmtime(time.time() + 30)
        installation.apply(job(name, f"{at.tm_sec} {at.tm_min} {at.tm_hour} * * *") for name in NAMES)
        installation.wait_for("it has stopped itself", lambda: _is_stopped(sleeper), seconds=90)
        since = time.monotonic()
        all_ran = lambda: {name for name, _ in observer.counts()} == NAMES  # noqa: E731
        installation.wait_for("all run meanwhile", all_ran, seconds=100)
        time.sleep(max(0.0, since + STOPPED_SECONDS - time.monotonic()))
        sleeper.signal(signal.SIGCONT)
        installation.wait_for("the fence has refused it", lambda: _fenced(sleeper), seconds=90)
        installation.wait_for("all are on record", lambda: _recorded(installation) == NAMES, seconds=90)
        return observer.counts()


@pytest.mark.parametrize(
    "told",
    [pytest.param(partial(asleep, before="claim"), id="claim"), pytest.param(partial(asleep, before="pod"), id="pod")],
    indirect=True,
)
def test_what_a_replica_sends_after_two_minutes_asleep_is_refused_and_its_firing_has_run_once(
    told: Counter[Firing],
) -> None:
    assert set(told.values()) == {1}
    assert {name for name, _ in told} == NAMES


def _fenced(sleeper: ReplicaProcess) -> bool:
    log = sleeper.log_path.read_text(errors="replace")
    return "was fenced" in log and "quarterjack fence:" in log


def _recorded(installation: Installation) -> set[str]:
    return {
        name
        for name, document in installation.jobs().items()
        if any(e["podName"] for e in runs(document).values() if "podName" in e)
    }
