"""Who set which field, and when: metadata.managedFields, down to the fields of spec, status and metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .statuses import Document

_OWNED_METADATA = ("labels", "annotations", "ownerReferences", "finalizers")
Path = tuple[str, str]


def touched(old: Mapping[str, Any] | None, new: Mapping[str, Any]) -> set[Path]:
    """The fields in which two versions of an object differ; all of the new one's where there is no old one."""
    before, after = _leaves(old or {}), _leaves(new)
    return {path for path in before.keys() | after.keys() if before.get(path) != after.get(path)}


def _leaves(document: Mapping[str, Any]) -> dict[Path, Any]:
    leaves: dict[Path, Any] = {}
    for top, value in document.items():
        if top == "metadata":
            leaves |= {(top, field): value[field] for field in _OWNED_METADATA if value.get(field)}
        elif top in ("spec", "status") and isinstance(value, Mapping):
            leaves |= {(top, field): inner for field, inner in value.items()}
        elif top not in ("apiVersion", "kind"):
            leaves[(top, "")] = value
    return leaves


def manage(
    old: Mapping[str, Any] | None, new: Document, *, by: str, time: str, subresource: str, operation: str = "Update"
) -> list[Document]:
    """The managedFields of a new version: the fields it changed pass to the writer, whose entry is stamped."""
    changed = touched(old, new)
    entries: list[Document] = (old or {}).get("metadata", {}).get("managedFields") or []
    kept, mine = [], set(changed)
    for entry in entries:
        owned = _owned(entry)
        if (entry["manager"], entry["operation"], entry.get("subresource", "")) == (by, operation, subresource):
            mine |= owned
        elif owned <= changed:
            continue
        else:
            kept.append(entry if not owned & changed else {**entry, "fieldsV1": _fields(owned - changed)})
    entry = {
        "manager": by,
        "operation": operation,
        "apiVersion": new["apiVersion"],
        "time": time,
        "fieldsType": "FieldsV1",
        "fieldsV1": _fields(mine),
    }
    return [*kept, entry | {"subresource": subresource} if subresource else entry]


def _owned(entry: Mapping[str, Any]) -> set[Path]:
    return {(top[2:], field[2:]) for top, inner in entry["fieldsV1"].items() for field in inner or {"f:": {}}}


def _fields(paths: set[Path]) -> Document:
    fields: Document = {}
    for top, field in sorted(paths):
        inner = fields.setdefault(f"f:{top}", {})
        if field:
            inner[f"f:{field}"] = {}
    return fields
