"""Zones: the same offsets as zoneinfo over the same tzdata, and nothing taken from the host."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest

from quarterjack import zones
from quarterjack.schedule import Schedule
from tests.unit.oracle import utc, zone_info

ROOT = Path(__file__).parents[2]
# Also long after the last transition that zone files list.
YEARS = (1905, 1950, 1970, 1999, 2024, 2037, 2038, 2099, 2100, 2101, 2250, 2399)

ASKED = [
    ("30 2 * * *", "Europe/Berlin", "2026-03-27T00:00", "2026-03-31T00:00"),
    ("*/30 * * * *", "America/New_York", "2026-11-01T00:00", "2026-11-02T00:00"),
    ("0 0 * * *", "Africa/Cairo", "2026-04-22T00:00", "2026-04-26T00:00"),
    ("15 2 * * *", "Australia/Lord_Howe", "2045-09-28T00:00", "2045-10-04T00:00"),
    ("0 12 * * *", "UTC", "2026-01-01T00:00", "2026-01-03T00:00"),
]


def answers() -> list[list[str]]:
    """The firings of ASKED, as text."""
    return [
        [f.isoformat() for f in Schedule.parse(expression, time_zone=zone).between(utc(after), utc(until))]
        for expression, zone, after, until in ASKED
    ]


@pytest.mark.parametrize("year", YEARS)
def test_every_zone_has_the_offsets_of_zoneinfo_in(year: int) -> None:
    instants = [int(datetime(year, month, day, tzinfo=UTC).timestamp()) for month in range(1, 13) for day in (3, 18)]
    for name in sorted(zones.names()):
        zone, reference = zones.load(name), zone_info(name)
        for instant in instants:
            expected = datetime.fromtimestamp(instant, reference).utcoffset()
            assert expected is not None
            assert zone.offsets[zone.segment_at(instant)] == expected.total_seconds(), (name, instant)


def test_every_change_of_every_zone_is_where_zoneinfo_has_it() -> None:
    earliest, latest = int(utc("1900-01-02T00:00").timestamp()), int(utc("2100-01-01T00:00").timestamp())
    for name in sorted(zones.names()):
        zone, reference = zones.load(name), zone_info(name)
        for i, start in enumerate(zone.starts):
            if not earliest < start < latest:
                continue
            for instant, offset in ((start - 1, zone.offsets[i - 1]), (start, zone.offsets[i])):
                expected = datetime.fromtimestamp(instant, reference).utcoffset()
                assert expected is not None
                assert offset == expected.total_seconds(), (name, instant)


def test_no_zone_can_be_taken_for_a_field_of_cron() -> None:
    for name in zones.names():
        for expression in (f"0 0 * * {name}", f"0 0 0 1 1 * {name}"):
            with pytest.raises(ValueError, match=r"not understood|write|fields"):
                Schedule.parse(expression)


def test_links_and_their_targets_share_one_zone() -> None:
    assert zones.load("Europe/Berlin") is zones.load("Europe/Copenhagen")
    assert zones.load("Etc/UTC") is zones.load("Zulu")


@pytest.mark.parametrize(
    "host",
    [
        pytest.param({"TZ": "Pacific/Apia"}, id="TZ is Apia"),
        pytest.param({"TZ": "nonsense", "PYTHONTZPATH": "/nonexistent"}, id="no zone files"),
        pytest.param({"PYTHONTZPATH": "forged"}, id="forged zone files"),
    ],
)
def test_a21_firings_do_not_depend_on_the_host(host: dict[str, str], tmp_path: Path) -> None:
    forged = tmp_path / "zoneinfo"
    for name in ("Europe/Berlin", "America/New_York", "UTC"):
        (forged / name).parent.mkdir(parents=True, exist_ok=True)
        (forged / name).write_bytes(b"TZif2" + bytes(39))
    paths = os.pathsep.join([str(ROOT / "operator"), str(ROOT)])
    settings = {**host, "PYTHONTZPATH": str(forged)} if host.get("PYTHONTZPATH") == "forged" else host
    script = "import json; from tests.unit.test_schedule_zones import answers; print(json.dumps(answers()))"

    result = subprocess.run(
        [sys.executable, "-c", script],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": paths, **settings},
        check=True,
        capture_output=True,
        text=True,
    )

    assert json.loads(result.stdout) == answers()


@pytest.mark.parametrize(
    ("form", "year", "day"),
    [
        ("M3.5.0", 2026, "2026-03-29"),
        ("M3.5.0", 2024, "2024-03-31"),
        ("M12.5.6", 2026, "2026-12-26"),
        ("M2.1.0", 2026, "2026-02-01"),
        ("J59", 2024, "2024-02-28"),
        ("J60", 2024, "2024-03-01"),
        ("J60", 2026, "2026-03-01"),
        ("J365", 2024, "2024-12-31"),
        ("59", 2024, "2024-02-29"),
        ("0", 2026, "2026-01-01"),
    ],
)
def test_the_day_of_a_rule_is_that_of_posix(form: str, year: int, day: str) -> None:
    rule = zones.rule_of(f"AAA3BBB,{form}/0,J200/0")
    assert rule is not None

    instants = [instant for instant, _ in rule.transitions(year)]

    assert int(utc(f"{day}T03:00").timestamp()) in instants


def test_a_rule_that_is_not_understood_is_an_error_and_never_utc() -> None:
    with pytest.raises(ValueError, match="not understood"):
        zones.rule_of("EST5EDT")
