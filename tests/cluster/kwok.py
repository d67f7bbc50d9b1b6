"""Simulated nodes, by kwok: Pods are bound, run and end as objects only, so that thousands cost next to nothing.

A Pod's annotations say how it goes: `simulated.quarterjack.dev/duration` (default 1s), `.../exit-code` (default 0)
and `.../message`, its termination message. Pods that restart Always run until they are deleted. A container that is
called PRINTER has printed what `print_lines` was given.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.api import Api
from tests.cluster.build import program_path
from tests.cluster.control_plane import component_kubeconfig
from tests.cluster.errors import ClusterError
from tests.cluster.layout import Layout
from tests.cluster.processes import wait_until

PRINTER = "prints"

_STAGES = Path(__file__).parent / "stages.yaml"
_MARK = "kwok.x-k8s.io/node"
_CREATED_OR_EXISTS = (201, 409)


def command(layout: Layout) -> list[str]:
    return [
        str(program_path("kwok")),
        f"--kubeconfig={component_kubeconfig(layout, 'kwok')}",
        f"--config={_STAGES}",
        f"--config={_logs_file(layout)}",
        f"--node-port={layout.ports.kwok}",
        f"--tls-cert-file={layout.pki / 'simulated-kubelet.crt'}",
        f"--tls-private-key-file={layout.pki / 'simulated-kubelet.key'}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-annotation-selector={_MARK}=fake",
        "--node-lease-duration-seconds=40",
        f"--server-address=127.0.0.1:{layout.ports.kwok}",
    ]


def _logs_file(layout: Layout) -> Path:
    """Write which container has printed something, and where that is."""
    output = _output(layout)
    output.touch()
    logs = [{"containers": [PRINTER], "logsFile": str(output)}]
    rule = {"apiVersion": "kwok.x-k8s.io/v1alpha1", "kind": "ClusterLogs", "metadata": {"name": PRINTER}}
    file = layout.config / "simulated-logs.yaml"
    file.write_text(yaml.safe_dump({**rule, "spec": {"logs": logs}}))
    return file


def _output(layout: Layout) -> Path:
    return layout.logs / "simulated-output"


def print_lines(layout: Layout, lines: Iterable[str]) -> None:
    """Make this the output of every container that is called PRINTER, in the form in which a kubelet keeps it."""
    _output(layout).write_text("".join(f"2026-01-01T00:00:00.000000000Z stdout F {line}\n" for line in lines))


def ensure_nodes(api: Api, count: int, *, tainted: bool) -> None:
    """Create the nodes `simulated-0` to `simulated-<count - 1>` where they are missing, and wait until they are ready.

    Beside a real node they are tainted, so that only Pods that ask for a simulation are simulated.
    """
    names = [f"simulated-{number}" for number in range(count)]
    for name in names:
        answer = api.post("/api/v1/nodes", _node(name, tainted))
        if answer.status not in _CREATED_OR_EXISTS:
            raise ClusterError(f"cannot create Node {name}: {answer.status} {answer.text}")
    wait_until("the simulated nodes are ready", lambda: set(names) <= _ready(api), within_seconds=60)


def _node(name: str, tainted: bool) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_MARK: "fake"},
            "labels": {"kubernetes.io/hostname": name, "type": "simulated"},
        },
        "spec": {"taints": [{"key": _MARK, "value": "fake", "effect": "NoSchedule"}] if tainted else []},
    }


def _ready(api: Api) -> set[str]:
    answer = api.get("/api/v1/nodes?labelSelector=type%3Dsimulated")
    nodes = answer.json()["items"] if answer.status == 200 else []
    return {node["metadata"]["name"] for node in nodes if _is_ready(node)}


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", [])}
    effects = {taint["key"] for taint in node["spec"].get("taints", [])}
    return conditions.get("Ready") == "True" and "node.kubernetes.io/not-ready" not in effects
