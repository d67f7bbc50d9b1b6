"""An admission webhook that refuses all it is asked about, at length."""

from __future__ import annotations

import base64
import json
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.api.installation import Document
from tests.cluster.pki import Authority

_ADDRESS = "127.0.0.1"


class _Refuser(BaseHTTPRequestHandler):
    def __init__(self, message: str, *arguments: object) -> None:
        self._message = message
        super().__init__(*arguments)  # type: ignore[arg-type]

    def do_POST(self) -> None:
        """Answer an AdmissionReview."""
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        response = {
            "uid": asked["request"]["uid"],
            "allowed": False,
            "status": {"code": 403, "message": self._message},
        }
        body = json.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}
        ).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object, **__: object) -> None:
        """Say nothing."""


@contextmanager
def refusing(directory: Path, message: str, *, labels: Document) -> Iterator[Document]:
    """Serve, on a port of the loopback, for the Pods that bear `labels`; the configuration for the API server."""
    authority = Authority(directory, "webhook-ca")
    authority.create()
    authority.sign_server("webhook", "webhook", [_ADDRESS])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(directory / "webhook.crt", directory / "webhook.key")
    with ThreadingHTTPServer((_ADDRESS, 0), partial(_Refuser, message)) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield _configuration(authority, server.server_port, labels)
        server.shutdown()


def _configuration(authority: Authority, port: int, labels: Document) -> Document:
    bundle = base64.b64encode(authority.certificate.read_bytes()).decode()
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "refuses-at-length"},
        "webhooks": [
            {
                "name": "refuses-at-length.quarterjack.dev",
                "clientConfig": {"url": f"https://{_ADDRESS}:{port}/", "caBundle": bundle},
                "objectSelector": {"matchLabels": labels},
                "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}],
                "admissionReviewVersions": ["v1"],
                "sideEffects": "None",
                "failurePolicy": "Fail",
                "timeoutSeconds": 5,
            }
        ],
    }
