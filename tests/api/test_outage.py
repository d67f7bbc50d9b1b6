"""All replicas are down for two minutes while firings fall due; each is settled once, with the right record."""

from __future__ import annotations

import time

import pytest

from tests.api.installation import Document, Installation, epoch, job, missed, runs
from tests.api.observer import PodObserver

DOWN_SECONDS = 120.0
JOBS = 50

pytestmark = [pytest.mark.api, pytest.mark.patient]


def _until_second(second: int) -> None:
    """Wait until the clock shows a second of the minute."""
    time.sleep((second - time.time()) % 60)


def _told(document: Document, firing: int) -> str:
    """What became of a firing: a run's state, or Missed."""
    line = runs(document).get(firing)
    if line is not None:
        return str(line["state"])
    return "Missed" if any(first <= firing <= last for first, last, _ in missed(document)) else "nothing"


def test_what_fell_due_while_all_replicas_were_down_is_settled_once(installation: Installation) -> None:
    names = [f"minutely-{i}" for i in range(JOBS)]
    fleet = installation.fleet()
    with fleet, PodObserver(installation.cluster, installation.namespace) as observer:
        installation.apply(job(name, "* * * * *") for name in names)
        installation.wait_for(
            "all jobs are observed",
            lambda: all("scheduledFrom" in (j.get("status") or {}) for j in installation.jobs().values()),
            seconds=30,
        )
        _until_second(30)
        down_time = time.time()
        fleet.kill()
        due = [int(down_time) // 60 * 60 + 60 * n for n in (1, 2)]
        other_schedule = f"{(time.gmtime(due[1]).tm_min + 30) % 60} * * * *"
        time.sleep(due[0] + 5 - time.time())
        installation.kubectl.out(
            "patch", "scheduledjob", names[0], "--type=merge", "-p", f'{{"spec":{{"schedule":"{other_schedule}"}}}}'
        )
        installation.kubectl.out("patch", "scheduledjob", names[1], "--type=merge", "-p", '{"spec":{"suspend":true}}')
        time.sleep(down_time + DOWN_SECONDS - time.time())
        fleet.start()
        back = int(time.time())
        ordinary = names[2:]
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
            lambda: all(_told(j, due[0]) != "nothing" for j in _some(installation, names[:2])),
            seconds=30,
        )
        time.sleep(3)  # for a second launch to show itself, were there one
        jobs = installation.jobs()
        counts = observer.counts()

    assert set(counts.values()) == {1}, "a firing has run twice"
    for name in ordinary:
        told = [_told(jobs[name], firing) for firing in due]
        ran = [firing for firing in (*due, due[1] + 60) if counts[name, firing]]
        assert told[0] == "Missed", (name, told)
        assert ran, f"nothing of {name} ran to make up for what was missed: {told}, back at {back}"
        assert told[1] == "Missed" or due[1] in ran, (name, told)
        assert "nothing" not in told, (name, told)
        assert all(not counts[name, firing] for firing in due if _told(jobs[name], firing) == "Missed")
    edited, suspended = jobs[names[0]], jobs[names[1]]
    assert _told(edited, due[0]) in {"Pending", "Running"}, "the old schedule's firing before the edit runs"
    assert counts[names[0], due[0]] == 1
    assert counts[names[0], due[1]] == 0, "the old schedule does not fire after the edit"
    assert epoch(edited["status"]["scheduledFrom"]) in range(due[0] + 4, due[0] + 12)
    assert edited["status"]["observedSchedule"] == other_schedule
    assert _told(suspended, due[0]) in {"Missed", "Skipped"}
    assert not any(counts[names[1], firing] for firing in due)
    assert suspended["status"]["state"] == "Suspended"


def _some(installation: Installation, names: list[str]) -> list[Document]:
    jobs = installation.jobs()
    return [jobs[name] for name in names]
