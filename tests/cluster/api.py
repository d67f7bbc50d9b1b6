"""The few requests that starting a cluster sends to its API server."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

REQUEST_TIMEOUT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Answer:
    """The status code of a response, 0 if there was none, and its body."""

    status: int
    text: str

    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True, slots=True)
class Api:
    """A client of the API server at `url`, known by `ca_path`, that shows `token`."""

    url: str
    ca_path: Path
    token: str
    _opener: urllib.request.OpenerDirector = field(init=False, repr=False)

    def __post_init__(self) -> None:
        https = urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=self.ca_path))
        no_proxy = urllib.request.ProxyHandler({})
        object.__setattr__(self, "_opener", urllib.request.build_opener(no_proxy, https))

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: Mapping[str, Any]) -> Answer:
        return self.request("POST", path, body)

    def request(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Send one request; refusals and an unreachable server are answers, not errors."""
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"}
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=content, headers=headers, method=method)
        try:
            with self._opener.open(request, timeout=REQUEST_TIMEOUT_SECONDS) as response:
                return Answer(response.status, response.read().decode())
        except urllib.error.HTTPError as refusal:
            with refusal:
                return Answer(refusal.code, refusal.read().decode())
        except (OSError, urllib.error.URLError) as failure:
            return Answer(0, str(failure))
