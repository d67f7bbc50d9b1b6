"""Replicas of the operator as processes of this machine, which can be killed, stopped, continued and started again."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from tests.fleet.preloaded import Forked, Preloaded

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(slots=True)
class ReplicaProcess:
    """One replica. `module` is what runs: the operator, or a test's own entry point to it."""

    name: str
    kubeconfig: Path
    log_dir: Path
    flags: tuple[str, ...] = ()
    module: str = "quarterjack"
    environment: dict[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    preloaded: Preloaded | None = None
    process: subprocess.Popen[bytes] | Forked | None = None
    starts: int = 0

    @property
    def log_path(self) -> Path:
        """Its output, of all its lives."""
        return self.log_dir / f"{self.name}.log"

    def start(self) -> None:
        """Start it, under a name of its own each time, as a Pod would have one."""
        self.starts += 1
        arguments = ["--replica-name", f"{self.name}-{self.starts}", "--listen", f"127.0.0.1:{self.port}"]
        arguments += ["--kubeconfig", str(self.kubeconfig), *self.flags]
        self.log_dir.mkdir(parents=True, exist_ok=True)
        if self.preloaded is not None:
            self.process = self.preloaded.fork(arguments, log_path=self.log_path, environment=self.environment)
            return
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", self.module, *arguments],
                cwd=ROOT,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | self.environment,
                start_new_session=True,
            )

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self, *, seconds: float = 15.0) -> int:
        """SIGTERM, and its exit code; a replica that does not end in time is killed, which is an error."""
        if self.process is None:
            return 0
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self.process = None

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process is not None and self.process.poll() is None

    def page(self, path: str, *, seconds: float = 5.0) -> tuple[int, str]:
        """Status and body of one of its pages; status 0 where nobody answers."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=seconds) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError as error:
            return 0, str(error)

    def await_ready(self, *, seconds: float = 60.0) -> None:
        """Wait until it says that it is ready; TimeoutError with its words and its log's end where it does not."""
        deadline = time.monotonic() + seconds
        status, said = 0, ""
        while time.monotonic() < deadline:
            if not self.alive:
                break
            status, said = self.page("/readyz")
            if status == 200:
                return
            time.sleep(0.1)
        tail = "\n".join(self.log_path.read_text(errors="replace").splitlines()[-20:])
        raise TimeoutError(f"{self.name} is not ready: {status} {said}\n{tail}")


class Fleet:
    """Several replicas on one cluster; forked from `preloaded` where that is given."""

    def __init__(
        self,
        kubeconfig: Path,
        log_dir: Path,
        *,
        replicas: int = 3,
        flags: tuple[str, ...] = (),
        preloaded: Preloaded | None = None,
    ) -> None:
        self.replicas = [
            ReplicaProcess(f"replica-{i}", kubeconfig, log_dir, flags, preloaded=preloaded) for i in range(replicas)
        ]

    def __enter__(self) -> Fleet:
        """Start all, and wait until they are ready."""
        try:
            self.start()
        except BaseException:
            self.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        """End all."""
        self.kill()

    def start(self) -> None:
        """Start those that do not run, and wait until all are ready."""
        for replica in self.replicas:
            if not replica.alive:
                replica.start()
        for replica in self.replicas:
            replica.await_ready()

    def kill_at_random(self, chance: random.Random, *, every_seconds: float, until: float) -> None:
        """SIGKILL to one of them, and start it anew, every so many seconds until an instant (epoch seconds)."""
        while time.time() < until:
            time.sleep(every_seconds)
            victim = chance.choice(self.replicas)
            victim.kill()
            victim.start()

    def kill(self) -> None:
        """SIGKILL to all."""
        for replica in self.replicas:
            replica.kill()
