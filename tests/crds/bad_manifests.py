"""The wrong manifests of tests/data/bad_manifests: who refuses each, and what the answer must say.

The head of each file tells it: a line `# refused by:` with `kubectl` (the API server, by schema and CEL) or `operator`
(a condition and an Event), and a line `# must say:` for each text that the answer must hold; `||` parts texts of which
one is enough, where client-side and server-side apply have words of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "data" / "bad_manifests"


@dataclass(frozen=True, slots=True)
class BadManifest:
    """One wrong manifest."""

    path: Path
    door: str
    texts: tuple[tuple[str, ...], ...]

    @property
    def name(self) -> str:
        """What is wrong, in short."""
        return self.path.stem

    def document(self) -> dict[str, Any]:
        """The object itself."""
        document = yaml.safe_load(self.path.read_text())
        assert isinstance(document, dict)
        return document

    def unsaid(self, answer: str) -> list[str]:
        """What the answer lacks."""
        return [" or ".join(texts) for texts in self.texts if not any(text in answer for text in texts)]


def bad_manifests(door: str) -> list[BadManifest]:
    """All that `kubectl`, or the `operator`, must refuse."""
    return [manifest for manifest in map(_read, sorted(FOLDER.glob("*.yaml"))) if manifest.door == door]


def _read(path: Path) -> BadManifest:
    head = [line for line in path.read_text().splitlines() if line.startswith("# ")]
    (door,) = (line.removeprefix("# refused by: ") for line in head if line.startswith("# refused by: "))
    said = (line.removeprefix("# must say: ") for line in head if line.startswith("# must say: "))
    return BadManifest(path, door, tuple(tuple(text.split(" || ")) for text in said))
