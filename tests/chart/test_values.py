"""What the chart lets a user say: the schema of the values, and the pages that explain them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from typing import Any

import pytest
import yaml

from charts import generate
from tests.chart.helm import CHART, NAMESPACE, RELEASE, Helm
from tests.house.pages import ROOT, blocks

SCHEMA: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
ABOUT: dict[str, Any] = yaml.safe_load((CHART / "Chart.yaml").read_text())


@pytest.mark.parametrize(
    ("values", "said"),
    [
        pytest.param({"replicas": 3}, "'replicas' not allowed", id="a value that does not exist"),
        pytest.param({"image": {"name": "a"}}, "'name' not allowed", id="one below another that does not exist"),
        pytest.param({"replicaCount": "3"}, "/replicaCount", id="a number as text"),
        pytest.param({"replicaCount": -1}, "/replicaCount", id="fewer than none"),
        pytest.param({"schedule": "no"}, "/schedule", id="a text for a truth"),
        pytest.param({"inFlight": 0}, "/inFlight", id="no launch at once"),
        pytest.param({"graceSeconds": 3601}, "/graceSeconds", id="a grace period of over an hour"),
        pytest.param({"watchNamespaces": ["Team A"]}, "/watchNamespaces/0", id="no name of a namespace"),
        pytest.param({"watchNamespaces": ["a", "a"]}, "/watchNamespaces", id="a namespace twice"),
        pytest.param({"watchNamespaces": "a"}, "/watchNamespaces", id="one namespace for a list"),
        pytest.param({"defaultTimeZone": "Europe/Berlin; true"}, "/defaultTimeZone", id="more than a zone"),
        pytest.param({"image": {"repository": ""}}, "/image/repository", id="an image without a name"),
        pytest.param({"image": {"digest": "sha256:1"}}, "/image/digest", id="a digest that is too short"),
        pytest.param({"image": {"pullPolicy": "Sometimes"}}, "/image/pullPolicy", id="an unknown pull policy"),
        pytest.param({"logs": {"level": "trace"}}, "/logs/level", id="an unknown level"),
        pytest.param({"podDisruptionBudget": {"maxUnavailable": "half"}}, "/maxUnavailable", id="no percentage"),
        pytest.param({"service": {"port": 70000}}, "/service/port", id="no port"),
        pytest.param({"extraEnv": [{"value": "a"}]}, "/extraEnv/0", id="a variable without a name"),
        pytest.param({"podLabels": {"app.kubernetes.io/name": "a"}}, "/podLabels", id="a label of ours"),
        pytest.param({"commonLabels": {"a": 1}}, "/commonLabels/a", id="a number for a label"),
        pytest.param({"fullnameOverride": "Upper"}, "/fullnameOverride", id="a name in upper case"),
        pytest.param({"resources": {"cpu": 1}}, "'cpu' not allowed", id="resources without requests or limits"),
    ],
)
def test_a_wrong_value_is_refused_by_name(helm: Helm, values: dict[str, Any], said: str) -> None:
    result = helm.run("template", RELEASE, str(CHART), values=values)

    assert result.returncode != 0
    assert said in result.stderr


def test_each_value_has_its_place_in_the_schema_and_no_other_is_let_in() -> None:
    assert list(_differences(SCHEMA, VALUES, "")) == [".global"]


def _differences(schema: dict[str, Any], values: dict[str, Any], path: str) -> list[str]:
    assert schema["additionalProperties"] is False, path
    known = schema["properties"]
    found = [f"{path}.{name}" for name in known.keys() ^ values.keys()]
    for name in known.keys() & values.keys():
        if "properties" in known[name] and values[name] and name != "resources":
            found += _differences(known[name], values[name], f"{path}.{name}")
    return found


def test_the_readme_has_the_values_as_they_are() -> None:
    command = [sys.executable, str(ROOT / "charts" / "generate.py"), "--check"]

    result = subprocess.run(command, capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr) == (0, "")


def test_a_readme_that_is_out_of_date_is_made_anew() -> None:
    readme = (CHART / "README.md").read_text()
    values = (CHART / "values.yaml").read_text().replace("replicaCount: 3", "replicaCount: 5")

    new = generate.readme(readme, values)

    assert new != readme
    assert "| `5` |" in new
    assert generate.readme(new, (CHART / "values.yaml").read_text()) == readme


def test_a_value_without_a_comment_is_named() -> None:
    with pytest.raises(ValueError, match=r"image\.tag has no comment"):
        generate.rows("image:\n  # Where from.\n  repository: a\n  tag: b\n")


def test_every_value_has_a_section_and_a_comment() -> None:
    rows = generate.rows((CHART / "values.yaml").read_text())

    assert len(rows) > 50
    assert [row.path for row in rows if not row.section or not row.meaning.endswith(".")] == []


def test_its_version_is_that_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert (ABOUT["version"], ABOUT["appVersion"]) == (project["version"], project["version"])
    assert ABOUT["description"] == project["description"]


def test_what_artifact_hub_reads_is_true() -> None:
    told = {key.removeprefix("artifacthub.io/"): yaml.safe_load(text) for key, text in ABOUT["annotations"].items()}
    crds = [yaml.safe_load(path.read_text()) for path in (ROOT / "crds").glob("scheduledjob*.yaml")]

    assert told["operator"] is True
    assert {(crd["name"], crd["kind"], crd["version"]) for crd in told["crds"]} == {
        (crd["metadata"]["name"], crd["spec"]["names"]["kind"], crd["spec"]["versions"][0]["name"]) for crd in crds
    }
    assert {example["kind"] for example in told["crdsExamples"]} == {"ScheduledJob"}


def test_the_notes_say_what_to_do_next(helm: Helm) -> None:
    def notes(**values: Any) -> str:
        install = ("install", RELEASE, str(CHART), f"--namespace={NAMESPACE}", "--dry-run=client")
        return helm.out(*install, values=values).partition("NOTES:\n")[2]

    plain = notes()

    assert "kubectl rollout status deployment/quarterjack --namespace quarterjack-system" in plain
    assert "helm test quarterjack --namespace quarterjack-system" in plain
    assert "all namespaces" in plain
    assert "leaves the CRDs" in plain
    assert "The fence is left to another installation" in notes(fence={"install": False})
    assert "Nothing fires by itself" in notes(schedule=False)
    assert "kubectl apply --namespace team-a" in notes(watchNamespaces=["team-a"])


def test_every_helm_line_of_its_readme_names_this_chart() -> None:
    lines = [line for block in blocks(CHART / "README.md") for line in block.text.splitlines()]

    installs = [line for line in lines if re.match("helm (install|upgrade) ", line)]
    assert len(installs) == 2
    assert all(f"{RELEASE} charts/quarterjack --namespace {NAMESPACE}" in line for line in installs)
