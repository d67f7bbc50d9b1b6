"""The names that objects carry: labels, annotations, Leases, Pods.

A name is a function of identity alone, so every replica, today and after a restart, makes the same one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

GROUP = "quarterjack.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
KIND = "ScheduledJob"
PLURAL = "scheduledjobs"
RUNS_PLURAL = "scheduledjobruns"
MANAGER = "quarterjack"

LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_JOB = f"{GROUP}/job"
LABEL_JOB_UID = f"{GROUP}/job-uid"
LABEL_FIRING = f"{GROUP}/firing"
LABEL_TRIGGER = f"{GROUP}/trigger"
LABEL_BUCKET = f"{GROUP}/bucket"
LABEL_ROLE = f"{GROUP}/role"  # of a Lease: claim, run or member

NOT_BEFORE = f"{GROUP}/not-before"
NOT_AFTER = f"{GROUP}/not-after"
HOLDER = f"{GROUP}/holder"
JOB_REF = f"{GROUP}/job-ref"  # namespace/name of the job of a claim
PODS_REVISION = f"{GROUP}/pods-revision"
LAUNCH_BEFORE = f"{GROUP}/launch-before"
LAUNCH_TIMEOUT = f"{GROUP}/launch-timeout-seconds"
TAKEOVERS = f"{GROUP}/takeovers"
OUTCOME = f"{GROUP}/outcome"
STOP = f"{GROUP}/stop"
WAITS_FOR = f"{GROUP}/waits-for"
REFUSAL = f"{GROUP}/refusal"
REFUSED_TAKEOVER = f"{GROUP}/refused-takeover"
RUN_ID = f"{GROUP}/run-id"
ATTEMPT = f"{GROUP}/attempt"
SCHEDULED_TIME = f"{GROUP}/scheduled-time"
RENEWED = f"{GROUP}/renewed"  # when a replica renewed its membership, by the server's clock

UNIT = f"{GROUP}/unit"  # a label, which may be short for it, and an annotation, which is the whole
PLAN = f"{GROUP}/plan"  # of a Pod that lists units: which of its containers does
LABEL_LEDGER = f"{GROUP}/ledger"  # of a ConfigMap: the run of whose units it tells

ROLE_CLAIM = "claim"
ROLE_RUN = "run"
ROLE_MEMBER = "member"
ROLE_LEDGER = "ledger"
ROLE_LEDGER_PART = "ledger-part"


_REQUEST = re.compile(r"[0-9]+m(?P<uid>[0-9a-f]{32})")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_RUN_KEY = re.compile(r"[0-9]+(m[0-9a-f]{32})?(-[0-9]+)?")
_HASHES_MOST = 20_000


def bare(uid: str) -> str:
    """A UID as the keys of runs and the names of claims have it: without dashes."""
    return uid.replace("-", "")


def run_key(firing: int, attempt: int = 1, *, request: str = "", unit: str = "") -> str:
    """What tells a job's runs apart, and is the id of their line in its history: the firing, and the attempt from the second on.

    A run by hand has no firing of its own: it has the second in which it was asked for, by which it is ordered among the others,
    and the UID of its ScheduledJobRun (`request`), so that each is a run of its own. So is each unit of a fan-out.
    """
    run = f"{firing}m{bare(request)}" if request else str(firing)
    if unit:
        return unit_key(run, unit, attempt)
    return _attempt_key(run, attempt)


def _attempt_key(run: str, attempt: int) -> str:
    return run if attempt == 1 else f"{run}-{attempt}"


def run_of(key: str) -> str:
    """What the attempts of one run have in common: the key of the first."""
    return key.partition("-")[0]


def unit_key(run: str, unit: str, attempt: int = 1) -> str:
    """The key of the run of a unit; `run`: that of the run whose unit it is, whichever of its attempts has planned it."""
    return _attempt_key(f"{parent_of(run)}.{unit_hash(unit)}", attempt)


@lru_cache(maxsize=_HASHES_MOST)
def unit_hash(unit: str) -> str:
    """What stands for a unit in keys: sixteen base32 characters."""
    return base64.b32encode(hashlib.sha256(unit.encode()).digest()).decode().lower()[:16]


def unit_label(unit: str) -> str:
    """What stands for a unit as the value of a label: itself, where it can."""
    return unit if _LABEL_VALUE.fullmatch(unit) else unit_hash(unit)


def is_unit_key(key: str) -> bool:
    """Whether a run is that of a unit."""
    return "." in key


def is_run_key(key: str) -> bool:
    """Whether it is the key of a run, and not of a unit or of anything else."""
    return _RUN_KEY.fullmatch(key) is not None


def parent_of(key: str) -> str:
    """The run that a unit is of, by the key of its first attempt; of any other run that of its first attempt."""
    return run_of(key).partition(".")[0]


def request_of(key: str) -> str:
    """The UID, without dashes, of the ScheduledJobRun that a run by hand is of; empty for one that was not asked for."""
    found = _REQUEST.match(key)
    return found["uid"] if found else ""


def firing_of(key: str) -> int:
    """The firing of a run."""
    return int(parent_of(key).partition("m")[0])


def firings_of(keys: Iterable[str]) -> set[int]:
    """The firings that runs are of; one by hand is of none."""
    return {firing_of(key) for key in keys if not request_of(key)}


def order_of(key: str) -> tuple[int, str]:
    """Where a run comes among the others of its job: by its firing. Runs of one second have an order too, the same everywhere."""
    return firing_of(key), run_of(key)


def attempt_of(key: str) -> int:
    """Which attempt of its firing a run is."""
    return int(key.partition("-")[2] or 1)


def claim_name(uid: str, key: str) -> str:
    """The Lease by which a run is claimed: also the run's id."""
    return f"{bare(uid)}-{key}"


def key_of(claim: str) -> str:
    """The run that a claim's name stands for."""
    return claim.partition("-")[2]


def run_lease_name(uid: str) -> str:
    """The Lease that guards a job against overlap."""
    return uid


def ledger_name(job: str, uid: str, key: str, part: str = "") -> str:
    """The ConfigMap that tells of the units that an attempt of a run has planned; `part`: which of those that hold them."""
    return f"{job}-{_digest(uid, key, 'ledger')}{part and '-'}{part}"


def owner(job: str, uid: str, **more: Any) -> dict[str, Any]:
    """The reference by which what is made for a job goes when the job does, without holding that up."""
    return {"apiVersion": API_VERSION, "kind": KIND, "name": job, "uid": uid, **more, "blockOwnerDeletion": False}


def pod_name(job: str, uid: str, run: int | str, *, unit: str = "", attempt: int = 1) -> str:
    """The job's name and ten base32 characters of a hash of (UID, firing, unit, attempt), each with its length before it.

    `run`: the firing, or the key of a run by hand.
    """
    return f"{job}-{_digest(uid, str(run), unit, str(attempt))}"


def _digest(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    return base64.b32encode(digest.digest()).decode().lower()[:10]


def bucket_of(not_after: int) -> int:
    """The minute after which no claim of a bucket can be created: its label is that minute's epoch second."""
    return not_after // 60 * 60
