"""The README's table of metrics, made from what the code serves: `python -m tests.house.metrics_table` writes it."""

from __future__ import annotations

import asyncio
import re

from quarterjack.clock import SystemClock
from quarterjack.replica import Replica
from quarterjack.settings import Settings
from tests.house.pages import README
from tests.memory.connection import Connection
from tests.memory.scrape import metrics_text
from tests.memory.server import MemoryApi

BEGIN, END = "<!-- metrics -->\n", "<!-- /metrics -->\n"


async def metrics_table() -> str:
    """One row for each family, jobs first, as a replica that knows of nothing serves them."""
    text = metrics_text(Replica(Connection(MemoryApi()), SystemClock(), Settings()))
    kinds = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    helps = re.findall(r"^# HELP (\S+) (.*)$", text, re.MULTILINE)
    rows = [f"| `{name}` | {kinds[name]} | {said.rstrip('.')} |" for name, said in sorted(helps, key=_jobs_first)]
    return "\n".join(["", "| metric | kind | meaning |", "|---|---|---|", *rows, "", ""])


def _jobs_first(row: tuple[str, str]) -> tuple[bool, str]:
    return not row[0].startswith("scheduledjob_"), row[0]


if __name__ == "__main__":
    before, _, rest = README.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    README.write_text(before + BEGIN + asyncio.run(metrics_table()) + END + after)
