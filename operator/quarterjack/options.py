"""What a run by hand may be passed: typed options with defaults, and the environment variables that they become. Pure.

Values are data: they reach the container as environment variables, and nothing here or in a Pod makes code of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .invalid import quoted
from .model import Option, Options
from .text import shortened

_INTEGER = re.compile(r"-?(0|[1-9][0-9]{0,17})")
_SHOWN_CHARACTERS = 400


def problem_of(declared: Iterable[Option], given: Options, *, unit_option: str = "") -> str:
    """What is wrong with the options of a run, naming the option and the value; empty where nothing is.

    `unit_option`: a run without it is of all units, and each of them has it.
    """
    known = {option.name: option for option in declared}
    for name, value in given:
        if name not in known:
            return f"spec.options: {quoted(name)} is no option of the job; it has: {', '.join(known) or 'none'}"
        wanted = _wanted(known[name], value)
        if wanted:
            return f"spec.options.{name}: {quoted(value)} is not {wanted}"
    passed = {name for name, _ in given}
    missing = [
        option.name for option in known.values() if option.required and option.name not in {*passed, unit_option}
    ]
    return f"spec.options.{missing[0]}: is required, pass a value" if missing else ""


def _wanted(option: Option, value: str) -> str:
    """What the value should be and is not; empty where it is."""
    match option.kind:
        case "Integer":
            return "" if _INTEGER.fullmatch(value) else "an Integer, such as 12"
        case "Boolean":
            return "" if value in {"true", "false"} else "a Boolean: true or false"
        case "Enum":
            return "" if value in option.values else f"one of: {', '.join(option.values)}"
    return "a text without NUL characters" if "\0" in value else ""


def option_environment(declared: Iterable[Option], given: Options) -> dict[str, str]:
    """The variables that tell a container its options: what the run was passed, else the defaults."""
    defaults = {option.name: option.default for option in declared if option.default is not None}
    return {_variable(name): value for name, value in (defaults | dict(given)).items()}


def _variable(name: str) -> str:
    return f"OPTION_{name.upper().replace('-', '_')}"


def shown_options(options: Options) -> Options:
    """The options as a line of history has them: never none where there are some, cut where they are long."""
    room = _SHOWN_CHARACTERS
    shown: list[tuple[str, str]] = []
    for name, value in options:
        if len(name) >= room:
            return (*shown, ("…", "…"))
        cut = shortened(value, room - len(name))
        room -= len(name) + len(cut)
        shown.append((name, cut))
    return tuple(shown)
