"""Every query of an alert or a dashboard asks for metrics that are served, and every alert says what to do."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.house.metrics_table import metrics_table
from tests.house.pages import ROOT

CHART = ROOT / "charts" / "quarterjack"
RULES = CHART / "files" / "rules" / "alerts.yaml"
ALERTS: list[dict[str, Any]] = [
    rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]
]
DASHBOARDS = sorted((CHART / "files" / "dashboards").glob("*.json"))
_METRIC = re.compile(r"\b(?:scheduledjob|quarterjack)_[a-z_]+\b")


def served() -> set[str]:
    """The names of all series."""
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \|", asyncio.run(metrics_table()), re.MULTILINE)
    parts = {f"{name}{part}" for name, kind in rows if kind == "histogram" for part in ("_bucket", "_sum", "_count")}
    return {name for name, kind in rows if kind != "histogram"} | parts


def queries(dashboard: Path) -> list[str]:
    """What the panels and variables of a dashboard ask."""
    document = json.loads(dashboard.read_text())
    asked = [target["expr"] for panel in document["panels"] for target in panel["targets"]]
    return asked + [v["query"] for v in document["templating"]["list"] if v["type"] == "query"]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_asks_for_metrics_that_are_served(alert: dict[str, Any]) -> None:
    asked = set(_METRIC.findall(alert["expr"]))

    assert asked
    assert asked <= served()


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_says_how_bad_it_is_what_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    said = alert["annotations"]

    assert alert["labels"]["severity"] in {"critical", "warning", "info"}
    assert said.keys() == {"summary", "description", "runbook"}
    page, _, anchor = said["runbook"].partition("#")
    headings = re.findall(r"^## (\w+)$", (ROOT / page).read_text(), re.MULTILINE)
    assert alert["alert"] in headings
    assert anchor == alert["alert"].lower()


def test_the_runbook_is_about_these_alerts_only() -> None:
    headings = re.findall(r"^## (\w+)$", (CHART / "RUNBOOK.md").read_text(), re.MULTILINE)

    assert headings == [alert["alert"] for alert in ALERTS]


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_asks_for_metrics_that_are_served(dashboard: Path) -> None:
    asked = queries(dashboard)

    assert len(asked) > 8
    for query in asked:
        assert _METRIC.findall(query), query
        assert set(_METRIC.findall(query)) <= served(), query


@pytest.mark.parametrize("dashboard", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_lets_one_choose_its_data_source(dashboard: Path) -> None:
    document = json.loads(dashboard.read_text())

    assert document["templating"]["list"][0]["type"] == "datasource"
    assert {panel["datasource"]["uid"] for panel in document["panels"]} == {"${datasource}"}


def test_jobs_are_chosen_by_namespace() -> None:
    jobs = next(path for path in DASHBOARDS if path.stem == "jobs")

    assert all('namespace=~"$namespace"' in query for query in queries(jobs) if "label_values" not in query)
