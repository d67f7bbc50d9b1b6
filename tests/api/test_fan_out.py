"""A fan-out of thousands of units on a simulated node, while replicas are killed: each runs once, and what tells of it stays small."""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from pathlib import Path

import pytest

from tests.api.installation import Document, Installation, job, simulated_template
from tests.api.observer import PodObserver
from tests.cluster import Cluster, kwok
from tests.fleet import Fleet
from tests.fleet.preloaded import Preloaded

UNITS = int(os.environ.get("QUARTERJACK_UNITS", "1000"))
KILL_EVERY_SECONDS = 5.0
SECONDS_PER_UNIT = 0.2  # at most, all in all
STATUS_BYTES = 100_000
CONFIG_MAPS = "/api/v1/namespaces/{}/configmaps?labelSelector=quarterjack.dev/job"
CONFIG_MAP_BYTES = 1024 * 1024
REPLICA_KIB = 512 * 1024  # the limit that the chart sets

pytestmark = pytest.mark.api


def fanned_job(name: str) -> Document:
    """A job whose plan is the simulated printer, and whose units run for half a second."""
    plan = simulated_template(seconds=0.2)
    plan["spec"]["containers"][0]["name"] = kwok.PRINTER
    fan_out = {"plan": {"template": plan}, "maxParallel": 500}
    return job(name, None, runAfter="1s", template=simulated_template(seconds=0.5), fanOut=fan_out)


def run_of(document: Document) -> Document:
    """The line of the one run."""
    lines = [line for line in (document.get("status") or {}).get("history") or [] if "unit" not in line]
    return lines[0] if len(lines) == 1 else {}


def peak_kib(fleet: Fleet) -> int:
    """The most memory that any of the replicas that live has had, in KiB."""
    pages = [Path(f"/proc/{replica.process.pid}/status") for replica in fleet.replicas if replica.process is not None]
    told = [page.read_text() for page in pages if page.exists()]
    return max((int(text.partition("VmHWM:")[2].split()[0]) for text in told if "VmHWM:" in text), default=0)


def test_each_of_thousands_of_units_runs_once_while_replicas_are_killed(
    simulated: Cluster, installation: Installation
) -> None:
    units = [f"tenant-{number}" for number in range(UNITS)]
    kwok.print_lines(simulated.layout, units)
    deadline = time.time() + 60 + UNITS * SECONDS_PER_UNIT
    chance, sizes, peaks = random.Random(7), set[int](), set[int]()

    with (
        Preloaded() as preloaded,
        installation.fleet(preloaded=preloaded) as fleet,
        PodObserver(simulated, installation.namespace) as observer,
    ):
        installation.apply([fanned_job("digest")])
        while run_of(document := installation.read("digest")).get("state") != "Succeeded" and time.time() < deadline:
            sizes.add(len(json.dumps(document.get("status") or {})))
            peaks.add(peak_kib(fleet))
            fleet.kill_at_random(chance, every_seconds=KILL_EVERY_SECONDS, until=time.time() + KILL_EVERY_SECONDS)
        line = run_of(document)
        ledgers = simulated.api.get(CONFIG_MAPS.format(installation.namespace)).json()["items"]

    assert observer.errors == []
    assert line["state"] == "Succeeded", installation.last_words()
    assert f"{UNITS} of {UNITS} units succeeded" in line["message"]
    ran = Counter(sighting.unit for sighting in observer.sightings.values() if sighting.unit)
    assert set(units) - set(ran) == set()
    assert {unit: count for unit, count in ran.items() if count > 1} == {}
    assert max(sizes) < STATUS_BYTES
    assert 0 < max(peaks) < REPLICA_KIB
    assert all(len(json.dumps(ledger)) < CONFIG_MAP_BYTES for ledger in ledgers)
