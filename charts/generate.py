"""Put the values of the chart, with the comments that stand above them, into its README.md: `python charts/generate.py`, or
`--check` to compare only.

A key with a comment is a row, whatever its value holds; a key without one must be a map of such keys. A comment of two signs
begins a section.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

CHART = Path(__file__).parent / "quarterjack"
BEGIN, END = "<!-- values -->\n", "<!-- /values -->\n"


@dataclass(frozen=True, slots=True)
class Row:
    """One value."""

    path: str
    default: object
    meaning: str
    section: str


def rows(text: str) -> list[Row]:
    """All values of a values.yaml; ValueError names one that has no comment."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(node, yaml.MappingNode):
        raise TypeError("the values are no YAML map")
    return list(_rows_of(node, text.splitlines(), ""))


def _rows_of(node: yaml.MappingNode, lines: list[str], prefix: str) -> Iterator[Row]:
    for key, value in node.value:
        path, line = f"{prefix}{key.value}", key.start_mark.line
        if meaning := _comment_above(lines, line):
            default = yaml.safe_load(yaml.serialize(value, Dumper=yaml.SafeDumper))
            yield Row(path, default, meaning, _section_of(lines, line))
        elif isinstance(value, yaml.MappingNode) and value.value:
            yield from _rows_of(value, lines, f"{path}.")
        else:
            raise ValueError(f"{path} has no comment")


def _comment_above(lines: list[str], line: int) -> str:
    found: list[str] = []
    for above in reversed(lines[:line]):
        if not above.lstrip().startswith("# "):
            break
        found.insert(0, above.strip("# "))
    return " ".join(found)


def _section_of(lines: list[str], line: int) -> str:
    return next((above.strip("# ") for above in reversed(lines[:line]) if above.startswith("## ")), "")


def tables(text: str) -> str:
    """The tables of the README, a section each."""
    written: list[str] = []
    section = None
    for row in rows(text):
        if row.section != section:
            section = row.section
            written += ["", f"### {section}", "", "| value | meaning | default |", "|---|---|---|"]
        written.append(f"| `{row.path}` | {row.meaning} | `{json.dumps(row.default, ensure_ascii=False)}` |")
    return "\n".join(written) + "\n\n"


def readme(old: str, values: str) -> str:
    """A README with what lies between its two marks made anew."""
    before, _, rest = old.partition(BEGIN)
    _, mark, after = rest.partition(END)
    if not mark:
        raise ValueError(f"README.md lacks {BEGIN.strip()} or {END.strip()}")
    return before + BEGIN + tables(values) + END + after


def main() -> int:
    """Write the README, or with --check compare it: 1 when it differs."""
    path = CHART / "README.md"
    old = path.read_text()
    new = readme(old, (CHART / "values.yaml").read_text())
    if old == new:
        return 0
    if "--check" in sys.argv[1:]:
        sys.stderr.write(f"{path.relative_to(CHART.parent.parent)} is not up to date; run python charts/generate.py\n")
        return 1
    path.write_text(new)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
