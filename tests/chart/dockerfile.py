"""Reads a Dockerfile, as far as ours goes: stages, and what the last one says of the image."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from tests.house.pages import ROOT

DOCKERFILE = ROOT / "operator" / "image" / "Dockerfile"


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction, its continuation lines joined."""

    word: str
    rest: str


def instructions(path: Path = DOCKERFILE) -> list[Instruction]:
    """All of a file, without comments."""
    lines = [line for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    return [Instruction(*line.split(maxsplit=1)) for line in joined]


def last_stage() -> list[Instruction]:
    """The instructions that make the image that is kept."""
    found = instructions()
    begin = max(number for number, each in enumerate(found) if each.word == "FROM")
    return found[begin:]


def config() -> dict[str, Any]:
    """The config of the image (OCI image-spec), with the defaults of its build arguments."""
    arguments: dict[str, str] = {}
    labels: dict[str, str] = {}
    result: dict[str, Any] = {"Labels": labels}
    for each in last_stage():
        if each.word == "ARG":
            name, _, default = each.rest.partition("=")
            arguments[name] = default
        elif each.word == "LABEL":
            labels |= dict(pair.split("=", 1) for pair in shlex.split(Template(each.rest).substitute(arguments)))
        elif each.word == "ENTRYPOINT":
            result["Entrypoint"] = json.loads(each.rest)
        elif each.word == "USER":
            result["User"] = each.rest
    return result
