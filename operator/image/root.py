"""Make the root file system of the operator's image: `python operator/image/root.py DIRECTORY`, with uv on the path.

What runs this becomes the image's Python. Beside it go the wheel of this tree, the packages of uv.lock with their hashes checked,
and the shared libraries that these load. Nothing else: no shell, no package manager, no zone files.
"""

from __future__ import annotations

import compileall
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path
from py_compile import PycInvalidationMode
from tempfile import TemporaryDirectory

SOURCE = Path(__file__).resolve().parents[2]
USER = 65532
PYTHON = Path("usr/local/bin/python3")
PYTHON_OF_IMAGE = f"--python={sys.executable}"
# One of the directories in which the loader looks by itself; so no cache of it is needed.
LIBRARIES = Path("usr/lib")
# Parts of the standard library that a service does not use; some would bring libraries of windows and terminals with them.
_LEFT_OUT = (
    "__pycache__",
    "config-*",
    "curses",
    "dbm",
    "ensurepip",
    "idlelib",
    "lib2to3",
    "pydoc_data",
    "site-packages",
    "sqlite3",
    "test",
    "tests",
    "tkinter",
    "turtledemo",
    "venv",
    "*_crypt.*",
    "*_curses*",
    "*_dbm*",
    "*_gdbm*",
    "*_sqlite3*",
    "*_test*",
    "*_tkinter*",
    "nis.*",
    "readline.*",
    "xx*",
)
# Half of the kubernetes package: the same once more for asyncio, which nothing imports.
_UNUSED = ("bin", "kubernetes/aio")
_ACCOUNTS = {
    "passwd": f"root:x:0:0:root:/:/nonexistent\nquarterjack:x:{USER}:{USER}:quarterjack:/:/nonexistent\n",
    "group": f"root:x:0:\nquarterjack:x:{USER}:\n",
}


def make(root: Path) -> None:
    """Fill a directory that is empty or absent."""
    library = root / "usr/local/lib" / f"python{sysconfig.get_python_version()}"
    shutil.copytree(sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*_LEFT_OUT))
    install(library / "site-packages")
    (root / PYTHON).parent.mkdir(parents=True)
    shutil.copy2(Path(sys.executable).resolve(), root / PYTHON)
    copy_libraries(root)
    for name, text in _ACCOUNTS.items():
        (root / "etc").mkdir(exist_ok=True)
        (root / "etc" / name).write_text(text)
    # Nobody may write into the image, so what Python compiles must be there, and need not be compared with its source.
    compiled = compileall.compile_dir(
        library, stripdir=root, quiet=1, invalidation_mode=PycInvalidationMode.UNCHECKED_HASH
    )
    if not compiled:
        raise SystemExit("not all modules could be compiled")


def install(packages: Path) -> None:
    """Put our wheel and what it needs into a directory: the versions and hashes of uv.lock, and no others."""
    with TemporaryDirectory() as scratch:
        backend = Path(scratch, "backend")
        install_locked(backend, "--only-group=build")
        # In an environment of its own uv would build with whatever version is the newest.
        uv("build", "--wheel", "--no-build-isolation", f"--out-dir={scratch}", PYTHON_OF_IMAGE, PYTHONPATH=str(backend))
        [wheel] = Path(scratch).glob("*.whl")
        install_locked(packages, "--no-dev")
        uv("pip", "install", f"--target={packages}", "--no-deps", "--no-index", PYTHON_OF_IMAGE, str(wheel))
    for name in _UNUSED:
        shutil.rmtree(packages / name)
    (packages / ".lock").unlink(missing_ok=True)  # uv's own, which anybody may write


def install_locked(target: Path, chosen: str) -> None:
    """Install what uv.lock has for a choice of groups, each file checked against its hash."""
    with TemporaryDirectory() as scratch:
        requirements = f"--output-file={scratch}/requirements.txt"
        uv("export", "--frozen", "--no-emit-project", "--format=requirements.txt", chosen, requirements)
        checks = ("--no-deps", "--only-binary=:all:", "--require-hashes", f"--requirements={scratch}/requirements.txt")
        uv("pip", "install", f"--target={target}", PYTHON_OF_IMAGE, *checks)


def uv(*arguments: str, **environment: str) -> None:
    """Run it on this tree."""
    subprocess.run(["uv", "--quiet", *arguments], cwd=SOURCE, env=os.environ | environment, check=True)


def copy_libraries(root: Path) -> None:
    """Copy the shared libraries that programs and modules below `root` load from elsewhere, and the loader itself."""
    files = [root / PYTHON, *root.rglob("*.so"), *root.rglob("*.so.*")]
    for name, path in sorted(set(loaded(files))):
        # The loader is asked for by its path, a library by its name.
        target = root / name.lstrip("/") if name.startswith("/") else root / LIBRARIES / name
        if not path.is_relative_to(root) and not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path.resolve(), target)


def loaded(files: Iterable[Path]) -> Iterator[tuple[str, Path]]:
    """Each library that ldd names, with the file that it finds."""
    listing = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    for line in listing.splitlines():
        name, arrow, place = line.strip().rpartition(" (0x")[0].partition(" => ")
        if "not found" in line:
            raise SystemExit(f"ldd: {line.strip()}")
        if place or name.startswith("/"):
            yield name, Path(place if arrow else name)


def main() -> None:
    """Make it where the command line says."""
    if len(sys.argv) != 2:
        raise SystemExit(f"usage: {Path(sys.argv[0]).name} DIRECTORY")
    os.umask(0o022)
    make(Path(sys.argv[1]).absolute())


if __name__ == "__main__":
    main()
