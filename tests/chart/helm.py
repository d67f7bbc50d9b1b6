"""Helm, as a user runs it, and the objects that the chart renders to."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.build import build, program_path
from tests.house.pages import ROOT

CHART = ROOT / "charts" / "quarterjack"
RELEASE = "quarterjack"
NAMESPACE = "quarterjack-system"
Document = dict[str, Any]
Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm with directories of its own, on the cluster of a kubeconfig where one is given."""

    home: Path
    kubeconfig: Path | None = None

    def run(self, *arguments: str, values: Values | None = None) -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes of it."""
        build(["helm"])
        variables = {f"HELM_{kind}_HOME": str(self.home / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")}
        variables["KUBECONFIG"] = str(self.kubeconfig or os.devnull)
        given = ("--values=-",) if values else ()
        return subprocess.run(
            [program_path("helm"), *arguments, *given],
            input=json.dumps(values) if values else None,
            env=os.environ | variables,
            capture_output=True,
            text=True,
            check=False,
        )

    def out(self, *arguments: str, values: Values | None = None) -> str:
        """Run it and return what it prints; it must end well."""
        result = self.run(*arguments, values=values)
        assert result.returncode == 0, result.stderr + result.stdout
        return result.stdout

    def rendered(
        self, values: Values | None = None, *, release: str = RELEASE, namespace: str = NAMESPACE, chart: Path = CHART
    ) -> list[Document]:
        """The objects of the chart, those of `helm test` included."""
        text = _template(self, release, chart, namespace, json.dumps(values or {}))
        return [document for document in yaml.load_all(text, Loader=_NoKeyTwice) if document]


@cache
def _template(helm: Helm, release: str, chart: Path, namespace: str, values: str) -> str:
    return helm.out("template", release, str(chart), f"--namespace={namespace}", values=json.loads(values))


class _NoKeyTwice(yaml.CSafeLoader):
    """Helm takes the last of two equal keys; here it is an error."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [key.value for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key comes twice: {keys} in {node.start_mark}"
        return super().construct_mapping(node, deep)


def of_kind(documents: Sequence[Document], *kinds: str) -> list[Document]:
    """Those of the kinds."""
    return [document for document in documents if document["kind"] in kinds]


def the(documents: Sequence[Document], kind: str) -> Document:
    """The only one of a kind."""
    [document] = of_kind(documents, kind)
    return document


def is_hook(document: Document) -> bool:
    """Whether it is made for `helm test` only."""
    return "helm.sh/hook" in document["metadata"].get("annotations", {})


def installed(documents: Sequence[Document]) -> list[Document]:
    """Those that an installation creates, without those of `helm test`."""
    return [document for document in documents if not is_hook(document)]
