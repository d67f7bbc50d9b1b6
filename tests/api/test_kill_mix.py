"""Replicas are killed while jobs skip, replace and try again; an observer from outside sees which Pods were there together."""

from __future__ import annotations

import random
import time
from collections import Counter

import pytest

from tests.api.installation import Document, Installation, job, missed, runs, simulated_template
from tests.api.observer import PodObserver
from tests.cluster import Cluster
from tests.fleet.preloaded import Preloaded

JOBS = 12  # of each kind
SECONDS = 60
KILL_EVERY_SECONDS = 3.0
PREPARATION_SECONDS = 20
ATTEMPTS = 3

pytestmark = [pytest.mark.api, pytest.mark.alone]


def simulated_job(name: str, schedule: str, *, seconds: float, exit_code: int = 0, **spec: object) -> Document:
    """A ScheduledJob whose Pods run for so long, as objects only."""
    template = simulated_template(seconds=seconds, exit_code=exit_code, terminationGracePeriodSeconds=2)
    limits = {"successfulRunsHistoryLimit": 100, "failedRunsHistoryLimit": 100}
    return job(name, schedule, template=template, **limits, **spec)


def kinds(minute: str) -> dict[str, Document]:
    """By name: those that skip, those that replace, those that fail and try again, and those that skip and try again."""
    again = {"maxRetries": ATTEMPTS - 1, "delay": "1s", "maxDelay": "2s"}
    made = {}
    for number in range(JOBS):
        for document in (
            simulated_job(f"forbid-{number}", f"* {minute}", seconds=2.5, concurrencyPolicy="Forbid"),
            simulated_job(f"replace-{number}", f"*/4 {minute}", seconds=30, concurrencyPolicy="Replace"),
            simulated_job(f"again-{number}", f"*/20 {minute}", seconds=0.5, exit_code=1, retry=again),
            simulated_job(
                f"both-{number}", f"*/5 {minute}", seconds=1, exit_code=1, retry=again, concurrencyPolicy="Forbid"
            ),
        ):
            made[document["metadata"]["name"]] = document
    return made


def accounted(document: Document) -> int:
    """Firings that have a record which is final, with all its attempts."""
    history = (document.get("status") or {}).get("history") or []
    lines = {line["scheduledTime"]: True for line in history if not line.get("count")}
    for line in history:
        if line["state"] in {"Pending", "Running"}:
            lines[line["scheduledTime"]] = False
    return sum(lines.values()) + sum(count for _, _, count in missed(document))


def test_runs_neither_overlap_nor_double_nor_vanish_while_a_replica_is_killed_every_3_seconds(
    simulated: Cluster, installation: Installation
) -> None:
    chance = random.Random(6)

    with (
        Preloaded() as preloaded,
        installation.fleet(preloaded=preloaded) as fleet,
        PodObserver(simulated, installation.namespace) as observer,
    ):
        first = (int(time.time()) + PREPARATION_SECONDS) // 60 * 60 + 60
        at = time.gmtime(first)
        jobs = kinds(f"{at.tm_min} {at.tm_hour} * * *")
        installation.apply(jobs.values())
        time.sleep(max(0.0, first - time.time()))
        fleet.kill_at_random(chance, every_seconds=KILL_EVERY_SECONDS, until=first + SECONDS)
        due = {"forbid": 60, "replace": 15, "again": 3, "both": 12}
        complete = lambda: all(  # noqa: E731
            accounted(document) == due[name.partition("-")[0]] for name, document in installation.jobs().items()
        )
        installation.wait_for("every firing has its record", complete, seconds=300)
        documents = installation.jobs()
        installation.kubectl.out("delete", "scheduledjobs", "--all", "--wait=false")

    assert observer.errors == []
    pods = Counter((s.job, s.scheduled, s.attempt) for s in observer.sightings.values())
    assert {run: n for run, n in pods.items() if n > 1} == {}
    assert [overlap for overlap in observer.overlaps if not overlap[0].startswith("again")] == []
    last = {name: max(runs(document)) for name, document in documents.items() if name.startswith("replace")}
    assert {runs(documents[name])[firing]["state"] for name, firing in last.items()} == {"Succeeded"}
    again = {name: firings for name, firings in documents.items() if name.startswith("again")}
    tried = {(name, firing): pods[name, firing, ATTEMPTS] for name, d in again.items() for firing in runs(d)}
    assert set(tried.values()) == {1}
