"""What is wrong is refused at the door, at once, by name and value."""

from __future__ import annotations

import time

import pytest

from tests.cluster import Cluster
from tests.crds.bad_manifests import BadManifest, bad_manifests
from tests.crds.kubectl import Kubectl

pytestmark = pytest.mark.api

REFUSED = [pytest.param(manifest, id=manifest.name) for manifest in bad_manifests("kubectl")]
TEMPLATES = [
    pytest.param(manifest, id=manifest.name)
    for manifest in bad_manifests("operator")
    if manifest.document()["spec"].get("template") and "year" not in manifest.name
]
ACCEPTED = [pytest.param(manifest, id=manifest.name) for manifest in bad_manifests("operator")]


@pytest.fixture(scope="module")
def anywhere(served: Cluster) -> Kubectl:
    """Nothing is stored, so one namespace serves all."""
    return Kubectl(served, "default")


@pytest.mark.parametrize("manifest", REFUSED)
def test_apply_refuses_it_and_says_why(anywhere: Kubectl, manifest: BadManifest) -> None:
    result = anywhere.apply_file(manifest.path, "--dry-run=server")

    assert result.code != 0
    assert manifest.unsaid(result.error) == []


@pytest.mark.parametrize("manifest", REFUSED)
def test_server_side_apply_refuses_it_and_says_why(anywhere: Kubectl, manifest: BadManifest) -> None:
    result = anywhere.apply_file(manifest.path, "--server-side", "--dry-run=server")

    assert result.code != 0
    assert manifest.unsaid(result.error) == []


@pytest.mark.parametrize("manifest", ACCEPTED)
def test_what_only_the_operator_can_judge_passes_the_door(anywhere: Kubectl, manifest: BadManifest) -> None:
    result = anywhere.apply_file(manifest.path, "--dry-run=server")

    assert result.code == 0, result.error


@pytest.mark.parametrize("manifest", TEMPLATES)
def test_a_pod_of_a_wrong_template_is_refused_with_these_words(anywhere: Kubectl, manifest: BadManifest) -> None:
    template = manifest.document()["spec"]["template"]
    metadata = {"name": "of-it", **template.get("metadata", {})}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}

    answer = anywhere.cluster.api.post("/api/v1/namespaces/default/pods?dryRun=All", pod)

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
