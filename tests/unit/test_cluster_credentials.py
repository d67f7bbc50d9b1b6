"""Credentials: found as kubectl finds them, read again, and never sent in the clear."""

from __future__ import annotations

import asyncio
import ssl
import sys
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from quarterjack.cluster import Credentials
from quarterjack.errors import CredentialsError

Kubeconfig = Callable[..., str]
LOOPBACK = "http://127.0.0.1:8080"
FAR = "https://api.example:6443"


@pytest.fixture(autouse=True)
def _nowhere_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials of this machine are found."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Kubeconfig:
    """Writes a kubeconfig of one context."""

    def write(server: str = LOOPBACK, *, user: dict[str, Any] | None = None, **cluster: Any) -> str:
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "here",
            "contexts": [{"name": "here", "context": {"cluster": "one", "user": "me"}}],
            "clusters": [{"name": "one", "cluster": {"server": server} | cluster}],
            "users": [{"name": "me", "user": user or {}}],
        }
        path = tmp_path / "config.yaml"
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


def plugin(path: Path, token_file: Path) -> dict[str, Any]:
    """A user whose credentials a program prints: each time what the file has."""
    script = path / "plugin.py"
    script.write_text(
        "import json, pathlib\n"
        f"token = pathlib.Path({str(token_file)!r}).read_text()\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1', 'kind': 'ExecCredential',"
        " 'status': {'token': token}}))\n"
    )
    command = {"command": sys.executable, "args": [str(script)], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1"} | command}


@pytest.mark.parametrize(
    ("user", "header"),
    [
        pytest.param({}, "", id="nothing"),
        pytest.param({"token": "abc"}, "Bearer abc", id="a token"),
        pytest.param(
            {"username": "bob", "password": "x"}, "Basic " + b64encode(b"bob:x").decode(), id="a name and a password"
        ),
    ],
)
def test_a_user_is_shown_by(kubeconfig: Kubeconfig, user: dict[str, str], header: str) -> None:
    credentials = Credentials(kubeconfig=kubeconfig(user=user))

    assert (credentials.host, credentials.header) == (LOOPBACK, header)


def test_a_plugin_is_asked(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")

    credentials = Credentials(kubeconfig=kubeconfig(user=plugin(tmp_path, token)))

    assert credentials.header == "Bearer first"


def wait_a_minute(credentials: Credentials, *, meanwhile: Callable[[], object]) -> list[str]:
    """The header before a change, right after it, and a minute later. Threads take real time, so the loop's clock is set."""

    class Loop(asyncio.SelectorEventLoop):
        later_seconds = 0.0

        def time(self) -> float:
            return super().time() + self.later_seconds

    async def scenario() -> list[str]:
        before = await credentials.authorization()
        meanwhile()
        soon = await credentials.authorization()
        loop.later_seconds = 61
        return [before, soon, await credentials.authorization()]

    loop = Loop()
    try:
        return loop.run_until_complete(scenario())
    finally:
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


def test_a_plugin_is_asked_again_after_a_minute(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    credentials = Credentials(kubeconfig=kubeconfig(user=plugin(tmp_path, token)))

    headers = wait_a_minute(credentials, meanwhile=lambda: token.write_text("second"))

    assert headers == ["Bearer first", "Bearer first", "Bearer second"]


def test_a_token_file_is_read_again_after_a_minute(kubeconfig: Kubeconfig, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    credentials = Credentials(kubeconfig=kubeconfig(user={"tokenFile": str(token)}))

    headers = wait_a_minute(credentials, meanwhile=lambda: token.write_text("second"))

    assert headers == ["Bearer first", "Bearer first", "Bearer second"]


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{", id="half written"),
        pytest.param("", id="empty"),
        pytest.param("just a text", id="a text"),
        pytest.param("users: 7", id="of another shape"),
    ],
)
def test_credentials_that_cannot_be_read_again_stay(
    kubeconfig: Kubeconfig, caplog: pytest.LogCaptureFixture, text: str
) -> None:
    path = kubeconfig(user={"token": "abc"})
    credentials = Credentials(kubeconfig=path)

    headers = wait_a_minute(credentials, meanwhile=lambda: Path(path).write_text(text))

    assert headers == ["Bearer abc"] * 3
    assert "could not be read again" in caplog.text


def test_a_kubeconfig_that_comes_to_name_a_plaintext_server_is_not_followed(
    kubeconfig: Kubeconfig, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = Credentials(kubeconfig=kubeconfig(FAR, user={"token": "abc"}))

    headers = wait_a_minute(credentials, meanwhile=lambda: kubeconfig("http://api.example", user={"token": "new"}))

    assert headers == ["Bearer abc"] * 3
    assert "plaintext" in caplog.text


def test_a_token_is_not_sent_to_another_server_than_its_own(
    kubeconfig: Kubeconfig, caplog: pytest.LogCaptureFixture
) -> None:
    credentials = Credentials(kubeconfig=kubeconfig(FAR, user={"token": "abc"}))

    headers = wait_a_minute(credentials, meanwhile=lambda: kubeconfig("https://b.example", user={"token": "new"}))

    assert (headers, credentials.host) == (["Bearer abc"] * 3, FAR)
    assert "https://b.example now, which takes a restart" in caplog.text


def test_a_plugin_that_fails_once_leaves_the_token_of_before(
    kubeconfig: Kubeconfig, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    credentials = Credentials(kubeconfig=kubeconfig(user=plugin(tmp_path, token)))

    assert wait_a_minute(credentials, meanwhile=token.unlink) == ["Bearer first"] * 3
    assert "no token any more" in caplog.text


@pytest.mark.parametrize(
    ("server", "cluster", "why"),
    [
        pytest.param("http://api.example:8080", {}, "plaintext", id="plaintext"),
        pytest.param("http://10.0.0.1:8080", {}, "plaintext", id="plaintext to a near address"),
        pytest.param("http://127.0.0.1.example", {}, "plaintext", id="a name that looks like loopback"),
        pytest.param(FAR, {"insecure-skip-tls-verify": True}, "would not be verified", id="unverified"),
    ],
)
def test_an_open_door_is_refused_unless_asked_for(
    kubeconfig: Kubeconfig, server: str, cluster: dict[str, Any], why: str
) -> None:
    path = kubeconfig(server, user={"token": "abc"}, **cluster)

    with pytest.raises(CredentialsError, match=why) as refused:
        Credentials(kubeconfig=path)

    assert "--insecure-api-server" in str(refused.value)
    assert Credentials(kubeconfig=path, insecure=True).host == server


@pytest.mark.parametrize(
    ("server", "cluster"),
    [
        pytest.param("http://localhost:8080", {}, id="plaintext to localhost"),
        pytest.param("http://[::1]:8080", {}, id="plaintext to IPv6 loopback"),
        pytest.param("https://127.0.0.1:6443", {"insecure-skip-tls-verify": True}, id="unverified on loopback"),
        pytest.param(FAR, {}, id="TLS"),
    ],
)
def test_loopback_and_verified_tls_are_let_through(
    kubeconfig: Kubeconfig, server: str, cluster: dict[str, Any]
) -> None:
    assert Credentials(kubeconfig=kubeconfig(server, **cluster)).host == server


def test_a_server_is_verified_unless_said_otherwise(kubeconfig: Kubeconfig) -> None:
    verified = Credentials(kubeconfig=kubeconfig(FAR)).ssl_context()
    trusted = Credentials(kubeconfig=kubeconfig(FAR, **{"insecure-skip-tls-verify": True}), insecure=True).ssl_context()

    assert isinstance(verified, ssl.SSLContext)
    assert (verified.verify_mode, verified.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert isinstance(trusted, ssl.SSLContext)
    assert trusted.verify_mode == ssl.CERT_NONE
    assert Credentials(kubeconfig=kubeconfig()).ssl_context() is False


@pytest.mark.parametrize(
    ("kubeconfig_path", "context"),
    [
        pytest.param("", "", id="nothing anywhere"),
        pytest.param("/nonexistent/config", "", id="no such file"),
        pytest.param("", "there", id="a context of no kubeconfig"),
    ],
)
def test_where_there_are_no_credentials_it_is_said_where_they_were_looked_for(
    kubeconfig_path: str, context: str
) -> None:
    with pytest.raises(CredentialsError, match=r"in-cluster, --kubeconfig, \$KUBECONFIG or ~/.kube/config"):
        Credentials(kubeconfig=kubeconfig_path, context=context)


def test_a_context_that_is_not_there_is_named(kubeconfig: Kubeconfig) -> None:
    with pytest.raises(CredentialsError, match="there"):
        Credentials(kubeconfig=kubeconfig(), context="there")
