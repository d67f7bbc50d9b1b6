"""What measurements come to: percentiles, ratios, tables. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

BEGIN, END = "<!-- bench -->", "<!-- /bench -->"


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest rank: the least of the values that a share (0 to 1) of them does not exceed."""
    ordered = sorted(values)
    return ordered[max(1, math.ceil(share * len(ordered))) - 1]


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late each of `due` firings was. Those that nobody saw within `watched_seconds` were later than that."""

    seconds: tuple[float, ...]
    due: int
    watched_seconds: float

    @property
    def seen(self) -> int:
        """How many were seen."""
        return len(self.seconds)

    def at(self, share: float) -> float:
        """A percentile over all that were due, a lower bound where it falls on one that nobody saw."""
        return percentile([*self.seconds, *[self.watched_seconds] * (self.due - self.seen)], share)

    def is_bound(self, share: float) -> bool:
        """Whether that percentile falls on a firing that nobody saw."""
        return math.ceil(share * self.due) > self.seen


Rounds = Sequence[Lateness]


def shown(rounds: Rounds, share: float) -> str:
    """A percentile, the median over the rounds, as text."""
    seconds = median(lateness.at(share) for lateness in rounds)
    bound = "> " if any(lateness.is_bound(share) for lateness in rounds) else ""
    return bound + (f"{1000 * seconds:.0f} ms" if seconds < 1 and not bound else f"{seconds:.2f} s")


def ratio(above: Rounds, below: Rounds, share: float = 1.0) -> str:
    """How often `below` goes into `above`: the median over the rounds, each with the one of its own time; the span behind."""
    pairs = list(zip(above, below, strict=True))
    ratios = [a.at(share) / b.at(share) for a, b in pairs]
    bound = "> " if any(a.is_bound(share) for a, _ in pairs) else ""
    span = f" ({min(ratios):.1f} to {max(ratios):.1f})" if len(ratios) > 1 else ""
    return f"{bound}{_digits(median(ratios))}{span}"


def _digits(number: float) -> str:
    return f"{number:.0f}" if number >= 20 else f"{number:.1f}" if number >= 10 else f"{number:.2f}"


@dataclass(frozen=True, slots=True)
class Table:
    """A title, a head, and rows of as many cells."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def markdown(self) -> str:
        """The table, its columns aligned."""
        lines = [self.head, *self.rows]
        widths = [max(len(cells[i]) for cells in lines) for i in range(len(self.head))]
        text = [_line(cells, widths) for cells in lines]
        text.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
        return "\n".join([f"**{self.title}**", "", *text])


def _line(cells: Iterable[str], widths: Iterable[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)) + " |"


def lateness_row(what: str, rounds: Rounds, *rest: str) -> tuple[str, ...]:
    """The cells of one lateness: p50, p99, max, how many were seen, and whatever follows."""
    due, seen = sum(r.due for r in rounds), sum(r.seen for r in rounds)
    return what, shown(rounds, 0.5), shown(rounds, 0.99), shown(rounds, 1.0), f"{seen:,} of {due:,}", *rest


def with_block(page: str, block: str) -> str:
    """A page with a block put between its marks; ValueError where it has not both of them, in order."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"no {BEGIN} followed by {END}")
    return f"{before}{BEGIN}\n{block.strip()}\n{END}{after}"
