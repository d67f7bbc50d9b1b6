"""Names: functions of identity alone, short enough, and different for different identities."""

from __future__ import annotations

import re
import uuid

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
