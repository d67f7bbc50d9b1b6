"""The raw limit: the writes of due firings, and nothing else, as fast as one process sends them.

`python -m tests.bench.raw` reads a Plan as a line of JSON, says that it is ready, and reads the instants at which to write.
The documents are the operator's own, with the same labels, annotations and windows, so the fence looks at them too; only the
owner reference is left out, for these jobs do not exist.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
import uvloop

from quarterjack import names
from quarterjack.api import LEASES, PODS
from quarterjack.manifests import Run, Window, claim_manifest, pod_manifest
from quarterjack.model import Job
from quarterjack.reading import read_job
from quarterjack.windows import LAUNCH_SECONDS, ON_TIME_SECONDS
from tests.bench.bulk import Address, Bulk, Write
from tests.bench.things import scheduled_job
from tests.cluster import Cluster

CONNECTIONS = 50
LINGER_SECONDS = 2.0  # so that its processor time can still be read


@dataclass(frozen=True, slots=True)
class Plan:
    """So many firings together. `forbid`: with the update of a run lease that exists."""

    address: Address
    namespace: str
    count: int
    forbid: bool


class RawProcess:
    """The process that writes."""

    def __init__(self, cluster: Cluster, namespace: str, *, count: int, forbid: bool) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.raw"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._say(asdict(Plan(Address.of(cluster), namespace, count, forbid)))

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def _say(self, what: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def __enter__(self) -> RawProcess:
        """Wait until it is ready: its connections are open, its run leases there."""
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise RuntimeError("the raw writes could not be prepared")
        return self

    def write_at(self, instants: Sequence[int]) -> None:
        """Let it write the firings of each of these instants, some seconds ahead, and then end."""
        self._say(instants)

    def __exit__(self, kind: object, *_: object) -> None:
        """Wait until it has written all, RuntimeError where it failed; after an error end it."""
        if kind is not None:
            self._process.kill()
        with self._process:
            code = self._process.wait()
        if code and kind is None:
            raise RuntimeError("the raw writes failed")


@dataclass(frozen=True, slots=True)
class RawJob:
    """A job, and the write that takes its run lease for a firing."""

    job: Job
    take: Callable[[Run], list[Write]]

    def writes(self, namespace: str, firing: int) -> list[Write]:
        """The writes of one firing, in their order."""
        run, now = Run(self.job, firing), int(time.time())
        claim = claim_manifest(run, Window(firing, firing + ON_TIME_SECONDS), holder="raw", pods_revision="1")
        pod = pod_manifest(run, Window(firing, now + ON_TIME_SECONDS + LAUNCH_SECONDS))
        del pod["metadata"]["ownerReferences"]
        return [
            Write.of("POST", LEASES.format(namespace) + "?timeout=2s", claim),
            *self.take(run),
            Write.of("POST", PODS.format(namespace) + "?timeout=2s", pod, accept="application/json"),
        ]


def _job(namespace: str, name: str) -> Job:
    meta = {"uid": str(uuid.uuid4()), "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z"}
    raw = scheduled_job(namespace, name, schedule="* * * * *", policy="Allow")
    return read_job(raw | {"metadata": raw["metadata"] | meta})


async def _run_lease(bulk: Bulk, namespace: str, job: Job) -> RawJob:
    """A job whose run lease exists."""
    labels = {names.LABEL_MANAGED_BY: names.MANAGER, names.LABEL_ROLE: names.ROLE_RUN, names.LABEL_JOB_UID: job.uid}
    document: dict[str, Any] = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": job.uid, "labels": labels, "annotations": {names.HOLDER: ""}},
        "spec": {"holderIdentity": "nobody"},
    }
    path = LEASES.format(namespace)
    status, body = await bulk.send(Write.of("POST", path, document))
    if status != 201:
        raise RuntimeError(f"run lease: {status} {body[:300].decode(errors='replace')}")
    meta = orjson.loads(body)["metadata"]
    held = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}

    def take(run: Run) -> list[Write]:
        patch = {"metadata": held | {"annotations": {names.HOLDER: run.id}}, "spec": {"holderIdentity": run.id}}
        return [Write.of("PATCH", f"{path}/{job.uid}", patch)]

    return RawJob(job, take)


async def write_all(plan: Plan) -> None:
    """Prepare, say so, and write at each instant that is told. A run lease is taken at the first only: it is not read again."""
    async with Bulk(plan.address, connections=min(CONNECTIONS, plan.count)) as bulk:
        jobs = [_job(plan.namespace, f"raw-{i}") for i in range(plan.count)]
        ready = [
            await _run_lease(bulk, plan.namespace, job) if plan.forbid else RawJob(job, lambda _: []) for job in jobs
        ]
        print("ready", flush=True)
        for instant in json.loads(await asyncio.to_thread(sys.stdin.readline)):
            writes = [job.writes(plan.namespace, instant) for job in ready]
            await asyncio.sleep(instant - time.time())
            await bulk.send_together(writes)
        await asyncio.sleep(LINGER_SECONDS)


def main() -> None:
    """Read the plan, write."""
    given = json.loads(sys.stdin.readline())
    uvloop.run(write_all(Plan(address=Address(**given.pop("address")), **given)))


if __name__ == "__main__":
    main()
