"""Label and field selectors, as the query strings of lists and watches spell them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

from .resources import Resource
from .statuses import bad_request

Labels = Mapping[str, str]
Selector = Callable[[Mapping[str, Any]], bool]

_SET = re.compile(r"^(?P<key>\S+)\s+(?P<verb>in|notin)\s*\((?P<values>[^()]*)\)$")
_EQUAL = re.compile(r"^(?P<key>[^\s=!]+)\s*(?P<verb>==|=|!=)\s*(?P<value>[^\s=!]*)$")
_KEY = re.compile(r"^(?P<absent>!?)\s*(?P<key>[A-Za-z0-9._/-]+)$")
_BETWEEN = re.compile(r",(?![^()]*\))")


def selector(resource: Resource, namespace: str | None, query: Mapping[str, str]) -> Selector:
    """What a list or a watch shows: all of these must hold."""
    by_label = label_terms(query.get("labelSelector", ""))
    by_field = field_terms(query.get("fieldSelector", ""))
    if strange := [
        field for field, _, _ in by_field if field not in ("metadata.name", "metadata.namespace", *resource.fields)
    ]:
        raise bad_request(f'field label not supported: "{strange[0]}"')

    def shows(document: Mapping[str, Any]) -> bool:
        meta = document["metadata"]
        if namespace is not None and meta.get("namespace") != namespace:
            return False
        labels = meta.get("labels") or {}
        return all(term(labels) for term in by_label) and all(
            (field_value(document, field) == value) == wanted for field, value, wanted in by_field
        )

    return shows


@lru_cache(maxsize=256)
def label_terms(text: str) -> tuple[Callable[[Labels], bool], ...]:
    """The terms of a label selector; a Refused of 400 where it is malformed."""
    return tuple(_label_term(term.strip()) for term in _BETWEEN.split(text) if text.strip())


def _label_term(text: str) -> Callable[[Labels], bool]:
    if found := _SET.match(text):
        key, values = found["key"], frozenset(v.strip() for v in found["values"].split(","))
        if found["verb"] == "in":
            return lambda labels: labels.get(key) in values
        return lambda labels: labels.get(key) not in values
    if found := _EQUAL.match(text):
        key, value = found["key"], found["value"]
        if found["verb"] == "!=":
            return lambda labels: labels.get(key) != value
        return lambda labels: labels.get(key) == value
    if found := _KEY.match(text):
        key = found["key"]
        if found["absent"]:
            return lambda labels: key not in labels
        return lambda labels: key in labels
    raise bad_request(f'unable to parse requirement: found "{text}"')


@lru_cache(maxsize=256)
def field_terms(text: str) -> tuple[tuple[str, str, bool], ...]:
    """Triples of field, value, and whether they are to be equal."""
    return tuple(_field_term(term.strip()) for term in text.split(",") if text.strip())


def _field_term(text: str) -> tuple[str, str, bool]:
    found = _EQUAL.match(text)
    if found is None:
        raise bad_request(f"invalid selector: '{text}'; can't understand '{text}'")
    return found["key"], found["value"], found["verb"] != "!="


def field_value(document: Mapping[str, Any], field: str) -> str:
    """A field as field selectors compare it: as text, empty where it is absent."""
    value: Any = document
    for part in field.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value)
