"""What a replica is told, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from quarterjack.errors import SettingsError
from quarterjack.settings import Settings, address, parser, read_settings


def test_without_flags_the_defaults_hold() -> None:
    settings = read_settings([], {})

    usual = Settings(namespace=settings.namespace, replica=settings.replica)
    assert settings == usual
    assert settings.replica != read_settings([], {}).replica


@pytest.mark.parametrize(
    ("arguments", "environ", "field", "value"),
    [
        pytest.param(["--namespace", "jobs"], {}, "namespace", "jobs", id="a flag"),
        pytest.param([], {"QUARTERJACK_NAMESPACE": "jobs"}, "namespace", "jobs", id="a variable"),
        pytest.param(["--in-flight", "8"], {"QUARTERJACK_IN_FLIGHT": "9"}, "in_flight", 8, id="a flag over a variable"),
        pytest.param([], {"QUARTERJACK_IN_FLIGHT": "9"}, "in_flight", 9, id="a number in a variable"),
        pytest.param([], {"QUARTERJACK_IN_FLIGHT": ""}, "in_flight", 32, id="an empty variable is none"),
        pytest.param([], {"QUARTERJACK_LISTEN": ""}, "listen", "0.0.0.0:8080", id="an empty address is none"),
        pytest.param(["--grace-seconds", "0.5"], {}, "grace_seconds", 0.5, id="half a second"),
        pytest.param(["--no-schedule"], {}, "schedule", False, id="no schedule"),
        pytest.param([], {"QUARTERJACK_NO_SCHEDULE": "Yes"}, "schedule", False, id="no schedule in a variable"),
        pytest.param([], {"QUARTERJACK_NO_SCHEDULE": "false"}, "schedule", True, id="a false variable"),
        pytest.param([], {"QUARTERJACK_INSECURE_API_SERVER": "1"}, "insecure", True, id="insecure"),
        pytest.param(
            ["--watch-namespace", "a", "--watch-namespace", "b", "--watch-namespace", "a"],
            {},
            "watch_namespaces",
            ("a", "b"),
            id="namespaces, each once",
        ),
        pytest.param([], {"QUARTERJACK_WATCH_NAMESPACE": "a, b,"}, "watch_namespaces", ("a", "b"), id="a list"),
        pytest.param([], {"QUARTERJACK_LOG_FORMAT": "json"}, "log_format", "json", id="a format"),
        pytest.param(["--replica-name", "one"], {}, "replica", "one", id="a name"),
    ],
)
def test_a_setting_comes_from(arguments: list[str], environ: dict[str, str], field: str, value: Any) -> None:
    assert getattr(read_settings(arguments, environ), field) == value


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        pytest.param("NAMESPACE", "Jobs", id="a namespace in capitals"),
        pytest.param("WATCH_NAMESPACE", "a,b_c", id="a namespace with an underscore"),
        pytest.param("IN_FLIGHT", "0", id="too few"),
        pytest.param("IN_FLIGHT", "257", id="too many"),
        pytest.param("IN_FLIGHT", "many", id="no number"),
        pytest.param("GRACE_SECONDS", "-1", id="a negative time"),
        pytest.param("GRACE_SECONDS", "nan", id="a time that is no number"),
        pytest.param("DEFAULT_TIME_ZONE", "Mars/Base", id="no zone"),
        pytest.param("LISTEN", "0.0.0.0", id="no port"),
        pytest.param("LISTEN", ":70000", id="no such port"),
        pytest.param("LISTEN", ":²", id="a port in other digits"),
        pytest.param("NO_SCHEDULE", "perhaps", id="neither true nor false"),
        pytest.param("LOG_FORMAT", "xml", id="an unknown format"),
        pytest.param("LOG_LEVEL", "loud", id="an unknown level"),
        pytest.param("REPLICA_NAME", "my replica", id="a name that no object can have"),
    ],
)
def test_what_cannot_serve_is_refused_by_flag_and_value(variable: str, value: str) -> None:
    flag = f"--{variable.lower().replace('_', '-')}"

    with pytest.raises(SettingsError) as refused:
        read_settings([], {f"QUARTERJACK_{variable}": value})

    assert flag in str(refused.value)
    assert value.rpartition(",")[2] in str(refused.value)


@pytest.mark.parametrize(
    ("listen", "expected"),
    [
        pytest.param("127.0.0.1:8080", ("127.0.0.1", 8080), id="IPv4"),
        pytest.param("[::1]:80", ("::1", 80), id="IPv6"),
        pytest.param("8080", ("0.0.0.0", 8080), id="a port alone"),
        pytest.param(":0", ("0.0.0.0", 0), id="all, any port"),
    ],
)
def test_an_address_is_a_host_and_a_port(listen: str, expected: tuple[str, int]) -> None:
    assert address(listen) == expected


def test_every_flag_is_explained() -> None:
    assert all(action.help for action in parser()._actions)
