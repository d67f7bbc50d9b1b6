"""Writes as the server commits them: who may change what, under which conditions, and what becomes of it."""

from __future__ import annotations

import random
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from quarterjack.transport import MERGE_PATCH

from . import admission, garbage
from .admission import rfc3339
from .calls import Call, merged
from .fields import manage
from .ledger import Ledger
from .resources import LEASES, NAMESPACES, PODS, Resource, Target
from .schema import shaped
from .selectors import Selector, selector
from .statuses import (
    Document,
    Refused,
    already_exists,
    bad_request,
    conflict,
    forbidden,
    invalid,
    not_found,
)
from .store import Store, Version
from .virtual import VirtualClock, later
from .watches import Watch

GRACE_SECONDS = 30
_KEPT = (
    "uid",
    "creationTimestamp",
    "generation",
    "name",
    "namespace",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)


@dataclass(slots=True)
class Options:
    """How this server is set up, and how it fails; may be changed while it runs."""

    fence: bool = True
    up: bool = True  # off: no connection at all
    gone_as_event: bool = False  # a watch from too old a revision: 200 and an ERROR event, instead of 410
    bookmark_seconds: float = 60.0
    bookmarks_behind: bool = False  # a bookmark tells only of what its watch has shown: a cache without word from etcd
    split_streams: bool = False  # PodLogsQuerySplitStreams
    collect_seconds: float | None = None  # garbage is collected by itself, so long after a delete
    # Quotas and webhooks: each is called with the verb (CREATE, UPDATE), the resource and the object, and may say no.
    refuse: list[admission.Admission] = field(default_factory=list)


class Cluster:
    """One cluster's objects. Its clock is the scenario's, as far off as one likes."""

    def __init__(self, *, clock: VirtualClock | None = None, history: int = 100_000, seed: int = 0) -> None:
        self.clock = clock or VirtualClock()
        self.options = Options()
        self.store = Store(history=history)
        self.ledger = Ledger()
        self.watches: set[Watch] = set()
        self.logs: dict[tuple[str, str], str] = {}  # by namespace and Pod
        self.warnings: dict[tuple[str, str], str] = {}  # what each has on its standard error, after the rest
        self.counts: Counter[tuple[str, str]] = Counter()  # of (verb, resource)
        self._random = random.Random(seed)
        for name in ("default", "quarterjack"):
            self.add_namespace(name, created="2026-01-01T00:00:00Z")

    def add_namespace(self, name: str, *, created: str = "") -> str:
        """Make a namespace, unless it is there; its UID."""
        known = self.store.get(NAMESPACES, "", name)
        if known is None:
            meta = {"name": name, "uid": self.new_uid(), "creationTimestamp": created or rfc3339(self.clock.wall())}
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": meta, "status": {"phase": "Active"}}
            known = self.store.put(NAMESPACES, namespace)
        uid: str = known.document["metadata"]["uid"]
        return uid

    def new_uid(self) -> str:
        """A UID; the same ones in every run of a scenario."""
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))

    def find(self, target: Target) -> Version | None:
        """The object that a path names, as it is now."""
        return self.store.get(target.resource, target.namespace or "", target.name or "")

    def need(self, target: Target) -> Version:
        """The same; a Refused of 404 where there is none."""
        found = self.find(target)
        if found is None:
            raise not_found(target.resource, target.name or "")
        return found

    def select(self, resource: Resource, shows: Selector) -> list[Version]:
        """The objects that a selector shows, in the order of their keys."""
        objects = self.store.tables[resource].objects
        return [objects[key] for key in sorted(objects) if shows(objects[key].document)]

    # Creates

    def create(self, call: Call, target: Target) -> tuple[int, bytes]:
        """Commit a create."""
        resource, document = target.resource, call.json()
        if (document.get("apiVersion"), document.get("kind")) != (resource.api_version, resource.kind):
            raise bad_request(f"{document.get('apiVersion')}, {document.get('kind')} is not {resource.kind}")
        meta = dict(document.get("metadata") or {})
        if meta.get("resourceVersion"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        if resource.namespaced and meta.setdefault("namespace", target.namespace) != target.namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not meta.get("name"):
            meta["name"] = self._make_name(resource, meta)
        return self._add(call, target._replace(name=meta["name"]), {**document, "metadata": meta})

    def _make_name(self, resource: Resource, meta: Mapping[str, Any]) -> str:
        if not meta.get("generateName"):
            raise invalid(resource, "", [("metadata.name", "Required value: name or generateName is required")])
        return str(meta["generateName"]) + "".join(self._random.choices("bcdfghjklmnpqrstvwxz2456789", k=5))

    def _add(self, call: Call, target: Target, document: Document) -> tuple[int, bytes]:
        """Create: also what a PUT of a Lease does that is not there."""
        resource, name = target.resource, target.name or ""
        self._admit_namespace(target)
        meta = document["metadata"]
        meta |= {"uid": self.new_uid(), "creationTimestamp": rfc3339(call.stamp)}
        for unasked in ("resourceVersion", "generation", "deletionTimestamp", "managedFields", "selfLink"):
            meta.pop(unasked, None)
        if resource.has_status:
            document.pop("status", None)
        if resource.custom:
            meta["generation"] = 1
        document = shaped(resource, document, "spec")
        admission.set_defaults(resource, document)
        admission.validate_create(resource, document)
        self._admit("CREATE", resource, document)
        if self.find(target) is not None:
            raise already_exists(resource, name)
        meta["managedFields"] = manage(None, document, by=self._by(call), time=rfc3339(call.stamp), subresource="")
        if call.query.get("dryRun"):
            return 201, Version(document, 0).encoded(metadata_only=call.metadata_only)
        version = self.store.put(resource, document)
        self.ledger.note(resource, version.document, at=self.clock.wall())
        return 201, version.encoded(metadata_only=call.metadata_only)

    def _admit_namespace(self, target: Target) -> None:
        if not target.resource.namespaced:
            return
        namespace = self.store.get(NAMESPACES, "", target.namespace or "")
        if namespace is None:
            raise not_found(NAMESPACES, target.namespace or "")
        if "deletionTimestamp" in namespace.document["metadata"]:
            why = f"unable to create new content in namespace {target.namespace} because it is being terminated"
            raise forbidden(target.resource, target.name or "", why, cause="NamespaceTerminating")

    def _admit(self, verb: str, resource: Resource, document: Document) -> None:
        if self.options.fence and verb == "CREATE":
            admission.fence(resource, document)
        for refuse in self.options.refuse:
            if (no := refuse(verb, resource, document)) is not None:
                raise no

    def _by(self, call: Call) -> str:
        return call.query.get("fieldManager") or call.by

    # Updates

    def update(self, call: Call, target: Target) -> tuple[int, bytes]:
        """Commit a PUT or a PATCH."""
        resource, current, body = target.resource, self.find(target), call.json()
        meta = dict(body.get("metadata") or {})
        if call.method == "PATCH" and call.content_type != MERGE_PATCH:
            raise Refused(415, "UnsupportedMediaType", f"not modelled: {call.content_type}", details={})
        if meta.get("name", target.name) != target.name:
            raise bad_request("the name of the object does not match the name on the URL")
        if current is None:
            return self._update_of_nothing(call, target, body)
        old = current.document
        body = merged(old, body) if call.method == "PATCH" else body
        self._check_versions(resource, call, old, meta)
        part = target.subresource or "spec"
        new = shaped(resource, self._next(target, old, body), part, old)
        admission.validate_update(resource, old, new, part=part)
        self._admit("UPDATE", resource, new)
        if _same(old, new):
            return 200, current.encoded(metadata_only=call.metadata_only)
        if resource.custom and old.get("spec") != new.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        new["metadata"]["managedFields"] = manage(
            old, new, by=self._by(call), time=rfc3339(call.stamp), subresource=target.subresource or ""
        )
        if call.query.get("dryRun"):
            return 200, Version(new, current.revision).encoded(metadata_only=call.metadata_only)
        return 200, self.settle(resource, new).encoded(metadata_only=call.metadata_only)

    def _update_of_nothing(self, call: Call, target: Target, body: Document) -> tuple[int, bytes]:
        """A PUT of a Lease that is not there creates it, as on the real server; unless it names a UID."""
        resource, meta = target.resource, body.get("metadata") or {}
        if call.method == "PATCH" or resource is not LEASES:
            raise not_found(resource, target.name or "")
        if meta.get("uid"):
            raise conflict(resource, target.name or "", _uid_differs(meta["uid"], ""))
        return self._add(
            call, target, {**body, "metadata": {**meta, "name": target.name, "namespace": target.namespace}}
        )

    def _check_versions(self, resource: Resource, call: Call, old: Document, asked: Mapping[str, Any]) -> None:
        name, is_now = old["metadata"]["name"], old["metadata"]
        if asked.get("uid") and asked["uid"] != is_now["uid"]:
            raise conflict(resource, name, _uid_differs(asked["uid"], is_now["uid"]))
        if asked.get("resourceVersion"):
            if asked["resourceVersion"] != is_now["resourceVersion"]:
                raise conflict(resource, name)
        elif call.method == "PUT" and resource is not PODS:
            raise invalid(
                resource, name, [("metadata.resourceVersion", "Invalid value: 0: must be specified for an update")]
            )

    def _next(self, target: Target, old: Document, body: Document) -> Document:
        """The new version, of which the request may have changed no more than it is allowed to."""
        if target.subresource == "status":
            new = {**old, "metadata": dict(old["metadata"])}
            new.pop("status", None)
            return new | ({"status": body["status"]} if body.get("status") is not None else {})
        new = {**body, "apiVersion": old["apiVersion"], "kind": old["kind"]}
        meta = {
            k: v
            for k, v in (body.get("metadata") or {}).items()
            if k not in (*_KEPT, "resourceVersion", "managedFields")
        }
        new["metadata"] = meta | {k: old["metadata"][k] for k in _KEPT if k in old["metadata"]}
        if target.resource.has_status:
            new.pop("status", None)
            new |= {"status": old["status"]} if "status" in old else {}
        return new

    def settle(self, resource: Resource, document: Document) -> Version:
        """Store a new version; one that waits for its end, and is held up by nothing any more, goes instead."""
        meta = document["metadata"]
        if "deletionTimestamp" in meta and not meta.get("finalizers") and not meta.get("deletionGracePeriodSeconds"):
            return self._remove(resource, document)
        return self.store.put(resource, document)

    # Deletes

    def delete_one(self, call: Call, target: Target) -> tuple[int, bytes]:
        """Commit the delete of one object."""
        resource, options = target.resource, self._delete_options(call)
        document = self.need(target).document
        meta, asked = document["metadata"], options.get("preconditions") or {}
        if asked.get("uid", meta["uid"]) != meta["uid"]:
            raise conflict(resource, meta["name"], _uid_differs(asked["uid"], meta["uid"]))
        if asked.get("resourceVersion", meta["resourceVersion"]) != meta["resourceVersion"]:
            why = f"Precondition failed: ResourceVersion in precondition: {asked['resourceVersion']}, "
            why += "ResourceVersion in object meta: "
            raise conflict(resource, meta["name"], why + meta["resourceVersion"])
        if call.query.get("dryRun") or options.get("dryRun"):
            return 200, Version(document, 0).encoded(metadata_only=call.metadata_only)
        last, gone = self.delete(resource, document, options)
        if gone and resource is not PODS:
            group = {"group": resource.group} if resource.group else {}
            details = {"name": meta["name"]} | group | {"kind": resource.plural, "uid": meta["uid"]}
            done = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}
            return 200, orjson.dumps(done)
        return 200, last.encoded(metadata_only=call.metadata_only)

    def _delete_options(self, call: Call) -> Document:
        options = call.json() if call.body.strip() else {}
        if "gracePeriodSeconds" in call.query:
            options["gracePeriodSeconds"] = int(call.query["gracePeriodSeconds"])
        if "propagationPolicy" in call.query:
            options["propagationPolicy"] = call.query["propagationPolicy"]
        return options

    def delete(self, resource: Resource, document: Document, options: Mapping[str, Any]) -> tuple[Version, bool]:
        """Delete an object, or mark it where something holds it; its last version, and whether it is gone."""
        meta = dict(document["metadata"])
        finalizers = list(meta.get("finalizers") or ())
        policy = {"Foreground": "foregroundDeletion", "Orphan": "orphan"}.get(options.get("propagationPolicy", ""))
        if policy and policy not in finalizers:
            finalizers.append(policy)
        grace = _grace_seconds(document, options.get("gracePeriodSeconds")) if resource is PODS else 0
        if not grace and not finalizers:
            return self._remove(resource, document), True
        if "deletionTimestamp" in meta and grace >= meta.get("deletionGracePeriodSeconds", 0):
            return self.store.tables[resource].objects[meta.get("namespace", ""), meta["name"]], False
        meta |= {"deletionTimestamp": rfc3339(self.clock.wall() + grace), "deletionGracePeriodSeconds": grace}
        meta |= {"finalizers": finalizers} if finalizers else {}
        if resource.custom and "deletionTimestamp" not in document["metadata"]:
            meta["generation"] += 1
        return self.store.put(resource, {**document, "metadata": meta}), False

    def _remove(self, resource: Resource, document: Document) -> Version:
        version = self.store.remove(resource, document)
        if self.options.collect_seconds is not None and resource not in (PODS, LEASES):  # these own nothing
            later(self.options.collect_seconds, self.collect_garbage)
        return version

    def delete_collection(self, call: Call, target: Target) -> tuple[int, bytes]:
        """Commit the delete of all that a selector shows."""
        shows = selector(target.resource, target.namespace, call.query)
        options = self._delete_options(call)
        found = self.select(target.resource, shows)
        for version in found:
            self.delete(target.resource, version.document, options)
        items = b",".join(version.encoded(metadata_only=call.metadata_only) for version in found)
        head = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version}
        head_bytes = orjson.dumps(head | {"metadata": {"resourceVersion": str(self.store.revision)}})
        return 200, head_bytes[:-1] + b',"items":[' + items + b"]}"

    # What happens without a request

    def compact(self) -> None:
        """Forget all history, as etcd does every five minutes: lists half read and watches cut off begin anew."""
        self.store.compact()

    def collect_garbage(self) -> None:
        """Delete what has owners of which none is left."""
        garbage.collect(self)


def _same(old: Document, new: Document) -> bool:
    """Whether a write changes nothing."""
    ignored = ("resourceVersion", "managedFields")
    metas = [{k: v for k, v in d["metadata"].items() if k not in ignored and v} for d in (old, new)]
    return metas[0] == metas[1] and {**old, "metadata": None} == {**new, "metadata": None}


def _uid_differs(asked: str, is_now: str) -> str:
    return f"Precondition failed: UID in precondition: {asked}, UID in object meta: {is_now}"


def _grace_seconds(pod: Document, asked: int | None) -> int:
    """A Pod that was never bound to a node, or has ended, needs none."""
    if not pod["spec"].get("nodeName") or pod.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(pod["spec"].get("terminationGracePeriodSeconds", GRACE_SECONDS) if asked is None else asked)
