"""Durations: one number and one unit, rounded up, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack.durations import MAX_MS, format_duration, parse_duration, shown_duration, whole_seconds


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("1.5s", 1500),
        ("10m", 600_000),
        ("1h", 3_600_000),
        ("1d", 86_400_000),
        ("365d", MAX_MS),
        ("0.1ms", 1),
        ("1.0001s", 1001),
        ("0.3s", 300),
        ("007s", 7000),
        ("0.00001h", 36),
    ],
)
def test_a_duration_is_whole_milliseconds_rounded_up(text: str, milliseconds: int) -> None:
    assert parse_duration(text) == milliseconds


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", '"" is not a duration', id="nothing"),
        pytest.param("10", '"10" is not a duration, write a number and a unit', id="no unit"),
        pytest.param("m", '"m" is not', id="no number"),
        pytest.param("1h30m", '"1h30m" is not', id="two units"),
        pytest.param("1 h", '"1 h" is not', id="a blank"),
        pytest.param("1h\n", r'"1h\\n" is not', id="a newline"),
        pytest.param("-1h", '"-1h" is not', id="a sign"),
        pytest.param("+1h", '"\\+1h" is not', id="a plus"),
        pytest.param("1e3s", '"1e3s" is not', id="an exponent"),
        pytest.param(".5s", '".5s" is not', id="no digit before the point"),
        pytest.param("5.s", '"5.s" is not', id="no digit after the point"),
        pytest.param("1w", '"1w" is not', id="weeks"),
        pytest.param("1H", '"1H" is not', id="a capital"),
        pytest.param("５m", r'"\\uff15m" is not', id="full-width digits"),
        pytest.param("0s", '"0s" is out of range, write more than 0', id="zero"),
        pytest.param("0.0ms", '"0.0ms" is out of range', id="zero with a point"),
        pytest.param("366d", '"366d" is out of range, write more than 0 and at most 365d', id="too long"),
        pytest.param("365.0000001d", "out of range", id="a little too long"),
        pytest.param("9" * 10_000 + "d", "is not a duration", id="ten thousand digits"),
        pytest.param(600, '"600" is not a duration', id="a number without quotes"),
        pytest.param(None, '"None" is not a duration', id="no text"),
    ],
)
def test_what_is_no_duration_is_refused_with_the_value(text: object, words: str) -> None:
    with pytest.raises(ValueError, match=words) as refusal:
        parse_duration(text)

    assert len(str(refusal.value)) < 200


@pytest.mark.parametrize(("text", "seconds"), [("1ms", 1), ("1s", 1), ("1001ms", 2), ("1.5m", 90), ("90s", 90)])
def test_an_interval_is_whole_seconds_rounded_up(text: str, seconds: int) -> None:
    assert whole_seconds(text) == seconds


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(1, "1ms"), (1500, "1500ms"), (90_000, "90s"), (600_000, "10m"), (5_400_000, "90m"), (172_800_000, "2d")],
)
def test_a_duration_is_written_in_the_largest_whole_unit(milliseconds: int, text: str) -> None:
    assert format_duration(milliseconds) == text


@given(st.integers(1, MAX_MS))
def test_what_is_written_is_read_back(milliseconds: int) -> None:
    assert parse_duration(format_duration(milliseconds)) == milliseconds


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (3661, "1h1m1s"), (90_000, "1d1h"), (172_800, "2d"), (29_100, "8h5m")]
)
def test_a_duration_is_shown_in_all_its_units(seconds: int, text: str) -> None:
    assert shown_duration(seconds) == text
