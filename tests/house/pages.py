"""The pages of the repository, taken apart into their code blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block of a page."""

    language: str
    text: str


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    return [Block(*match) for match in _BLOCK.findall(page.read_text())]


def commands(page: Path) -> list[str]:
    """The lines of its shell blocks."""
    return [line for block in blocks(page) if block.language == "sh" for line in block.text.splitlines() if line]
