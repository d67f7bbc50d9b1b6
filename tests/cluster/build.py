"""Builds the programs of a cluster with Go, once per version, and keeps them in the cache.

The versions stand in the `go.mod` files under `tools/`, with the checksums of everything they pull in.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError, PrerequisiteMissingError
from tests.cluster.layout import cache_dir

_TOOLS = Path(__file__).parent / "tools"
# Prometheus finds targets in every cloud there is, each with its library; those in files are enough here.
_WITHOUT_CLOUDS = "remove_all_sd"
_STAMPED_PACKAGES = ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")


@dataclass(frozen=True, slots=True)
class Source:
    """A module of `tools/` and the upstream module that its programs come from."""

    directory: str
    module: str

    @property
    def version(self) -> str:
        """Return the version that go.mod asks for, such as `v1.37.2`."""
        text = (_TOOLS / self.directory / "go.mod").read_text()
        found = re.search(rf"^(?:require )?\s*{re.escape(self.module)} (v\S+)", text, re.MULTILINE)
        if not found:
            raise ClusterError(f"tools/{self.directory}/go.mod does not require {self.module}")
        return found[1]

    def stamps(self) -> dict[str, str]:
        """Return the linker variables that tell the program its version."""
        version = self.version
        if self.directory == "containerd":
            return {f"{self.module}/version.Version": version}
        if self.directory == "kwok":
            return {f"{self.module}/pkg/consts.Version": version.removeprefix("v")}
        if self.directory == "helm":
            return {f"{self.module}/internal/version.version": version}
        if self.directory in {"prometheus", "alertmanager"}:
            return {"github.com/prometheus/common/version.Version": version.removeprefix("v")}
        if self.directory != "kubernetes":
            return {}
        major, minor, _ = version.removeprefix("v").split(".", 2)
        parts = {"gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        return {f"{package}.{key}": value for package in _STAMPED_PACKAGES for key, value in parts.items()}


_KUBERNETES = Source("kubernetes", "k8s.io/kubernetes")
_ETCD = Source("etcd", "go.etcd.io/etcd/server/v3")
_CONTAINERD = Source("containerd", "github.com/containerd/containerd/v2")
_KWOK = Source("kwok", "sigs.k8s.io/kwok")
_HELM = Source("helm", "helm.sh/helm/v4")
_PROMETHEUS = Source("prometheus", "github.com/prometheus/prometheus")
_ALERTMANAGER = Source("alertmanager", "github.com/prometheus/alertmanager")

CONTROL_PLANE = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
NODE = ("kubelet", "kube-proxy", "containerd", "containerd-shim-runc-v2", "ctr")
SIMULATED_NODES = ("kwok",)
MONITORING = ("prometheus", "alertmanager")
_OTHERS = {
    "kwok": _KWOK,
    "helm": _HELM,
    "prometheus": _PROMETHEUS,
    "promtool": _PROMETHEUS,
    "alertmanager": _ALERTMANAGER,
}


def _source_of(program: str) -> tuple[Source, str]:
    if program == "etcd":
        return _ETCD, _ETCD.module
    if program in {"containerd", "containerd-shim-runc-v2", "ctr"}:
        return _CONTAINERD, f"{_CONTAINERD.module}/cmd/{program}"
    if program in _OTHERS:
        source = _OTHERS[program]
        return source, f"{source.module}/cmd/{program}"
    return _KUBERNETES, f"{_KUBERNETES.module}/cmd/{program}"


def kubernetes_version() -> str:
    """Return the version of Kubernetes that is built, such as `v1.37.2`."""
    return _KUBERNETES.version


def program_path(program: str) -> Path:
    """Return where `program` is, or will be once it is built."""
    source, _ = _source_of(program)
    return cache_dir() / "cluster" / "bin" / f"{source.directory}-{source.version}" / program


def build(programs: Iterable[str]) -> None:
    """Build those of `programs` that the cache lacks, saying what is built and how long it took."""
    if all(program_path(program).exists() for program in programs):
        return
    if not shutil.which("go"):
        raise PrerequisiteMissingError("go", "the cluster's programs are built from source")
    with _only_builder():
        for program in programs:
            if not program_path(program).exists():
                _build_one(program)


@contextmanager
def _only_builder() -> Iterator[None]:
    lock = cache_dir() / "cluster" / "build.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _build_one(program: str) -> None:
    source, package = _source_of(program)
    target = program_path(program)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{program}.part")
    link = " ".join(["-s", "-w", *(f"-X {key}={value}" for key, value in source.stamps().items())])
    command = [
        "go",
        "build",
        "-mod=readonly",
        "-trimpath",
        "-buildvcs=false",
        "-tags",
        _WITHOUT_CLOUDS,
        "-ldflags",
        link,
        "-o",
        str(part),
        package,
    ]

    print(f"building {program} {source.version} ...", file=sys.stderr, flush=True)
    start_seconds = time.monotonic()
    environment = {**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off"}
    directory = _TOOLS / source.directory
    result = subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ClusterError(f"go build of {program} {source.version} failed:\n{result.stderr.strip()}")
    part.rename(target)
    took_seconds = time.monotonic() - start_seconds
    print(f"built {program} {source.version} in {took_seconds:.0f} s", file=sys.stderr, flush=True)
