"""The image: what is in it, what is not, and that it says what it is."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.chart import dockerfile
from tests.chart.image import archive
from tests.house.pages import ROOT

# It is built once, by the process that has all of these.
pytestmark = pytest.mark.xdist_group("image")

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
LOCKED = {each["name"]: each["version"] for each in tomllib.loads((ROOT / "uv.lock").read_text())["package"]}


class Image:
    """An OCI archive, opened."""

    def __init__(self, path: Path) -> None:
        with tarfile.open(path) as outer:
            manifest = self._json(outer, self._json(outer, "index.json")["manifests"][0]["digest"])
            self.config: dict[str, Any] = self._json(outer, manifest["config"]["digest"])["config"]
            [layer] = manifest["layers"]
            content = self._bytes(outer, layer["digest"])
        with tarfile.open(fileobj=io.BytesIO(content)) as inner:
            self.entries = {entry.name: entry for entry in inner.getmembers()}
            self.beginnings = {name: self._bytes(inner, name)[:4] for name, e in self.entries.items() if e.isfile()}

    def _json(self, archive: tarfile.TarFile, name: str) -> Any:
        return json.loads(self._bytes(archive, name))

    @staticmethod
    def _bytes(archive: tarfile.TarFile, name: str) -> bytes:
        file = archive.extractfile(name.replace("sha256:", "blobs/sha256/"))
        assert file is not None
        return file.read()

    def named(self, pattern: str) -> list[str]:
        """The paths that match."""
        return [name for name in self.entries if re.search(pattern, name)]


@pytest.fixture(scope="module")
def image() -> Image:
    """The image of this tree."""
    return Image(archive())


def test_the_dockerfile_is_well_written() -> None:
    linted = subprocess.run(
        [Path(sys.executable).with_name("hadolint"), "--no-color", dockerfile.DOCKERFILE],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (linted.stdout + linted.stderr, linted.returncode) == ("", 0)


def test_it_is_made_in_stages_and_keeps_only_what_the_script_has_made() -> None:
    stages = [each.rest for each in dockerfile.instructions() if each.word == "FROM"]
    kept = [each.rest for each in dockerfile.last_stage() if each.word in {"COPY", "ADD", "RUN"}]

    assert stages[-1] == "scratch"
    assert kept == ["--from=build /root-of-image /"]
    assert any("operator/image/root.py" in each.rest for each in dockerfile.instructions() if each.word == "RUN")


def test_every_image_that_it_starts_from_names_its_version() -> None:
    arguments = [each.rest for each in dockerfile.instructions() if each.word == "ARG"]

    assert [each.split("=")[0] for each in arguments] == ["PYTHON", "UV", "VERSION", "REVISION"]
    for given in arguments[:2]:
        assert re.search(r":\d+\.\d+", given), given


def test_it_says_what_it_is() -> None:
    labels = dockerfile.config()["Labels"]

    assert labels["org.opencontainers.image.version"] == PROJECT["version"]
    assert labels["org.opencontainers.image.licenses"] == PROJECT["license"]
    assert labels["org.opencontainers.image.description"] == PROJECT["description"]
    assert {"title", "url", "revision"} <= {name.rpartition(".")[2] for name in labels}


def test_it_runs_the_operator_as_nobody_in_particular(image: Image) -> None:
    assert image.config["User"] == "65532:65532"
    assert image.config["Entrypoint"][-2:] == ["-m", "quarterjack"]
    assert image.config["Entrypoint"][0].lstrip("/") in image.entries


def test_nothing_in_it_could_be_run_beside_python(image: Image) -> None:
    programs = image.named(r"(^|/)s?bin/[^/]+$")

    assert programs == ["usr/local/bin/python3"]
    assert image.named(r"(^|/)(ba|da|a|z|k)?sh$|busybox|/pip/|ensurepip") == []


def test_it_has_no_zone_files_but_those_of_the_operator(image: Image) -> None:
    zones = [name for name, beginning in image.beginnings.items() if beginning == b"TZif"]

    assert len(zones) > 500
    assert [name for name in zones if "/site-packages/tzdata/zoneinfo/" not in name] == []


def test_everything_belongs_to_root_and_only_root_may_write(image: Image) -> None:
    entries = image.entries.values()

    assert {(entry.uid, entry.gid) for entry in entries} == {(0, 0)}
    assert [entry.name for entry in entries if entry.mode & 0o6022] == []


def test_its_packages_are_those_of_the_lock(image: Image) -> None:
    found = {
        match[1].lower().replace("_", "-"): match[2]
        for name in image.entries
        if (match := re.search(r"/site-packages/([^/-]+)-([^/]+)\.dist-info$", name))
    }

    assert found.pop("quarterjack") == PROJECT["version"]
    assert {"kopf", "aiohttp", "tzdata", "kubernetes"} < found.keys()
    assert found == {name: LOCKED[name] for name in found}
    assert not found.keys() & {"pytest", "mypy", "ruff", "hypothesis"}


def test_all_its_modules_are_compiled(image: Image) -> None:
    def compiled(source: str) -> str:
        place, _, name = source.rpartition("/")
        return f"{place}/__pycache__/{name.removesuffix('py')}{sys.implementation.cache_tag}.pyc"

    sources = image.named(r"/(quarterjack|asyncio|kopf)/([^/]+/)*[^/]+\.py$")

    assert len(sources) > 50
    assert [source for source in sources if compiled(source) not in image.entries] == []
