"""The namespace and the account of the replicas, with the rights that the chart gives to the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FILES = Path(__file__).resolve().parents[2] / "charts" / "quarterjack" / "files" / "rights"
NAMESPACE = "quarterjack-system"
ACCOUNT = "quarterjack"
_GROUP = "rbac.authorization.k8s.io"
Document = dict[str, Any]


def rights() -> list[Document]:
    """All objects, in the order in which they can be created."""
    own_namespace = {"apiGroups": [""], "resources": ["namespaces"], "resourceNames": [NAMESPACE], "verbs": ["get"]}
    account = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": NAMESPACE}
    documents: list[Document] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": ACCOUNT, "namespace": NAMESPACE}},
    ]
    for kind, place, rules in (
        ("Role", {"namespace": NAMESPACE}, [*_rules("claims"), own_namespace]),
        ("ClusterRole", {}, _rules("jobs")),
    ):
        common = {"apiVersion": f"{_GROUP}/v1", "metadata": {"name": ACCOUNT, **place}}
        role = {"apiGroup": _GROUP, "kind": kind, "name": ACCOUNT}
        documents.append({**common, "kind": kind, "rules": rules})
        documents.append({**common, "kind": f"{kind}Binding", "roleRef": role, "subjects": [account]})
    return documents


def _rules(name: str) -> list[Document]:
    rules: list[Document] = yaml.safe_load((FILES / f"{name}.yaml").read_text())
    return rules
