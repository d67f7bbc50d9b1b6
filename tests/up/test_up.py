"""`make up` and `make down` for real: a node, three replicas, examples in real containers, and nothing left in the end."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import Cluster
from tests.cluster.build import program_path
from tests.cluster.layout import Layout
from tests.cluster.processes import own_environment, process_alive, wait_until
from tests.up.install import EXAMPLES, documents

pytestmark = pytest.mark.node

ROOT = Path(__file__).resolve().parents[2]
NAME = f"up-{os.getpid()}"
EXAMPLE_NAMES = {document["metadata"]["name"] for path in EXAMPLES for document in documents(path)}
FIRINGS_WATCHED = 4
FIRINGS_WITHIN_SECONDS = 120


def command(verb: str, cluster: str, environment: Mapping[str, str], *, seconds: float = 900) -> str:
    """Run what `make up` and `make down` run; what it prints."""
    result = subprocess.run(
        [sys.executable, "-m", "tests.up", verb, "--cluster", cluster],
        cwd=ROOT,
        env={**own_environment(), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@dataclass(slots=True)
class Demo:
    """What is up, as somebody finds it who reads what `make up` has printed."""

    environment: dict[str, str]
    printed: str

    def up(self) -> float:
        """`make up` (again); how many seconds it took."""
        start_seconds = time.monotonic()
        self.printed = command("up", NAME, self.environment)
        return time.monotonic() - start_seconds

    def kubectl(self, line: str) -> str:
        """Type a line into a shell, after the export lines that were printed."""
        exports = "\n".join(line for line in self.printed.splitlines() if line.lstrip().startswith("export "))
        result = subprocess.run(
            ["sh", "-ec", f"{exports}\n{line}"],
            env={**own_environment(), **self.environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert result.returncode == 0, f"{line}: {result.stderr}"
        return result.stdout

    def job(self, name: str) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.kubectl(f"kubectl get scheduledjob {name} -o json"))
        return document

    def replicas(self) -> list[tuple[int, str]]:
        """Pid and metrics URL of each replica."""
        found = re.findall(r"replica-\d+ +pid (\d+) +(http://\S+/metrics)", self.printed)
        return [(int(pid), url) for pid, url in found]


@dataclass(slots=True)
class Seen:
    """All that was ever seen of the firings of one example: records and Pods are deleted in time, this is kept."""

    states: dict[int, str] = field(default_factory=dict)
    pods: defaultdict[int, set[str]] = field(default_factory=lambda: defaultdict(set))

    def look(self, demo: Demo) -> None:
        # Records first: the Pod of a firing that has its record stays for two minutes more.
        for line in demo.job("every-ten-seconds")["status"]["history"]:
            self.states[_epoch(line["scheduledTime"])] = f"{line['state']} {line.get('reason', '')}".rstrip()
        pods = json.loads(demo.kubectl("kubectl get pods -l quarterjack.dev/job=every-ten-seconds -o json"))["items"]
        for pod in pods:
            self.pods[int(pod["metadata"]["labels"]["quarterjack.dev/firing"])].add(pod["metadata"]["uid"])

    @property
    def succeeded(self) -> set[int]:
        return {firing for firing, state in self.states.items() if state == "Succeeded"}


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    """`make up`, kept apart from what the person at this machine may have up."""
    root = tmp_path_factory.mktemp("up")
    shown = Demo({"QUARTERJACK_STATE": str(root / "state"), "HOME": str(root), "QUARTERJACK_CACHE": _cache()}, "")
    try:
        shown.up()
        yield shown
    finally:
        command("down", NAME, shown.environment)


def _cache() -> str:
    return str(program_path("kubectl").parents[3])


def test_it_shows_every_example_and_a_line_of_a_real_container(demo: Demo) -> None:
    wait_until("hello has run", lambda: _succeeded(demo.job("hello")) != [], within_seconds=FIRINGS_WITHIN_SECONDS)

    listed = {line.split()[0] for line in demo.kubectl("kubectl get scheduledjobs --no-headers").splitlines()}
    said = demo.kubectl("kubectl logs -l quarterjack.dev/job=hello")

    assert listed >= EXAMPLE_NAMES
    assert "hello, this is the run of" in said


def test_every_command_that_it_prints_works(demo: Demo) -> None:
    printed = [line.strip() for line in demo.printed.splitlines() if line.strip().startswith("kubectl ")]

    for line in printed:
        demo.kubectl(line.removesuffix(" --watch"))

    assert len(printed) >= 4


def test_every_replica_is_let_do_all_that_it_asks_for(demo: Demo) -> None:
    pages = [_page(url) for _, url in demo.replicas()]

    assert len(pages) == 3
    for page in pages:
        assert "quarterjack_members 3.0" in page
        assert "quarterjack_fence_installed 1.0" in page
        assert 'code="403"' not in page


@pytest.mark.parametrize(
    "question",
    [
        "get secrets",
        "get services",
        "update scheduledjobs.quarterjack.dev",
        "create pods --subresource=exec",
        "'*' '*'",
    ],
)
def test_a_replica_may_do_no_more_than_it_needs(demo: Demo, question: str) -> None:
    account = "--as=system:serviceaccount:quarterjack-system:quarterjack"

    answer = demo.kubectl(f"kubectl auth can-i {question} {account} --all-namespaces || true")

    assert answer.strip() == "no"


def test_killing_a_replica_loses_no_firing_and_doubles_none(demo: Demo) -> None:
    victim, _ = demo.replicas()[0]
    killed = time.time()

    os.kill(victim, signal.SIGKILL)
    first = (int(killed) // 10 + 1) * 10
    due = [first + 10 * number for number in range(FIRINGS_WATCHED)]
    seen = Seen()
    while not seen.succeeded.issuperset(due):
        assert time.time() < killed + FIRINGS_WITHIN_SECONDS, f"due {due}, {seen}"
        seen.look(demo)

    assert {firing: len(seen.pods[firing]) for firing in due} == dict.fromkeys(due, 1)


def test_up_again_is_quick_and_revives_the_dead_only(demo: Demo) -> None:
    before = demo.replicas()

    took_seconds = demo.up()

    after = demo.replicas()
    assert took_seconds < 60
    assert all(process_alive(pid) for pid, _ in after)
    assert after[1:] == before[1:]
    assert after[0][0] != before[0][0]


def test_down_leaves_no_process_and_no_state(demo: Demo) -> None:
    state = Path(demo.environment["QUARTERJACK_STATE"])
    status = json.loads(_cluster(demo, "status"))
    pids = [*(pid for pid, _ in demo.replicas()), *status["processes"].values()]
    slot = json.loads((state / NAME / "cluster.json").read_text())["slot"]

    command("down", NAME, demo.environment)

    assert not [pid for pid in pids if process_alive(pid)]
    assert not state.exists()
    assert not Path("/sys/class/net", Layout(NAME, slot).link).exists()
    assert not list(Path("/sys/fs/cgroup").rglob(f"*quarterjack-{NAME}*"))


def test_a_cluster_of_somebody_else_is_left_as_it_was(
    node_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root = tmp_path_factory.mktemp("current")
    environment = {"QUARTERJACK_STATE": str(root / "state"), "KUBECONFIG": str(node_cluster.kubeconfig)}
    before = _all_that_up_adds(node_cluster)

    try:
        printed = command("up", "current", environment)
    finally:
        command("down", "current", environment)

    assert "every-ten-seconds" in printed
    assert _all_that_up_adds(node_cluster) == before
    assert not (root / "state").exists()


def _all_that_up_adds(cluster: Cluster) -> set[str]:
    kinds = "crds,namespaces,clusterroles,clusterrolebindings,validatingadmissionpolicies"
    names = cluster.kubectl("get", kinds, "-o", "name").split()
    pods = cluster.kubectl("get", "pods", "-l", "quarterjack.dev/job", "-o", "name").split()
    return {*names, *pods}


def _succeeded(job: Mapping[str, Any]) -> list[int]:
    """The epoch seconds of the firings that have a record of success."""
    history = job.get("status", {}).get("history", ())
    return [_epoch(line["scheduledTime"]) for line in history if line["state"] == "Succeeded"]


def _epoch(text: str) -> int:
    return int(datetime.fromisoformat(text).timestamp())


def _page(url: str) -> str:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=10) as answer:
        text: str = answer.read().decode()
        return text


def _cluster(demo: Demo, verb: str) -> str:
    line = f"cd {shlex.quote(str(ROOT))} && {shlex.quote(sys.executable)} -m tests.cluster {verb} --name {NAME}"
    return demo.kubectl(line)
