"""The real API server: credentials as the kubernetes package finds them, and one aiohttp session over them."""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp

from .errors import CredentialsError
from .transport import NotSent, Response, StreamAnswer, Unanswered

_TOKEN_SECONDS = 60.0
_CONNECT_SECONDS = 5.0
_READ_HEADERS = ("date", "retry-after")
USER_AGENT = "quarterjack"

log = logging.getLogger(__name__)


class Credentials:
    """An address and what is needed to be let in there. Tokens are read again every minute, exec plugins asked again."""

    def __init__(self, *, kubeconfig: str = "", context: str = "", insecure: bool = False) -> None:
        self._kubeconfig = kubeconfig
        self._context = context
        self._insecure = insecure
        self._configuration = self._load()
        self._header = _header_of(self._configuration)
        self._read_time = 0.0

    @property
    def host(self) -> str:
        """The API server's address, without a trailing slash."""
        return str(self._configuration.host).rstrip("/")

    @property
    def configuration(self) -> Any:
        """The kubernetes package's Configuration."""
        return self._configuration

    def _load(self) -> Any:
        configuration = self._found()
        _refuse_open_doors(configuration, insecure=self._insecure)
        return configuration

    def _found(self) -> Any:
        import yaml
        from kubernetes import client, config

        try:
            configuration = client.Configuration()
            if not self._kubeconfig and not self._context:
                try:
                    config.load_incluster_config(configuration)  # type: ignore[no-untyped-call]
                    return configuration
                except config.ConfigException:
                    pass
            config.load_kube_config(  # type: ignore[no-untyped-call]
                config_file=self._kubeconfig or None,
                context=self._context or None,
                client_configuration=configuration,
                persist_config=False,
            )
        except (
            config.ConfigException,
            yaml.YAMLError,
            OSError,
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
        ) as error:
            raise CredentialsError(
                f"no credentials for the API server (in-cluster, --kubeconfig, $KUBECONFIG or ~/.kube/config): {error}"
            ) from error
        return configuration

    async def authorization(self) -> str:
        """The Authorization header, empty where a client certificate is all."""
        now = asyncio.get_running_loop().time()
        if not self._read_time:
            self._read_time = now
        elif now - self._read_time > _TOKEN_SECONDS:
            self._read_time = now
            await self._read_again()
        return self._header

    async def _read_again(self) -> None:
        """Go on with what there is where it cannot be read, lacks the token (a plugin failed), or names another server."""
        try:
            self._take(await asyncio.to_thread(self._load))
        except CredentialsError as error:
            log.warning("the credentials could not be read again, going on with those of before: %s", error)

    def _take(self, configuration: Any) -> None:
        if configuration.host != self._configuration.host:
            raise CredentialsError(f"they are for {configuration.host} now, which takes a restart")
        header = _header_of(configuration)
        if self._header and not header:
            raise CredentialsError("they have no token any more")
        self._configuration, self._header = configuration, header

    @property
    def header(self) -> str:
        """The Authorization header as it was last read."""
        return self._header

    def ssl_context(self) -> ssl.SSLContext | bool:
        """How the server's certificate is checked, and ours shown."""
        configuration = self._configuration
        if not self.host.startswith("https:"):
            return False
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        if not configuration.verify_ssl:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, configuration.key_file or None)
        return context


def _header_of(configuration: Any) -> str:
    token = configuration.get_api_key_with_prefix("authorization") or configuration.get_api_key_with_prefix(
        "BearerToken"
    )
    if token:
        return str(token)
    if configuration.username:
        return "Basic " + b64encode(f"{configuration.username}:{configuration.password}".encode()).decode()
    return ""


def _refuse_open_doors(configuration: Any, *, insecure: bool) -> None:
    address = urlsplit(configuration.host)
    if insecure or _is_loopback(address.hostname or ""):
        return
    if address.scheme != "https":
        raise CredentialsError(f"{configuration.host} is plaintext; use https, or allow it with --insecure-api-server")
    if not configuration.verify_ssl:
        raise CredentialsError(
            f"the certificate of {configuration.host} would not be verified; give its CA, or allow it with --insecure-api-server"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class HttpTransport:
    """`Transport` over HTTP."""

    def __init__(self, credentials: Credentials, *, connections: int) -> None:
        self._credentials = credentials
        connector = aiohttp.TCPConnector(ssl=credentials.ssl_context(), limit=connections, keepalive_timeout=55.0)
        self._session = aiohttp.ClientSession(
            base_url=credentials.host + "/",
            connector=connector,
            headers={"User-Agent": USER_AGENT},
            auto_decompress=True,
            raise_for_status=False,
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        body: bytes,
        content_type: str,
        accept: str,
        timeout_seconds: float,
    ) -> Response:
        """See Transport."""
        headers = await self._headers(accept)
        if body:
            headers["Content-Type"] = content_type
        timeout = aiohttp.ClientTimeout(total=timeout_seconds, connect=_CONNECT_SECONDS)
        try:
            async with self._session.request(
                method, path, params=query, data=body or None, headers=headers, timeout=timeout, allow_redirects=False
            ) as answer:
                return Response(answer.status, await answer.read(), _headers_of(answer))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unanswered(f"{type(error).__name__} {error}") from error

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str], accept: str, silence_seconds: float
    ) -> AsyncIterator[StreamAnswer]:
        """See Transport."""
        timeout = aiohttp.ClientTimeout(total=None, connect=_CONNECT_SECONDS, sock_read=silence_seconds)
        try:
            async with self._session.get(
                path, params=query, headers=await self._headers(accept), timeout=timeout, allow_redirects=False
            ) as answer:
                yield StreamAnswer(answer.status, _lines(answer.content), _headers_of(answer))
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise NotSent(str(error)) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise Unanswered(f"{type(error).__name__} {error}") from error

    async def _headers(self, accept: str) -> dict[str, str]:
        # The API server would compress long answers: inside a cluster that costs both sides more time than it saves.
        headers = {"Accept": accept, "Accept-Encoding": "identity"}
        if authorization := await self._credentials.authorization():
            headers["Authorization"] = authorization
        return headers


def _headers_of(answer: aiohttp.ClientResponse) -> dict[str, str]:
    return {name: answer.headers[name] for name in _READ_HEADERS if name in answer.headers}


async def _lines(content: aiohttp.StreamReader) -> AsyncIterator[bytes]:
    """Lines of any length."""
    rest: list[bytes] = []
    async for chunk in content.iter_any():
        *whole, tail = chunk.split(b"\n")
        if whole:
            yield b"".join(rest) + whole[0]
            for line in whole[1:]:
                yield line
            rest = []
        if tail:
            rest.append(tail)
    if rest:
        yield b"".join(rest)
