"""Names: functions of identity alone, short enough, and different for different identities."""

from __future__ import annotations

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarterjack import names
from tests.unit.given import NOON, UID

DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
JOB_NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,50}[a-z0-9])?", fullmatch=True)
FIRINGS = st.integers(0, 4_102_444_800)
UIDS = st.uuids().map(str)
IDENTITIES = st.tuples(UIDS, FIRINGS, st.sampled_from(["", "a", "1", "a1"]), st.integers(1, 11))


@given(JOB_NAMES, IDENTITIES)
def test_a_pod_name_is_a_dns_label_that_begins_with_the_job(job: str, identity: tuple[str, int, str, int]) -> None:
    uid, firing, unit, attempt = identity

    name = names.pod_name(job, uid, firing, unit=unit, attempt=attempt)

    assert DNS_LABEL.fullmatch(name)
    assert name.startswith(f"{job}-")


@given(IDENTITIES, IDENTITIES)
def test_different_identities_have_different_pod_names(
    one: tuple[str, int, str, int], other: tuple[str, int, str, int]
) -> None:
    first = names.pod_name("report", one[0], one[1], unit=one[2], attempt=one[3])
    second = names.pod_name("report", other[0], other[1], unit=other[2], attempt=other[3])

    assert (first == second) is (one == other)


def test_parts_of_an_identity_do_not_run_into_each_other() -> None:
    run_together = {
        names.pod_name("report", UID, 12, unit="3", attempt=4),
        names.pod_name("report", UID, 1, unit="23", attempt=4),
        names.pod_name("report", UID, 123, unit="", attempt=4),
        names.pod_name("report", UID, 12, unit="", attempt=34),
        names.pod_name("report", UID + "1", 2, unit="3", attempt=4),
    }

    assert len(run_together) == 5


def test_names_are_the_same_in_every_version() -> None:
    assert names.pod_name("report", UID, NOON) == "report-zvk6tztolg"
    assert names.claim_name(UID, names.run_key(NOON)) == "0b4f7c0e6f0c4f0c9d0e2a1b3c4d5e6f-1773144000"
    assert names.run_lease_name(UID) == UID


@given(UIDS, UIDS, FIRINGS, FIRINGS)
def test_a_claim_is_named_after_its_job_and_firing(one: str, other: str, first: int, second: int) -> None:
    name = names.claim_name(one, names.run_key(first))

    assert DNS_LABEL.fullmatch(name)
    assert (name == names.claim_name(other, names.run_key(second))) is ((one, first) == (other, second))


@given(FIRINGS, st.integers(1, 11), FIRINGS, st.integers(1, 11))
def test_a_run_is_told_apart_by_its_firing_and_attempt(one: int, first: int, other: int, second: int) -> None:
    key = names.run_key(one, first)

    assert names.firing_of(key) == one
    assert names.key_of(names.claim_name(UID, key)) == key
    assert (key == names.run_key(other, second)) is ((one, first) == (other, second))


@given(FIRINGS)
def test_a_bucket_is_closed_for_claims_a_minute_after_its_label(not_after: int) -> None:
    bucket = names.bucket_of(not_after)

    assert bucket % 60 == 0
    assert bucket <= not_after < bucket + 60


def test_a_run_lease_is_never_named_like_a_claim() -> None:
    uid = str(uuid.UUID(int=0))

    assert names.run_lease_name(uid).count("-") != names.claim_name(uid, names.run_key(NOON)).count("-")


def test_the_run_of_a_unit_has_a_key_that_tells_its_run_and_its_attempt() -> None:
    runs = [names.run_key(NOON), names.run_key(NOON, request=UID)]
    keys = [names.unit_key(run, unit, attempt) for run in runs for unit in ("a", "b") for attempt in (1, 2)]

    assert len({*keys, *runs, names.run_key(NOON, 2)}) == 11
    assert [names.attempt_of(key) for key in keys] == [1, 2] * 4
    assert [names.parent_of(key) for key in keys] == [run for run in runs for _ in range(4)]
    assert {names.firing_of(key) for key in keys} == {NOON}
    assert [names.request_of(key) for key in keys[4:]] == [names.bare(UID)] * 4
    assert all(names.is_unit_key(key) and not names.is_run_key(key) for key in keys)
    assert all(names.is_run_key(run) and not names.is_unit_key(run) for run in (*runs, names.run_key(NOON, 2)))
    assert names.key_of(names.claim_name(UID, keys[1])) == keys[1]


def test_whichever_attempt_has_planned_it_a_unit_has_the_same_run() -> None:
    assert names.unit_key(names.run_key(NOON, 2), "a") == names.unit_key(names.run_key(NOON), "a")
    assert names.unit_key(names.run_key(NOON), "a", 3) == names.run_key(NOON, 3, unit="a")


@pytest.mark.parametrize(
    ("unit", "itself"),
    [
        pytest.param("acme", True, id="a short word"),
        pytest.param("Acme_1.eu-west", True, id="with what a label may have"),
        pytest.param("a" * 63, True, id="as long as a label may be"),
        pytest.param("a" * 64, False, id="longer"),
        pytest.param("acme corp", False, id="with a space"),
        pytest.param("東京", False, id="other letters"),
        pytest.param("-a", False, id="beginning with a dash"),
    ],
)
def test_a_unit_is_a_label_where_it_can_be_and_else_its_hash_is(unit: str, itself: bool) -> None:
    label = names.unit_label(unit)

    assert (label == unit) is itself
    assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", label)
