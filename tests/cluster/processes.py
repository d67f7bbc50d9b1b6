"""Starts programs that outlive us, and finds and ends them again by process id."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.errors import ClusterError

POLL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Process:
    """A program of a cluster, known by its pid file; `pids` and `logs` are directories."""

    name: str
    pids: Path
    logs: Path

    @property
    def log(self) -> Path:
        return self.logs / f"{self.name}.log"

    @property
    def _pid_file(self) -> Path:
        return self.pids / f"{self.name}.json"

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None) -> int:
        """Start `command` in a session of its own, appending its output to the log; return its pid.

        `environment` is added to ours, without its proxies: a cluster is never behind one.
        """
        self.pids.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        redirects = [
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(self.log), flags, 0o644),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ]
        pid = os.posix_spawnp(
            command[0], list(command), {**own_environment(), **(environment or {})}, file_actions=redirects, setsid=True
        )
        self._pid_file.write_text(json.dumps({"pid": pid, "start_ticks": _start_ticks(pid), "boot": _boot_id()}))
        return pid

    def pid(self) -> int | None:
        """Return the pid while the program lives; a recycled pid or one of an earlier boot is not taken for it."""
        try:
            known = json.loads(self._pid_file.read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return None
        _reap(known["pid"])
        ticks = _start_ticks(known["pid"])
        same = known["boot"] == _boot_id() and known["start_ticks"] == ticks
        # A program that had died before its start was noted has None there, as a dead one has now.
        return int(known["pid"]) if same and ticks is not None else None

    def signal(self, number: signal.Signals) -> None:
        """Send `number` to the program, which must be alive; of SIGSTOP and SIGKILL await the effect."""
        pid = self.pid()
        if pid is None:
            raise ClusterError(f"{self.name} is not running")
        os.kill(pid, number)
        if number is signal.SIGSTOP:
            wait_until(f"{self.name} is stopped", lambda: _is_stopped(pid), within_seconds=10)
        elif number is signal.SIGKILL:
            wait_until(f"{self.name} is dead", lambda: self.pid() is None, within_seconds=90)

    def forget(self) -> None:
        self._pid_file.unlink(missing_ok=True)

    def last_lines(self, count: int = 5) -> str:
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        return "\n".join(lines[-count:])


def own_environment() -> dict[str, str]:
    """Return the environment of this process without its proxies."""
    return {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}


def stop(processes: Iterable[Process], *, grace_seconds: float) -> None:
    """Ask all to end; kill those that still live after `grace_seconds`; return when all are gone."""
    alive = [process for process in processes if process.pid() is not None]
    if grace_seconds:
        _send(alive, signal.SIGTERM)
        _wait_gone(alive, grace_seconds)
    # A stopped process (SIGSTOP) still dies of SIGKILL.
    _send(alive, signal.SIGKILL)
    if not _wait_gone(alive, 30):
        names = ", ".join(process.name for process in alive if process.pid() is not None)
        raise ClusterError(f"cannot be killed: {names}")
    for process in alive:
        process.forget()


def wait_until(what: str, check: Callable[[], bool], *, within_seconds: float, alive: Iterable[Process] = ()) -> None:
    """Poll `check` until it holds; fail early, with the end of the log, if one of `alive` has died."""
    deadline_seconds = time.monotonic() + within_seconds
    while not check():
        for process in alive:
            if process.pid() is None:
                raise ClusterError(f"{process.name} died; its log {process.log} ends:\n{process.last_lines()}")
        if time.monotonic() > deadline_seconds:
            raise ClusterError(f"not after {within_seconds:.0f} s: {what}")
        time.sleep(POLL_SECONDS)


def process_alive(pid: int) -> bool:
    """Tell whether `pid` runs; a zombie does not."""
    return _start_ticks(pid) is not None


def _send(processes: Iterable[Process], number: signal.Signals) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            if pid := process.pid():
                os.kill(pid, number)


def _wait_gone(processes: Iterable[Process], within_seconds: float) -> bool:
    deadline_seconds = time.monotonic() + within_seconds
    while any(process.pid() is not None for process in processes):
        if time.monotonic() > deadline_seconds:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _reap(pid: int) -> None:
    """Collect `pid` if it is a dead child of ours, so that it does not stay as a zombie."""
    with suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def _is_stopped(pid: int) -> bool:
    """Tell whether every thread of `pid` is stopped; the threads are stopped one after the other."""
    stats = Path(f"/proc/{pid}/task").glob("*/stat")
    return all(stat.read_text().rpartition(")")[2].split()[0] == "T" for stat in stats)


def _start_ticks(pid: int) -> int | None:
    """Return when `pid` started, in clock ticks since boot; None if it is gone or a zombie (proc(5), stat)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        # A main thread is a zombie before the others have ended, and while they live its ports are still taken.
        ended = fields[0] in {"Z", "X"} and len(list(Path(f"/proc/{pid}/task").iterdir())) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if ended else int(fields[19])


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
