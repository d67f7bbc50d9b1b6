"""The benchmark's arithmetic and its tables."""

from __future__ import annotations

import os
import time

import pytest

from tests.bench.figures import Lateness, Table, lateness_row, percentile, ratio, shown, with_block
from tests.bench.processor import processor_seconds

HUNDRED = tuple(float(n) for n in range(1, 101))


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        pytest.param(0.5, 50.0, id="the median of a hundred is the fiftieth"),
        pytest.param(0.99, 99.0, id="p99 of a hundred is the last but one"),
        pytest.param(1.0, 100.0, id="all is the greatest"),
        pytest.param(0.0, 1.0, id="none is the least"),
    ],
)
def test_a_percentile_is_a_value_that_was_measured(share: float, expected: float) -> None:
    assert percentile(HUNDRED[::-1], share) == expected


def test_p99_of_a_few_is_the_greatest() -> None:
    assert percentile([3.0, 1.0, 2.0], 0.99) == 3.0


def test_firings_that_nobody_saw_count_as_late_as_the_watch_was_long() -> None:
    half_seen = Lateness((1.0, 2.0), due=4, watched_seconds=60.0)

    assert [half_seen.at(0.5), half_seen.at(1.0)] == [2.0, 60.0]
    assert [half_seen.is_bound(0.5), half_seen.is_bound(0.51)] == [False, True]
    assert shown([half_seen], 1.0) == "> 60.00 s"


def test_a_lateness_is_the_median_over_the_rounds() -> None:
    rounds = [Lateness((seconds,), 1, 60.0) for seconds in (0.010, 0.900, 0.030)]

    assert shown(rounds, 1.0) == "30 ms"


def test_a_ratio_compares_each_round_with_the_one_of_its_own_time() -> None:
    ours = [Lateness((3.0,), 1, 60.0), Lateness((30.0,), 1, 60.0)]
    raw = [Lateness((2.0,), 1, 60.0), Lateness((10.0,), 1, 60.0)]

    assert ratio(ours, raw) == "2.25 (1.5 to 3.0)"


def test_a_ratio_to_what_never_came_is_a_lower_bound() -> None:
    never = [Lateness((), 1, 120.0)]

    assert ratio(never, [Lateness((2.0,), 1, 60.0)]) == "> 60"


def test_rounds_that_do_not_pair_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        ratio([Lateness((1.0,), 1, 60.0)], [])


def test_a_row_says_how_many_were_seen_of_all_rounds() -> None:
    rounds = [Lateness((0.25,), 2, 60.0), Lateness((0.25, 0.25), 2, 60.0)]

    assert lateness_row("ours", rounds, "x") == ("ours", "250 ms", "> 30.12 s", "> 30.12 s", "3 of 4", "x")


def test_a_table_is_aligned_markdown() -> None:
    table = Table("How late", ("what", "max"), (("a", "1 ms"), ("longer", "2 s")))

    assert table.markdown().splitlines() == [
        "**How late**",
        "",
        "| what   | max  |",
        "|--------|------|",
        "| a      | 1 ms |",
        "| longer | 2 s  |",
    ]


def test_the_block_replaces_what_stood_between_the_marks() -> None:
    page = "before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n"

    assert with_block(page, "new\n") == "before\n<!-- bench -->\nnew\n<!-- /bench -->\nafter\n"


@pytest.mark.parametrize("page", ["", "<!-- bench -->", "<!-- /bench --><!-- bench -->"])
def test_a_page_without_both_marks_is_left_alone(page: str) -> None:
    with pytest.raises(ValueError, match="bench"):
        with_block(page, "new")


def test_processor_time_is_counted_while_it_is_spent() -> None:
    before = processor_seconds([os.getpid()])

    deadline = time.process_time() + 0.1
    while time.process_time() < deadline:
        pass

    assert processor_seconds([os.getpid()]) - before >= 0.05
