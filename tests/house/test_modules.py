"""The layout of the repository, and the names and sizes of its modules."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.house.pages import ROOT

PACKAGE = ROOT / "operator" / "quarterjack"
MODULES = sorted(PACKAGE.rglob("*.py"))
_LINES_MOST = 400
# handlers is kopf's own word, and that module is kopf's.
_SAY_NOTHING = re.compile(
    r"(^|_)(lock|tick|task|worker|manager|handler|util|utils|helper|helpers|common|misc|data|info|process|do)s?(_|$)"
)
_ROOT_HAS = {
    "CHANGELOG.md",
    "LICENSE",
    "Makefile",
    "README.md",
    "charts",
    "crds",
    "examples",
    "operator",
    "pyproject.toml",
    "tests",
    "uv.lock",
}


def in_repository() -> list[Path]:
    """What is, or is about to be, in the repository: what git does not ignore."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if result.returncode:
        pytest.skip(f"not a git work tree: {result.stderr.strip()}")
    return [Path(line) for line in result.stdout.splitlines() if (ROOT / line).exists()]


def test_operator_is_a_source_root_and_no_package() -> None:
    assert not (ROOT / "operator" / "__init__.py").exists()
    assert not list((ROOT / "operator").glob("*.py"))


def test_the_root_holds_nothing_unexpected() -> None:
    names = {path.parts[0] for path in in_repository()}

    assert {name for name in names if not name.startswith(".")} <= _ROOT_HAS


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_one_idea_that_fits_in_400_lines_and_says_which(path: Path) -> None:
    text = path.read_text()

    assert len(text.splitlines()) < _LINES_MOST
    assert ast.get_docstring(ast.parse(text))


def test_no_module_has_a_name_that_says_nothing() -> None:
    names = {path.stem for path in in_repository() if path.suffix == ".py" and path.parts[0] == "operator"}

    assert {name for name in names if _SAY_NOTHING.search(name)} == {"handlers"}


def test_every_dependency_has_its_reason_beside_it() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    declared = tomllib.loads(text)
    names = [
        *declared["project"]["dependencies"],
        *(name for group in declared["dependency-groups"].values() for name in group),
    ]

    for name in names:
        assert re.search(rf'^ *"{re.escape(name)}", +# \w+', text, re.MULTILINE), f"{name} has no reason"


def test_everything_that_the_package_imports_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    known = {re.split(r"[^\w-]", name)[0].replace("-", "_") for name in declared}
    known = {"yaml" if name == "pyyaml" else name for name in known}

    imported = {name for path in MODULES for name in _third_party(path)}
    # tzdata is read as files.
    assert imported == known - {"tzdata"}


def _third_party(path: Path) -> set[str]:
    import sys

    tops = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            tops |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            tops.add(node.module.split(".")[0])
    return tops - set(sys.stdlib_module_names) - {"quarterjack"}


def test_the_changelog_tells_of_this_version_or_of_what_comes_next() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    sections = re.split(r"^## ", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)[1:]

    assert re.match(rf"\[(Unreleased|{re.escape(version)})\]", sections[0])
    assert re.search(r"^### (Added|Changed|Deprecated|Removed|Fixed|Security)$", sections[0], re.MULTILINE)
    assert re.search(r"^- \w", sections[0], re.MULTILINE)


def test_the_version_of_the_package_is_that_of_the_project() -> None:
    import quarterjack

    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]

    assert quarterjack.__version__ == version


def test_every_directory_with_tests_is_a_package() -> None:
    directories = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}

    assert [each for each in directories if not (each / "__init__.py").exists()] == []


def test_ci_runs_what_everybody_runs() -> None:
    script = ROOT / ".ci" / "run"

    commands = [line for line in script.read_text().splitlines() if line and not line.startswith(("#", "set ", "cd "))]

    assert commands == ["exec make test"]
    assert script.stat().st_mode & 0o111
