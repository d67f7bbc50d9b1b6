"""Text from outside: masked, escaped and cut, whatever it says and in a time that it cannot choose."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from quarterjack.text import LIMIT, first_line, last_line, safe
from tests.unit.oracle import quickest

# Pieces that patterns for credentials are made of, so that the texts made of them come near to being some.
PIECES = [
    "token",
    "password",
    "api_key",
    "=",
    ":",
    "://",
    "@",
    "/",
    '"',
    "'",
    "\\",
    " ",
    "\n",
    "\t",
    ",",
    "…",
    "a",
    "b",
]
TEXTS = st.text(max_size=80) | st.lists(st.sampled_from([*PIECES, "bearer ", "\u202e", "\x00", "x" * 30])).map("".join)
SECRET = "hunter2"


@given(TEXTS, st.integers(1, 60))
@example("token=a\nb", LIMIT)
@example("token=abc de", 9)
@example('token="a"b', LIMIT)
def test_a_safe_text_stays_as_it_is_when_made_safe_again(text: str, limit: int) -> None:
    once = safe(text, limit)

    assert safe(once, limit) == once


@given(TEXTS, st.integers(1, 600))
def test_a_safe_text_is_one_line_without_control_characters_and_no_longer_than_asked(text: str, limit: int) -> None:
    once = safe(text, limit)

    assert len(once) <= limit
    assert not {unicodedata.category(c) for c in once} & {"Cc", "Cf", "Cs", "Zl", "Zp"}
    assert len(once.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        pytest.param("get https://bob:hunter2@host/a: 404", "get https://***@host/a: 404", id="a password in a URL"),
        pytest.param("clone https://hunter2@host/a", "clone https://***@host/a", id="a token as the user of a URL"),
        pytest.param("amqp://u:hunter2@a and amqp://u:hunter2@b", "amqp://***@a and amqp://***@b", id="two URLs"),
        pytest.param("PASSWORD=hunter2 failed", "PASSWORD=*** failed", id="a variable"),
        pytest.param("AWS_SECRET_ACCESS_KEY=hunter2", "AWS_SECRET_ACCESS_KEY=***", id="a word within a name"),
        pytest.param("x?token=hunter2&page=2", "x?token=***&page=2", id="a query"),
        pytest.param("password = 'hun ter2 hunter2' no", "password = *** no", id="quoted, with spaces"),
        pytest.param('{"password": "a\\"hunter2"}', '{"password": ***', id="JSON with an escaped quote"),
        pytest.param('"{\\"token\\":\\"a hunter2\\"}"', '"{\\"token\\":***', id="JSON within JSON"),
        pytest.param('secret="one hunter2', "secret=***", id="a quote that nothing ends"),
        pytest.param("Authorization: Bearer hunter2", "Authorization: ***", id="a bearer"),
        pytest.param("authorization: token hunter2, x", "authorization: *** x", id="another scheme"),
        pytest.param("token:\n  hunter2", "token: \\n  ***", id="a value on the next line"),
    ],
)
def test_credentials_are_masked(text: str, shown: str) -> None:
    assert SECRET not in safe(text)
    assert safe(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Back-off pulling image registry.example:5000/app@sha256:0f", id="an image"),
        pytest.param("see https://example.org/tokens?page=2", id="a URL without a user"),
        pytest.param("exit code 3: disk full", id="a failure"),
        pytest.param("\u00fcber 5 \u20ac", id="letters of all languages"),
    ],
)
def test_what_is_no_credential_stays(text: str) -> None:
    assert safe(text) == text


@pytest.mark.parametrize("secret", [f"https://bob:{SECRET}@host/", f"password={SECRET}", f'token="a {SECRET}"'])
@pytest.mark.parametrize("cut", range(24))
def test_no_cut_lays_a_credential_open(secret: str, cut: int) -> None:
    limit = 100
    before = "token=" + "x" * (16 * limit - 7 - cut) + " "

    shown = safe(before + secret, limit)

    assert not any(SECRET[:n] in shown for n in range(3, 8))


@pytest.mark.parametrize("piece", ["a", "token", "://", ":", "token=", 'token="', "token\\", "token ", "bearer ", "…"])
def test_no_text_takes_long_to_be_made_safe(piece: str) -> None:
    text = "token" + piece * (16 * LIMIT // len(piece))

    assert quickest(lambda: safe(text)) < 0.1


def test_a_control_character_is_written_as_an_escape() -> None:
    assert safe("red\x1b[31m\u202e tab\tend\x00") == "red\\x1b[31m\\u202e tab \\tend\\x00"


def test_a_long_text_ends_in_an_ellipsis() -> None:
    assert safe("x" * 501) == "x" * 499 + "…"
    assert safe("x" * 500) == "x" * 500


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        pytest.param("", "", "", id="nothing"),
        pytest.param(" \n\t\n", "", "", id="blank lines"),
        pytest.param("one", "one", "one", id="one line"),
        pytest.param("\n\none\ntwo\n \n", "one", "two", id="blank lines around"),
        pytest.param("one\r\ntwo\r\n", "one", "two", id="lines of Windows"),
    ],
)
def test_the_first_and_the_last_line_are_not_blank(text: str, first: str, last: str) -> None:
    assert (first_line(text), last_line(text)) == (first, last)
