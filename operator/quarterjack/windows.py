"""The times on which "once per firing" rests, in seconds on the API server's clock (design.md section 4).

The fence judges the stamp that the API server gives a create on its arrival; the commit may follow for as long as the request's
`timeout` allows. COMMIT_SECONDS covers that, the truncation of stamps and the skew between API servers.
"""

from __future__ import annotations

ON_TIME_SECONDS = 30  # a claim is on time for so long after the start second
LAUNCH_SECONDS = 3  # a holder's Pod comes at most so long after its claim
LAUNCH_SECONDS_MOST = 30  # a takeover's window doubles up to here
PENDING_SECONDS = 5  # a pending firing's claim comes at most so long after the read that showed it
REQUEST_SECONDS = 2  # `timeout` of a fenced create
COMMIT_SECONDS = 3  # beside the timeout: truncation of stamps, skew between API servers
LATE_SECONDS = 60  # an unclaimed firing is settled from here on
RESCUE_SECONDS = 15  # what a replica has claimed and not launched as it dies, another launches within so long
KEEP_SECONDS = 120  # nothing of a firing is deleted before its record is so old


def commit_gap(timeout_seconds: int) -> int:
    """How long after a window's end a create sent within it may still be committed."""
    return timeout_seconds + COMMIT_SECONDS


def takeover_window(takeovers: int) -> int:
    """The launch window of the n-th takeover: doubled each time, up to LAUNCH_SECONDS_MOST."""
    return min(LAUNCH_SECONDS_MOST, LAUNCH_SECONDS << min(takeovers, 8))


def takeover_timeout(takeovers: int) -> int:
    """The `timeout` of the n-th takeover's create: it doubles with the window, for slow admission webhooks."""
    return min(REQUEST_SECONDS * (LAUNCH_SECONDS_MOST // LAUNCH_SECONDS), REQUEST_SECONDS << min(takeovers, 8))
