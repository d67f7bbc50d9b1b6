"""Who else acts on the cluster: users, and a kubelet. They speak to the server directly, past every network."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from quarterjack import names
from quarterjack.transport import MERGE_PATCH, Response

from .admission import rfc3339
from .resources import JOBS, NAMESPACES, PODS, RUNS, Resource
from .server import MemoryApi
from .statuses import Document
from .store import Change
from .virtual import later

CONTAINERS = [{"name": "main", "image": "busybox:1.36"}]
TEMPLATE: Document = {"spec": {"containers": CONTAINERS, "restartPolicy": "Never"}}
NODE = "node-1"
_HELD = {
    "ImagePullBackOff": "Back-off pulling image",
    "Unschedulable": "0/1 nodes are available: 1 Insufficient memory.",
}
_TOO_LONG = "Pod was active on the node longer than the specified deadline"


def attempt_of(pod: Document) -> int:
    """Which attempt of its run or its unit a Pod is."""
    return int(pod["metadata"]["annotations"][names.ATTEMPT])


def ask(
    api: MemoryApi, method: str, path: str, body: Mapping[str, Any] | None = None, *, by: str = "kubectl", **query: str
) -> Response:
    """One request of a user, done at once."""
    content_type = MERGE_PATCH if method == "PATCH" else "application/json"
    sent = b"" if body is None else orjson.dumps(body)
    return api.commit(api.arrive(method, path, query=query, body=sent, content_type=content_type, by=by))


def succeed(response: Response) -> Document:
    """The document of an answer; AssertionError where it is a failure."""
    document: Document = orjson.loads(response.body)
    assert response.status < 300, document
    return document


def read(api: MemoryApi, resource: Resource, name: str, namespace: str = "default") -> Document | None:
    """An object as it is now, None where there is none."""
    found = api.store.get(resource, namespace if resource.namespaced else "", name)
    return None if found is None else found.document


def objects(api: MemoryApi, resource: Resource) -> list[Document]:
    """All objects of a resource, in the order of their keys."""
    return [version.document for version in api.select(resource, lambda _: True)]


# Users


def apply_job(
    api: MemoryApi, name: str, spec: Mapping[str, Any], *, namespace: str = "default", **metadata: Any
) -> Document:
    """Create a ScheduledJob, or bring its spec to this. A template is added where there is none."""
    api.add_namespace(namespace)
    whole = {"template": TEMPLATE, **spec}
    if read(api, JOBS, name, namespace) is not None:
        current = succeed(ask(api, "GET", JOBS.path(namespace, name)))
        current["metadata"].pop("managedFields", None)
        return succeed(ask(api, "PUT", JOBS.path(namespace, name), current | {"spec": whole}))
    body = {"apiVersion": JOBS.api_version, "kind": JOBS.kind, "metadata": {"name": name, **metadata}, "spec": whole}
    return succeed(ask(api, "POST", JOBS.path(namespace), body))


def edit_spec(api: MemoryApi, name: str, *, namespace: str = "default", **changes: Any) -> Document:
    """Patch a ScheduledJob's spec; None takes a field out."""
    return succeed(ask(api, "PATCH", JOBS.path(namespace, name), {"spec": changes}))


def annotate(
    api: MemoryApi, resource: Resource, name: str, *, namespace: str = "default", **notes: str | None
) -> Document:
    """Set annotations; None takes one away."""
    return succeed(ask(api, "PATCH", resource.path(namespace, name), {"metadata": {"annotations": notes}}))


def start_run(
    api: MemoryApi,
    name: str,
    job: str,
    *,
    namespace: str = "default",
    options: Mapping[str, str] | None = None,
    **spec: Any,
) -> Document:
    """Create a ScheduledJobRun."""
    given = {"options": dict(options)} if options else {}
    body = {"apiVersion": RUNS.api_version, "kind": RUNS.kind, "metadata": {"name": name}}
    return succeed(ask(api, "POST", RUNS.path(namespace), body | {"spec": {"scheduledJobName": job} | given | spec}))


def delete(api: MemoryApi, resource: Resource, name: str, *, namespace: str = "default", **options: Any) -> Document:
    """Delete an object, with DeleteOptions."""
    return succeed(ask(api, "DELETE", resource.path(namespace, name), options))


def delete_pod(api: MemoryApi, name: str, *, namespace: str = "default", now: bool = False) -> None:
    """`kubectl delete pod`; with `now` as with --force --grace-period=0."""
    delete(api, PODS, name, namespace=namespace, **({"gracePeriodSeconds": 0} if now else {}))


def delete_namespace(api: MemoryApi, name: str) -> None:
    """Mark a namespace as going, delete its Pods, the rest once these are gone, and the namespace itself once it is empty."""
    namespace = read(api, NAMESPACES, name)
    assert namespace is not None
    if "deletionTimestamp" not in namespace["metadata"]:
        meta = namespace["metadata"] | {"deletionTimestamp": rfc3339(api.clock.wall())}
        api.store.put(NAMESPACES, namespace | {"metadata": meta, "status": {"phase": "Terminating"}})
    for resource in sorted(api.store.tables, key=lambda table: table is not PODS):
        for document in objects(api, resource):
            if document["metadata"].get("namespace") == name:
                api.delete(resource, document, {})
        if resource is PODS and any(pod["metadata"]["namespace"] == name for pod in objects(api, PODS)):
            return
    left = [d for r in api.store.tables for d in objects(api, r) if d["metadata"].get("namespace") == name]
    current = read(api, NAMESPACES, name)
    if not left and current is not None:
        api.store.remove(NAMESPACES, current)


# The kubelet


def start_pod(api: MemoryApi, name: str, *, namespace: str = "default", node: str = NODE) -> Document:
    """Bind a Pod to a node, and run it."""
    pod = _pod(api, name, namespace)
    now = rfc3339(api.clock.wall())
    state = {"running": {"startedAt": now}}
    status = {
        **pod["status"],
        "phase": "Running",
        "startTime": pod["status"].get("startTime", now),
        "conditions": _conditions(at=now),
        "containerStatuses": [_container(c, state, ready=True) for c in pod["spec"]["containers"]],
    }
    return api.settle(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}, "status": status}).document


def hold_pod(api: MemoryApi, name: str, reason: str, message: str = "", *, namespace: str = "default") -> Document:
    """A Pod that cannot start, such as with ImagePullBackOff; with Unschedulable it has no node either."""
    pod = _pod(api, name, namespace)
    now = rfc3339(api.clock.wall())
    if reason == "Unschedulable":
        unbound = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": now,
        }
        return api.settle(PODS, {**pod, "status": {**pod["status"], "conditions": [unbound]}}).document
    state = {"waiting": {"reason": reason, "message": message}}
    status = {
        **pod["status"],
        "startTime": pod["status"].get("startTime", now),
        "conditions": _conditions(at=now, unready="ContainersNotReady"),
        "containerStatuses": [_container(c, state, ready=False) for c in pod["spec"]["containers"]],
    }
    return api.settle(PODS, {**pod, "spec": {**pod["spec"], "nodeName": NODE}, "status": status}).document


def give_up_pod(api: MemoryApi, name: str, reason: str, message: str, *, namespace: str = "default") -> Document:
    """A Pod that fails before any container has started: what they waited for is told no more."""
    pod = _pod(api, name, namespace)
    given = {"phase": "Failed", "reason": reason, "message": message, "containerStatuses": []}
    return api.settle(PODS, {**pod, "status": {**pod["status"], **given}}).document


def finish_pod(
    api: MemoryApi,
    name: str,
    phase: str = "Succeeded",
    *,
    exit_code: int | None = None,
    message: str = "",
    reason: str = "",
    namespace: str = "default",
) -> Document:
    """End a Pod. `reason` is the Pod's own (Evicted, DeadlineExceeded), or a container's where that is OOMKilled."""
    pod = _pod(api, name, namespace)
    now = rfc3339(api.clock.wall())
    code = exit_code if exit_code is not None else 0 if phase == "Succeeded" else 1
    by_container = reason == "OOMKilled"
    ended = {
        "exitCode": code,
        "reason": reason if by_container else "Completed" if code == 0 else "Error",
        "startedAt": pod["status"].get("startTime", now),
        "finishedAt": now,
    } | ({"message": message} if message else {})
    status = {
        **pod["status"],
        "phase": phase,
        "startTime": pod["status"].get("startTime", now),
        "conditions": [
            *_conditions(at=now, unready="PodCompleted" if phase == "Succeeded" else "PodFailed"),
            *_marks(pod),
        ],
        "containerStatuses": [_container(c, {"terminated": ended}, ready=False) for c in pod["spec"]["containers"]],
    } | ({"reason": reason, "message": message} if reason and not by_container else {})
    spec = {"nodeName": NODE, **pod["spec"]}
    return api.settle(PODS, {**pod, "spec": spec, "status": status}).document


def end_deletion(api: MemoryApi, name: str, *, namespace: str = "default") -> None:
    """What a kubelet does last: the containers of a Pod that is being deleted have ended, and the Pod goes."""
    pod = _pod(api, name, namespace)
    assert "deletionTimestamp" in pod["metadata"], f"{name} is not being deleted"
    api.delete(PODS, pod, {"gracePeriodSeconds": 0})


def give_up_node(api: MemoryApi, name: str, *, namespace: str = "default") -> None:
    """What the node controller does to a Pod of a node of which it hears nothing: Ready is False, for no reason given."""
    pod = _pod(api, name, namespace)
    conditions = pod["status"].get("conditions") or []
    ready = next((c for c in conditions if c["type"] == "Ready"), None)
    if ready is None or ready["status"] == "False":
        return
    gone = {**ready, "status": "False", "lastTransitionTime": rfc3339(api.clock.wall())}
    others = [c for c in conditions if c is not ready]
    api.settle(PODS, {**pod, "status": {**pod["status"], "conditions": [*others, gone]}})


def vouch_for(api: MemoryApi, name: str, *, namespace: str = "default") -> None:
    """What a kubelet does to a running Pod when its node is back: Ready is True."""
    pod = _pod(api, name, namespace)
    conditions = _conditions(at=rfc3339(api.clock.wall()))
    api.settle(PODS, {**pod, "status": {**pod["status"], "conditions": conditions}})


def evict(api: MemoryApi, name: str, *, namespace: str = "default") -> None:
    """The eviction API: it marks the Pod, then deletes it with its grace."""
    pod = _pod(api, name, namespace)
    mark = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": rfc3339(api.clock.wall()),
    }
    conditions = [*(pod["status"].get("conditions") or ()), mark]
    api.settle(PODS, {**pod, "status": {**pod["status"], "conditions": conditions}})
    delete_pod(api, name, namespace=namespace)


def _pod(api: MemoryApi, name: str, namespace: str) -> Document:
    pod = read(api, PODS, name, namespace)
    assert pod is not None, f"no pod {namespace}/{name}"
    return pod


def _conditions(*, at: str, unready: str = "") -> list[Document]:
    """`unready`: the reason for which the Pod is not ready, which a kubelet always gives."""
    ready = {"status": "False", "reason": unready} if unready else {"status": "True"}
    return [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": at},
        {"type": "Initialized", "status": "True", "lastTransitionTime": at},
        {"type": "Ready", **ready, "lastTransitionTime": at},
        {"type": "ContainersReady", **ready, "lastTransitionTime": at},
    ]


def _marks(pod: Mapping[str, Any]) -> list[Document]:
    """The conditions that others than the kubelet have set, which it keeps."""
    return [c for c in pod["status"].get("conditions") or () if c["type"] == "DisruptionTarget"]


def _container(container: Mapping[str, Any], state: Document, *, ready: bool) -> Document:
    return {
        "name": container["name"],
        "image": container.get("image", ""),
        "ready": ready,
        "restartCount": 0,
        "state": state,
        "started": ready,
    }


@dataclass
class End:
    """How a Pod ends."""

    after_seconds: float | None = 5.0  # None: never
    phase: str = "Succeeded"
    exit_code: int | None = None
    message: str = ""
    reason: str = ""


NODE_GRACE_SECONDS = 50  # after which the node controller gives a silent node up
TOLERATION_SECONDS = 300  # after which the Pods of such a node are deleted


@dataclass
class Kubelet:
    """Runs every Pod by itself: starts it after a while, ends it as `ends` says, obeys deletions. Nodes may be lost and come back."""

    api: MemoryApi
    start_seconds: float = 0.5
    stop_seconds: float = 1.0  # how long a container needs for SIGTERM, at most its grace
    ends: Callable[[Document], End] = field(default=lambda _: End())
    missing: tuple[str, ...] = ()  # images that it cannot pull
    holds: Callable[[Document], str] = field(
        default=lambda _: ""
    )  # why else a Pod does not start, such as Unschedulable
    node: str = NODE  # where Pods are started from now on
    evicts: bool = True  # the Pods of lost nodes are deleted after a while
    lost: dict[str, list[Callable[[], None]]] = field(default_factory=dict)  # by node: what it will do when it is back

    def __post_init__(self) -> None:
        self.api.store.tables[PODS].listeners[id(self)] = self._on_change

    def lose_node(self, node: str = NODE) -> None:
        """A node is cut off: what runs there runs on, and nobody hears of it."""
        self.lost[node] = []
        later(NODE_GRACE_SECONDS, self._to_its_pods, node, give_up_node)
        if self.evicts:
            later(NODE_GRACE_SECONDS + TOLERATION_SECONDS, self._to_its_pods, node, delete_pod)

    def find_node(self, node: str = NODE) -> None:
        """A node is back: its kubelet says what has become of its Pods meanwhile, and obeys what it has not heard."""
        for act in self.lost.pop(node):
            act()
        for pod in objects(self.api, PODS):
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] == "Running":
                vouch_for(self.api, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])

    def _to_its_pods(self, node: str, act: Callable[..., None]) -> None:
        for pod in objects(self.api, PODS) if node in self.lost else ():
            if pod["spec"].get("nodeName") == node and pod["status"]["phase"] in ("Pending", "Running"):
                act(self.api, pod["metadata"]["name"], namespace=pod["metadata"]["namespace"])

    def _on_change(self, change: Change) -> None:
        meta = change.after.document["metadata"]
        if change.deleted:
            return
        if change.before is None:
            later(self.start_seconds, self._start, meta)
        elif "deletionTimestamp" in meta and "deletionTimestamp" not in change.before.document["metadata"]:
            later(min(self.stop_seconds, meta["deletionGracePeriodSeconds"]), self._stop, meta)

    def _here(self, meta: Mapping[str, Any], again: Callable[[], None]) -> Document | None:
        """The Pod, if its kubelet can say something of it now; else it will when its node is back."""
        pod = read(self.api, PODS, meta["name"], meta["namespace"])
        if pod is None or pod["metadata"]["uid"] != meta["uid"]:
            return None
        held = self.lost.get(pod["spec"].get("nodeName", self.node))
        if held is not None:
            held.append(again)
        return pod if held is None else None

    def _start(self, meta: Mapping[str, Any]) -> None:
        pod = self._here(meta, lambda: self._start(meta))
        if pod is None or pod["status"]["phase"] != "Pending" or "deletionTimestamp" in pod["metadata"]:
            return
        limit, reason = pod["spec"].get("activeDeadlineSeconds"), self._why_held(pod)
        if reason:
            hold_pod(self.api, meta["name"], reason, _HELD.get(reason, ""), namespace=meta["namespace"])
            if limit is not None and reason != "Unschedulable":
                later(limit, self._give_up, meta)
            return
        start_pod(self.api, meta["name"], namespace=meta["namespace"], node=self.node)
        end = self.ends(pod)
        if limit is not None and (end.after_seconds is None or end.after_seconds > limit):
            end = End(limit, "Failed", 137, _TOO_LONG, "DeadlineExceeded")
        if end.after_seconds is not None:
            later(end.after_seconds, self._end, meta, end)

    def _end(self, meta: Mapping[str, Any], end: End) -> None:
        pod = self._here(meta, lambda: self._end(meta, end))
        if pod is not None and pod["status"]["phase"] in ("Pending", "Running"):
            finish_pod(
                self.api,
                meta["name"],
                end.phase,
                exit_code=end.exit_code,
                message=end.message,
                reason=end.reason,
                namespace=meta["namespace"],
            )

    def _why_held(self, pod: Document) -> str:
        missing = any(container["image"] in self.missing for container in pod["spec"]["containers"])
        return "ImagePullBackOff" if missing else self.holds(pod)

    def _give_up(self, meta: Mapping[str, Any]) -> None:
        pod = self._here(meta, lambda: self._give_up(meta))
        if pod is not None and pod["status"]["phase"] == "Pending":
            give_up_pod(self.api, meta["name"], "DeadlineExceeded", _TOO_LONG, namespace=meta["namespace"])

    def _stop(self, meta: Mapping[str, Any]) -> None:
        pod = self._here(meta, lambda: self._stop(meta))
        if pod is None:
            return
        if pod["status"]["phase"] in ("Pending", "Running"):
            finish_pod(self.api, meta["name"], "Failed", exit_code=143, namespace=meta["namespace"])
        if not pod["metadata"].get("finalizers"):
            end_deletion(self.api, meta["name"], namespace=meta["namespace"])
