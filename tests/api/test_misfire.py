"""One story, and what it leaves on record: etcd and the API server are away, once with all replicas and once without them.

Before, jobs are suspended, edited and cleared up; after, replicas are cut off again and again, and etcd dies once more.
"""

from __future__ import annotations

import json
import random
import signal
import time
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from tests.api.installation import Document, Installation, end_of, epoch, job, runs, simulated_template
from tests.cluster import Cluster
from tests.fleet import Fleet
from tests.fleet.preloaded import Preloaded
from tests.fleet.relay import Relay

PODS = "/api/v1/namespaces/{}/pods"
PERIOD_SECONDS = 3
OUTAGE_SECONDS = 72.0
SURELY_MISSED_SECONDS = 66  # before the API server is back
PARTITIONS_SECONDS = 20.0
MOST_UNKNOWN = 2  # of a job's firings: those whose replica was between claim and Pod when something broke
SCHEDULE = f"*/{PERIOD_SECONDS} * * * * *"
POLICIES = {"skips": "Skip", "makes-up": "RunOnce", "catches-up": "CatchUp"}
ALONE = {"skips-one": "Skip", "makes-up-one": "RunOnce"}  # jobs of which one firing falls due, and none after it
LIMITS = {"successfulRunsHistoryLimit": 100, "failedRunsHistoryLimit": 100, "podHistoryLimit": 100}

NODE = "simulated-0"  # for a scheduler waits for long after an outage before it looks again
FOR_EVER = "9999-01-01T00:00:00Z"

pytestmark = [pytest.mark.api, pytest.mark.patient]


@dataclass
class Story:
    """When what was, and what was found in the end, by installation."""

    lone_firing: int = 0  # of those that have only one
    gone_time: float = 0.0
    back_time: float = 0.0
    suspended_time: float = 0.0
    resumed_time: float = 0.0
    end: int = 0  # up to here all is settled
    once: list[Document] = field(default_factory=list)  # the record of a run, before its Pod was deleted
    jobs: list[dict[str, Document]] = field(default_factory=list)
    launches: list[Counter[tuple[str, int]]] = field(default_factory=list)

    def due(self, *, until: float) -> range:
        """The firings of the outage, or more."""
        first = int(self.gone_time) // PERIOD_SECONDS * PERIOD_SECONDS + PERIOD_SECONDS
        return range(first, int(until), PERIOD_SECONDS)

    @property
    def late(self) -> list[int]:
        """Those that were too late when the API server was back."""
        return [firing for firing in self.due(until=self.back_time) if firing < self.back_time - SURELY_MISSED_SECONDS]


def launched(installation: Installation) -> Counter[tuple[str, int]]:
    """Pods by job and firing: none is deleted but those of the job `once`, so all that were ever made are there."""
    pods = installation.cluster.api.get(PODS.format(installation.namespace)).json()["items"]
    labels = [pod["metadata"]["labels"] for pod in pods]
    return Counter((found["quarterjack.dev/job"], int(found["quarterjack.dev/firing"])) for found in labels)


def have_fired(installation: Installation, names: Collection[str]) -> bool:
    return {name for name, _ in launched(installation)} >= set(names)


def are_observed(installation: Installation, names: Collection[str]) -> bool:
    return all("scheduledFrom" in (installation.read(name).get("status") or {}) for name in names)


def lines_of(installation: Installation, name: str) -> list[Document]:
    """A job's lines, the oldest first."""
    return [line for _, line in sorted(runs(installation.read(name)).items())]


def patch(installation: Installation, name: str, **spec: object) -> None:
    installation.kubectl.out("patch", "scheduledjob", name, "--type=merge", "-p", json.dumps({"spec": spec}))


def prepare(installation: Installation, story: Story) -> None:
    """Some jobs more: one is suspended, one made to forbid overlap, and one has run and lost its Pod."""
    installation.apply(
        [
            job("suspended", SCHEDULE, misfirePolicy="CatchUp", **LIMITS),
            job("forbids", SCHEDULE, template=simulated_template(seconds=6, nodeName=NODE), **LIMITS),
            job("once", None, runAfter="2s", template=simulated_template(nodeName=NODE)),
        ]
    )
    names = ("suspended", "forbids", "once")
    installation.wait_for("all have fired", partial(have_fired, installation, names), seconds=60)
    patch(installation, "suspended", suspend=True)
    story.suspended_time = time.time()
    patch(installation, "forbids", concurrencyPolicy="Forbid")
    has_ended = lambda: [line["state"] for line in lines_of(installation, "once")] == ["Succeeded"]  # noqa: E731
    installation.wait_for("it has succeeded", has_ended, seconds=60)
    story.once = lines_of(installation, "once")
    installation.kubectl.out("delete", "pods", "-l", "quarterjack.dev/job=once", "--now")


def arm(installations: tuple[Installation, ...], story: Story) -> None:
    """Make the jobs of which one firing falls due, and return just before it does."""
    story.lone_firing = int(time.time()) + 32
    at = time.gmtime(story.lone_firing)
    schedule = f"{at.tm_sec} {at.tm_min} {at.tm_hour} * * *"
    for installation in installations:
        installation.apply(job(name, schedule, misfirePolicy=policy) for name, policy in ALONE.items())
    for installation in installations:
        installation.wait_for("they are observed", partial(are_observed, installation, ALONE), seconds=90)
    assert time.time() < story.lone_firing - 2
    time.sleep(story.lone_firing - 2 - time.time())


def take_down(cluster: Cluster, story: Story, mortal: Fleet) -> None:
    """etcd, the API server and the replicas of one installation are gone for a while."""
    story.gone_time = time.time()
    mortal.kill()
    cluster.stop_components("kwok", "kube-apiserver", "etcd")
    time.sleep(max(0.0, story.gone_time + OUTAGE_SECONDS - time.time()))
    for component in ("etcd", "kube-apiserver", "kwok"):
        cluster.start_component(component)
    story.back_time = time.time()


def cut_off_at_random(cluster: Cluster, relays: list[Relay]) -> None:
    """All replicas but one are cut off for seconds, now these, now those; half-way etcd is killed, and starts again."""
    chance = random.Random(13)
    end = time.monotonic() + PARTITIONS_SECONDS
    kill_time = end - PARTITIONS_SECONDS / 2
    while time.monotonic() < end:
        spared = chance.choice(relays)
        for relay in relays:
            relay.heal()
            if relay is not spared:
                chance.choice([relay.break_off, relay.fall_silent])()
        if time.monotonic() > kill_time:
            cluster.signal("etcd", signal.SIGKILL)
            cluster.start_component("etcd")
            kill_time = end
        time.sleep(chance.uniform(1, 4))
    for relay in relays:
        relay.heal()


@contextmanager
def relayed(fleet: Fleet, cluster: Cluster, directory: Path) -> Iterator[list[Relay]]:
    """Each replica's way to the API server leads over a relay."""
    with ExitStack() as stack:
        relays = [stack.enter_context(Relay(cluster.layout.ports.apiserver)) for _ in fleet.replicas]
        for replica, relay in zip(fleet.replicas, relays, strict=True):
            replica.kubeconfig = relay.kubeconfig(cluster.kubeconfig, directory / f"{replica.name}.kubeconfig")
        yield relays


def spans(document: Document, story: Story) -> list[tuple[int, int]]:
    """From when to when the runs of firings after the outage began ran; what still runs has no end."""
    later = [line for firing, line in runs(document).items() if firing > story.gone_time and "startTime" in line]
    return sorted((epoch(line["startTime"]), epoch(line.get("completionTime", FOR_EVER))) for line in later)


def settled(installation: Installation, until: int) -> bool:
    """Whether every firing up to an instant, of every job that fires all the time, is on record, and none still has no Pod."""
    jobs = [document for document in installation.jobs().values() if document["spec"].get("schedule") == SCHEDULE]
    waiting = [
        firing
        for document in jobs
        for firing, line in runs(document).items()
        if firing <= until and line["state"] == "Pending" and "podName" not in line
    ]
    return not waiting and all(epoch(document["status"]["watermark"]) >= until for document in jobs)


def is_unknown(document: Document, firing: int) -> bool:
    """Whether it was claimed as the API server went, which, when it is back, no longer tells whether there was a Pod."""
    return runs(document).get(firing, {}).get("reason") == "LaunchUnknown"


def await_pods(installation: Installation, name: str, firings: Collection[int]) -> None:
    """Wait until each of these firings has a Pod, as far as can be known; an AssertionError that names those without one."""

    def without() -> list[tuple[int, Document | str]]:
        counts, document = launched(installation), installation.read(name)
        lacking = [firing for firing in firings if not counts[name, firing] and not is_unknown(document, firing)]
        return [(firing, runs(document).get(firing, end_of(document, firing))) for firing in lacking]

    try:
        installation.wait_for(f"{name} has run", lambda: not without(), seconds=60)
    except AssertionError as error:
        raise AssertionError(f"no Pod: {without()} of {len(firings)}\n{error}") from error


@pytest.fixture(scope="module")
def story(served: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Story:
    served.up(simulated_nodes=1, owner=served.state.owner)
    directory, story = tmp_path_factory.mktemp("story"), Story()
    stays, dies = (Installation.make(served, directory) for _ in range(2))
    with ExitStack() as stack:
        preloaded = stack.enter_context(Preloaded())
        living, mortal = stays.fleet(preloaded=preloaded), dies.fleet(replicas=2, preloaded=preloaded)
        relays = stack.enter_context(relayed(living, served, directory))
        stack.enter_context(living)
        stack.enter_context(mortal)
        for installation in (stays, dies):
            installation.apply(job(name, SCHEDULE, misfirePolicy=p, **LIMITS) for name, p in POLICIES.items())
        prepare(stays, story)
        dies.wait_for("all have fired", partial(have_fired, dies, POLICIES), seconds=60)
        arm((stays, dies), story)
        take_down(served, story, mortal)
        mortal.start()
        patch(stays, "suspended", suspend=False)
        story.resumed_time = time.time()
        cut_off_at_random(served, relays)
        story.end = int(time.time()) // PERIOD_SECONDS * PERIOD_SECONDS
        stays.wait_for("runs go on", lambda: len(spans(stays.read("forbids"), story)) >= 2, seconds=60)
        for installation in (stays, dies):
            installation.wait_for("all is settled", partial(settled, installation, story.end), seconds=120)
            await_pods(installation, "catches-up", story.due(until=story.back_time))
            await_pods(installation, "makes-up-one", [story.lone_firing])
            story.jobs.append(installation.jobs())
            story.launches.append(launched(installation))
    for installation in (stays, dies):
        installation.remove()
    return story


each_installation = pytest.mark.parametrize("which", [0, 1], ids=["its replicas live on", "its replicas die too"])


@each_installation
def test_what_falls_due_while_etcd_and_the_api_server_are_away_ends_as_its_policy_says(
    story: Story, which: int
) -> None:
    counts, jobs, late = story.launches[which], story.jobs[which], story.late

    assert len(late) >= 2
    assert [firing for firing in late if counts["skips", firing]] == []
    assert [firing for firing in late[:-1] if counts["makes-up", firing]] == []
    not_run = [firing for firing in story.due(until=story.back_time) if counts["catches-up", firing] != 1]
    assert [firing for firing in not_run if not is_unknown(jobs["catches-up"], firing)] == []
    assert len(not_run) <= MOST_UNKNOWN
    assert [end_of(jobs["skips"], firing) for firing in late] == ["Missed"] * len(late)


@each_installation
def test_the_only_firing_that_fell_due_meanwhile_runs_late_or_is_skipped_as_its_policy_says(
    story: Story, which: int
) -> None:
    counts, jobs = story.launches[which], story.jobs[which]

    assert {name: counts[name, story.lone_firing] for name in ALONE} == {"skips-one": 0, "makes-up-one": 1}
    assert end_of(jobs["skips-one"], story.lone_firing) == "Missed"


@each_installation
def test_b13_each_due_time_has_one_run_or_one_record_of_why_not_whoever_was_cut_off(story: Story, which: int) -> None:
    counts, jobs, due = story.launches[which], story.jobs[which], story.due(until=story.end)

    assert {firing: n for firing, n in counts.items() if n > 1} == {}
    for name in POLICIES:
        ends = {firing: end_of(jobs[name], firing) for firing in due}
        assert [firing for firing, end in ends.items() if end == "nothing"] == []
        not_run = {f for f, end in ends.items() if end in {"Missed", "Skipped"} or is_unknown(jobs[name], f)}
        assert [f for f in due if (f in not_run) == bool(counts[name, f])] == []


def test_a_job_that_was_suspended_over_an_outage_starts_nothing_of_that_time(story: Story) -> None:
    fired = [firing for name, firing in story.launches[0] if name == "suspended"]

    assert [firing for firing in fired if story.suspended_time + 2 < firing < story.resumed_time] == []
    assert [firing for firing in fired if firing > story.resumed_time] != []


def test_a_job_that_was_made_to_forbid_overlap_skips_and_never_overlaps_again(story: Story) -> None:
    lines = [line for _, line in sorted(runs(story.jobs[0]["forbids"]).items())]
    skipped = [line for line in lines if line["state"] == "Skipped"]

    assert len(skipped) >= 3
    assert {line["reason"] for line in skipped} == {"Overlap"}
    assert [line for line in skipped if story.launches[0]["forbids", epoch(line["scheduledTime"])]] == []
    assert [start for (_, end), (start, _) in pairwise(spans(story.jobs[0]["forbids"], story)) if start < end] == []


def test_a_run_whose_finished_pod_was_deleted_keeps_its_record_and_is_not_run_again(story: Story) -> None:
    assert [line for _, line in sorted(runs(story.jobs[0]["once"]).items())] == story.once
    assert [firing for name, firing in story.launches[0] if name == "once"] == []
