"""Durations as they stand in a spec: one number and one unit, such as `500ms`, `1.5s`, `10m`, `1h`, `1d`."""

from __future__ import annotations

import re
from fractions import Fraction

from quarterjack.invalid import quoted

UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
MAX_MS = 365 * UNIT_MS["d"]
_DURATION = re.compile(r"(?P<number>[0-9]{1,15}(?:\.[0-9]{1,15})?)(?P<unit>ms|s|m|h|d)")


def parse_duration(text: object) -> int:
    """Milliseconds, rounded up; ValueError where the text is no duration above 0 and at most 365d."""
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise ValueError(
            f"{quoted(text)} is not a duration, write a number and a unit (ms, s, m, h, d) such as 10m or 1.5s"
        )
    exact_ms = Fraction(match["number"]) * UNIT_MS[match["unit"]]
    if not 0 < exact_ms <= MAX_MS:
        raise ValueError(f"{quoted(text)} is out of range, write more than 0 and at most 365d")
    return -int(-exact_ms // 1)


def whole_seconds(text: object) -> int:
    """Seconds, rounded up, of a duration that counts in whole seconds (`interval`, `runAfter`)."""
    return -(-parse_duration(text) // 1000)


def format_duration(milliseconds: int) -> str:
    """The duration in the largest unit that holds it as a whole number: 5400000 is `90m`."""
    unit = next(unit for unit in ("d", "h", "m", "s", "ms") if milliseconds % UNIT_MS[unit] == 0)
    return f"{milliseconds // UNIT_MS[unit]}{unit}"


def shown_duration(seconds: int) -> str:
    """For people, in as many units as it takes: 90000 is `1d1h`."""
    parts = []
    for unit, length in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        number, seconds = divmod(seconds, length)
        parts.append(f"{number}{unit}" if number else "")
    return "".join(parts) or "0s"
