"""A replica is stopped between deciding and sending, for two minutes, and goes on as if nothing had been."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.api.installation import Installation, job, runs
from tests.api.observer import PodObserver
from tests.fleet import Fleet, ReplicaProcess

STOPPED_SECONDS = 120.0

pytestmark = [pytest.mark.api, pytest.mark.patient]


def _is_stopped(replica: ReplicaProcess) -> bool:
    assert replica.process is not None
    state = Path(f"/proc/{replica.process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


def _stopping_fleet(installation: Installation, before: str) -> Fleet:
    fleet = installation.fleet()
    for replica in fleet.replicas:
        replica.module = "tests.api.stopping"
        replica.environment = {"STOP_BEFORE": before}
    return fleet


def _stop_all_but_one(installation: Installation, fleet: Fleet) -> list[ReplicaProcess]:
    """Wait until some replica has stopped itself; let the others live on without stopping."""
    installation.wait_for("a replica has stopped itself", lambda: any(map(_is_stopped, fleet.replicas)), seconds=60)
    return [replica for replica in fleet.replicas if _is_stopped(replica)]


@pytest.mark.parametrize("before", ["claim", "pod"])
def test_what_a_replica_sends_after_two_minutes_asleep_is_refused_and_its_firing_has_run_once(
    install: Callable[[], Installation], before: str
) -> None:
    """All three would stop at their first send, so they are stopped one after another and one is continued at once."""
    installation = install()
    fleet = _stopping_fleet(installation, before)
    healthy = installation.fleet(replicas=2)
    for number, replica in enumerate(healthy.replicas):
        replica.name = f"healthy-{number}"
    with fleet, healthy, PodObserver(installation.cluster, installation.namespace) as observer:
        # A burst, so that each replica ranks first for some of the jobs.
        at = time.gmtime(time.time() + 12)
        installation.apply(job(f"once-{i}", f"{at.tm_sec} {at.tm_min} {at.tm_hour} * * *") for i in range(30))
        stopped = _stop_all_but_one(installation, fleet)
        since = time.monotonic()
        names = {f"once-{i}" for i in range(30)}
        observer.wait(lambda counts: {name for name, _ in counts} >= names, seconds=100)
        ran_meanwhile = {name for name, _ in observer.counts()}
        time.sleep(max(0.0, since + STOPPED_SECONDS - time.monotonic()))
        for replica in stopped:
            replica.signal(signal.SIGCONT)
        installation.wait_for("the fence has refused it", lambda: _fenced(stopped), seconds=30)
        counts = observer.counts()
        installation.wait_for("all are on record", lambda: _recorded(installation) == names, seconds=30)

    assert ran_meanwhile == names, installation.last_words()
    assert set(counts.values()) == {1}
    assert {name for name, _ in counts} == names


def _fenced(stopped: list[ReplicaProcess]) -> bool:
    logs = [replica.log_path.read_text(errors="replace") for replica in stopped]
    return all("was fenced" in log and "quarterjack fence:" in log for log in logs)


def _recorded(installation: Installation) -> set[str]:
    return {
        name
        for name, document in installation.jobs().items()
        if any(e["podName"] for e in runs(document).values() if "podName" in e)
    }
