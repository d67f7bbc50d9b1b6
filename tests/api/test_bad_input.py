"""What only the operator can judge becomes a condition and an Event; a neighbour never misses a firing meanwhile."""

from __future__ import annotations

import json
import time

import pytest

from tests.api.installation import Document, Installation, job
from tests.api.observer import PodObserver
from tests.crds.bad_manifests import BadManifest, bad_manifests

pytestmark = pytest.mark.api


def _conditions(installation: Installation, document: Document) -> str:
    kind, name = document["kind"], document["metadata"]["name"]
    status = installation.kubectl.get(kind, name).get("status") or {}
    return json.dumps([c for c in status.get("conditions", []) if c["status"] != "True"], ensure_ascii=False)


def _events(installation: Installation, document: Document) -> str:
    name = document["metadata"]["name"]
    events = installation.kubectl.get("events.events.k8s.io")["items"]
    return "\n".join(event["note"] for event in events if event["regarding"]["name"] == name)


def _plain(text: str) -> str:
    return text.replace('\\"', '"')


def test_each_wrong_manifest_is_answered_where_its_author_looks_while_its_neighbour_fires_every_second(
    installation: Installation,
) -> None:
    doors: dict[str, list[BadManifest]] = {door: bad_manifests(door) for door in ("kubectl", "operator")}
    with installation.fleet(), PodObserver(installation.cluster, installation.namespace) as observer:
        installation.apply([job("neighbour", "* * * * * *"), job("hello", "0 0 1 1 *")])
        observer.wait(lambda counts: len(counts) >= 2, seconds=90)
        first = int(time.time()) + 1
        for manifest in doors["kubectl"]:
            assert installation.kubectl.apply(manifest.document()).code != 0, manifest.name
        for manifest in doors["operator"]:
            applied = installation.kubectl.apply(manifest.document())
            assert applied.code == 0, (manifest.name, applied.error)
        for manifest in doors["operator"]:
            document = manifest.document()
            installation.wait_for(
                f"{manifest.name}: conditions say it",
                lambda m=manifest, d=document: not m.unsaid(_plain(_conditions(installation, d))),  # type: ignore[misc]
                seconds=90,
            )
            installation.wait_for(
                f"{manifest.name}: an Event says it",
                lambda m=manifest, d=document: not m.unsaid(_plain(_events(installation, d))),  # type: ignore[misc]
                seconds=90,
            )
        last = int(time.time())
        observer.wait(lambda counts: counts["neighbour", last] > 0, seconds=90)
        counts = observer.counts()

    assert len(doors["kubectl"]) + len(doors["operator"]) >= 30
    assert [second for second in range(first, last + 1) if counts["neighbour", second] != 1] == []
    assert [key for key in counts if key[0].startswith("bad-")] == []
