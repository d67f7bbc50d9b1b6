"""kubectl as a user runs it: what it prints, refusals included."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster import Cluster
from tests.cluster.build import program_path


@dataclass(frozen=True, slots=True)
class Result:
    """The end of one kubectl."""

    code: int
    out: str
    error: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with the administrator's rights, in one namespace."""

    cluster: Cluster
    namespace: str

    def run(self, *arguments: str, stdin: str | None = None) -> Result:
        """Run it, whatever comes of it."""
        cache = self.cluster.kubeconfig.parent / "kubectl-cache"
        options = (f"--kubeconfig={self.cluster.kubeconfig}", f"--cache-dir={cache}", f"--namespace={self.namespace}")
        command = [str(program_path("kubectl")), *options, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False)
        return Result(done.returncode, done.stdout, done.stderr)

    def out(self, *arguments: str, stdin: str | None = None) -> str:
        """Run it and return what it prints; it must end well."""
        result = self.run(*arguments, stdin=stdin)
        assert result.code == 0, result.error
        return result.out

    def get(self, *arguments: str) -> dict[str, Any]:
        """One object, or a list, as it is stored."""
        document = json.loads(self.out("get", *arguments, "-o", "json"))
        assert isinstance(document, dict)
        return document

    def apply(self, document: dict[str, Any], *arguments: str) -> Result:
        """Apply one object."""
        return self.run("apply", *arguments, "-f", "-", stdin=json.dumps(document))

    def apply_file(self, path: Path, *arguments: str) -> Result:
        """Apply one file."""
        return self.run("apply", *arguments, "-f", str(path))

    def patch_status(self, kind: str, name: str, status: dict[str, Any]) -> Result:
        """Merge into an object's status."""
        options = ("--subresource=status", "--type=merge", "--patch-file=/dev/stdin")
        return self.run("patch", kind, name, *options, stdin=json.dumps({"status": status}))
