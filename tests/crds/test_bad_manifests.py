"""What is wrong is refused at the door, at once, by name and value."""

from __future__ import annotations

import time

import pytest

from tests.cluster import Cluster
from tests.crds.bad_manifests import FOLDER, BadManifest, bad_manifests
from tests.crds.kubectl import Kubectl, Result

pytestmark = pytest.mark.api

REFUSED = [pytest.param(manifest, id=manifest.name) for manifest in bad_manifests("kubectl")]
TEMPLATES = [
    pytest.param(manifest, id=manifest.name)
    for manifest in bad_manifests("operator")
    if manifest.document()["spec"].get("template") and "year" not in manifest.name
]
ACCEPTED = [pytest.param(manifest, id=manifest.name) for manifest in bad_manifests("operator")]


WAYS = [pytest.param((), id="apply"), pytest.param(("--server-side",), id="server-side apply")]


@pytest.fixture(scope="module", params=WAYS)
def answers(served: Cluster, request: pytest.FixtureRequest) -> Result:
    """What kubectl says to all of them, a line each; nothing is stored."""
    return Kubectl(served, "default").apply_file(FOLDER, "--dry-run=server", *request.param)


def answer_to(manifest: BadManifest, lines: str) -> str:
    """The line that tells of one manifest, by its object's name or its path, without these."""
    name = manifest.document()["metadata"]["name"]
    marks = (f'"{name}"', f"/{name};", f"/{name} ", f'"{manifest.path}"')
    (line,) = (line for line in lines.splitlines() if any(mark in line for mark in marks))
    return line.replace(name, "").replace(str(manifest.path), "")


@pytest.mark.parametrize("manifest", REFUSED)
def test_the_door_refuses_it_and_says_why(answers: Result, manifest: BadManifest) -> None:
    assert manifest.unsaid(answer_to(manifest, answers.error)) == []


@pytest.mark.parametrize("manifest", ACCEPTED)
def test_what_only_the_operator_can_judge_passes_the_door(answers: Result, manifest: BadManifest) -> None:
    assert "(server dry run)" in answer_to(manifest, answers.out)


def test_a_single_wrong_manifest_fails_the_command(served: Cluster) -> None:
    result = Kubectl(served, "default").apply_file(FOLDER / "schedule-minute-60.yaml", "--dry-run=server")

    assert result.code == 1
    assert result.out == ""


@pytest.mark.parametrize("manifest", TEMPLATES)
def test_a_pod_of_a_wrong_template_is_refused_with_these_words(served: Cluster, manifest: BadManifest) -> None:
    template = manifest.document()["spec"]["template"]
    metadata = {"name": "of-it", **template.get("metadata", {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    answer = served.api.post("/api/v1/namespaces/default/pods?dryRun=All", pod)

    assert answer.status in (403, 422)
    assert manifest.unsaid(answer.json()["message"]) == []


def test_each_refusal_comes_within_a_second(served: Cluster) -> None:
    slow = {
        manifest.name: taken for manifest in bad_manifests("kubectl") if (taken := _refusal(served, manifest)) > 1.0
    }

    assert slow == {}


def test_there_are_manifests_for_both_doors() -> None:
    assert len(bad_manifests("kubectl")) >= 30
    assert len(bad_manifests("operator")) >= 5


def _refusal(cluster: Cluster, manifest: BadManifest) -> float:
    """How many seconds the API server takes to refuse it; the better of two, for the machine has other work."""
    document = manifest.document()
    path = f"/apis/quarterjack.dev/v1alpha1/namespaces/default/{document['kind'].lower()}s"
    taken = []
    for _ in range(2):
        start = time.monotonic()
        answer = cluster.api.post(f"{path}?dryRun=All&fieldValidation=Strict", document)
        taken.append(time.monotonic() - start)
        assert answer.status in (400, 422), f"{manifest.name}: {answer.text}"
    return min(taken)
