"""The garbage collector: dependents go when none of their owners is left."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .resources import Resource
from .statuses import Document

if TYPE_CHECKING:
    from .writes import Cluster


def collect(api: Cluster) -> None:
    """Delete all that has owners of which none exists, and finish deletes that wait for dependents."""
    before = -1
    while before != api.store.revision:
        before = api.store.revision
        _finish_deletes(api)
        _delete_orphans(api)


def _objects(api: Cluster) -> Iterator[tuple[Resource, Document]]:
    for resource, table in api.store.tables.items():
        for version in tuple(table.objects.values()):
            yield resource, version.document


def _owned_by(api: Cluster, uid: str) -> list[tuple[Resource, Document]]:
    return [
        (r, d) for r, d in _objects(api) if any(o["uid"] == uid for o in d["metadata"].get("ownerReferences") or ())
    ]


def _delete_orphans(api: Cluster) -> None:
    objects = list(_objects(api))
    uids = {document["metadata"]["uid"] for _, document in objects}
    for resource, document in objects:
        owners = document["metadata"].get("ownerReferences") or ()
        if owners and not any(owner["uid"] in uids for owner in owners):
            api.delete(resource, document, {})


def _finish_deletes(api: Cluster) -> None:
    for resource, document in _objects(api):
        held_by = document["metadata"].get("finalizers") or ()
        if "deletionTimestamp" not in document["metadata"]:
            continue
        dependents = _owned_by(api, document["metadata"]["uid"])
        if "orphan" in held_by:
            for kind, dependent in dependents:
                _set_free(api, kind, dependent, document["metadata"]["uid"])
            _let_go(api, resource, document, "orphan")
        elif "foregroundDeletion" in held_by:
            blocking = [(kind, d) for kind, d in dependents if _blocks(d, document["metadata"]["uid"])]
            for kind, dependent in blocking:
                api.delete(kind, dependent, {})
            if not blocking:
                _let_go(api, resource, document, "foregroundDeletion")


def _blocks(dependent: Document, owner_uid: str) -> bool:
    """Whether a deletion in the foreground waits for a dependent; others go afterwards, as what has no owner does."""
    return any(o["uid"] == owner_uid and o.get("blockOwnerDeletion") for o in dependent["metadata"]["ownerReferences"])


def _set_free(api: Cluster, resource: Resource, document: Document, owner_uid: str) -> None:
    left = [o for o in document["metadata"]["ownerReferences"] if o["uid"] != owner_uid]
    api.settle(resource, {**document, "metadata": {**document["metadata"], "ownerReferences": left}})


def _let_go(api: Cluster, resource: Resource, document: Document, finalizer: str) -> None:
    left = [f for f in document["metadata"]["finalizers"] if f != finalizer]
    api.settle(resource, {**document, "metadata": {**document["metadata"], "finalizers": left}})
