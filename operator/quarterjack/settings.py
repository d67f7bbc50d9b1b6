"""What a replica is told on its command line or, for each flag, in an environment variable QUARTERJACK_<FLAG>."""

from __future__ import annotations

import argparse
import os
import re
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import SettingsError
from .invalid import ScheduleError
from .schedule import Schedule

_SERVICE_ACCOUNT_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAME_MOST = 200  # of the 253 characters that the name of a Lease may have
_LOG_FORMATS = ("text", "json")
_LOG_LEVELS = ("debug", "info", "warning", "error")


@dataclass(frozen=True, slots=True)
class Settings:
    """Checked settings. Durations in seconds."""

    namespace: str = "quarterjack-system"
    replica: str = "quarterjack"
    watch_namespaces: tuple[str, ...] = ()
    default_time_zone: str = "UTC"
    schedule: bool = True
    in_flight: int = 32
    grace_seconds: float = 10.0
    listen: str = "0.0.0.0:8080"
    kubeconfig: str = ""
    context: str = ""
    insecure: bool = False
    log_format: str = "text"
    log_level: str = "info"

    def __post_init__(self) -> None:
        """Refuse what cannot serve."""
        for flag, name in [("--namespace", self.namespace), *(("--watch-namespace", w) for w in self.watch_namespaces)]:
            if not _DNS_LABEL.fullmatch(name):
                raise SettingsError(f"{flag} {name!r} is not the name of a namespace")
        if len(self.replica) > _NAME_MOST or not all(map(_DNS_LABEL.fullmatch, self.replica.split("."))):
            raise SettingsError(f"--replica-name {self.replica!r} cannot be part of the name of a Lease")
        if not 1 <= self.in_flight <= 256:
            raise SettingsError(f"--in-flight {self.in_flight} must be from 1 to 256")
        if not 0 <= self.grace_seconds <= 3600:
            raise SettingsError(f"--grace-seconds {self.grace_seconds} must be from 0 to 3600")
        try:
            Schedule.parse("* * * * *", time_zone=self.default_time_zone)
        except ScheduleError as error:
            raise SettingsError(f"--default-time-zone {self.default_time_zone!r}: {error.problem}") from None
        _one_of("--log-format", self.log_format, _LOG_FORMATS)
        _one_of("--log-level", self.log_level, _LOG_LEVELS)
        address(self.listen)


def address(listen: str) -> tuple[str, int]:
    """Host and port of `--listen`."""
    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise SettingsError(f"--listen {listen!r} must be HOST:PORT, such as 0.0.0.0:8080")
    return host.strip("[]") or "0.0.0.0", int(port)  # noqa: S104


def parser() -> argparse.ArgumentParser:
    """Every flag."""
    parse = argparse.ArgumentParser(
        prog="quarterjack",
        description="Runs ScheduledJobs: one replica of the operator. Run as many as you like, all are active.",
        epilog="Each flag may be given as an environment variable: --in-flight as QUARTERJACK_IN_FLIGHT.",
    )
    add = parse.add_argument
    add("--namespace", help="where claims are kept (default: the Pod's own namespace, else quarterjack-system)")
    add("--watch-namespace", action="append", metavar="NAMESPACE", help="serve only this namespace; may be repeated")
    add("--default-time-zone", metavar="ZONE", help="zone of schedules without timeZone (default: UTC)")
    add("--replica-name", metavar="NAME", help="this replica's name (default: host name and a random part)")
    add("--no-schedule", action="store_true", default=None, help="show everything, fire nothing by itself")
    add("--in-flight", type=int, metavar="N", help="launches under way at once (default: 32)")
    add("--grace-seconds", type=float, metavar="S", help="how long a shutdown may take (default: 10)")
    add("--listen", metavar="HOST:PORT", help="where /livez, /readyz and /metrics are served (default: 0.0.0.0:8080)")
    add("--kubeconfig", metavar="FILE", help="credentials (default: in-cluster, else $KUBECONFIG or ~/.kube/config)")
    add("--context", metavar="NAME", help="context of the kubeconfig")
    add(
        "--insecure-api-server",
        action="store_true",
        default=None,
        help="allow plaintext or unverified TLS to an API server that is not on loopback",
    )
    add("--log-format", choices=_LOG_FORMATS, help="(default: text)")
    add("--log-level", choices=_LOG_LEVELS, help="(default: info)")
    return parse


def read_settings(arguments: Sequence[str], environ: Mapping[str, str] = os.environ) -> Settings:
    """Settings from the command line and the environment; SettingsError names the flag and the value."""
    given = vars(parser().parse_args(arguments))
    told = {flag: _told(flag, value, environ) for flag, value in given.items()}
    watched = told["watch_namespace"]
    split = watched.split(",") if isinstance(watched, str) else list(given["watch_namespace"] or ())
    fields = {
        "namespace": told["namespace"] or _own_namespace(),
        "replica": told["replica_name"] or _own_name(),
        "watch_namespaces": tuple(dict.fromkeys(part.strip() for part in split if part.strip())),
        "default_time_zone": told["default_time_zone"],
        "schedule": not _truth("--no-schedule", told["no_schedule"]),
        "in_flight": _number("--in-flight", told["in_flight"], int),
        "grace_seconds": _number("--grace-seconds", told["grace_seconds"], float),
        "listen": told["listen"],
        "kubeconfig": told["kubeconfig"],
        "context": told["context"],
        "insecure": _truth("--insecure-api-server", told["insecure_api_server"]),
        "log_format": told["log_format"],
        "log_level": told["log_level"],
    }
    return Settings(**{name: value for name, value in fields.items() if value is not None})  # type: ignore[arg-type]


def _told(flag: str, value: object, environ: Mapping[str, str]) -> object:
    return value if value is not None else environ.get(f"QUARTERJACK_{flag.upper()}") or None


def _own_name() -> str:
    """The host's name, as far as the name of a Lease can have it, and a random part."""
    host = re.sub(r"[^a-z0-9]+", "-", socket.gethostname().lower())[:40].strip("-")
    return "-".join(filter(None, [host, secrets.token_hex(4)]))


def _own_namespace() -> str | None:
    try:
        return _SERVICE_ACCOUNT_NAMESPACE.read_text().strip() or None
    except OSError:
        return None


def _truth(flag: str, value: object) -> bool:
    if value in {None, True, False}:
        return bool(value)
    if str(value).lower() in {"1", "true", "yes", "0", "false", "no", ""}:
        return str(value).lower() in {"1", "true", "yes"}
    raise SettingsError(f"{flag} {value!r} must be true or false")


def _one_of(flag: str, value: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise SettingsError(f"{flag} {value!r} must be one of {', '.join(choices)}")


def _number(flag: str, value: object, kind: type[int] | type[float]) -> float | None:
    if value is None:
        return None
    try:
        return kind(str(value))
    except ValueError:
        raise SettingsError(f"{flag} {value!r} is not a number") from None
