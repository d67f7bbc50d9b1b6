"""What a run by hand may be passed, and what its container is told."""

from __future__ import annotations

import pytest

from quarterjack.model import Option
from quarterjack.options import option_environment, problem_of, shown_options

MONTH = Option("month", required=True)
RETRIES = Option("max-retries", "Integer", default="3")
DRY_RUN = Option("dry-run", "Boolean")
KIND = Option("kind", "Enum", values=("full", "delta"))
DECLARED = (MONTH, RETRIES, DRY_RUN, KIND)
NAMES = "month, max-retries, dry-run, kind"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("max-retries", "0", id="zero"),
        pytest.param("max-retries", "-12", id="a negative integer"),
        pytest.param("max-retries", "9" * 18, id="the longest integer"),
        pytest.param("dry-run", "true", id="true"),
        pytest.param("dry-run", "false", id="false"),
        pytest.param("kind", "delta", id="one of the values"),
    ],
)
def test_a_value_of_its_type_is_accepted(name: str, value: str) -> None:
    assert problem_of(DECLARED, (("month", "2"), (name, value))) == ""


@pytest.mark.parametrize("text", ["", "a line\nand another", "$(rm -rf /)", "ü😀"])
def test_a_text_may_be_anything(text: str) -> None:
    assert problem_of(DECLARED, (("month", text),)) == ""


INTEGER, BOOLEAN, ENUM = "an Integer, such as 12", "a Boolean: true or false", "one of: full, delta"


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        pytest.param("max-retries", "", INTEGER, id="no integer at all"),
        pytest.param("max-retries", "1.5", INTEGER, id="a fraction"),
        pytest.param("max-retries", "007", INTEGER, id="leading zeros"),
        pytest.param("max-retries", "+1", INTEGER, id="a plus sign"),
        pytest.param("max-retries", "1 ", INTEGER, id="a space after it"),
        pytest.param("max-retries", "1\n", INTEGER, id="a line's end after it"),
        pytest.param("max-retries", "9" * 19, INTEGER, id="an integer of more than 64 bits"),
        pytest.param("max-retries", "٣", INTEGER, id="a digit of another script"),
        pytest.param("dry-run", "True", BOOLEAN, id="a capital letter"),
        pytest.param("dry-run", "1", BOOLEAN, id="a number for true"),
        pytest.param("dry-run", "", BOOLEAN, id="no boolean at all"),
        pytest.param("kind", "Full", ENUM, id="a value in capitals"),
        pytest.param("kind", "", ENUM, id="none of the values"),
        pytest.param("month", "a\0b", "a text without NUL characters", id="what no environment can hold"),
    ],
)
def test_a_value_of_another_type_is_refused_by_name_and_value(name: str, value: str, wanted: str) -> None:
    problem = problem_of(DECLARED, (("month", "2"), (name, value)) if name != "month" else ((name, value),))

    assert problem.startswith(f"spec.options.{name}: ")
    assert problem.endswith(f" is not {wanted}")


def test_an_option_that_is_not_declared_is_refused_with_those_that_are() -> None:
    assert problem_of(DECLARED, (("year", "2"),)) == f'spec.options: "year" is no option of the job; it has: {NAMES}'
    assert problem_of((), (("year", "2"),)) == 'spec.options: "year" is no option of the job; it has: none'


def test_a_required_option_that_is_not_passed_is_named() -> None:
    assert problem_of(DECLARED, (("kind", "full"),)) == "spec.options.month: is required, pass a value"


def test_the_container_is_told_what_was_passed_and_else_the_defaults() -> None:
    told = option_environment(DECLARED, (("month", "2"), ("dry-run", "true")))

    assert told == {"OPTION_MONTH": "2", "OPTION_DRY_RUN": "true", "OPTION_MAX_RETRIES": "3"}


def test_what_is_passed_stands_before_the_default_and_an_empty_text_is_passed_too() -> None:
    declared = (Option("month", default="1"),)

    assert option_environment(declared, (("month", ""),)) == {"OPTION_MONTH": ""}
    assert option_environment(declared, ()) == {"OPTION_MONTH": "1"}


def test_short_options_are_shown_as_they_are() -> None:
    assert shown_options((("month", "2"), ("kind", "full"))) == (("month", "2"), ("kind", "full"))
    assert shown_options(()) == ()


def test_long_options_are_cut_but_never_look_as_if_none_was_passed() -> None:
    shown = shown_options((("month", "x" * 4_000), ("kind", "full")))

    assert [name for name, _ in shown] == ["month", "…"]
    assert sum(len(name) + len(value) for name, value in shown) <= 402


def test_an_option_whose_name_alone_is_too_long_is_shown_as_left_out() -> None:
    assert shown_options((("x" * 400, "1"),)) == (("…", "…"),)
