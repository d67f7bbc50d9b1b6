"""What holds for the CRDs' text: it is up to date, bounded, explained, and small enough for client-side apply."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from crds import generate
from tests.crds.serving import ROOT

LAST_APPLIED_LIMIT = 262_144
Schema = dict[str, Any]

KINDS = pytest.mark.parametrize("kind", generate.KINDS)


def crd(kind: str) -> dict[str, Any]:
    """One CRD as it is installed."""
    document = yaml.safe_load((ROOT / "crds" / f"{kind}.yaml").read_text())
    assert isinstance(document, dict)
    return document


def own_fields(kind: str) -> Iterator[tuple[str, Schema]]:
    """Each field of ours by its path; a Pod template is not looked into."""
    (version,) = crd(kind)["spec"]["versions"]
    for part in ("spec", "status"):
        yield from _fields(part, version["schema"]["openAPIV3Schema"]["properties"][part])


def _fields(path: str, schema: Schema) -> Iterator[tuple[str, Schema]]:
    yield path, schema
    if path.endswith("template"):
        return
    for name, child in schema.get("properties", {}).items():
        yield from _fields(f"{path}.{name}", child)
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            yield from _fields(f"{path}[]", schema[key])


def _bounded(schema: Schema) -> bool:
    kind = schema["type"]
    if kind == "string":
        return "maxLength" in schema or "enum" in schema or schema.get("format") == "date-time"
    if kind == "array":
        return "maxItems" in schema and "x-kubernetes-list-type" in schema
    if kind == "integer":
        return "minimum" in schema and "format" in schema
    return kind == "boolean" or "properties" in schema or "maxProperties" in schema


@KINDS
def test_the_file_is_what_its_source_says(kind: str) -> None:
    assert (ROOT / "crds" / f"{kind}.yaml").read_text() == generate.compose(kind)


def test_the_generator_finds_nothing_to_write() -> None:
    command = [sys.executable, str(ROOT / "crds" / "generate.py"), "--check"]

    assert subprocess.run(command, check=False).returncode == 0


def test_the_generator_says_which_file_is_stale(tmp_path: Path) -> None:
    folder = shutil.copytree(ROOT / "crds", tmp_path / "crds")
    (folder / "scheduledjobruns.yaml").write_text("old")
    command = [sys.executable, str(folder / "generate.py")]

    stale = subprocess.run([*command, "--check"], check=False, capture_output=True, text=True)
    written = subprocess.run(command, check=False)

    assert stale.returncode == 1
    assert "crds/scheduledjobruns.yaml is not up to date" in stale.stderr
    assert written.returncode == 0
    assert (folder / "scheduledjobruns.yaml").read_text() == generate.compose("scheduledjobruns")


@KINDS
def test_every_field_is_bounded(kind: str) -> None:
    assert [path for path, schema in own_fields(kind) if not _bounded(schema)] == []


@KINDS
def test_every_number_of_a_spec_has_a_maximum(kind: str) -> None:
    numbers = {path: schema for path, schema in own_fields(kind) if schema["type"] in ("integer", "number")}

    assert [path for path in numbers if path.startswith("spec") and "maximum" not in numbers[path]] == []
    assert [path for path, schema in numbers.items() if schema["type"] == "number"] == []


@KINDS
def test_every_field_explains_itself(kind: str) -> None:
    assert [path for path, schema in own_fields(kind) if not path.endswith("[]") and "description" not in schema] == []


@KINDS
def test_every_rule_has_a_message(kind: str) -> None:
    rules = [rule for _, schema in own_fields(kind) for rule in schema.get("x-kubernetes-validations", ())]

    assert rules
    assert [rule["rule"] for rule in rules if not rule.get("message")] == []


@KINDS
def test_there_is_no_phase(kind: str) -> None:
    assert [path for path, _ in own_fields(kind) if path.lower().endswith("phase")] == []


@KINDS
def test_client_side_apply_has_room_for_it_twice(kind: str) -> None:
    assert len(json.dumps(crd(kind), separators=(",", ":"))) < LAST_APPLIED_LIMIT * 2 / 3


def test_a_template_holds_the_whole_pod_spec() -> None:
    spec = dict(own_fields("scheduledjobs"))["spec.template"]["properties"]["spec"]

    assert {"containers", "initContainers", "volumes", "affinity", "tolerations"} <= spec["properties"].keys()
    assert spec["properties"]["restartPolicy"] == {"type": "string", "enum": ["Never", "OnFailure"], "default": "Never"}
    assert spec["properties"]["containers"]["x-kubernetes-list-map-keys"] == ["name"]


def test_a_template_declares_labels_and_annotations() -> None:
    metadata = dict(own_fields("scheduledjobs"))["spec.template"]["properties"]["metadata"]

    assert metadata["properties"].keys() == {"labels", "annotations"}


def test_a_template_has_no_inner_descriptions() -> None:
    template = json.dumps(generate.load("pod_template.yaml"))

    assert '"description": "' not in template


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        pytest.param(
            {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}], "default": {}},
            {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "x-kubernetes-int-or-string": True,
                "pattern": generate.QUANTITY_PATTERN,
            },
            id="a quantity may be a number",
        ),
        pytest.param(
            {"type": "string", "description": "words", "default": "x", "x-kubernetes-patch-strategy": "merge"},
            {"type": "string"},
            id="descriptions, defaults and patch strategies are left out",
        ),
        pytest.param(
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["protocol"],
                "items": {"$ref": "#/components/schemas/Port"},
            },
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["protocol"],
                "items": {"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}}},
            },
            id="a map key that is not required keeps its default",
        ),
    ],
)
def test_openapi_becomes_structural(schema: Schema, expected: Schema) -> None:
    port = {"type": "object", "properties": {"protocol": {"type": "string", "default": "TCP"}}}

    assert generate.structural(schema, {generate.QUANTITY: {}, "Port": port}) == expected


def test_a_fragment_takes_its_arguments() -> None:
    fragments = {"twice": "$1 + $1", "pair": "($1, $2)"}

    assert generate.filled("{{twice}}", fragments) == "self + self"
    assert generate.filled("{{pair a :: {{twice b}}}}", fragments) == "(a, b + b)"


def test_rules_add_up_where_schemas_are_merged() -> None:
    below = {"type": "string", "x-kubernetes-validations": [{"rule": "a"}]}
    above = {"maxLength": 3, "x-kubernetes-validations": [{"rule": "b"}]}

    assert generate.merged(below, above) == {
        "type": "string",
        "maxLength": 3,
        "x-kubernetes-validations": [{"rule": "a"}, {"rule": "b"}],
    }
