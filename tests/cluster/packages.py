"""Debian packages that a node needs, installed only where what they bring is missing."""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.cluster.errors import ClusterError, PrerequisiteMissingError

CNI_DIRS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_BUSYBOX = Path("/bin/busybox")
_PROGRAM_INTERPRETER = 3


def cni_dir() -> Path | None:
    """Return the directory of the CNI plugins of this machine, if it has them."""
    return next(
        (path for path in CNI_DIRS if all((path / plugin).exists() for plugin in ("bridge", "host-local"))), None
    )


def busybox() -> Path | None:
    """Return a busybox that needs no shared library, if this machine has one."""
    return _BUSYBOX if _BUSYBOX.exists() and is_static(_BUSYBOX) else None


def is_static(path: Path) -> bool:
    """Tell whether a 64-bit ELF program asks for no interpreter, as a dynamically linked one does (elf(5))."""
    content = path.read_bytes()
    table_offset, entry_size, count = *struct.unpack_from("<Q", content, 32), *struct.unpack_from("<HH", content, 54)
    kinds = [struct.unpack_from("<I", content, table_offset + index * entry_size)[0] for index in range(count)]
    return content[:4] == b"\x7fELF" and _PROGRAM_INTERPRETER not in kinds


def _on_path(program: str) -> Callable[[], bool]:
    return lambda: shutil.which(program) is not None


NODE: Mapping[str, Callable[[], bool]] = {
    "runc": _on_path("runc"),
    "containernetworking-plugins": lambda: cni_dir() is not None,
    "busybox-static": lambda: busybox() is not None,
    "iptables": _on_path("iptables"),
    "iproute2": _on_path("ip"),
    "util-linux": _on_path("nsenter"),
}


def ensure(packages: Mapping[str, Callable[[], bool]]) -> None:
    """Install those packages whose check says that they are missing."""
    missing = [name for name, present in packages.items() if not present()]
    if not missing:
        return
    if not shutil.which("apt-get"):
        raise PrerequisiteMissingError(" ".join(missing), "packages of these Debian names, and no apt-get to get them")
    print(f"installing Debian packages: {' '.join(missing)}", file=sys.stderr, flush=True)
    install = ["install", "--yes", "--no-install-recommends", *missing]
    if not _apt_get(install):
        # The lists may be absent, as in a container image, or out of date.
        _apt_get(["update"])
        if not _apt_get(install):
            raise ClusterError(f"apt-get cannot install {' '.join(missing)}")


def _apt_get(arguments: list[str]) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    command = ["apt-get", "-qq", "-o", "DPkg::Lock::Timeout=120", *arguments]
    return subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False).returncode == 0
