"""What a spec says of its fan-out: of a leaf, as values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

PARALLEL_MOST = 100
PLANNED = "Planned"  # the reason of a run whose units are yet to be queued
QUEUED = "Queued"


@dataclass(frozen=True, slots=True)
class FanOut:
    """How each run becomes many: by a plan, which stays JSON, or by units that are always the same."""

    plan: bytes | None = None
    units: tuple[str, ...] = ()
    parallel: int = PARALLEL_MOST  # how many units run at once
    unit_option: str = ""  # with which a run by hand runs one unit, and no plan


def fan_out_of(raw: Mapping[str, Any] | None) -> FanOut | None:
    """A spec's fan-out from the API's document; None where it has none."""
    if not raw:
        return None
    plan = raw.get("plan")
    return FanOut(
        plan=None if plan is None else orjson.dumps(plan),
        units=tuple(str(unit) for unit in raw.get("units") or ()),
        parallel=int(raw.get("maxParallel", PARALLEL_MOST)),
        unit_option=str(raw.get("unitOption") or ""),
    )
