"""All replicas are down for two minutes while firings fall due; each is settled once, with the right record."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import pytest

from tests.api.installation import Document, Install, Installation, end_of, epoch, job
from tests.api.observer import Firing, PodObserver

DOWN_SECONDS = 120.0
NAMES = [f"minutely-{i}" for i in range(50)]

pytestmark = [pytest.mark.api, pytest.mark.patient]


def _until_second(second: int) -> None:
    """Wait until the clock shows a second of the minute."""
    time.sleep((second - time.time()) % 60)


@dataclass(frozen=True)
class Settled:
    """What is found in the end."""

    due: list[int]
    jobs: dict[str, Document]
    counts: Counter[Firing]
    other_schedule: str


def all_replicas_are_down(install: Install) -> Settled:
    """One job is edited meanwhile, and one suspended."""
    installation = install()
    fleet = installation.fleet()
    with fleet, PodObserver(installation.cluster, installation.namespace) as observer:
        installation.apply(job(name, "* * * * *") for name in NAMES)
        installation.wait_for(
            "all jobs are observed",
            lambda: all("scheduledFrom" in (j.get("status") or {}) for j in installation.jobs().values()),
            seconds=90,
        )
        _until_second(30)
        down_time = time.time()
        fleet.kill()
        due = [int(down_time) // 60 * 60 + 60 * n for n in (1, 2)]
        other_schedule = f"{(time.gmtime(due[1]).tm_min + 30) % 60} * * * *"
        time.sleep(due[0] + 5 - time.time())
        installation.kubectl.out(
            "patch", "scheduledjob", NAMES[0], "--type=merge", "-p", f'{{"spec":{{"schedule":"{other_schedule}"}}}}'
        )
        installation.kubectl.out("patch", "scheduledjob", NAMES[1], "--type=merge", "-p", '{"spec":{"suspend":true}}')
        time.sleep(down_time + DOWN_SECONDS - time.time())
        fleet.start()
        ordinary = NAMES[2:]
        installation.wait_for(
            "all are settled",
            lambda: all(
                epoch(installation_job["status"]["watermark"]) >= due[1]
                for installation_job in _some(installation, ordinary)
            ),
            seconds=100,
        )
        installation.wait_for(
            "the latest that was missed, or the one that makes up for it, runs",
            lambda: all(any(observer.counts()[name, f] for f in (due[1], due[1] + 60)) for name in ordinary),
            seconds=100,
        )
        installation.wait_for(
            "the edited and the suspended are settled",
            lambda: all(end_of(j, due[0]) != "nothing" for j in _some(installation, NAMES[:2])),
            seconds=90,
        )
        time.sleep(3)  # for a second launch to show itself, were there one
        return Settled(due, installation.jobs(), observer.counts(), other_schedule)


@pytest.mark.parametrize("told", [all_replicas_are_down], indirect=True)
def test_what_fell_due_while_all_replicas_were_down_is_settled_once(told: Settled) -> None:
    due, jobs, counts, ordinary = told.due, told.jobs, told.counts, NAMES[2:]

    assert set(counts.values()) == {1}, "a firing has run twice"
    for name in ordinary:
        ends = [end_of(jobs[name], firing) for firing in due]
        ran = [firing for firing in (*due, due[1] + 60) if counts[name, firing]]
        assert ends[0] == "Missed", (name, ends)
        assert ran, f"nothing of {name} ran to make up for what was missed: {ends}"
        assert ends[1] == "Missed" or due[1] in ran, (name, ends)
        assert "nothing" not in ends, (name, ends)
        assert all(not counts[name, firing] for firing in due if end_of(jobs[name], firing) == "Missed")
    edited, suspended = jobs[NAMES[0]], jobs[NAMES[1]]
    assert end_of(edited, due[0]) in {"Pending", "Running"}, "the old schedule's firing before the edit runs"
    assert counts[NAMES[0], due[0]] == 1
    assert counts[NAMES[0], due[1]] == 0, "the old schedule does not fire after the edit"
    assert epoch(edited["status"]["scheduledFrom"]) in range(due[0] + 4, due[0] + 12)
    assert edited["status"]["observedSchedule"] == told.other_schedule
    assert end_of(suspended, due[0]) in {"Missed", "Skipped"}
    assert not any(counts[NAMES[1], firing] for firing in due)
    assert suspended["status"]["state"] == "Suspended"


def _some(installation: Installation, names: list[str]) -> list[Document]:
    jobs = installation.jobs()
    return [jobs[name] for name in names]
