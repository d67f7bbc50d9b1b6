"""Log lines, as text or JSON: one a decision, with the fields job, firing and run where they are known."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import TextIO

import orjson

from . import names
from .manifests import Run
from .model import Claim, Entry, Job, PodSight
from .text import escaped, masked

_FIELDS = ("job", "firing", "run")


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return " ".join(f"{value}" if key in _PLAIN else f"{key}={value}" for key, value in _line(self, record).items())


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return orjson.dumps(_line(self, record)).decode()


_PLAIN = frozenset({"time", "level", "message"})


def _line(formatter: logging.Formatter, record: logging.LogRecord) -> dict[str, str]:
    moment = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"time": moment, "level": record.levelname, "message": escaped(masked(record.getMessage()))}
    line |= {field: str(getattr(record, field)) for field in _FIELDS if hasattr(record, field)}
    if record.exc_info:
        line["trace"] = escaped(masked(formatter.formatException(record.exc_info)))
    return line


def of_job(job: Job | None) -> dict[str, str]:
    """The fields of a line about a job; none where it is not known."""
    return {} if job is None else {"job": f"{job.namespace}/{job.name}"}


def of_run(run: Run) -> dict[str, str]:
    """The fields of a line about a run."""
    return of_job(run.job) | {"firing": str(run.firing), "run": run.id}


def of_claim(claim: Claim) -> dict[str, str]:
    """The fields of a line about a claim."""
    return {"job": f"{claim.job_namespace}/{claim.job_name}", "firing": str(claim.firing), "run": claim.name}


def of_pod(job: Job | None, pod: PodSight) -> dict[str, str]:
    """The fields of a line about a run's Pod."""
    return of_job(job) | {"firing": str(pod.firing), "run": names.claim_name(pod.job_uid, pod.key)}


def of_line(job: Job, line: Entry) -> dict[str, str]:
    """The fields of a line about a line of the history."""
    if line.count:
        return of_job(job)
    return of_job(job) | {"firing": str(line.scheduled), "run": names.claim_name(job.uid, line.id)}


def handler(style: str) -> logging.StreamHandler[TextIO]:
    """Writes lines to standard error, as text or as JSON."""
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(_Json() if style == "json" else _Text())
    return output


def set_up(*, style: str, level: str) -> None:
    """Log to standard error; kopf's own lines about each event are left out."""
    logging.basicConfig(level=level.upper(), handlers=[handler(style)], force=True)
    for noisy in ("kopf", "aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
