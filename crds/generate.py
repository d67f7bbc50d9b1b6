"""Compose crds/*.yaml from crds/source, and copy them to the chart: `python crds/generate.py`, or `--check` to compare only.

A source is a CustomResourceDefinition in which
- `$include: [name, …]` takes schemas of shared.yaml in; what stands beside it is merged over them, maps deeply,
  `x-kubernetes-validations` appended, anything else replaced;
- `{{name first :: second}}` in a string is the fragment of that name, with `$1` and `$2` filled in (`$1` is `self` when
  nothing is given).

The schema `podTemplate` is pod_template.yaml: the API server's own OpenAPI without descriptions, brought up to date by
`--pod-template FILE` (`kubectl get --raw /openapi/v3/api/v1 > FILE`).
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
SOURCE = HERE / "source"
CHART = HERE.parent / "charts" / "quarterjack" / "files" / "crds"
KINDS = ("scheduledjobs", "scheduledjobruns")
HEADER = "# Written by crds/generate.py from crds/source; edit there.\n"
TEMPLATE_HEADER = "# Written by crds/generate.py --pod-template from the OpenAPI of Kubernetes {version}.\n"

TEMPLATE = "io.k8s.api.core.v1.PodTemplateSpec"
OBJECT_META = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
INT_OR_STRING = "io.k8s.apimachinery.pkg.util.intstr.IntOrString"
KEPT_KEYS = ("type", "format", "enum", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type")
QUANTITY_PATTERN = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"
PLACEHOLDER = re.compile(r"\{\{(\w+)(?: ([^{}]*?))?(?: :: ([^{}]*))?\}\}")

Schema = dict[str, Any]


# ---- the pod template -----------------------------------------------------------------------------------------------


def pod_template(openapi: Mapping[str, Any]) -> Schema:
    """The structural schema of a PodTemplateSpec, read from an /openapi/v3/api/v1 document."""
    return structural({"$ref": TEMPLATE}, openapi["components"]["schemas"])


def structural(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """One OpenAPI schema without references, descriptions, and what a CRD may not hold."""
    name, schema = resolve(schema, definitions)
    if name == OBJECT_META:
        return {"type": "object", "properties": {"labels": string_map(), "annotations": string_map()}}
    if name in (QUANTITY, INT_OR_STRING):
        pattern = {"pattern": QUANTITY_PATTERN} if name == QUANTITY else {}
        return {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True, **pattern}
    found: Schema = {key: schema[key] for key in KEPT_KEYS if key in schema}
    if "properties" in schema:
        found["properties"] = {k: structural(v, definitions) for k, v in sorted(schema["properties"].items())}
        found |= {"required": sorted(schema["required"])} if schema.get("required") else {}
    for key in ("items", "additionalProperties"):
        if key in schema:
            found[key] = structural(schema[key], definitions)
    return with_key_defaults(found, schema, definitions)


def resolve(schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The name (or nothing) and the body of a schema that may be a reference, or one wrapped into allOf."""
    reference = schema.get("$ref") or next((part["$ref"] for part in schema.get("allOf", ()) if "$ref" in part), "")
    name = reference.rpartition("/")[2]
    return name, definitions[name] if name else schema


def with_key_defaults(found: Schema, schema: Mapping[str, Any], definitions: Mapping[str, Any]) -> Schema:
    """A list's map keys must be required or have a default, so these alone keep theirs (a port's protocol)."""
    if "x-kubernetes-list-map-keys" not in found:
        return found
    _, item = resolve(schema["items"], definitions)
    for key in found["x-kubernetes-list-map-keys"]:
        if key not in item.get("required", ()):
            found["items"]["properties"][key]["default"] = item["properties"][key]["default"]
    return found


def string_map() -> Schema:
    """A map of strings."""
    return {"type": "object", "additionalProperties": {"type": "string"}}


# ---- composing ------------------------------------------------------------------------------------------------------


def compose(kind: str) -> str:
    """The text of one CRD file."""
    shared = load("shared.yaml")
    shared["schemas"]["podTemplate"] = load("pod_template.yaml")
    return HEADER + dump(expand(load(f"{kind}.yaml"), shared))


def expand(node: Any, shared: Mapping[str, Any]) -> Any:
    """A node of a source with its includes and fragments filled in."""
    if isinstance(node, str):
        return filled(node, shared["fragments"])
    if isinstance(node, list):
        return [expand(item, shared) for item in node]
    if not isinstance(node, dict):
        return node
    result: Schema = {}
    for name in as_list(node.get("$include", [])):
        result = merged(result, expand(shared["schemas"][name], shared))
    return merged(result, {key: expand(value, shared) for key, value in node.items() if key != "$include"})


def as_list(names: str | list[str]) -> list[str]:
    """One name, or several."""
    return [names] if isinstance(names, str) else names


def merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> Schema:
    """Two schemas as one: maps deeply, rules one after the other, else the second wins."""
    result = dict(below)
    for key, value in above.items():
        old = below.get(key)
        if isinstance(old, dict) and isinstance(value, dict):
            result[key] = merged(old, value)
        elif isinstance(old, list) and key == "x-kubernetes-validations":
            result[key] = [*old, *value]
        else:
            result[key] = value
    return result


def filled(text: str, fragments: Mapping[str, str]) -> str:
    """A text with its fragments, and the fragments of these, in place."""
    while True:
        result = PLACEHOLDER.sub(lambda match: fragment(match, fragments), text)
        if result == text:
            return text
        text = result


def fragment(match: re.Match[str], fragments: Mapping[str, str]) -> str:
    """The fragment that a placeholder names, with its arguments."""
    name, first, second = match.groups()
    return fragments[name].strip().replace("$1", first or "self").replace("$2", second or "")


# ---- files ----------------------------------------------------------------------------------------------------------


def load(name: str) -> Schema:
    """One document of the source folder."""
    document = yaml.safe_load((SOURCE / name).read_text())
    if not isinstance(document, dict):
        raise TypeError(f"{name} is no YAML map")
    return document


class _Dumper(yaml.SafeDumper):
    """Aliases would make the file hard to read."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def dump(document: Schema) -> str:
    """A document as YAML, in the order of the source, innermost collections on one line."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=160, default_flow_style=None, allow_unicode=True)


def outputs(openapi_file: Path | None) -> Iterator[tuple[Path, str]]:
    """Each file that is written, with its text; the pod template first, since the others take it in."""
    if openapi_file:
        document = json.loads(openapi_file.read_text())
        header = TEMPLATE_HEADER.format(version=document["info"]["version"])
        yield SOURCE / "pod_template.yaml", header + dump(pod_template(document))
    for kind in KINDS:
        yield HERE / f"{kind}.yaml", compose(kind)
        yield CHART / f"{kind}.yaml", compose(kind)
    yield CHART / "fence.yaml", (HERE / "fence.yaml").read_text()


def main() -> int:
    """Write the files, or with --check compare them: 1 when one differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="write nothing; fail when a file is not up to date")
    parser.add_argument("--pod-template", type=Path, metavar="FILE", help="OpenAPI v3 document of the core group")
    options = parser.parse_args()
    stale = 0
    for path, text in outputs(options.pod_template):
        if path.exists() and path.read_text() == text:
            continue
        if options.check:
            stale = 1
            sys.stderr.write(f"{path.relative_to(HERE.parent)} is not up to date; run python crds/generate.py\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return stale


if __name__ == "__main__":
    raise SystemExit(main())
