"""Log lines: one line whatever the message, with their fields, and nothing that must not be shown."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from quarterjack import logs
from quarterjack.manifests import Run
from quarterjack.model import Entry, State
from tests.unit.given import NOON, a_claim, a_job

RUN_ID = f"0b4f7c0e6f0c4f0c9d0e2a1b3c4d5e6f-{NOON}"


@pytest.fixture
def line(request: pytest.FixtureRequest) -> Iterator[io.StringIO]:
    """What a logger in the style of the test writes."""
    output = logs.handler(request.param)
    written = io.StringIO()
    output.setStream(written)
    logger = logging.getLogger("quarterjack.test")
    logger.addHandler(output)
    logger.setLevel(logging.INFO)
    yield written
    logger.removeHandler(output)


log = logging.getLogger("quarterjack.test")


@pytest.mark.parametrize("line", ["text"], indirect=True)
def test_a_line_of_text_has_its_fields_after_the_message(line: io.StringIO) -> None:
    log.info("launched %s", "report-1", extra=logs.of_run(Run(a_job(), NOON)))

    _, written = line.getvalue().split(" ", 1)
    assert written == f"INFO launched report-1 job=default/report firing={NOON} run={RUN_ID}\n"


@pytest.mark.parametrize("line", ["json"], indirect=True)
def test_a_line_of_json_has_its_fields_beside_the_message(line: io.StringIO) -> None:
    log.info("launched %s", "report-1", extra=logs.of_claim(a_claim(NOON)))

    document = json.loads(line.getvalue())
    assert document.pop("time").endswith("Z")
    assert document == {
        "level": "INFO",
        "message": "launched report-1",
        "job": "default/report",
        "firing": str(NOON),
        "run": RUN_ID,
    }


@pytest.mark.parametrize("line", ["text", "json"], indirect=True)
def test_no_message_breaks_a_line_hides_a_character_or_shows_a_credential(line: io.StringIO) -> None:
    log.warning("no\n\x1b[31m\u202e https://me:hunter2@host password=hunter2")

    assert line.getvalue().count("\n") == 1
    assert line.getvalue().rstrip("\n").isprintable()
    assert "hunter2" not in line.getvalue()


@pytest.mark.parametrize("line", ["text", "json"], indirect=True)
def test_a_traceback_is_part_of_its_line(line: io.StringIO) -> None:
    try:
        int("token=hunter2\nin two lines")
    except ValueError:
        log.exception("it failed")

    assert line.getvalue().count("\n") == 1
    assert "ValueError" in line.getvalue()
    assert "hunter2" not in line.getvalue()


def test_a_row_of_missed_firings_is_of_a_job_and_of_no_one_firing() -> None:
    row = Entry("missed-9", 9, State.MISSED, count=4)

    assert logs.of_line(a_job(), row) == {"job": "default/report"}
    assert logs.of_job(None) == {}
