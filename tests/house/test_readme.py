"""What the README says is true: its flags, metrics, fields, commands, paths and manifests."""

from __future__ import annotations

import asyncio
import re
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterjack.attempts import BACK_OFF, FAILED_CREATE
from quarterjack.fan import QUEUED
from quarterjack.settings import parser
from tests.house.metrics_table import BEGIN, END, metrics_table

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / ".github" / "CONTRIBUTING.md").read_text()
MANIFESTS = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)


def table(heading: str) -> list[list[str]]:
    """The rows of the first table under a heading, without its head."""
    lines = iter(README.partition(f"\n## {heading}\n")[2].splitlines())
    skipped = list(takewhile(lambda line: not line.startswith("|---"), lines))
    assert skipped, f"the README has no table under {heading}"
    rows = takewhile(lambda line: line.startswith("|"), lines)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows]


def names(rows: list[list[str]]) -> set[str]:
    """The names in the first column."""
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row[0])}


@cache
def fields_of_the_crd() -> dict[str, Any]:
    crd = yaml.safe_load((ROOT / "crds" / "scheduledjobs.yaml").read_text())
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    properties: dict[str, Any] = schema["properties"]["spec"]["properties"]
    return properties


def test_its_flags_are_those_of_the_command_line() -> None:
    known = {option for action in parser()._actions for option in action.option_strings}

    assert names(table("Flags")) == known - {"-h", "--help"}


def test_its_metrics_are_those_that_the_code_serves() -> None:
    between = README.partition(BEGIN)[2].partition(END)[0]

    assert between == asyncio.run(metrics_table())
    assert len(table("Metrics")) > 30


def test_its_fields_are_those_of_the_crd() -> None:
    assert names(table("Fields")) == set(fields_of_the_crd())


@pytest.mark.parametrize("row", table("Fields"), ids=lambda row: row[0].strip("`"))
def test_its_defaults_are_those_of_the_crd(row: list[str]) -> None:
    field = fields_of_the_crd()[row[0].strip("`")]

    shown = re.findall(r"`([^`]+)`", row[2])

    if field.get("default") == {}:
        known = [each["default"] for each in field["properties"].values() if "default" in each]
    else:
        known = [field["default"]] if "default" in field else []
    assert shown == [str(value).lower() if isinstance(value, bool) else str(value) for value in known]


def test_each_field_that_it_names_for_one_of_a_cronjob_is_there() -> None:
    named = {path for row in table("Coming from CronJob") for path in re.findall(r"`([a-z][\w.]+)`", row[1])}
    fields = fields_of_the_crd()

    parts = [path.split(".") for path in named]

    assert {"template", "retry.maxRetries", "fanOut.units"} <= named
    assert [path for path in parts if path[0] not in fields] == []
    assert [path for path in parts if path[1:] and path[1] not in fields[path[0]]["properties"]] == []


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_make_command_that_is_named_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    named = set(re.findall(r"(?:^|`)make ([a-z]+)", page, re.MULTILINE))

    assert {"test"} <= named <= targets


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_path_that_is_named_exists(page: str) -> None:
    named = set(re.findall(r"`((?:charts|crds|examples|operator|tests|\.ci|\.github)/[\w./-]*)`", page))

    assert [path for path in named if not (ROOT / path).exists()] == []


def test_it_names_every_reason_that_a_record_may_have_from_us() -> None:
    who = ("attempts", "decision", "fan", "fanout", "overlap", "pod", "settling", "signs", "starter", "units")
    modules = [ROOT / "operator" / "quarterjack" / f"{name}.py" for name in who]
    given = r'(?:Outcome\(\s*State\.\w+, |reason ?= ?|return |_trouble\(job, fan, |^[A-Z_]+ = )"([A-Z][A-Za-z]+)"'

    reasons = {reason for path in modules for reason in re.findall(given, path.read_text(), re.MULTILINE)}

    assert {"Overlap", "ExitCode", "Misfire", "PlanEmpty", "LedgerLost", "PlanUnread", "Queued"} < reasons
    # Of a Pod that failed and says nothing, only that is said.
    assert reasons - {"Failed"} <= set(re.findall(r"`([^`\n]+)`", README))


def test_it_names_every_reason_of_a_story() -> None:
    source = (ROOT / "operator" / "quarterjack" / "story.py").read_text()
    given = set(re.findall(r'(?:Told\(|_warning\(|reason = |else )"(\w+)"', source)) | {BACK_OFF, FAILED_CREATE, QUEUED}
    rows = re.findall(r"^\| (`.+`) \| (?:Normal|Warning)", README, re.MULTILINE)

    assert {"SuccessfulCreate", "FailedCreate", "Skipped", "Stale"} < given
    assert given <= set(re.findall(r"`(\w+)`", " ".join(rows)))


def test_it_leaves_a_place_for_the_figures_of_the_benchmark() -> None:
    assert README.count("<!-- bench -->") == 1
    assert README.index("<!-- bench -->") < README.index("<!-- /bench -->")


def test_it_has_a_first_manifest() -> None:
    assert yaml.safe_load(MANIFESTS[0])["kind"] == "ScheduledJob"
