"""What an answer of the API server means for us."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack.api import FENCE_MARK, LEASES, PODS, Ending, object_path, raise_for, read_answer
from quarterjack.errors import ApiError, Gone
from quarterjack.transport import Response
from tests.unit.given import NOON, json

METHODS = ["GET", "POST", "PATCH", "DELETE"]
DATE = "Tue, 10 Mar 2026 12:00:00 GMT"
FENCED = f"ValidatingAdmissionPolicy 'x' denied request: {FENCE_MARK} too late"


def refusal(status: int, reason: str = "", message: str = "no") -> Response:
    return Response(status, json({"kind": "Status", "reason": reason, "message": message}))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("status", "reason", "ending"),
    [
        pytest.param(400, "BadRequest", Ending.REFUSED, id="a bad request"),
        pytest.param(401, "Unauthorized", Ending.THROTTLED, id="a token that was just rotated"),
        pytest.param(403, "Forbidden", Ending.REFUSED, id="a quota or missing right"),
        pytest.param(408, "Timeout", Ending.DOUBT, id="a request timeout"),
        pytest.param(409, "AlreadyExists", Ending.EXISTS, id="it exists"),
        pytest.param(409, "Conflict", Ending.CONFLICT, id="somebody was quicker"),
        pytest.param(409, "", Ending.CONFLICT, id="a conflict without a reason"),
        pytest.param(413, "RequestEntityTooLarge", Ending.REFUSED, id="too large"),
        pytest.param(422, "Invalid", Ending.REFUSED, id="invalid"),
        pytest.param(429, "TooManyRequests", Ending.THROTTLED, id="too many requests"),
        pytest.param(500, "InternalError", Ending.DOUBT, id="an internal error"),
        pytest.param(503, "ServiceUnavailable", Ending.DOUBT, id="unavailable"),
        pytest.param(504, "Timeout", Ending.DOUBT, id="a timeout of the server"),
        pytest.param(302, "", Ending.REFUSED, id="a redirection, which is not followed"),
    ],
)
def test_a_refusal_means_the_same_for_every_method(method: str, status: int, reason: str, ending: Ending) -> None:
    answer = read_answer(method, refusal(status, reason))

    assert (answer.ending, answer.done, answer.status, answer.message) == (ending, False, status, "no")


def not_found(status: int, **details: str) -> Response:
    return Response(status, json({"kind": "Status", "reason": "NotFound", "details": details}))


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("method", METHODS)
def test_what_is_not_there_is_absent_but_a_create_is_refused(method: str, status: int) -> None:
    expected = Ending.REFUSED if method == "POST" else Ending.ABSENT

    assert read_answer(method, not_found(status, name="report", kind="scheduledjobs")).ending is expected


@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
@pytest.mark.parametrize(
    "response",
    [pytest.param(not_found(404), id="a path"), pytest.param(Response(404, b"404 page not found"), id="a page")],
)
def test_a_kind_that_a_starting_server_does_not_serve_yet_says_nothing_of_its_objects(
    method: str, response: Response
) -> None:
    assert read_answer(method, response).ending is Ending.DOUBT


@pytest.mark.parametrize("status", [403, 422])
@pytest.mark.parametrize("method", METHODS)
def test_only_creates_are_fenced(method: str, status: int) -> None:
    expected = Ending.FENCED if method == "POST" else Ending.REFUSED

    assert read_answer(method, refusal(status, "Invalid", FENCED)).ending is expected


@pytest.mark.parametrize("status", [500, 504])
def test_a_failure_that_mentions_the_fence_is_still_in_doubt(status: int) -> None:
    assert read_answer("POST", refusal(status, "", FENCED)).ending is Ending.DOUBT


@pytest.mark.parametrize("status", [200, 201, 202])
def test_what_is_done_has_its_document_and_no_message(status: int) -> None:
    answer = read_answer("POST", Response(status, b'{"message": "x", "a": 1}', {"date": DATE}))

    assert (answer.ending, answer.done, answer.message, answer.date) == (Ending.DONE, True, "", NOON)
    assert answer.document["a"] == 1


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"<html>bad gateway</html>", id="a proxy's page"),
        pytest.param(b"[1]", id="a list"),
        pytest.param(b'{"message": ', id="cut short"),
        pytest.param(b"\xff", id="no text"),
    ],
)
def test_a_body_that_is_no_document_is_an_empty_one(body: bytes) -> None:
    answer = read_answer("POST", Response(403, body))

    assert (answer.ending, answer.document, answer.message) == (Ending.REFUSED, {}, "")


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        pytest.param(None, 0, id="none"),
        pytest.param("", 0, id="empty"),
        pytest.param("7", 7, id="seconds"),
        pytest.param("1.5", 1.5, id="a fraction"),
        pytest.param("-3", 0, id="negative"),
        pytest.param("nan", 0, id="no number"),
        pytest.param("inf", 60, id="for ever"),
        pytest.param("86400", 60, id="a day"),
        pytest.param(DATE, 0, id="a date"),
    ],
)
def test_a_time_to_wait_is_in_seconds(text: str | None, seconds: float) -> None:
    headers = {} if text is None else {"retry-after": text}

    assert read_answer("GET", Response(429, b"", headers)).retry_after_seconds == seconds


@given(st.sampled_from(METHODS), st.integers(200, 599), st.binary(max_size=60), st.text(max_size=20))
def test_every_answer_has_an_ending_whatever_it_is(method: str, status: int, body: bytes, header: str) -> None:
    answer = read_answer(method, Response(status, body, {"date": header, "retry-after": header}))

    assert answer.done is (status < 300)
    assert answer.retry_after_seconds >= 0


@pytest.mark.parametrize(
    ("message", "most"), [pytest.param("x" * 9000, 4000, id="long"), pytest.param(7, 1, id="a number")]
)
def test_a_message_is_a_text_of_bounded_length(message: Any, most: int) -> None:
    assert len(read_answer("POST", refusal(403, message=message)).message) == most


def test_a_revision_that_is_too_old_is_told_from_other_refusals() -> None:
    with pytest.raises(Gone, match="410: too old"):
        raise_for(410, json({"message": "too old"}))

    with pytest.raises(ApiError, match="503: a page of text") as refused:
        raise_for(503, b"a page of text")
    assert not isinstance(refused.value, Gone)


@pytest.mark.parametrize("message", [None, 7, ["x"]])
def test_a_refused_list_whose_message_is_no_text_is_still_a_refusal(message: Any) -> None:
    with pytest.raises(ApiError, match="403"):
        raise_for(403, json({"message": message}))


def test_an_objects_path_has_its_name_quoted() -> None:
    assert object_path(LEASES, "ours", "a-1") == "/apis/coordination.k8s.io/v1/namespaces/ours/leases/a-1"
    assert object_path(PODS, "ours", "a/../b?x") == "/api/v1/namespaces/ours/pods/a%2F..%2Fb%3Fx"
