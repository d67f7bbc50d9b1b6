"""Replicas are killed under load; an observer from outside counts Pods."""

from __future__ import annotations

import os
import random
import time

import pytest

from tests.api.installation import Installation, job
from tests.api.observer import PodObserver
from tests.fleet.preloaded import Preloaded

# Near to what two cores bear that hold the control plane, three replicas and the one that starts anew every 3 s.
JOBS = int(os.environ.get("QUARTERJACK_KILL_JOBS", "200"))
SECONDS = 60
KILL_EVERY_SECONDS = 3.0
PREPARATION_SECONDS = 30

pytestmark = [pytest.mark.api, pytest.mark.alone]


def test_each_firing_of_each_second_runs_once_while_a_replica_is_killed_every_3_seconds(
    installation: Installation,
) -> None:
    """The schedules fire at each second of one minute; it begins once all jobs are known and no process is starting.

    A machine that is too slow for so many makes firings late. Those that are a minute late count as missed, and are caught up.
    """
    names = [f"job-{i}" for i in range(JOBS)]
    chance = random.Random(4)

    with (
        Preloaded() as preloaded,
        installation.fleet(preloaded=preloaded) as fleet,
        PodObserver(installation.cluster, installation.namespace) as observer,
    ):
        first = (int(time.time()) + PREPARATION_SECONDS) // 60 * 60 + 60
        minute = time.gmtime(first)
        schedule = f"* {minute.tm_min} {minute.tm_hour} * * *"
        installation.apply(job(name, schedule, misfirePolicy="CatchUp") for name in names)
        time.sleep(max(0.0, first - time.time()))
        fleet.kill_at_random(chance, every_seconds=KILL_EVERY_SECONDS, until=first + SECONDS)
        due = {(name, second) for name in names for second in range(first, first + SECONDS)}
        observer.wait(lambda counts: counts.keys() >= due, seconds=300)
        installation.kubectl.out("delete", "scheduledjobs", "--all", "--wait=false")

    counts = observer.counts()
    assert observer.errors == []
    assert {firing: n for firing, n in counts.items() if n > 1} == {}
    assert due - counts.keys() == set(), installation.last_words()
