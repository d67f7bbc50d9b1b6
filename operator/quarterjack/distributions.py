"""What a replica observes as it happens: how late firings are, and how long runs take."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Histogram, disable_created_metrics

# From 5 ms up to the end of the on-time window.
_LATENESS_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 15, 30, 60, 120)
_DURATION_BUCKETS = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86_400)


class Distributions:
    """Histograms, each observed by one replica only for a firing or run: add them up over replicas."""

    def __init__(self, registry: CollectorRegistry) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # else each has a series more that nobody asks for
        self.claim = _lateness(
            "scheduledjob_claim_lateness_seconds",
            "From the instant at which a firing should start (its scheduled time, and its jitter) to its claim.",
            registry,
        )
        self.launch = _lateness(
            "scheduledjob_launch_lateness_seconds",
            "From the instant at which a firing should start (its scheduled time, and its jitter) to its Pod's creation.",
            registry,
        )
        self.start = _lateness(
            "scheduledjob_start_lateness_seconds",
            "From a firing's scheduled instant to its container's start, in whole seconds; only of jobs without jitter.",
            registry,
        )
        self.duration = Histogram(
            "scheduledjob_run_duration_seconds",
            "From the start of an attempt's container to its end.",
            buckets=_DURATION_BUCKETS,
            registry=registry,
        )


def _lateness(name: str, text: str, registry: CollectorRegistry) -> Histogram:
    return Histogram(name, text, buckets=_LATENESS_BUCKETS, registry=registry)
