"""A process that has imported the operator, and forks into a replica on demand.

Importing takes more than a second of processor time. Where replicas are killed and started every few seconds beside their control
plane, on two cores, that would be most of what is measured; in a cluster each start has a node of its own to burden.
"""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

_GONE_SECONDS = 10.0


class Forked:
    """One replica that was forked: what `subprocess.Popen` offers, but for the exit code, which nobody keeps."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def poll(self) -> int | None:
        """None while it runs."""
        return None if Path(f"/proc/{self.pid}").exists() else 0

    def send_signal(self, number: int) -> None:
        """Send it a signal; one that is gone gets none."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it is gone."""
        seconds = _GONE_SECONDS if timeout is None else timeout
        deadline = time.monotonic() + seconds
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired(f"replica {self.pid}", seconds)
            time.sleep(0.005)
        return 0


class Preloaded:
    """The process that forks, from here."""

    def __enter__(self) -> Preloaded:
        """Start it."""
        self._one_at_a_time = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(self, *_: object) -> None:
        """End it; its children are ended by who asked for them."""
        self._process.communicate(timeout=_GONE_SECONDS)

    def fork(self, arguments: Sequence[str], *, log_path: Path, environment: Mapping[str, str]) -> Forked:
        """A new replica with these arguments; from any thread."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        wish = {"arguments": list(arguments), "log_path": str(log_path), "environment": dict(environment)}
        with self._one_at_a_time:
            print(json.dumps(wish), file=self._process.stdin, flush=True)
            return Forked(int(self._process.stdout.readline()))


def _become(wish: Mapping[str, Any]) -> None:
    """In the child: be a replica as `python -m quarterjack` would be, until it ends."""
    from quarterjack.__main__ import main

    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    log = os.open(wish["log_path"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.environ.update(wish["environment"])
    os._exit(main(wish["arguments"]))


def serve() -> None:
    """Fork for each line, answer with the child's process id, end with the input."""
    import quarterjack.__main__  # noqa: F401  what it is for

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children leave nothing behind
    gc.freeze()
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            _become(json.loads(line))
        print(pid, flush=True)


if __name__ == "__main__":
    serve()
