"""What a plan printed: the units of a fan-out, or why it names none. Pure.

A plan is read whole or not at all: half of one, or one that is damaged, would leave units out that nobody would miss.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from .invalid import quoted
from .model import Outcome, State
from .text import escaped, safe

UNITS_MOST = 10_000
UNIT_MOST = 253  # characters, as the CRD has it
NOTE_MOST = 200
# A kubelet begins a new file once the log of a container that runs has come to this size, if it is not told another
# (containerLogMaxSize), and shows the newest file alone. In it each line, and each 16 KiB of one, has some 45 bytes before it.
OUTPUT_MOST = 10 * 2**20  # bytes
_LINE_BYTES, _LONGEST_LINE = 48, 16 * 2**10

_HOW = 'write one unit a line, or JSON such as {"units": ["a", "b"]}'


@dataclass(frozen=True, slots=True)
class Units:
    """The units, each once and in the plan's order, and what the plan says of them. `repeated`: how many were named again."""

    units: tuple[str, ...]
    note: str = ""
    repeated: int = 0


def read_plan(output: bytes) -> Units | Outcome:
    """The units that a plan printed, or how its run has failed.

    JSON is taken from the whole output, or from one line of it: so a plan may say more before it, and warn after it. What is left of
    JSON, in a log of which the beginning is lost, is no list of lines; nor are lines one where some of them say something, for a log
    has what was written to standard error too.
    """
    if _log_bytes(output) >= OUTPUT_MOST:
        return _invalid(
            f"its log has {OUTPUT_MOST // 2**20} MiB or more, of which a kubelet may have kept the end alone; print less"
        )
    try:
        text = output.decode().strip()
    except UnicodeDecodeError:
        return _invalid(f"it printed what is no UTF-8 text; {_HOW}")
    if not text:
        return Outcome(
            State.FAILED, "PlanEmpty", 'The plan printed nothing; print {"units": []} where nothing is to be done'
        )
    document = _json(text)
    if document is not None:
        return _from_json(document)
    return _from_lines([line.strip() for line in text.split("\n") if line.strip()])


def _log_bytes(output: bytes) -> int:
    """How many bytes a log that shows this has, at most."""
    return len(output) + _LINE_BYTES * (output.count(b"\n") + 1 + len(output) // _LONGEST_LINE)


def _from_lines(lines: list[str]) -> Units | Outcome:
    documents = [document for document in map(_json, lines) if isinstance(document, dict) and "units" in document]
    if len(documents) > 1:
        return _invalid("more than one line of it is JSON with units")
    document = documents[0] if documents else _json(lines[-1])
    if document is not None:
        return _from_json(document)
    for number, line in enumerate(lines, start=1):
        if line.startswith("{") or line.endswith("}"):
            return _invalid(f"line {number} begins or ends as JSON and is none: {quoted(escaped(line[:40]))}; {_HOW}")
        if len(line.split()) > 1:
            return _invalid(
                f"line {number} has white space, as words have that name no unit: {quoted(escaped(line[:40]))}; "
                "name units that have some in JSON"
            )
    return units_of(lines)


def units_of(named: Iterable[object], note: str = "") -> Units | Outcome:
    """The units, where each can be one: a text of at most 253 characters, none of them a control character."""
    units: dict[str, None] = {}
    count = 0
    for count, unit in enumerate(named, start=1):
        problem = _problem(unit)
        if problem:
            return _invalid(f"unit {count} {problem}")
        units[str(unit)] = None
    if len(units) > UNITS_MOST:
        return _invalid(f"it names {len(units)} units, and at most {UNITS_MOST} are run")
    return Units(tuple(units), safe(note, NOTE_MOST), count - len(units))


def _problem(unit: object) -> str:
    if not isinstance(unit, str):
        return f"is {orjson.dumps(unit).decode()[:40]}, and must be a string"
    if not unit.strip():
        return "is empty"
    if len(unit) > UNIT_MOST:
        return f"has {len(unit)} characters, and may have {UNIT_MOST}: {quoted(unit[:40] + '…')}"
    return f"has control characters: {quoted(escaped(unit))}" if escaped(unit) != unit else ""


def _json(text: str) -> Any:
    """The JSON object or list that a text is; None where it is neither."""
    if text[0] not in "{[":
        return None
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def _from_json(document: Any) -> Units | Outcome:
    units = document.get("units") if isinstance(document, dict) else None
    if not isinstance(units, list):
        return _invalid('its JSON has no list of units; write it as {"units": [...]}')
    note = document.get("note") or ""
    if not isinstance(note, str):
        return _invalid("the note of its JSON is no string")
    return units_of(units, note)


def _invalid(why: str) -> Outcome:
    return Outcome(State.FAILED, "PlanInvalid", safe(f"The plan cannot be read: {why}"))
