"""From the API's documents to values."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack import names
from quarterjack.clock import rfc3339
from quarterjack.fan import FanOut
from quarterjack.manifests import Run, Window, claim_manifest
from quarterjack.model import Claim, Entry, Misfire, Outcome, Policy, Retry, State, Trigger, newest_first, read_entry
from quarterjack.reading import outcome_text, read_claim, read_job, read_spec, read_status
from quarterjack.report import entry_document
from tests.unit.given import CREATED, NOON, UID, a_job, a_run, a_status

WINDOW = Window(NOON, NOON + 30)


def raw_job(*, spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
    usual = {"uid": UID, "namespace": "default", "name": "report", "resourceVersion": "7", "generation": 2}
    times = {"creationTimestamp": rfc3339(CREATED)}
    return {"metadata": usual | times | meta, "spec": spec or {}, "status": status or {}}


def raw_claim(*, labels: dict[str, str] | None = None, notes: dict[str, str] | None = None) -> dict[str, Any]:
    """A claim as the API server gives it back."""
    document = claim_manifest(Run(a_job(), NOON), WINDOW, holder="one/x", pods_revision="5")
    meta = document["metadata"]
    meta |= {"uid": "lease", "resourceVersion": "9", "creationTimestamp": rfc3339(NOON + 1)}
    meta["labels"] |= labels or {}
    meta["annotations"] |= notes or {}
    return document


def read(raw: dict[str, Any]) -> Claim:
    claim = read_claim(raw)
    assert claim is not None
    return claim


def test_an_empty_spec_has_the_defaults_of_the_api() -> None:
    spec = read_spec({})

    assert (spec.policy, spec.misfire, spec.jitter_ms) == (Policy.FORBID, Misfire.RUN_ONCE, 0)
    assert (spec.successful_limit, spec.failed_limit, spec.retention_seconds, spec.pod_limit) == (10, 10, 2_592_000, 2)
    assert (spec.invalid, spec.fan_out, spec.timing, spec.template) == ("", None, {}, b"{}")


def test_a_spec_is_read() -> None:
    spec = read_spec(
        {"schedule": "@daily", "suspend": True, "jitter": "1.5s", "historyRetention": "2d", "interval": None}
    )

    assert (spec.timing, spec.suspend, spec.jitter_ms) == ({"schedule": "@daily"}, True, 1500)
    assert spec.retention_seconds == 2 * 86400


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        pytest.param("jitter", "soon", "soon", id="a jitter that is no duration"),
        pytest.param("concurrencyPolicy", "Perhaps", "Perhaps", id="an unknown policy"),
        pytest.param("misfirePolicy", "Perhaps", "Perhaps", id="an unknown misfire policy"),
        pytest.param("failedRunsHistoryLimit", "many", "many", id="a limit that is no number"),
        pytest.param("historyRetention", "400d", "400d", id="a retention that is too long"),
        pytest.param("options", ["verbose"], "str", id="an option that is a text"),
        pytest.param("retry", "often", "str", id="a retry that is a text"),
    ],
)
def test_a_spec_that_cannot_be_read_is_invalid_and_says_what(field: str, value: object, said: str) -> None:
    spec = read_spec({"schedule": "@daily", field: value})

    assert said in spec.invalid
    assert spec.timing == {}


@pytest.mark.parametrize(
    ("raw", "retry"),
    [
        pytest.param({}, Retry(most=0, delay_ms=10_000, longest_delay_ms=600_000), id="nothing"),
        pytest.param({"maxRetries": 3}, Retry(most=3), id="with the defaults of the API"),
        pytest.param(
            {"maxRetries": 1, "delay": "1.5s", "maxDelay": "1h"}, Retry(1, 1_500, 3_600_000), id="with its own waits"
        ),
    ],
)
def test_retry_is_read(raw: dict[str, Any], retry: Retry) -> None:
    assert read_spec({"retry": raw}).retry == retry


def test_a_limit_on_the_time_without_a_success_is_rounded_up_to_whole_seconds() -> None:
    assert read_spec({"health": {"maxTimeWithoutSuccess": "1.5s"}}).without_success_seconds == 2
    assert read_spec({"health": {}}).without_success_seconds is None


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        pytest.param({}, None, id="none"),
        pytest.param({"units": ["a", "b"]}, FanOut(units=("a", "b")), id="units that are always the same"),
        pytest.param(
            {"plan": {"command": ["list"]}, "maxParallel": 3, "unitOption": "tenant"},
            FanOut(b'{"command":["list"]}', (), 3, "tenant"),
            id="a plan, and all else",
        ),
    ],
)
def test_a_fan_out_is_read(raw: dict[str, Any], expected: FanOut | None) -> None:
    assert read_spec({"fanOut": raw}).fan_out == expected


def wrote(seconds: int, field: str = "f:spec", **entry: Any) -> dict[str, Any]:
    return {"time": rfc3339(CREATED + seconds), "fieldsV1": {field: {}}} | entry


@pytest.mark.parametrize(
    ("managed", "seconds"),
    [
        pytest.param(None, 0, id="nobody is known to have written"),
        pytest.param([wrote(10), wrote(30), wrote(20)], 30, id="the newest write"),
        pytest.param([wrote(10), wrote(30, "f:metadata")], 10, id="a write of labels does not count"),
        pytest.param([wrote(10), wrote(30, subresource="status")], 10, id="a write of the status does not count"),
        pytest.param([{"fieldsV1": {"f:spec": {}}}], 0, id="a write without a time"),
    ],
)
def test_a_spec_was_edited_at_the_newest_write_of_it(managed: list[dict[str, Any]] | None, seconds: int) -> None:
    assert read_job(raw_job(managedFields=managed)).edited == CREATED + seconds


def test_a_job_is_observed_once_its_status_says_so() -> None:
    assert not read_job(raw_job()).observed
    assert not read_job(raw_job(status={"observedGeneration": 1})).observed
    assert read_job(raw_job(status={"observedGeneration": 2})).observed


@pytest.mark.parametrize(
    ("status", "until"),
    [
        pytest.param({}, CREATED, id="its creation, where it was never visited"),
        pytest.param({"scheduledFrom": rfc3339(NOON)}, NOON, id="from when it counts"),
        pytest.param({"scheduledFrom": rfc3339(NOON), "watermark": rfc3339(NOON + 9)}, NOON + 9, id="the watermark"),
        pytest.param({"scheduledFrom": rfc3339(NOON), "watermark": rfc3339(CREATED)}, NOON, id="the later of both"),
    ],
)
def test_firings_are_recorded_until(status: dict[str, Any], until: int) -> None:
    assert a_job(status=read_status(status)).recorded_until == until


@pytest.mark.parametrize(
    ("state", "live"),
    [(state, state in {State.PENDING, State.RUNNING}) for state in State],
)
def test_a_status_is_live_while_some_line_is_not_final(state: State, live: bool) -> None:
    status = read_status({"history": [entry_document(a_run(NOON)), entry_document(a_run(NOON + 1, state))]})

    assert status.live is live
    assert [entry.state for entry in status.entries()] == [State.SUCCEEDED, state]


@given(
    st.builds(
        Entry,
        id=st.text(min_size=1),
        scheduled=st.integers(CREATED, NOON),
        state=st.sampled_from(State),
        trigger=st.sampled_from(Trigger),
        attempt=st.integers(1, 11),
        reason=st.text(),
        message=st.text(),
        started=st.none() | st.integers(CREATED, NOON),
        completed=st.none() | st.integers(CREATED, NOON),
        pod_name=st.text(),
        count=st.integers(0, 5),
        first_scheduled=st.none() | st.integers(0, CREATED),
    )
)
def test_a_line_that_was_written_is_read_as_it_was(entry: Entry) -> None:
    assert read_entry(entry_document(entry)) == entry


def test_a_claim_that_was_written_is_read_as_it_was() -> None:
    claim = read(raw_claim())

    assert (claim.job_uid, claim.job_namespace, claim.job_name, claim.firing) == (UID, "default", "report", NOON)
    assert (claim.holder, claim.pods_revision, claim.revision, claim.bucket) == ("one/x", "5", 9, NOON)
    assert (claim.created, claim.launch_before, claim.launch_timeout_seconds) == (NOON + 1, NOON + 4, 2)


@given(st.sampled_from(State), st.text(), st.text())
def test_an_outcome_that_was_written_is_read_as_it_was(state: State, reason: str, message: str) -> None:
    outcome = Outcome(state, reason, message)

    assert read(raw_claim(notes={names.OUTCOME: outcome_text(outcome)})).outcome == outcome


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"labels": {names.LABEL_FIRING: "noon"}}, id="a firing that is no number"),
        pytest.param({"labels": {names.LABEL_TRIGGER: "Whim"}}, id="an unknown trigger"),
        pytest.param({"labels": {names.LABEL_BUCKET: ""}}, id="no bucket"),
        pytest.param({"notes": {names.LAUNCH_BEFORE: "later"}}, id="a window that is no number"),
        pytest.param({"notes": {names.OUTCOME: "{"}}, id="an outcome cut short"),
        pytest.param({"notes": {names.OUTCOME: "{}"}}, id="an outcome that is empty"),
        pytest.param({"notes": {names.OUTCOME: "[]"}}, id="an outcome that is a list"),
        pytest.param({"notes": {names.OUTCOME: "1"}}, id="an outcome that is a number"),
        pytest.param({"notes": {names.OUTCOME: '{"state":"Odd","reason":""}'}}, id="an outcome of an unknown state"),
    ],
)
def test_a_claim_that_was_tampered_with_is_none_of_ours(change: dict[str, dict[str, str]]) -> None:
    assert read_claim(raw_claim(**change)) is None


def test_a_lease_of_somebody_else_is_none_of_ours() -> None:
    assert read_claim({"metadata": {"name": "x", "creationTimestamp": rfc3339(NOON)}}) is None


def test_lines_are_sorted_by_time_and_attempt() -> None:
    lines = [a_run(NOON), a_run(NOON + 1, attempt=1), a_run(NOON + 1, attempt=2)]

    assert newest_first(lines) == lines[::-1]


def test_an_empty_status_is_read() -> None:
    status = read_status({})

    assert (status.observed_generation, status.watermark, status.ready, status.live) == (0, None, False, False)
    assert a_status(state="Suspended").suspended
