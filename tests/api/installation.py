"""An installation of the operator on the control plane: a namespace for its claims, one for its jobs, and replicas."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.crds.kubectl import Kubectl
from tests.fleet import Fleet
from tests.fleet.preloaded import Preloaded

JOBS = "/apis/quarterjack.dev/v1alpha1/namespaces/{}/scheduledjobs"
Document = dict[str, Any]


def epoch(text: str) -> int:
    """The epoch second of an RFC 3339 text."""
    return int(datetime.fromisoformat(text).timestamp())


def job(name: str, schedule: str | None, **spec: object) -> Document:
    """A ScheduledJob whose Pods no scheduler takes: what counts is that they exist."""
    containers = [{"name": "main", "image": "busybox:1.36"}]
    pod = {"schedulerName": "nobody", "automountServiceAccountToken": False, "containers": containers}
    template = {"spec": pod}
    spec = {"schedule": schedule, "concurrencyPolicy": "Allow", "template": template} | spec
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJob",
        "metadata": {"name": name},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def simulated_template(*, seconds: float = 1, exit_code: int = 0, **pod: Any) -> Document:
    """Of Pods that run so long and end so, as objects only, on the node of `simulated`; `pod`: more of their spec."""
    how = {"duration": f"{int(seconds * 1000)}ms", "exit-code": str(exit_code)}
    annotations = {f"simulated.quarterjack.dev/{key}": value for key, value in how.items()}
    containers = [{"name": "main", "image": "busybox:1.36"}]
    return {"metadata": {"annotations": annotations}, "spec": {"containers": containers} | pod}


Install = Callable[[], "Installation"]


@dataclass(frozen=True, slots=True)
class Installation:
    """Where it is installed, and its replicas."""

    cluster: Cluster
    namespace: str  # of its jobs
    own_namespace: str
    log_dir: Path
    preloaded: Preloaded | None = None  # of which its replicas are forked

    @classmethod
    def make(cls, cluster: Cluster, directory: Path, preloaded: Preloaded | None = None) -> Installation:
        """A new one, in namespaces of its own, so that it sees no other's jobs."""
        name = f"jobs-{time.monotonic_ns()}"
        made = cls(cluster, name, f"own-{name}", directory / name, preloaded)
        for namespace in (made.namespace, made.own_namespace):
            answer = cluster.api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
            assert answer.status == 201, answer.text
        return made

    def fleet(self, *, replicas: int = 3, preloaded: Preloaded | None = None) -> Fleet:
        """Replicas that serve the one namespace."""
        flags = ("--namespace", self.own_namespace, "--watch-namespace", self.namespace)
        return Fleet(
            self.cluster.kubeconfig, self.log_dir, replicas=replicas, flags=flags, preloaded=preloaded or self.preloaded
        )

    @property
    def kubectl(self) -> Kubectl:
        """kubectl in the namespace of the jobs."""
        return Kubectl(self.cluster, self.namespace)

    def apply(self, documents: Iterable[Document]) -> None:
        """Create jobs."""
        listed = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl.out("create", "-f", "-", stdin=json.dumps(listed))

    def jobs(self) -> dict[str, Document]:
        """All jobs, by name."""
        items = self.cluster.api.get(JOBS.format(self.namespace)).json()["items"]
        return {item["metadata"]["name"]: item for item in items}

    def read(self, name: str) -> Document:
        """One job."""
        document: Document = self.cluster.api.get(f"{JOBS.format(self.namespace)}/{name}").json()
        return document

    def wait_for(self, what: str, holds: Callable[[], object], *, seconds: float) -> None:
        """Wait until something holds; an AssertionError that names it, with the replicas' last words, where it does not."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if holds():
                return
            time.sleep(0.25)
        lacking = f"not within {seconds} s: {what}"  # said twice, for the words between are many
        assert holds(), f"{lacking}\n{self.last_words()}\n{lacking}"

    def last_words(self) -> str:
        """The end of each replica's log."""
        paths = sorted(self.log_dir.glob("*.log"))
        return "\n".join(f"--- {p.name}\n" + "\n".join(p.read_text(errors="replace").splitlines()[-8:]) for p in paths)

    def remove(self) -> None:
        """Remove both namespaces."""
        for namespace in (self.namespace, self.own_namespace):
            self.cluster.api.request("DELETE", f"/api/v1/namespaces/{namespace}")


def runs(document: Document) -> dict[int, Document]:
    """A job's history by scheduled epoch second, without the coalesced lines."""
    history = (document.get("status") or {}).get("history") or []
    return {epoch(line["scheduledTime"]): line for line in history if not line.get("count")}


def missed(document: Document) -> list[tuple[int, int, int]]:
    """The coalesced lines of a history: first, last, count."""
    history = (document.get("status") or {}).get("history") or []
    return [
        (epoch(line["firstScheduledTime"]), epoch(line["lastScheduledTime"]), line["count"])
        for line in history
        if line.get("count")
    ]


def end_of(document: Document, firing: int) -> str:
    """What became of a firing: a run's state, Missed, or nothing."""
    line = runs(document).get(firing)
    if line is not None:
        return str(line["state"])
    return "Missed" if any(first <= firing <= last for first, last, _ in missed(document)) else "nothing"


def now_utc() -> str:
    """This moment, as the API writes it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
