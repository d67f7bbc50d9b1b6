"""What a user wrote wrongly in a schedule: names the field and the value, and says what to write instead."""

from __future__ import annotations

SHOWN_CHARACTERS = 60


class ScheduleError(ValueError):
    """A field of a spec that no schedule can be made of. Its text may be stored and shown: it is short and escaped."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(f"{field}: {problem}")
        self.field = field
        self.problem = problem


def quoted(value: object) -> str:
    """The value as a short quoted text without a character that could hide or confuse."""
    text = value if isinstance(value, str) else repr(value)
    shown = text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "..."
    return '"' + ascii(shown)[1:-1].replace('"', '\\"') + '"'
