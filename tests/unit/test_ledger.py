"""The ledger of a fan-out: written and read back, merged without losing an end, and never too long for a ConfigMap."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import reduce

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack import ledger, names
from quarterjack.attempts import concluded
from quarterjack.ledger import PART_UNITS, Count, Head, head_of, merged, queued, startable
from quarterjack.model import Entry, Retry, State, Trigger
from quarterjack.units import UNIT_MOST, UNITS_MOST, Units
from tests.unit.given import NOON, a_job, a_run

FINAL = {State.SUCCEEDED, State.CANCELED, State.DEAD_LETTERED, State.SKIPPED}
STATES = st.sampled_from([s for s in State if s is not State.MISSED])
HEAD = head_of(Units(("acme", "globex", "initech")))
PARENT = a_run(NOON, State.RUNNING, trigger=Trigger.CATCH_UP, reason="Planned")
PRINTED = st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp"]), min_size=1, max_size=UNIT_MOST)


def a_line(unit: str = "acme", state: State = State.PENDING, attempt: int = 1, **fields: object) -> Entry:
    line = Entry(names.unit_key(PARENT.id, unit, attempt), NOON, state, PARENT.trigger, attempt, unit=unit)
    return replace(line, **fields)  # type: ignore[arg-type]


def launched(unit: str = "acme", state: State = State.RUNNING, attempt: int = 1) -> Entry:
    return a_line(unit, state, attempt, pod_name="a-pod")


LINES = st.builds(
    lambda unit, state, attempt, reason, message, started, pod: a_line(
        unit, state, attempt, reason=reason, message=message, started=started, pod_name=pod
    ),
    PRINTED,
    STATES,
    st.integers(1, 11),
    st.sampled_from(["Queued", "BackOff", "ExitCode"]),
    st.text(st.characters(exclude_categories=["Cc", "Cs"]), max_size=ledger.MESSAGE_MOST),
    st.none() | st.integers(0, 4_000_000_000),
    st.sampled_from(["", "report-abcdefghij"]),
)


@given(st.lists(LINES, min_size=1, max_size=20, unique_by=lambda line: line.unit))
def test_a_part_reads_back_as_it_was_written(lines: list[Entry]) -> None:
    head = head_of(Units(tuple(line.unit for line in lines)))
    document = ledger.part_manifest(a_job(), PARENT, head, 0, lines)

    assert ledger.read_part(document, PARENT, head, 0) == lines


@given(st.integers(0, 3 * PART_UNITS), st.text(max_size=200), st.integers(0, 50))
def test_a_head_reads_back_as_it_was_written(count: int, note: str, repeated: int) -> None:
    head = head_of(Units(tuple(f"unit-{number}" for number in range(count)), note, repeated))

    assert ledger.read_head(ledger.head_manifest(a_job(), PARENT, head)) == head


@pytest.mark.parametrize("character", ["x", '"', "\\", "𒀀"])
def test_the_longest_part_fits_a_configmap(character: str) -> None:
    lines = [
        a_line(
            f"{number:03}" + character * (UNIT_MOST - 3),
            State.DEAD_LETTERED,
            11,
            reason="R" * 128,
            message=character * 500,
            started=NOON,
            completed=NOON,
            pod_name="p" * 63,
        )
        for number in range(PART_UNITS)
    ]

    (text,) = ledger.part_data(lines).values()

    assert len(text.encode()) < 2**20


@pytest.mark.parametrize(
    "data",
    [
        pytest.param({}, id="without its data"),
        pytest.param({"units": "no JSON", "plan": "no JSON"}, id="with other words"),
        pytest.param({"units": '{"unit":7}', "plan": "[]"}, id="with other things"),
        pytest.param({"units": '{"unit":"a","state":"Odd"}', "plan": '{"count":"many"}'}, id="with states of its own"),
    ],
)
def test_a_ledger_that_somebody_has_damaged_is_not_read(data: dict[str, str]) -> None:
    document = ledger.head_manifest(a_job(), PARENT, HEAD) | {"data": data}

    assert ledger.read_head(document) is None
    assert ledger.read_part(document, PARENT, HEAD, 0) is None


@pytest.mark.parametrize(
    ("units", "is_read"),
    [
        pytest.param(["acme", "initech"], False, id="without one"),
        pytest.param(["acme", "acme", "globex", "initech"], False, id="with one twice"),
        pytest.param(["acme", "acme", "globex"], False, id="with one in the place of another"),
        pytest.param(["acme", "globex", "umbrella"], False, id="with another name for one"),
        pytest.param(["initech", "acme", "globex"], True, id="in another order"),
    ],
)
def test_a_part_with_other_units_than_its_plan_named_is_not_read(units: list[str], is_read: bool) -> None:
    document = ledger.part_manifest(a_job(), PARENT, HEAD, 0, [a_line(unit) for unit in units])

    read = ledger.read_part(document, PARENT, HEAD, 0)

    assert (read is not None) is is_read


def test_a_head_of_more_units_than_its_parts_hold_is_not_read() -> None:
    head = replace(HEAD, count=PART_UNITS + 1)

    assert ledger.read_head(ledger.head_manifest(a_job(), PARENT, head)) is None


def test_the_parts_hold_each_unit_once_in_the_order_of_the_plan() -> None:
    units = tuple(f"unit-{number}" for number in range(2 * PART_UNITS + 1))
    head = head_of(Units(units))

    lines = [line for number in range(head.parts) for line in queued(PARENT, units, number)]

    assert [line.unit for line in lines] == list(units)
    assert len({line.id for line in lines}) == len(units)
    assert all(line.to_claim for line in lines)


def test_what_it_is_called_tells_the_run_the_plan_and_the_part_apart() -> None:
    job, later = a_job(name="j" * 52), a_run(NOON + 60)
    one, other = (head_of(Units(tuple(f"{of}-{number}" for number in range(UNITS_MOST)))) for of in ("unit", "tenant"))
    of = [(PARENT, one), (PARENT, other), (later, one), (a_run(NOON, attempt=2), one)]

    named = [ledger.part_name(job, parent, head, number) for parent, head in of for number in (0, 39)]
    named += [ledger.head_name(job, parent) for parent in (PARENT, later)]

    assert len(set(named)) == len(named)
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,251}[a-z0-9])?", name) for name in named)


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        pytest.param(a_line(), launched(state=State.PENDING), id="its Pod is there"),
        pytest.param(launched(state=State.PENDING), launched(), id="it runs"),
        pytest.param(launched(), launched(state=State.SUCCEEDED), id="it has ended"),
        pytest.param(launched(state=State.FAILED), a_line(attempt=2), id="it is tried again"),
        pytest.param(launched(state=State.STALE), launched(state=State.SUCCEEDED), id="it had been given up"),
        pytest.param(launched(attempt=1), launched(attempt=2), id="a later attempt"),
        pytest.param(launched(state=State.STALE), launched(attempt=2), id="it was given up, and is tried again"),
        pytest.param(a_line(attempt=2), launched(state=State.SUCCEEDED), id="an earlier attempt has succeeded"),
        pytest.param(a_line(attempt=2), launched(state=State.DEAD_LETTERED), id="it was to be tried no more"),
        pytest.param(a_line(attempt=2), a_line(attempt=2, state=State.CANCELED), id="its run was stopped"),
        pytest.param(launched(state=State.SUCCEEDED), launched(attempt=2), id="it is tried again all the same"),
        pytest.param(launched(state=State.SUCCEEDED), a_line(attempt=3), id="it is to be tried once more all the same"),
        pytest.param(
            launched(attempt=2), launched(attempt=2, state=State.SUCCEEDED), id="a later attempt has succeeded"
        ),
    ],
)
def test_of_two_lines_the_one_that_knows_more_stays(older: Entry, newer: Entry) -> None:
    assert merged(older, newer) == merged(newer, older) == newer


@given(st.lists(LINES, min_size=1, max_size=6))
def test_what_has_begun_last_stays_and_of_its_ends_the_one_that_is_stored(lines: list[Entry]) -> None:
    first, *others = lines = [replace(line, unit="acme") for line in lines]

    kept = reduce(merged, others, first)

    most = max(begun(line) for line in lines)
    ends = [line for line in lines if line.state in FINAL and begun(line) == most]
    assert begun(kept) == most
    if ends:
        assert kept is ends[0]
    else:
        assert kept.attempt == max(line.attempt for line in lines)
        assert kept.ended is any(line.ended for line in lines if line.attempt == kept.attempt)


def begun(line: Entry) -> int:
    """The last attempt of which a line says that it has begun."""
    return line.attempt - line.to_claim


@given(LINES, st.integers(0, 3), st.integers(0, 10))
def test_what_follows_on_an_attempt_goes_forward(line: Entry, retries: int, seconds: int) -> None:
    running = replace(line, state=State.RUNNING)
    ended = replace(running, state=State.FAILED, completed=NOON + seconds)

    last = concluded(ended, Retry(most=retries))[-1]

    assert merged(running, last) == merged(last, running) == merged(ended, last) == last


@pytest.mark.parametrize(
    ("lines", "claimed", "most", "expected"),
    [
        pytest.param("ab", "", 5, "ab", id="there is room for all"),
        pytest.param("abc", "", 2, "ab", id="the first of them"),
        pytest.param("Abc", "", 2, "b", id="one that runs takes room"),
        pytest.param("abc", "a", 2, "b", id="one that is claimed takes room"),
        pytest.param("abcd", "abc", 2, "", id="more are under way than may be"),
        pytest.param("abr", "", 1, "r", id="one that is tried again comes first"),
        pytest.param("aw", "", 5, "a", id="one that waits to be tried again does not start"),
        pytest.param("wwwa", "", 1, "a", id="one that waits takes no room"),
        pytest.param("ee", "", 5, "", id="none that has ended"),
    ],
)
def test_so_many_start_that_at_most_some_are_under_way(lines: str, claimed: str, most: int, expected: str) -> None:
    made = [given_line(kind, str(place)) for place, kind in enumerate(lines)]
    keys = {line.id for line, kind in zip(made, lines, strict=True) if kind in claimed}

    started = startable(made, keys, most=most, now=NOON)

    assert [lines[int(line.unit)] for line in started] == list(expected)


def given_line(kind: str, unit: str) -> Entry:
    """A: runs, e: ended, r: is tried again now, w: waits to be; any other is queued."""
    if kind == "r":
        return a_line(unit, attempt=2, reason="BackOff", started=NOON)
    if kind == "w":
        return a_line(unit, attempt=2, reason="BackOff", started=NOON + 1)
    return launched(unit) if kind == "A" else launched(unit, State.SUCCEEDED) if kind == "e" else a_line(unit)


@given(st.lists(st.sampled_from("Aerwq"), max_size=40), st.sets(st.integers(0, 39)), st.integers(1, 20))
def test_never_more_are_under_way_than_may_be(kinds: list[str], claimed: set[int], most: int) -> None:
    lines = [given_line(kind, str(place)) for place, kind in enumerate(kinds)]
    keys = {line.id for place, line in enumerate(lines) if place in claimed}

    started = startable(lines, keys, most=most, now=NOON)

    under_way = sum(not line.ended and (bool(line.pod_name) or line.id in keys) for line in lines)
    assert not started or len(started) + under_way <= most
    assert all(line.to_claim and line.id not in keys for line in started)


@pytest.mark.parametrize(
    ("count", "state", "summary"),
    [
        pytest.param(Count(12), State.SUCCEEDED, "12 of 12 units succeeded", id="all succeeded"),
        pytest.param(Count(1), State.SUCCEEDED, "1 of 1 unit succeeded", id="the only one"),
        pytest.param(Count(), State.SUCCEEDED, "0 of 0 units succeeded", id="nothing to do"),
        pytest.param(Count(49, dead=1), State.FAILED, "49 of 50 units succeeded, 1 dead letter", id="a dead letter"),
        pytest.param(Count(1, 2), State.SUCCEEDED, "1 of 3 units succeeded, 2 skipped", id="some still ran"),
        pytest.param(Count(0, 2), State.SKIPPED, "0 of 2 units succeeded, 2 skipped", id="all still ran"),
        pytest.param(
            Count(1, 1, 2), State.FAILED, "1 of 4 units succeeded, 2 dead letters, 1 skipped", id="some of each"
        ),
        pytest.param(
            Count(1, dead=1, canceled=2),
            State.CANCELED,
            "1 of 4 units succeeded, 1 dead letter, 2 canceled",
            id="it was stopped",
        ),
        pytest.param(
            Count(250, lost=1),
            State.FAILED,
            "250 of 250 units succeeded, 1 part of the ledger damaged or gone",
            id="a part is gone",
        ),
    ],
)
def test_the_whole_is_told_in_a_line(count: Count, state: State, summary: str) -> None:
    assert (count.state, count.summary) == (state, summary)


def test_units_are_counted_by_what_became_of_them() -> None:
    ends = [State.SUCCEEDED, State.SKIPPED, State.DEAD_LETTERED, State.STALE, State.CANCELED]
    lines = [launched("a"), a_line("b"), *(launched(state.value, state) for state in ends)]

    assert Count.of(lines, lost=1) == Count(succeeded=1, skipped=1, dead=2, canceled=1, open=2, lost=1)


@pytest.mark.parametrize(
    ("head", "says"),
    [
        pytest.param(head_of(Units(("a",))), "Queued 1 unit", id="one"),
        pytest.param(head_of(Units(("a", "b"), "of 3 tenants")), "Queued 2 units: of 3 tenants", id="with a note"),
        pytest.param(
            head_of(Units(("a", "b"), repeated=1)), "Queued 2 units (1 named more than once)", id="some named again"
        ),
    ],
)
def test_the_record_says_how_many_are_queued(head: Head, says: str) -> None:
    assert head.summary == says
