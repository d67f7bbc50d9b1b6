"""The certificates and keys of a cluster, made with openssl."""

from __future__ import annotations

import base64
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from tests.cluster.errors import ClusterError, PrerequisiteMissingError

_CONFIG = "[req]\ndistinguished_name = subject\n[subject]\n"
_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc")


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority whose files are `directory/name.crt` and `.key`."""

    directory: Path
    name: str

    @property
    def certificate(self) -> Path:
        return self.directory / f"{self.name}.crt"

    @property
    def key(self) -> Path:
        return self.directory / f"{self.name}.key"

    def create(self) -> None:
        """Make the authority's own certificate, which signs itself."""
        if not shutil.which("openssl"):
            raise PrerequisiteMissingError("openssl 3", "it makes the cluster's certificates")
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        extensions = ["basicConstraints=critical,CA:TRUE", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature"]
        self._request(self.name, f"/CN=quarterjack {self.name}", extensions, [])

    def sign_server(self, name: str, common_name: str, addresses: Iterable[str]) -> None:
        """Make a certificate for a server that is reached under `addresses`: DNS names and IPv4 addresses."""
        alternatives = ",".join(f"IP:{a}" if a[0].isdigit() else f"DNS:{a}" for a in addresses)
        extensions = ["extendedKeyUsage=serverAuth,clientAuth", f"subjectAltName={alternatives}"]
        self._sign(name, f"/CN={common_name}", extensions)

    def sign_client(self, name: str, user: str, group: str = "") -> None:
        """Make a certificate by which a client proves that it is `user`, in `group`."""
        subject = f"/O={group}/CN={user}" if group else f"/CN={user}"
        self._sign(name, subject, ["extendedKeyUsage=clientAuth"])

    def _sign(self, name: str, subject: str, extensions: list[str]) -> None:
        usage = ["basicConstraints=critical,CA:FALSE", "keyUsage=critical,digitalSignature"]
        self._request(name, subject, usage + extensions, ["-CA", str(self.certificate), "-CAkey", str(self.key)])

    def _request(self, name: str, subject: str, extensions: list[str], signer: list[str]) -> None:
        config = self.directory / "openssl.cnf"
        config.write_text(_CONFIG)
        out = ["-keyout", str(self.directory / f"{name}.key"), "-out", str(self.directory / f"{name}.crt")]
        added = [argument for extension in extensions for argument in ("-addext", extension)]
        _openssl("req", "-x509", "-config", str(config), "-days", "3650", "-subj", subject,
                 *_NEW_KEY, *added, *signer, *out)  # fmt: skip


def create_signing_key(key: Path, public_key: Path) -> None:
    """Make the pair of keys by which the API server signs and checks the tokens of ServiceAccounts."""
    _openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(key))
    _openssl("pkey", "-in", str(key), "-pubout", "-out", str(public_key))


def _openssl(*arguments: str) -> None:
    result = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if result.returncode:
        raise ClusterError(f"openssl {arguments[0]} failed: {result.stderr.strip()}")


def write_kubeconfig(path: Path, *, url: str, authority: Authority, user: dict[str, str]) -> None:
    """Write a kubeconfig for `user`: a `token`, or `client-certificate` and `client-key` files."""
    embedded = base64.b64encode(authority.certificate.read_bytes()).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "quarterjack", "cluster": {"server": url, "certificate-authority-data": embedded}}],
        "users": [{"name": "quarterjack", "user": user}],
        "contexts": [{"name": "quarterjack", "context": {"cluster": "quarterjack", "user": "quarterjack"}}],
        "current-context": "quarterjack",
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(content))
