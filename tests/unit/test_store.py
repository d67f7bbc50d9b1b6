"""The views: what is swept after a list, and what becomes of events in any order."""

from __future__ import annotations

from itertools import permutations

import pytest

from quarterjack.model import PodSight, State
from quarterjack.names import run_key
from quarterjack.store import PodView, Store

from .given import NOON, UID, a_pod


def test_a_list_of_one_namespace_says_nothing_of_the_pods_of_another() -> None:
    store = Store()
    store.put_pod(a_pod(NOON, namespace="one"))
    store.put_pod(a_pod(NOON + 60, namespace="other"))

    PodView(store, namespace="one").sweep(set())

    assert store.firings_of(UID).pods.keys() == {run_key(NOON + 60)}


def test_a_pod_that_had_ended_when_it_vanished_is_kept_as_deleted() -> None:
    store = Store()
    store.put_pod(a_pod(NOON, State.SUCCEEDED))

    PodView(store).sweep(set())

    pod = store.firings_of(UID).pods[run_key(NOON)]
    assert (pod.state, pod.deleted) == (State.SUCCEEDED, True)


def store_with(*sights: PodSight) -> Store:
    store = Store()
    for sight in sights:
        store.put_pod(sight)
    return store


def known(store: Store) -> tuple[State, str, bool]:
    pod = store.firings_of(UID).pods[run_key(NOON)]
    return pod.state, pod.reason, pod.deleted


FAILED = a_pod(NOON, State.FAILED, reason="Evicted")
SUCCEEDED = a_pod(NOON, State.SUCCEEDED)
GONE = a_pod(NOON, State.FAILED, reason="PodDeleted", deleted=True)


@pytest.mark.parametrize(
    ("sights", "expected"),
    [
        pytest.param([FAILED, SUCCEEDED], (State.FAILED, "Evicted", False), id="another end"),
        pytest.param([FAILED, a_pod(NOON)], (State.FAILED, "Evicted", False), id="a late sight of its life"),
        pytest.param([SUCCEEDED, GONE], (State.SUCCEEDED, "", True), id="its Pod is gone"),
        pytest.param([SUCCEEDED, GONE, GONE], (State.SUCCEEDED, "", True), id="told twice that its Pod is gone"),
        pytest.param([GONE, SUCCEEDED], (State.FAILED, "PodDeleted", True), id="gone before it was seen to end"),
        pytest.param([GONE, a_pod(NOON)], (State.FAILED, "PodDeleted", True), id="gone, and a late sight of its life"),
    ],
)
def test_an_end_once_seen_is_final(sights: list[PodSight], expected: tuple[State, str, bool]) -> None:
    assert known(store_with(*sights)) == expected


def test_another_pod_of_the_name_is_another_run() -> None:
    store = store_with(FAILED, a_pod(NOON, uid="another"))

    assert known(store) == (State.RUNNING, "", False)


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_sights_in_any_order_and_twice_are_one_pod(order: tuple[int, ...]) -> None:
    sights = [a_pod(NOON, State.PENDING), a_pod(NOON), FAILED]

    store = store_with(*(sights[i] for i in order), *sights)

    assert known(store)[:2] == (State.FAILED, "Evicted")
    assert len(store.firings_of(UID).pods) == 1
