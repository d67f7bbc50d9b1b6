"""Log lines, as text or JSON: one a decision, with the fields job, firing and run where they are known."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

import orjson

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


def set_up(*, style: str, level: str) -> None:
    """Log to standard error; kopf's own lines about each event are left out."""
    output = logging.StreamHandler(sys.stderr)
    output.setFormatter(_Json() if style == "json" else _Text())
    logging.basicConfig(level=level.upper(), handlers=[output], force=True)
    for noisy in ("kopf", "aiohttp.access", "asyncio"):
        logging.getLogger(noisy).setLevel(max(logging.WARNING, logging.getLogger().level))
