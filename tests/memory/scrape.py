"""The metrics of a replica, as a scrape would bring them."""

from __future__ import annotations

from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from quarterjack.metrics import page
from quarterjack.replica import Replica


def metrics_text(replica: Replica) -> str:
    """The page."""
    return b"".join(part() for part in page(replica)).decode()


def scrape(replica: Replica) -> list[Metric]:
    """What the page says."""
    return list(text_string_to_metric_families(metrics_text(replica)))


def value(replica: Replica, name: str, **labels: str) -> float | None:
    """The value of one series, None where it is not there."""
    samples = [sample for metric in scrape(replica) for sample in metric.samples]
    return next((s.value for s in samples if s.name == name and s.labels.items() >= labels.items()), None)
