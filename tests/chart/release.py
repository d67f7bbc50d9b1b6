"""A release of the chart on a cluster, as a user has it: installed, tested, upgraded and uninstalled with Helm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.api.installation import Document
from tests.api.observer import Firing, PodObserver
from tests.chart import image
from tests.chart.helm import CHART, RELEASE, Helm
from tests.cluster import Cluster
from tests.crds.kubectl import Kubectl

# What a release leaves when it is uninstalled.
KEPT = (
    "crd/scheduledjobs.quarterjack.dev",
    "crd/scheduledjobruns.quarterjack.dev",
    "validatingadmissionpolicy/quarterjack-fence",
    "validatingadmissionpolicybinding/quarterjack-fence",
)
VALUES: dict[str, Any] = {"image": {"repository": image.REPOSITORY, "tag": image.TAG, "pullPolicy": "Never"}}
_WAIT = ("--wait", "--timeout=400s")


@dataclass(frozen=True, slots=True)
class Release:
    """A release in a namespace, whether it is installed or not."""

    cluster: Cluster
    helm: Helm
    name: str
    namespace: str

    @property
    def kubectl(self) -> Kubectl:
        """kubectl in the operator's own namespace."""
        return Kubectl(self.cluster, self.namespace)

    @property
    def account(self) -> str:
        """The user that the operator is to the API server."""
        [replica, *_] = self.replicas()
        return f"system:serviceaccount:{self.namespace}:{replica['spec']['serviceAccountName']}"

    def install(self, *flags: str, **values: Any) -> str:
        """Install it, and wait until its replicas are ready."""
        return self._run("install", self.name, str(CHART), *_WAIT, *flags, values=VALUES | values)

    def upgrade(self, **values: Any) -> str:
        """Upgrade it, and wait until its replicas are new and ready."""
        return self._run("upgrade", self.name, str(CHART), *_WAIT, values=VALUES | values)

    def uninstall(self) -> str:
        """Uninstall it, and wait until its Pods are gone."""
        return self._run("uninstall", self.name, *_WAIT)

    def test(self) -> str:
        """`helm test`."""
        return self._run("test", self.name, "--timeout=300s", "--logs")

    def _run(self, *arguments: str, values: dict[str, Any] | None = None) -> str:
        return self.helm.out(*arguments, f"--namespace={self.namespace}", values=values)

    def replicas(self) -> list[Document]:
        """Its Pods that are to stay."""
        pods = self.kubectl.get("pods", "-l", "app.kubernetes.io/component=replica")["items"]
        return [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]

    def ready(self) -> list[Document]:
        """Those of them that are ready."""
        return [pod for pod in self.replicas() if _is_ready(pod)]

    def page(self, pod: Document, path: str) -> str:
        """A page that a replica serves."""
        place = f"/api/v1/namespaces/{self.namespace}/pods/{pod['metadata']['name']}:8080/proxy"
        return self.kubectl.out("get", "--raw", place + path)


def _is_ready(pod: Document) -> bool:
    conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", ())}
    return conditions.get("Ready") == "True"


@contextmanager
def release_in(cluster: Cluster, home: Path, namespace: str, *others: str) -> Iterator[Release]:
    """A release, to be installed where only restricted Pods are let in, and other namespaces; before and after nothing is there."""
    kubectl = Kubectl(cluster, namespace)
    release = Release(cluster, Helm(home, cluster.kubeconfig), RELEASE, namespace)
    kubectl.out("delete", *KEPT, "--ignore-not-found")
    for each in (namespace, *others):
        kubectl.out("create", "namespace", each)
    kubectl.out("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    cluster.load_image(image.archive())
    try:
        yield release
    finally:
        release.helm.run("uninstall", RELEASE, f"--namespace={namespace}", *_WAIT)
        kubectl.out("delete", *KEPT, "--ignore-not-found")
        kubectl.out("delete", "namespaces", namespace, *others, "--wait=false")


def firings(names: Iterable[str], first: float, last: float, every: int) -> set[Firing]:
    """What jobs that are due every so many seconds have due in between (epoch seconds)."""
    due = [second for second in range(int(first) + 1, int(last) + 1) if second % every == 0]
    return {(name, second) for name in names for second in due}


def doubles(observer: PodObserver) -> list[tuple[str, int, int]]:
    """Attempts of firings that have more than one Pod; the observer must have seen all."""
    assert observer.errors == []
    counts = Counter((each.job, each.scheduled, each.attempt) for each in list(observer.sightings.values()))
    return [key for key, count in counts.items() if count > 1]
