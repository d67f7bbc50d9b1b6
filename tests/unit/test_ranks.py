"""Who acts first: the same everywhere, and steady when replicas come and go."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from quarterjack.ranks import ranked

MEMBERS = st.lists(st.text("abc0-", min_size=1, max_size=12), unique=True, min_size=1, max_size=8)
KEYS = st.text("0123456789abcdef-", min_size=1, max_size=36)


@given(MEMBERS, KEYS, st.randoms(use_true_random=False))
def test_every_replica_ranks_the_same_in_whatever_order_it_came_to_know_them(
    members: list[str], key: str, chance: Random
) -> None:
    shuffled = list(members)
    chance.shuffle(shuffled)

    assert ranked(shuffled, key) == ranked(members, key)
    assert sorted(ranked(members, key)) == sorted(members)


@given(MEMBERS, KEYS, st.data())
def test_a_loss_moves_only_what_stood_behind_the_lost_one(members: list[str], key: str, data: st.DataObject) -> None:
    lost = data.draw(st.sampled_from(members))

    left = ranked([member for member in members if member != lost], key)

    assert left == tuple(member for member in ranked(members, key) if member != lost)


def test_jobs_are_spread_evenly_over_replicas() -> None:
    replicas = ["one", "two", "three"]

    first = Counter(ranked(replicas, f"job-{n}")[0] for n in range(3000))

    assert all(900 < first[replica] < 1100 for replica in replicas)


def test_the_jobs_of_a_lost_replica_are_spread_over_those_that_are_left() -> None:
    keys = [f"job-{n}" for n in range(3000)]
    orphans = [key for key in keys if ranked(["one", "two", "three"], key)[0] == "two"]

    heirs = Counter(ranked(["one", "three"], key)[0] for key in orphans)

    assert min(heirs["one"], heirs["three"]) > len(orphans) * 0.4


def test_nobody_is_ranked_where_there_is_nobody() -> None:
    assert ranked([], "job") == ()
