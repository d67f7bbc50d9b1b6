"""The chart on two real nodes, as a story: installed with Helm, tested, used, drained, uninstalled, and installed again.

Each test begins where the one before has ended. Replicas and jobs are containers.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pytest

from tests.api.installation import Document, runs
from tests.api.observer import PodObserver
from tests.chart import image
from tests.chart.helm import NAMESPACE, RELEASE
from tests.chart.release import KEPT, Release, doubles, firings, release_in
from tests.cluster import Cluster, node
from tests.cluster.processes import wait_until
from tests.cluster.second_node import second_node
from tests.crds.kubectl import Kubectl
from tests.house.pages import ROOT
from tests.node.jobs import job

pytestmark = pytest.mark.node

JOBS, ELSEWHERE, BESIDE = "chart-jobs", "chart-elsewhere", "chart-beside"
WITHIN_A_MINUTE = {"every-ten-seconds": "Succeeded", "hello": "Succeeded", "longer-than-its-period": "Running"}
BEATS = job("beats", "exit 0", schedule="*/2 * * * * *", concurrencyPolicy="Allow")


@dataclass(frozen=True, slots=True)
class Story:
    """A release, installed until one of the tests uninstalls it, and an observer of the jobs' Pods."""

    release: Release
    observer: PodObserver
    install_time: float

    def kubectl(self, namespace: str) -> Kubectl:
        """kubectl in a namespace."""
        return Kubectl(self.release.cluster, namespace)

    def create(self, namespace: str, document: Document) -> None:
        """Create a job."""
        self.kubectl(namespace).out("create", "-f", "-", stdin=json.dumps(document))

    def await_run(self, name: str, state: str, *, after: float, seconds: float = 90) -> None:
        """Wait until a firing that was scheduled after an instant (epoch seconds) has come to a state."""

        def found() -> bool:
            history = runs(self.kubectl(JOBS).get("scheduledjob", name))
            return any(when > after and line["state"] == state for when, line in history.items())

        wait_until(f"a run of {name} is {state}", found, within_seconds=seconds)


@pytest.fixture(scope="module")
def story(node_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Story]:
    """On two nodes, install the chart as the README says, then add the examples and a job that is due every two seconds."""
    with (
        second_node(node_cluster) as layout,
        release_in(node_cluster, tmp_path_factory.mktemp("helm"), NAMESPACE, JOBS, ELSEWHERE, BESIDE) as release,
        PodObserver(node_cluster, JOBS) as observer,
    ):
        node.load_image(layout, image.archive())
        release.install()
        made = Story(release, observer, time.time())
        made.kubectl(JOBS).out("apply", "-f", str(ROOT / "examples"))
        made.create(JOBS, BEATS)
        yield made


def test_three_replicas_in_pods_become_ready_and_are_refused_nothing(story: Story) -> None:
    release = story.release
    replicas = release.ready()

    assert len(replicas) == 3
    assert {pod["spec"]["nodeName"] for pod in replicas} == nodes(story)
    for pod in replicas:
        assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
        assert release.page(pod, "/readyz") == "ok\n"
        metrics = release.page(pod, "/metrics")
        assert "quarterjack_members 3.0" in metrics
        assert 'code="403"' not in metrics


def nodes(story: Story) -> set[str]:
    """The names of both nodes."""
    return {each["metadata"]["name"] for each in story.release.kubectl.get("nodes")["items"]}


def test_helm_applies_on_the_server_as_it_does_by_itself(story: Story) -> None:
    assert operations(story) == {"Apply"}


def operations(story: Story) -> set[str]:
    """How Helm has written the Deployment."""
    fields = story.release.kubectl.get("deployment", RELEASE, "--show-managed-fields")["metadata"]["managedFields"]
    return {each["operation"] for each in fields if each["manager"] == "helm"}


@pytest.mark.parametrize("program", ["sh", "bash", "busybox", "/bin/sh", "ls"])
def test_there_is_no_shell_in_a_replica(story: Story, program: str) -> None:
    [replica, *_] = story.release.replicas()

    result = story.release.kubectl.run("exec", replica["metadata"]["name"], "--", program)

    assert result.code != 0
    assert "no such file or directory" in result.error or "executable file not found" in result.error


def test_there_are_no_zone_files_in_a_replica_but_those_of_the_operator(story: Story) -> None:
    [replica, *_] = story.release.replicas()
    script = "import os, zoneinfo; print([p for p in (*zoneinfo.TZPATH, '/etc/localtime') if os.path.lexists(p)])"

    found = story.release.kubectl.out("exec", replica["metadata"]["name"], "--", "python3", "-c", script)

    assert found.strip() == "[]"


def test_helm_test_passes(story: Story) -> None:
    printed = story.release.test()

    assert "Phase:          Succeeded" in printed
    assert "Succeeded" in printed.partition("POD LOGS")[2]


def test_a_second_installation_serves_nothing_that_the_first_one_serves_and_the_jobs_say_who_does(story: Story) -> None:
    """Nor after an edit. That it adopts them once the first has been gone for five minutes is shown in memory."""
    first = story.release
    second = Release(first.cluster, first.helm, "beside", BESIDE)
    uid = Kubectl(first.cluster, JOBS).get("namespace", NAMESPACE)["metadata"]["uid"]
    second.install(crds={"install": False}, fence={"install": False}, replicaCount=1)
    [replica] = second.ready()
    assert second.page(replica, "/readyz") == "ok\n"

    story.kubectl(JOBS).out("annotate", "scheduledjobs", "--all", "seen=twice")
    story.kubectl(JOBS).out("patch", "schj", "month-end", "--type=merge", "-p", '{"spec": {"description": "Edited"}}')
    story.await_run("beats", "Succeeded", after=time.time())

    served = story.kubectl(JOBS).get("scheduledjobs")["items"]
    assert {each["status"]["servedBy"] for each in served} == {uid}
    assert [each for each in served if each["status"]["observedGeneration"] != each["metadata"]["generation"]] == []
    told = [c["message"] for each in served for c in each["status"]["conditions"] if c["type"] == "Ready"]
    assert [each for each in told if f"the installation in namespace {NAMESPACE}" not in each] == []
    assert claims(second) == []
    assert claims(first) != []
    second.uninstall()


def claims(release: Release) -> list[Document]:
    """The Leases by which its replicas have claimed firings."""
    return list(release.kubectl.get("leases", "-l", "quarterjack.dev/firing")["items"])


def test_the_examples_that_fire_within_a_minute_run_as_containers(story: Story) -> None:
    for name, state in WITHIN_A_MINUTE.items():
        story.await_run(name, state, after=story.install_time)

    logs = story.kubectl(JOBS).out("logs", "-l", "quarterjack.dev/job=hello")
    assert "hello, this is the run of 20" in logs
    examples = story.kubectl(JOBS).get("scheduledjobs")["items"]
    assert len(examples) == 1 + len(list((ROOT / "examples").glob("*.yaml")))
    conditions = [each for example in examples for each in example["status"]["conditions"]]
    assert [each for each in conditions if each["type"] == "Ready" and each["status"] != "True"] == []


def test_a_drain_takes_the_replicas_of_a_node_one_after_the_other_and_loses_no_firing(story: Story) -> None:
    """Where more than one has to go, the budget refuses the next eviction until the first has its replacement."""
    release = story.release
    placed = Counter(pod["spec"]["nodeName"] for pod in release.replicas())
    [(place, count)] = placed.most_common(1)
    first = time.time()

    with ThreadPoolExecutor() as beside:
        drain = beside.submit(release.kubectl.run, "drain", place, "--timeout=300s", "--ignore-daemonsets")
        ready = [len(release.ready())]
        while not drain.done():
            ready.append(len(release.ready()))

    wait_until("three replicas are ready", lambda: len(release.ready()) == 3, within_seconds=60)
    release.kubectl.out("uncordon", place)
    due = firings(["beats"], first, time.time(), 2)
    story.observer.wait(lambda counts: due <= counts.keys(), seconds=60)
    assert count > 1
    assert drain.result().code == 0, drain.result().error
    assert "violate the pod's disruption budget" in drain.result().error
    assert place not in {pod["spec"]["nodeName"] for pod in release.replicas()}
    assert min(ready) >= 2
    assert due - story.observer.counts().keys() == set()
    assert doubles(story.observer) == []


def test_uninstalling_keeps_the_kinds_the_fence_and_the_jobs(story: Story) -> None:
    jobs = story.kubectl(JOBS)
    before = {each["metadata"]["uid"] for each in jobs.get("scheduledjobs")["items"]}

    story.release.uninstall()

    assert {each["metadata"]["uid"] for each in jobs.get("scheduledjobs")["items"]} == before
    assert [kept for kept in KEPT if jobs.run("get", kept).code != 0] == []
    assert story.release.replicas() == []
    left = jobs.out("get", "clusterroles,clusterrolebindings,flowschemas", "-o", "name")
    assert f"{NAMESPACE}:{RELEASE}" not in left
    assert jobs.run("get", "schj", f"{RELEASE}-test").code != 0


def test_installing_again_with_namespaces_goes_on_there_without_a_double(story: Story) -> None:
    """This time Helm applies by itself (--server-side=false), as Helm 3 does."""
    story.release.install("--server-side=false", watchNamespaces=[JOBS])
    back = time.time()
    story.create(ELSEWHERE, BEATS)

    for name in ("beats", "every-ten-seconds"):
        story.await_run(name, "Succeeded", after=back)
    printed = story.release.test()

    assert "Phase:          Succeeded" in printed
    assert operations(story) == {"Update"}
    assert len(story.release.ready()) == 3
    assert doubles(story.observer) == []
    assert "status" not in story.kubectl(ELSEWHERE).get("scheduledjob", "beats")
    assert story.kubectl(ELSEWHERE).get("pods")["items"] == []


@pytest.mark.parametrize(
    ("namespace", "question", "answer"),
    [
        pytest.param(JOBS, "create pods", "yes", id="Pods where it serves"),
        pytest.param(JOBS, "list scheduledjobs.quarterjack.dev", "yes", id="jobs where it serves"),
        pytest.param(NAMESPACE, "create leases.coordination.k8s.io", "yes", id="claims in its own namespace"),
        pytest.param(JOBS, "create leases.coordination.k8s.io", "no", id="no Leases where it serves"),
        pytest.param(ELSEWHERE, "create pods", "no", id="no Pods elsewhere"),
        pytest.param(ELSEWHERE, "list scheduledjobs.quarterjack.dev", "no", id="no jobs elsewhere"),
        pytest.param(ELSEWHERE, "get pods", "no", id="not even a look at Pods elsewhere"),
        pytest.param(NAMESPACE, "get secrets", "no", id="no Secrets"),
    ],
)
def test_with_namespaces_its_account_may_do_nothing_elsewhere(
    story: Story, namespace: str, question: str, answer: str
) -> None:
    told = story.kubectl(namespace).run("auth", "can-i", *question.split(), f"--as={story.release.account}")

    assert told.out.strip() == answer
