"""Puts our objects into the cluster, noting which of them were not there before, and takes those away again."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from crds.generate import KINDS
from tests.cluster.errors import ClusterError
from tests.cluster.processes import wait_until
from tests.up.kubectl import Kubectl
from tests.up.record import Record, Thing
from tests.up.rights import ACCOUNT, NAMESPACE, rights
from tests.up.words import say

ROOT = Path(__file__).resolve().parents[2]
CRDS = tuple(sorted(ROOT.glob("crds/*.yaml")))
EXAMPLES = tuple(sorted(ROOT.glob("examples/*.yaml")))
_MANAGER = "--field-manager=quarterjack-up"
_TOKEN_DURATION = "720h"


def install(kubectl: Kubectl, record: Record) -> None:
    """CRDs, fence, and the replicas' account; return when they serve."""
    wanted = [*(each for path in CRDS for each in documents(path)), *rights()]
    _apply(kubectl, record, wanted, "", take_over=True)
    for kind in KINDS:
        wait_until(f"{kind} are served", partial(_serves, kubectl, kind), within_seconds=60)
    wait_until("the fence stands", lambda: _fence_stands(kubectl), within_seconds=60)
    say("applied: CRDs, fence, namespace quarterjack-system with the replicas' account")


def apply_examples(kubectl: Kubectl, record: Record) -> None:
    """The examples, but none that somebody else has made under the same name."""
    examples = [each for path in EXAMPLES for each in documents(path)]
    applied = _apply(kubectl, record, examples, record.examples_namespace, take_over=False)
    for example in examples:
        name = example["metadata"]["name"]
        said = "applied" if example in applied else "there already and not ours, left as it is"
        say(f"example {name}: {said}")


def documents(path: Path) -> list[dict[str, Any]]:
    """The objects of a file."""
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def thing_of(document: dict[str, Any], namespace: str) -> Thing:
    """How kubectl names an object; `namespace` is for one that names none itself."""
    group, _, version = document["apiVersion"].rpartition("/")
    kind, meta = document["kind"], document["metadata"]
    return Thing(f"{kind}.{version}.{group}" if group else kind, meta.get("namespace", namespace), meta["name"])


def _apply(
    kubectl: Kubectl, record: Record, wanted: list[dict[str, Any]], namespace: str, *, take_over: bool
) -> list[dict[str, Any]]:
    """Apply objects, in few calls, for each costs a second where the machine is busy; return those that were applied.

    What is new is noted as ours before it is created, so that a crash here leaves nothing behind.
    """
    things = [thing_of(document, namespace) for document in wanted]
    unknown = [thing for thing in things if thing not in record.ours]
    there = _existing(kubectl, unknown)
    record.ours += [thing for thing in unknown if thing not in there]
    record.save()
    applied = [document for document, thing in zip(wanted, things, strict=True) if take_over or thing in record.ours]
    if applied:
        text = yaml.safe_dump_all(applied)
        where = (f"--namespace={namespace}",) if namespace else ()
        kubectl.out("apply", "--server-side", "--force-conflicts", _MANAGER, *where, "-f", "-", stdin=text)
    return applied


def _existing(kubectl: Kubectl, things: list[Thing]) -> set[Thing]:
    """Those of the things that are in the cluster; one call for each namespace."""
    found: set[Thing] = set()
    for namespace in {thing.namespace for thing in things}:
        asked = [thing for thing in things if thing.namespace == namespace]
        where = (f"--namespace={namespace}",) if namespace else ()
        names = [f"{thing.resource}/{thing.name}" for thing in asked]
        printed = kubectl.out("get", *names, *where, "--ignore-not-found", "-o", "name").split()
        found |= {thing for thing in asked if _printed_name(thing) in printed}
    return found


def _printed_name(thing: Thing) -> str:
    """A thing as `-o name` prints it: KIND.GROUP/NAME in lower case."""
    kind, _, rest = thing.resource.partition(".")
    _, _, group = rest.partition(".")
    return f"{kind.lower()}{'.' + group if group else ''}/{thing.name}"


def exists(kubectl: Kubectl, thing: Thing) -> bool:
    """Whether an object is in the cluster."""
    return bool(kubectl.out("get", *thing.where, "--ignore-not-found", "-o", "name").strip())


def _serves(kubectl: Kubectl, kind: str) -> bool:
    return kubectl.run("get", "--raw", f"/apis/quarterjack.dev/v1alpha1/{kind}").returncode == 0


def _fence_stands(kubectl: Kubectl) -> bool:
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "fence-probe", "namespace": NAMESPACE, "labels": {"quarterjack.dev/firing": "0"}},
    }
    answer = kubectl.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(lease))
    return "quarterjack fence:" in answer.stderr


def replica_kubeconfig(kubectl: Kubectl) -> str:
    """A kubeconfig (YAML) with which replicas reach the same server as their own ServiceAccount, for a month."""
    seen = kubectl.json("config", "view", "--raw", "--minify", "--flatten")
    token = kubectl.out("create", "token", ACCOUNT, f"--namespace={NAMESPACE}", f"--duration={_TOKEN_DURATION}")
    name = "quarterjack"
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": name, "cluster": seen["clusters"][0]["cluster"]}],
        "users": [{"name": name, "user": {"token": token.strip()}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return yaml.safe_dump(content)


def uninstall(kubectl: Kubectl, record: Record) -> None:
    """Remove what is ours, the newest first. CRDs stay while jobs of others need them, for these would go with them."""
    examples = [thing for thing in record.ours if thing.resource.startswith("ScheduledJob.")]
    rest = [thing for thing in record.ours if thing not in examples]
    _delete(kubectl, examples)
    _delete_pods(kubectl, examples)
    kept = [thing for thing in rest if thing.resource.startswith("CustomResourceDefinition.")]
    others = _jobs_left(kubectl, kept)
    if others:
        say(f"the CRDs stay, for there are ScheduledJobs that are not ours: {', '.join(others)}")
        rest = [thing for thing in rest if thing not in kept]
    _delete(kubectl, rest)


def _delete(kubectl: Kubectl, things: Iterable[Thing]) -> None:
    for thing in reversed(list(things)):
        result = kubectl.run("delete", *thing.where, "--ignore-not-found", "--timeout=120s")
        # The kind itself may be gone by now.
        if result.returncode and "the server doesn't have a resource type" not in result.stderr:
            raise ClusterError(f"{thing.name} cannot be deleted: {result.stderr.strip()}")
        say(f"removed: {thing.resource.partition('.')[0]} {thing.name}")


def _delete_pods(kubectl: Kubectl, examples: list[Thing]) -> None:
    """The garbage collector deletes them too, some time later."""
    for thing in examples:
        kubectl.out(
            "delete",
            "pods",
            f"--namespace={thing.namespace}",
            f"--selector=quarterjack.dev/job={thing.name}",
            "--ignore-not-found",
            "--grace-period=1",
        )


def _jobs_left(kubectl: Kubectl, crds: list[Thing]) -> list[str]:
    if not any(exists(kubectl, crd) for crd in crds):
        return []
    items = kubectl.json("get", "scheduledjobs", "--all-namespaces")["items"]
    return [f"{item['metadata']['namespace']}/{item['metadata']['name']}" for item in items]
