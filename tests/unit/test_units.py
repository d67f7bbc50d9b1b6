"""A plan's output: units in lines or JSON, and one clear reason where it names none."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack.model import Outcome
from quarterjack.text import escaped
from quarterjack.units import OUTPUT_MOST, UNIT_MOST, UNITS_MOST, Units, read_plan, units_of

TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=UNIT_MOST)
UNITS = st.lists(TEXTS.map(str.strip).filter(bool), min_size=1, max_size=30)


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        pytest.param("acme\nglobex\n", Units(("acme", "globex")), id="a unit a line"),
        pytest.param("  acme \r\n\n\tglobex", Units(("acme", "globex")), id="white space and blank lines do not count"),
        pytest.param('{"units": ["acme corp"]}', Units(("acme corp",)), id="a unit may have spaces in JSON"),
        pytest.param("b\na\nb\nb\n", Units(("b", "a"), repeated=2), id="a unit that is named again runs once"),
        pytest.param("7\n007\n", Units(("7", "007")), id="numbers are texts"),
        pytest.param("Zürich\n東京\n", Units(("Zürich", "東京")), id="any letters"),
        pytest.param("a" * 253, Units(("a" * 253,)), id="the longest unit"),
        pytest.param('{"units": ["a", "b"], "note": "two"}', Units(("a", "b"), "two"), id="JSON with a note"),
        pytest.param('{\n "units": [\n"a"]}\n', Units(("a",)), id="JSON over many lines"),
        pytest.param(
            'Looking…\nfound 1\n{"units": ["a"]}\n', Units(("a",)), id="JSON in the last line, after other words"
        ),
        pytest.param(
            'WARN slow\n{"units": ["a"]}\nWARN closed late\n', Units(("a",)), id="JSON in a line, among other words"
        ),
        pytest.param(
            '{"level": "warn"}\n{"units": ["a"]}\n{"level": "info"}',
            Units(("a",)),
            id="JSON in a line, among other JSON",
        ),
        pytest.param("[::1]\n[2001:db8::1]", Units(("[::1]", "[2001:db8::1]")), id="brackets are no JSON"),
        pytest.param('{"units": []}', Units(()), id="nothing to do"),
        pytest.param('{"units": ["a"], "note": null}', Units(("a",)), id="no note"),
        pytest.param('{"units": ["a"], "note": "token=abc"}', Units(("a",), "token=***"), id="a note is masked"),
    ],
)
def test_a_plan_lists_units(output: str, expected: Units) -> None:
    assert read_plan(output.encode()) == expected


@pytest.mark.parametrize(
    ("output", "reason", "says"),
    [
        pytest.param(b"", "PlanEmpty", 'print {"units": []} where nothing', id="nothing"),
        pytest.param(b" \n\n", "PlanEmpty", "printed nothing", id="blank lines"),
        pytest.param(b"\xff\xfe\x00garbage", "PlanInvalid", "no UTF-8 text", id="bytes that are no text"),
        pytest.param(b"ok\n\x1b[31mred\n", "PlanInvalid", "unit 2 has control characters", id="colours"),
        pytest.param(b"a\x00b", "PlanInvalid", "unit 1 has control characters", id="a zero byte"),
        pytest.param("a\u202eb".encode(), "PlanInvalid", "control characters", id="letters that turn the others round"),
        pytest.param(
            b'{"units": ["a"', "PlanInvalid", "begins or ends as JSON and is none", id="JSON that was cut off"
        ),
        pytest.param(
            b'looking\n{"units": ["a"', "PlanInvalid", "line 2 begins or ends as JSON", id="JSON cut off later"
        ),
        pytest.param(b'me", "globex"]}', "PlanInvalid", "line 1 begins or ends as JSON", id="what is left of JSON"),
        pytest.param(b'"me",\n"globex"\n]\n}\nbye', "PlanInvalid", "line 4 begins or", id="what is left of long JSON"),
        pytest.param(
            b'{"units": ["a"]}\n{"units": ["b"]}', "PlanInvalid", "more than one line", id="units in JSON twice"
        ),
        pytest.param(b"acme\nWARN: no answer\n", "PlanInvalid", "line 2 has white space", id="a warning among units"),
        pytest.param("acme\u3000corp".encode(), "PlanInvalid", "in JSON", id="white space of other letters"),
        pytest.param(b'["a"]', "PlanInvalid", "no list of units", id="a JSON list"),
        pytest.param(b'{"items": []}', "PlanInvalid", "no list of units", id="JSON without units"),
        pytest.param(b'{"units": "a"}', "PlanInvalid", "no list of units", id="units that are no list"),
        pytest.param(b'{"units": ["a", 7]}', "PlanInvalid", "unit 2 is 7, and must be a string", id="a number"),
        pytest.param(b'{"units": ["a", " "]}', "PlanInvalid", "unit 2 is empty", id="an empty unit"),
        pytest.param(b'{"units": [], "note": 1}', "PlanInvalid", "note", id="a note that is no string"),
        pytest.param(
            b"a\n" + b"b" * 300, "PlanInvalid", "unit 2 has 300 characters, and may have 253", id="a long unit"
        ),
        pytest.param(
            "\n".join(map(str, range(10_001))).encode(),
            "PlanInvalid",
            "10001 units, and at most 10000",
            id="10,001 units",
        ),
        pytest.param(b"a" * (OUTPUT_MOST + 1), "PlanInvalid", "10 MiB or more", id="without end"),
        pytest.param(
            b'{"units": ["a"]}' + b"\n" * 220_000,
            "PlanInvalid",
            "10 MiB or more",
            id="so many lines that its log is long",
        ),
    ],
)
def test_a_plan_that_names_no_units_is_told_why(output: bytes, reason: str, says: str) -> None:
    read = read_plan(output)

    assert isinstance(read, Outcome)
    assert (read.state.value, read.reason) == ("Failed", reason)
    assert says in read.message


@pytest.mark.parametrize("as_json", [True, False], ids=["as JSON", "in lines"])
@pytest.mark.parametrize(
    "character", ["", "x" * 249, "京" * 249], ids=["short ones", "the longest", "of other letters"]
)
def test_ten_thousand_units_are_not_too_many(character: str, as_json: bool) -> None:
    units = [f"{number:04}{character}" for number in range(UNITS_MOST)]

    read = read_plan(orjson.dumps({"units": units}) if as_json else "\n".join(units).encode())

    assert isinstance(read, Units)
    assert len(read.units) == UNITS_MOST


@given(UNITS)
def test_lines_and_json_say_the_same(units: list[str]) -> None:
    as_json = read_plan(orjson.dumps({"units": units}))

    assert as_json == units_of(units)
    assert isinstance(as_json, Units)
    assert len(as_json.units) + as_json.repeated == len(units)
    if not any(unit[0] in "{[" or unit[-1] == "}" or len(unit.split()) > 1 for unit in units):
        assert read_plan("\n".join(units).encode()) == as_json


@given(st.binary(max_size=400))
def test_whatever_is_printed_gives_safe_units_or_a_reason(output: bytes) -> None:
    read = read_plan(output)

    if isinstance(read, Outcome):
        assert read.message
    else:
        assert all(unit and len(unit) <= UNIT_MOST and escaped(unit) == unit for unit in read.units)
        assert len(set(read.units)) == len(read.units)
