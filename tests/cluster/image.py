"""Makes container images without a container engine: OCI archives of one layer (image-spec 1.1).

The test image is a static busybox with a link for each of its applets; its entrypoint is empty, as busybox's own.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.cluster import packages
from tests.cluster.errors import ClusterError

PAUSE = "quarterjack.dev/pause:test"
BUSYBOX = "quarterjack.dev/busybox:test"
# The names by which examples ask for busybox: so they run here unchanged, and offline.
BUSYBOX_ALIASES = (
    "docker.io/library/busybox:1.37",
    "docker.io/library/busybox:1.36",
    "docker.io/library/busybox:latest",
)

_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = "root:x:0:\nnobody:x:65534:\n"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def standard_archives(directory: Path) -> list[Path]:
    """Make the archives of the pause image and of the test image; return their paths."""
    directory.mkdir(parents=True, exist_ok=True)
    layer = _busybox_layer()
    pause = directory / "pause.tar"
    write_archive(pause, [PAUSE], layer, {"Entrypoint": ["/bin/sleep", "2147483647"]})
    test_image = directory / "busybox.tar"
    write_archive(test_image, [BUSYBOX, *BUSYBOX_ALIASES], layer, {"Cmd": ["sh"]})
    return [pause, test_image]


def build_from_directory(archive: Path, *, name: str, directory: Path, config: Mapping[str, Any]) -> None:
    """Make an image whose root file system is a copy of `directory`, owned by root; `config` as in OCI's image-spec."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as layer:
        for path in sorted(directory.rglob("*")):
            layer.add(path, arcname=str(path.relative_to(directory)), recursive=False, filter=_owned_by_root)
    write_archive(archive, [name], buffer.getvalue(), config)


def write_archive(archive: Path, names: Sequence[str], layer: bytes, config: Mapping[str, Any]) -> None:
    """Write an OCI archive with one image, known by all of `names`, of one uncompressed tar `layer`."""
    blobs: dict[str, bytes] = {}
    packed = gzip.compress(layer, compresslevel=1, mtime=0)
    image_config = {
        "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {"Env": [_PATH], **config},
        "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": _blob(blobs, "application/vnd.oci.image.config.v1+json", _json(image_config)),
        "layers": [_blob(blobs, "application/vnd.oci.image.layer.v1.tar+gzip", packed)],
    }
    described = _blob(blobs, manifest["mediaType"], _json(manifest))
    named = [{**described, "annotations": {"io.containerd.image.name": name}} for name in names]
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": named}
    with tarfile.open(archive, "w") as out:
        _add_file(out, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add_file(out, "index.json", _json(index))
        for digest, content in blobs.items():
            _add_file(out, f"blobs/sha256/{digest}", content)


def _busybox_layer() -> bytes:
    program = packages.busybox()
    if program is None:
        raise ClusterError("no static busybox on this machine: install the package busybox-static")
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for directory, mode in (("bin", 0o755), ("etc", 0o755), ("root", 0o700), ("tmp", 0o1777), ("var", 0o755)):
            _add(layer, directory, tarfile.DIRTYPE, mode)
        _add_file(layer, "bin/busybox", program.read_bytes(), mode=0o755)
        _add_file(layer, "etc/passwd", _PASSWD.encode())
        _add_file(layer, "etc/group", _GROUP.encode())
        for applet in applets:
            if applet != "busybox":
                _add(layer, f"bin/{applet}", tarfile.SYMTYPE, 0o777, link="busybox")
    return buffer.getvalue()


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _add(archive: tarfile.TarFile, name: str, kind: bytes, mode: int, link: str = "") -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.linkname = kind, mode, link
    archive.addfile(entry)


def _owned_by_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    return entry


def _blob(blobs: dict[str, bytes], media_type: Any, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _json(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True).encode()
