"""kubectl against one cluster, whatever the shell's own kubeconfig says meanwhile."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.cluster.build import build, program_path
from tests.cluster.errors import ClusterError
from tests.cluster.processes import own_environment


@dataclass(frozen=True, slots=True)
class Kubectl:
    """One program, with the options and the environment that lead to the cluster."""

    program: Path
    options: tuple[str, ...]
    environment: Mapping[str, str]

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it, whatever comes of it."""
        command = [str(self.program), *self.options, *arguments]
        return subprocess.run(
            command, input=stdin, capture_output=True, text=True, check=False, env=dict(self.environment)
        )

    def out(self, *arguments: str, stdin: str = "") -> str:
        """Run it and return what it prints; ClusterError with its words where it fails."""
        result = self.run(*arguments, stdin=stdin)
        if result.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    def json(self, *arguments: str) -> dict[str, Any]:
        """Run it for a JSON document."""
        document: dict[str, Any] = json.loads(self.out(*arguments, "-o", "json"))
        return document


def of_cluster(cluster: Cluster, cache: Path) -> Kubectl:
    """kubectl for a cluster of our own, as its administrator."""
    options = (f"--kubeconfig={cluster.kubeconfig}", f"--cache-dir={cache}")
    return Kubectl(program_path("kubectl"), options, own_environment())


def of_context(context: str, kubeconfig: str, cache: Path) -> Kubectl:
    """kubectl for a context of somebody's kubeconfig; `kubeconfig` is a value of $KUBECONFIG, empty for the default."""
    environment = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"}
    if kubeconfig:
        environment["KUBECONFIG"] = kubeconfig
    return Kubectl(_any_program(), (f"--context={context}", f"--cache-dir={cache}"), environment)


def current_context(kubeconfig: str) -> str:
    """The context that kubectl would use now."""
    environment = os.environ | ({"KUBECONFIG": kubeconfig} if kubeconfig else {})
    command = [str(_any_program()), "config", "current-context"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    if result.returncode:
        raise ClusterError(f"CLUSTER=current needs a kubectl context: {result.stderr.strip()}")
    return result.stdout.strip()


def _any_program() -> Path:
    found = shutil.which("kubectl")
    if found is None:
        build(["kubectl"])
    return Path(found) if found else program_path("kubectl")
