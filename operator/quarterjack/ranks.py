"""Who acts first: rendezvous hashing of replicas over jobs. Rank says who acts first, never who may."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def ranked(members: Iterable[str], key: str) -> tuple[str, ...]:
    """The members in the order in which they act for `key`: every replica computes the same, and each loss moves only its own."""
    return tuple(sorted(members, key=lambda member: _weight(member, key), reverse=True))


def _weight(member: str, key: str) -> bytes:
    return hashlib.blake2b(f"{member}\0{key}".encode(), digest_size=8).digest()
