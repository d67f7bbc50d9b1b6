"""The names that objects carry: labels, annotations, Leases, Pods.

A name is a function of identity alone, so every replica, today and after a restart, makes the same one.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable

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

ROLE_CLAIM = "claim"
ROLE_RUN = "run"
ROLE_MEMBER = "member"


_REQUEST = re.compile(r"[0-9]+m(?P<uid>[0-9a-f]{32})")


def bare(uid: str) -> str:
    """A UID as the keys of runs and the names of claims have it: without dashes."""
    return uid.replace("-", "")


def run_key(firing: int, attempt: int = 1, *, request: str = "") -> str:
    """What tells a job's runs apart, and is the id of their line in its history: the firing, and the attempt from the second on.

    A run by hand has no firing of its own: it has the second in which it was asked for, by which it is ordered among the others,
    and the UID of its ScheduledJobRun (`request`), so that each is a run of its own.
    """
    run = f"{firing}m{bare(request)}" if request else str(firing)
    return run if attempt == 1 else f"{run}-{attempt}"


def run_of(key: str) -> str:
    """What the attempts of one run have in common: the key of the first."""
    return key.partition("-")[0]


def request_of(key: str) -> str:
    """The UID, without dashes, of the ScheduledJobRun that a run by hand is of; empty for one that was not asked for."""
    found = _REQUEST.match(key)
    return found["uid"] if found else ""


def firing_of(key: str) -> int:
    """The firing of a run."""
    return int(run_of(key).partition("m")[0])


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


def pod_name(job: str, uid: str, run: int | str, *, unit: str = "", attempt: int = 1) -> str:
    """The job's name and ten base32 characters of a hash of (UID, firing, unit, attempt), each with its length before it.

    `run`: the firing, or the key of a run by hand.
    """
    digest = hashlib.sha256()
    for part in (uid, str(run), unit, str(attempt)):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "big") + encoded)
    suffix = base64.b32encode(digest.digest()).decode().lower()[:10]
    return f"{job}-{suffix}"


def bucket_of(not_after: int) -> int:
    """The minute after which no claim of a bucket can be created: its label is that minute's epoch second."""
    return not_after // 60 * 60
