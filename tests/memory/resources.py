"""The resources that the server knows, and the paths that lead to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

GROUP = "quarterjack.dev"


@dataclass(frozen=True, slots=True)
class Resource:
    """One resource of the API."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    has_status: bool = False  # a status subresource: the main one ignores status
    custom: bool = False  # from a CustomResourceDefinition: generation counts changes of the spec
    fields: tuple[str, ...] = ()  # that may be selected by, beside metadata.name and metadata.namespace

    @property
    def api_version(self) -> str:
        """As documents spell it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """As messages spell it."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The path of a collection or an object."""
        parts = ["", "apis" if self.group else "api", self.api_version]
        parts += ["namespaces", namespace] if namespace and self.namespaced else []
        return "/".join([*parts, self.plural, *(p for p in (name, subresource) if p)])


JOBS = Resource(
    GROUP,
    "v1alpha1",
    "scheduledjobs",
    "ScheduledJob",
    has_status=True,
    custom=True,
    fields=("spec.suspend", "status.health"),
)
RUNS = Resource(
    GROUP,
    "v1alpha1",
    "scheduledjobruns",
    "ScheduledJobRun",
    has_status=True,
    custom=True,
    fields=("spec.scheduledJobName", "status.state"),
)
LEASES = Resource("coordination.k8s.io", "v1", "leases", "Lease")
PODS = Resource("", "v1", "pods", "Pod", has_status=True, fields=("status.phase", "spec.nodeName"))
CONFIG_MAPS = Resource("", "v1", "configmaps", "ConfigMap")
EVENTS = Resource("events.k8s.io", "v1", "events", "Event")
NAMESPACES = Resource("", "v1", "namespaces", "Namespace", namespaced=False, has_status=True)

ALL = (JOBS, RUNS, LEASES, PODS, CONFIG_MAPS, EVENTS, NAMESPACES)
_BY_PLACE = {(r.group, r.version, r.plural): r for r in ALL}


class Target(NamedTuple):
    """What a path points to: a collection where there is no name."""

    resource: Resource
    namespace: str | None
    name: str | None
    subresource: str | None


def parse_path(path: str) -> Target | None:
    """The target of a path, None where it leads nowhere."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = None
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource = _BY_PLACE.get((group, version, rest[0]))
    if resource is None or len(rest) > 3 or (namespace is not None and not resource.namespaced):
        return None
    name, subresource = [*rest[1:], "", ""][:2]
    if name and resource.namespaced and namespace is None:
        return None
    return Target(resource, namespace, name or None, subresource or None)
