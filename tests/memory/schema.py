"""The schemas of our CRDs, applied as the server applies them: unknown fields are dropped, defaults filled in, bounds held.

A field that the CRD does not have vanishes without a word, as it would in a cluster; that is why this is here. Of the CEL rules
only those are followed that MODELLED names: the ones that the operator's own writes can break, and the plainest for users.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from .resources import JOBS, RUNS, Resource

CRDS = Path(__file__).parents[2] / "crds"
Fault = tuple[str, str]  # field, message
Schema = Mapping[str, Any]

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_TYPES: Mapping[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


# The rule as the CRD has it, and what it says of the new value and the old one, which is None where there is none.
MODELLED: Mapping[str, Callable[[Any, Any], bool]] = {
    "!has(oldSelf.watermark) || has(self.watermark)": lambda new, old: "watermark" not in old or "watermark" in new,
    "self >= oldSelf": lambda new, old: _instant(new) >= _instant(old),
    "self == oldSelf": lambda new, old: bool(new == old),
    "[has(self.schedule), has(self.interval), has(self.runAfter)].filter(set, set).size() <= 1": lambda new, _: (
        sum(field in new for field in ("schedule", "interval", "runAfter")) <= 1
    ),
    "!has(self.timeZone) || !has(self.timeZones)": lambda new, _: "timeZone" not in new or "timeZones" not in new,
    "!has(self.timeZone) || has(self.schedule)": lambda new, _: "timeZone" not in new or "schedule" in new,
}


@cache
def schema_of(resource: Resource) -> Schema | None:
    """The schema of a custom resource, None for all others."""
    if resource not in (JOBS, RUNS):
        return None
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with (CRDS / f"{resource.plural}.yaml").open("rb") as file:
        crd = yaml.load(file, loader)
    schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def shaped(
    resource: Resource, document: Mapping[str, Any], part: str, old: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The document with its spec or status pruned and defaulted; what it shares with the old one is so already."""
    schema, before = schema_of(resource), (old or {}).get(part)
    if schema is None or part not in document or document[part] == before:
        return dict(document)
    inner = schema["properties"][part]
    return {**document, part: defaulted(inner, pruned(inner, document[part], before), before)}


def part_faults(
    resource: Resource, old: Mapping[str, Any] | None, document: Mapping[str, Any], part: str
) -> list[Fault]:
    """What is wrong with a spec or a status."""
    schema = schema_of(resource)
    if schema is None:
        return []
    if part not in document:
        return [(part, "Required value")] if part in schema.get("required", ()) else []
    before = (old or {}).get(part)
    return list(faults(schema["properties"][part], document[part], before, part))


def pruned(schema: Schema, value: Any, old: Any = None) -> Any:
    """The value without the fields that the schema does not have."""
    if isinstance(value, list):
        items, known = schema.get("items"), old if isinstance(old, list) else ()
        return [item if item in known else pruned(items, item) for item in value] if items else value
    if not isinstance(value, dict) or schema.get("x-kubernetes-preserve-unknown-fields"):
        return value
    before = old if isinstance(old, dict) else {}
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    kept = {name: pruned(fields[name], inner, before.get(name)) for name, inner in value.items() if name in fields}
    if others is True:
        return value | kept
    if others:
        kept |= {name: pruned(others, inner) for name, inner in value.items() if name not in fields}
    return kept


def defaulted(schema: Schema, value: Any, old: Any = None) -> Any:
    """The value with the schema's defaults where there is nothing, or null where null may not be."""
    if isinstance(value, list) and (items := schema.get("items")):
        known = old if isinstance(old, list) else ()
        return [item if item in known else defaulted(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    filled, before = dict(value), old if isinstance(old, dict) else {}
    for name, field in schema.get("properties", {}).items():
        if "default" in field and (name not in filled or (filled[name] is None and not field.get("nullable"))):
            filled[name] = copy.deepcopy(field["default"])
        if name in filled:
            filled[name] = defaulted(field, filled[name], before.get(name))
    return filled


def faults(schema: Schema, value: Any, old: Any, path: str) -> Iterator[Fault]:
    """What the schema has against a value, `old` being what was there before, None for nothing: then it was right."""
    if (value is None and schema.get("nullable")) or (old is not None and value == old):
        return
    kind = schema.get("type")
    if schema.get("x-kubernetes-int-or-string"):
        if not isinstance(value, int | str):
            yield path, "Invalid value: must be of type int or string"
        return
    if kind and not _TYPES[kind](value):
        yield path, f'Invalid value: {value!r}: {path} in body must be of type {kind}: "{type(value).__name__}"'
        return
    yield from _bound_faults(schema, value, path)
    if kind == "object":
        yield from _object_faults(schema, value, old if isinstance(old, dict) else {}, path)
    elif kind == "array":
        yield from _array_faults(schema, value, old if isinstance(old, list) else [], path)
    for rule in schema.get("x-kubernetes-validations", ()):
        holds = MODELLED.get(rule["rule"])
        compares = "oldSelf" in rule["rule"]
        if holds is not None and not (compares and old is None) and not holds(value, old):
            yield path, f"Invalid value: {rule['message']}"


def _bound_faults(schema: Schema, value: Any, path: str) -> Iterator[Fault]:
    if "enum" in schema and value not in schema["enum"]:
        yield path, f'Unsupported value: "{value}": supported values: {schema["enum"]}'
    if isinstance(value, str):
        if not schema.get("minLength", 0) <= len(value) <= schema.get("maxLength", len(value)):
            yield path, f"Invalid value: length {len(value)} is out of bounds"
        if "pattern" in schema and not re.search(schema["pattern"], value):
            yield path, f'Invalid value: "{value}": should match {schema["pattern"]!r}'
        if schema.get("format") == "date-time" and not _DATE_TIME.fullmatch(value):
            yield path, f'Invalid value: "{value}": must be of type date-time'
    elif isinstance(value, int | float):
        if not schema.get("minimum", value) <= value <= schema.get("maximum", value):
            yield path, f"Invalid value: {value} is out of bounds"
    else:
        low, high = ("minItems", "maxItems") if isinstance(value, list) else ("minProperties", "maxProperties")
        if not schema.get(low, 0) <= len(value) <= schema.get(high, len(value)):
            yield path, f"Too many: {len(value)}: must have at most {schema.get(high)} items"


def _object_faults(schema: Schema, value: Mapping[str, Any], old: Mapping[str, Any], path: str) -> Iterator[Fault]:
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{path}.{name}", "Required value"
    fields, others = schema.get("properties", {}), schema.get("additionalProperties")
    for name, inner in value.items():
        field = fields.get(name, others if isinstance(others, Mapping) else None)
        if field is not None:
            yield from faults(field, inner, old.get(name), f"{path}.{name}")


def _array_faults(schema: Schema, value: list[Any], old: list[Any], path: str) -> Iterator[Fault]:
    if items := schema.get("items"):
        for i, inner in enumerate(value):
            if inner in old:
                continue
            yield from faults(items, inner, None, f"{path}[{i}]")
    keys = schema.get("x-kubernetes-list-map-keys")
    if keys:
        seen = [tuple(item.get(key) for key in keys) for item in value if isinstance(item, dict)]
        if len(set(seen)) < len(seen):
            yield path, "Duplicate value"
