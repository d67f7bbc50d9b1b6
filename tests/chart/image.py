"""The operator's image, made here: the root file system of the Dockerfile's own script, with this machine's Python."""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.chart import dockerfile
from tests.cluster.image import build_from_directory
from tests.cluster.layout import cache_dir
from tests.house.pages import ROOT

REPOSITORY = "quarterjack.dev/quarterjack"
TAG = "test"
_SCRIPT = ROOT / "operator" / "image" / "root.py"
_INPUTS = ("pyproject.toml", "uv.lock", "tests/cluster/image.py")


def archive() -> Path:
    """The OCI archive of this tree's image; made where the cache has none of this tree."""
    directory = cache_dir() / "image"
    target = directory / f"{_digest()}.tar"
    directory.mkdir(parents=True, exist_ok=True)
    with (cache_dir() / "image.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # several processes of tests want it
        if not target.exists():
            for old in directory.iterdir():
                old.unlink()
            _make(target)
    return target


def _make(target: Path) -> None:
    part = target.with_suffix(".part")
    with TemporaryDirectory() as scratch:
        root = Path(scratch, "root")
        make_root(root)
        build_from_directory(part, name=f"{REPOSITORY}:{TAG}", directory=root, config=dockerfile.config())
    part.rename(target)


def make_root(root: Path) -> None:
    """What the Dockerfile's build stage runs."""
    uv = shutil.which("uv") or shutil.which("uv", path=cache_dir() / "uv" / "bin")
    assert uv, "uv is not on this machine; make environment installs it"
    path = f"{Path(uv).parent}:{os.environ.get('PATH', os.defpath)}"
    subprocess.run([sys.executable, str(_SCRIPT), str(root)], env=os.environ | {"PATH": path}, check=True)


def _digest() -> str:
    """Of all that goes into the image."""
    paths = [ROOT / name for name in _INPUTS]
    paths += [path for path in (ROOT / "operator").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    digest = hashlib.sha256(f"{platform.python_version()} {platform.libc_ver()}".encode())
    for path in sorted(paths):
        digest.update(str(path.relative_to(ROOT)).encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:20]
