"""The views: what is swept after a list."""

from __future__ import annotations

from quarterjack.model import State
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
