"""Three replicas of the operator as processes of this machine, which outlive us."""

from __future__ import annotations

import secrets
import socket
import sys
import urllib.request

import yaml

from tests.cluster.processes import Process, stop, wait_until
from tests.up.record import Record
from tests.up.rights import NAMESPACE
from tests.up.words import say

COUNT = 3
_FIRST_PORT = 18081
_READY_SECONDS = 60.0
_GRACE_SECONDS = 15.0


class Replicas:
    """The replicas of one record."""

    def __init__(self, record: Record) -> None:
        self._record = record
        directory = record.directory
        self.kubeconfig = directory / "kubeconfig"
        self.processes = [
            Process(f"replica-{number}", directory / "pids", directory / "logs") for number in range(1, COUNT + 1)
        ]

    def url(self, number: int) -> str:
        """Where a replica (0, 1, ...) serves its pages."""
        return f"http://127.0.0.1:{self._record.ports[number]}"

    def start(self, kubeconfig: str) -> None:
        """Start those that do not live, all anew where the cluster has become another; return when all are ready."""
        if self.kubeconfig.exists() and _cluster_of(self.kubeconfig.read_text()) != _cluster_of(kubeconfig):
            self.stop()
        self.kubeconfig.touch(mode=0o600)
        self.kubeconfig.write_text(kubeconfig)
        self._choose_ports()
        for number, process in enumerate(self.processes):
            if process.pid():
                say(f"{process.name}: runs already")
            else:
                process.start(self._command(number))
        for number, process in enumerate(self.processes):
            wait_until(
                f"{process.name} is ready; its log is {process.log}",
                lambda number=number: self.says_ready(number),  # type: ignore[misc]
                within_seconds=_READY_SECONDS,
                alive=[process],
            )
            say(f"{process.name}: ready, pid {process.pid()}, {self.url(number)}")

    def stop(self) -> None:
        """End those that live, and wait for it."""
        stop(self.processes, grace_seconds=_GRACE_SECONDS)

    def says_ready(self, number: int) -> bool:
        """What its readiness page says."""
        try:
            with urllib.request.urlopen(f"{self.url(number)}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def _command(self, number: int) -> list[str]:
        name = f"{self.processes[number].name}-{secrets.token_hex(3)}"
        listen = self.url(number).removeprefix("http://")
        flags = {"replica-name": name, "namespace": NAMESPACE, "kubeconfig": str(self.kubeconfig), "listen": listen}
        return [sys.executable, "-m", "quarterjack", *(f"--{flag}={value}" for flag, value in flags.items())]

    def _choose_ports(self) -> None:
        ports = self._record.ports or list(range(_FIRST_PORT, _FIRST_PORT + COUNT))
        for number, process in enumerate(self.processes):
            if not process.pid() and not _is_free(ports[number]):
                ports[number] = _free_port()
        self._record.ports = ports
        self._record.save()


def _cluster_of(kubeconfig: str) -> object:
    return yaml.safe_load(kubeconfig)["clusters"]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
