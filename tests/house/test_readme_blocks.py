"""Every block of the README is run: its YAML is saved and its commands are typed, in order, as a reader would."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.cluster.build import program_path
from tests.crds.kubectl import Kubectl
from tests.house.pages import README, ROOT, Block, blocks, commands
from tests.house.test_readme import names, table


def test_each_block_is_of_a_kind_that_is_run_here() -> None:
    assert {block.language for block in blocks(README)} == {"sh", "yaml"}
    assert {line.split()[0] for line in commands(README)} == {"make", "kubectl", "helm"}


def test_its_make_lines_are_known_to_make() -> None:
    lines = [line.split() for line in commands(README) if line.startswith("make ")]

    for line in lines:
        subprocess.run(["make", "--dry-run", *line[1:]], cwd=ROOT, capture_output=True, check=True)
    assert {line[1] for line in lines} == {"up", "test"}


def test_its_helm_lines_are_those_of_the_chart() -> None:
    of_the_chart = commands(ROOT / "charts" / "quarterjack" / "README.md")

    assert [line for line in commands(README) if line.startswith("helm ") and line not in of_the_chart] == []


def test_help_names_each_flag_of_the_readme() -> None:
    command = [sys.executable, "-m", "quarterjack", "--help"]
    printed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    assert [flag for flag in names(table("Flags")) if flag.startswith("--") and flag not in printed] == []


@pytest.fixture
def desk(kubectl: Kubectl, tmp_path: Path) -> Path:
    """Where the reader sits: the repository's folders, and on the path a kubectl whose namespace has the examples."""
    for name in ("crds", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    kubectl.out("apply", "-f", str(ROOT / "examples"))
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    options = f"--kubeconfig={kubectl.cluster.kubeconfig} --cache-dir={tmp_path}/cache --namespace={kubectl.namespace}"
    program.write_text(f'#!/bin/sh\nexec {program_path("kubectl")} {options} "$@"\n')
    program.chmod(0o755)
    return tmp_path


@pytest.mark.api
def test_its_manifests_and_kubectl_lines_work_in_order(desk: Path) -> None:
    for block in blocks(README):
        if block.language == "yaml":
            (desk / f"{_name_of(block)}.yaml").write_text(block.text)
            continue
        for line in block.text.splitlines():
            if line.startswith("kubectl "):
                _type(line, desk)


def _type(line: str, desk: Path) -> None:
    environment = {**os.environ, "PATH": f"{desk}/bin:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], cwd=desk, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{line}\n{done.stderr}"


def _name_of(block: Block) -> str:
    return str(yaml.safe_load(block.text)["metadata"]["name"])
