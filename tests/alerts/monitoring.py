"""Prometheus and Alertmanager themselves, with the chart's rules, and someone who is told of the alerts."""

from __future__ import annotations

import json
import subprocess
import threading
import time
import urllib.request
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

from tests.alerts.test_queries import RULES
from tests.cluster.build import MONITORING, build, program_path
from tests.fleet import free_port

ADDRESS = "127.0.0.1"
_START_SECONDS = 60.0
_END_SECONDS = 30.0

Alert = dict[str, Any]


def with_shorter_waits(rules: str) -> str:
    """The same rules, each `for` so many seconds as it has minutes."""
    document = yaml.safe_load(rules)
    for group in document["groups"]:
        for rule in group["rules"]:
            if "for" in rule:
                rule["for"] = rule["for"].removesuffix("m") + "s"
    return yaml.safe_dump(document)


class _Told(BaseHTTPRequestHandler):
    def __init__(self, told: list[Alert], *arguments: object) -> None:
        self._told = told
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_POST(self) -> None:
        """Take a notification."""
        notification = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._told += notification["alerts"]
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object, **__: object) -> None:
        """Say nothing."""


class Monitoring:
    """Scrapes replicas each second; what Alertmanager has told its receiver is in `told`, the oldest first."""

    def __init__(self, directory: Path, ports: Sequence[int]) -> None:
        self.told: list[Alert] = []
        self._directory = directory
        self._targets = [f"{ADDRESS}:{port}" for port in ports]
        self._ends = ExitStack()

    def __enter__(self) -> Monitoring:
        """Start both, and wait until they are ready."""
        build(MONITORING)
        self._directory.mkdir(parents=True)
        with ExitStack() as ends:
            receiver = ends.enter_context(ThreadingHTTPServer((ADDRESS, 0), partial(_Told, self.told)))
            threading.Thread(target=receiver.serve_forever, daemon=True).start()
            ends.callback(receiver.shutdown)
            alertmanager = self._start(
                "alertmanager", _receiver(receiver.server_port), ends, "--cluster.listen-address="
            )
            self._start("prometheus", self._rules_and_targets(alertmanager), ends)
            self._ends = ends.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End both."""
        self._ends.close()

    def of(self, alert: str, name: str) -> list[tuple[str, Alert]]:
        """What was told of an alert of a job: firing or resolved, and the alert."""
        mine = [a for a in self.told if (a["labels"]["alertname"], a["labels"].get("scheduledjob")) == (alert, name)]
        return [(alert["status"], alert) for alert in mine]

    def _rules_and_targets(self, alertmanager: str) -> dict[str, Any]:
        rules = self._directory / "rules.yaml"
        rules.write_text(with_shorter_waits(RULES.read_text()))
        return {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(rules)],
            "scrape_configs": [{"job_name": "quarterjack", "static_configs": [{"targets": self._targets}]}],
            "alerting": {"alertmanagers": [{"static_configs": [{"targets": [alertmanager]}]}]},
        }

    def _start(self, program: str, configuration: dict[str, Any], ends: ExitStack, *flags: str) -> str:
        """Start a program and wait until it is ready; its address."""
        file, address = self._directory / f"{program}.yaml", f"{ADDRESS}:{free_port()}"
        file.write_text(yaml.safe_dump(configuration))
        storage = "storage.tsdb.path" if program == "prometheus" else "storage.path"
        usual = [f"--config.file={file}", f"--{storage}={self._directory / program}", f"--web.listen-address={address}"]
        log = ends.enter_context((self._directory / f"{program}.log").open("wb"))
        process = subprocess.Popen(
            [program_path(program), *usual, *flags], stdin=subprocess.DEVNULL, stdout=log, stderr=log
        )
        ends.callback(_end, process)
        self._await_ready(program, address, process)
        return address

    def _await_ready(self, program: str, address: str, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_SECONDS
        while process.poll() is None and time.monotonic() < deadline:
            try:
                with urllib.request.urlopen(f"http://{address}/-/ready", timeout=5):
                    return
            except OSError:
                time.sleep(0.1)
        raise TimeoutError(f"{program} is not ready:\n{(self._directory / f'{program}.log').read_text()[-2000:]}")


def _receiver(port: int) -> dict[str, Any]:
    hook = {"url": f"http://{ADDRESS}:{port}/", "send_resolved": True}
    route = {"receiver": "people", "group_by": ["..."], "group_wait": "0s", "group_interval": "1s"}
    return {"route": route, "receivers": [{"name": "people", "webhook_configs": [hook]}]}


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
