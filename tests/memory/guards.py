"""One scenario for each guard of the protocol (design.md, section 4): each goes right, and goes wrong where its guard is missing.

And the ways to take a guard out of the engine: only tests of these tests do that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from quarterjack import decision, desk, janitor, settling, starter, status
from quarterjack.api import Answer, Api
from quarterjack.launcher import Launch, Launched, Launcher, Trace, Traced
from quarterjack.manifests import Run, Window
from quarterjack.model import Claim
from quarterjack.replica import Replica

from .actors import End, delete_pod, objects
from .engine import Operator, Prepare, Scene
from .faults import Break, Fault, Outcome, Point, Rule
from .resources import PODS
from .store import Change
from .virtual import START, later

BEGIN = START + 50  # the first firing is due ten seconds later
DUE = 10.0
ONCE_A_DAY = "1 9 * * *"  # that firing, and no other


def stall_before(seconds: float, **fits: str) -> Rule:
    """The sender decides, sleeps for so long, and sends what it has decided."""
    return Rule(fault=Fault(stall=Point.BEFORE_SEND, stall_seconds=seconds), **fits)  # type: ignore[arg-type]


def delete_pods(scene: Scene, *, after_seconds: float, most: int = 1) -> None:
    """Somebody deletes the first Pods, so long after they were made."""

    def on_change(change: Change) -> None:
        if change.before is None and len(scene.api.ledger.pods) < most:
            later(after_seconds, remove, change.key[1])

    def remove(name: str) -> None:
        if any(pod["metadata"]["name"] == name for pod in objects(scene.api, PODS)):
            delete_pod(scene.api, name, now=True)

    scene.api.store.tables[PODS].listeners[id(on_change)] = on_change


async def two_replicas(prepare: Prepare | None, **spec: Any) -> tuple[Scene, Operator, Operator]:
    """A scene shortly before the first firing: the replica that acts first for it, and the other one."""
    scene = Scene(prepare=prepare)
    uid = scene.job(**{"concurrencyPolicy": "Allow", "schedule": ONCE_A_DAY} | spec)
    scene.start("a", "b")
    await scene.at(DUE - 0.5)
    return scene, scene.first(uid), scene.others(uid)[0]


# The scenarios


async def fence(prepare: Prepare | None = None) -> Scene:
    """A replica sleeps for ten minutes between deciding on its Pod and sending it; meanwhile all is done and tidied away."""
    scene, first, _ = await two_replicas(prepare, schedule="* * * * *", podHistoryLimit=0)
    scene.api.options.fence = getattr(prepare, "fence", True)
    first.connection.plan.add(stall_before(600, method="POST", resource="pods"))
    await scene.at(DUE + 660)
    return scene


async def wait(prepare: Prepare | None = None) -> Scene:
    """A Pod's create is stamped at the end of its window, and committed two seconds later."""
    scene, first, _ = await two_replicas(prepare)
    slow = Fault(arrival_seconds=2.9, commit_seconds=1.99)
    first.connection.plan.add(Rule(fault=slow, method="POST", resource="pods"))
    delete_pods(scene, after_seconds=0.3)
    await scene.at(DUE + 60)
    return scene


async def trace(prepare: Prepare | None = None) -> Scene:
    """A replica dies as it has launched, the Pod is deleted at once, and no other replica has seen it."""
    scene, first, other = await two_replicas(prepare)
    other.connection.spoil(Break.SILENT, "pods")
    first.connection.plan.add(Rule(fault=Fault(crash=Point.AFTER_COMMIT), method="POST", resource="pods"))
    delete_pods(scene, after_seconds=0.3)
    await scene.at(DUE + 60)
    return scene


async def once(prepare: Prepare | None = None) -> Scene:
    """A Pod is created, the answer is lost, and somebody deletes the Pod."""
    scene, first, _ = await two_replicas(prepare)
    lost = Fault(outcome=Outcome.UNANSWERED)
    first.connection.plan.add(Rule(fault=lost, method="POST", resource="pods"))
    delete_pods(scene, after_seconds=0.3)
    await scene.at(DUE + 60)
    return scene


async def keep_unrecorded(prepare: Prepare | None = None) -> Scene:
    """No status can be written for five minutes, the Pod is deleted, and the replicas that saw it are replaced."""
    scene, first, other = await two_replicas(prepare)
    for operator in (first, other):
        unwell = Fault(outcome=Outcome.REFUSED, status=500)
        operator.connection.plan.add(
            Rule(fault=unwell, method="PATCH", resource="scheduledjobs", subresource="status", times=float("inf"))
        )
    delete_pods(scene, after_seconds=0.3)
    await scene.at(DUE + 300)
    scene.crash()
    scene.start("c", "d")
    await scene.at(DUE + 400)
    return scene


async def keep(prepare: Prepare | None = None) -> Scene:
    """A replica sleeps for 25 s between deciding on its claim and sending it, which is in time; another has done all by then."""
    scene, first, _ = await two_replicas(prepare, podHistoryLimit=0)
    first.connection.plan.add(stall_before(25, method="POST", resource="leases"))
    await scene.at(DUE + 200)
    return scene


async def late_gap(prepare: Prepare | None = None) -> Scene:
    """A claim is sent 25 s after its firing, which is in time; the other replica cannot claim at all."""
    scene, first, other = await two_replicas(prepare, misfirePolicy="Skip")
    first.connection.plan.add(stall_before(25, method="POST", resource="leases"))
    refused = Fault(outcome=Outcome.REFUSED, status=403)
    other.connection.plan.add(Rule(fault=refused, method="POST", resource="leases", times=float("inf")))
    await scene.at(DUE + 100)
    return scene


async def cas(prepare: Prepare | None = None) -> Scene:
    """Nothing could claim a firing. One replica decides what becomes of it and sleeps; the other decides, and it runs."""
    scene, first, other = await two_replicas(prepare)
    for operator in (first, other):
        refused = Fault(outcome=Outcome.REFUSED, status=403)
        operator.connection.plan.add(Rule(fault=refused, method="POST", resource="leases", times=float("inf")))
        later(40, operator.connection.plan.rules.clear)
    await scene.at(DUE + 45)
    first.connection.plan.add(stall_before(60, method="PATCH", resource="scheduledjobs"))
    await scene.at(DUE + 220)
    return scene


async def skip_cas(prepare: Prepare | None = None) -> Scene:
    """A replica decides to skip, for an earlier run is alive, and sleeps; that run ends, and another launches the firing."""
    scene, first, other = await two_replicas(prepare, schedule="* * * * *", concurrencyPolicy="Forbid")
    scene.end = End(after_seconds=62)
    await scene.at(DUE + 59)
    first.connection.plan.add(stall_before(17, method="PATCH", resource="leases", name=claims_of(scene)))
    await scene.at(DUE + 65)
    scene.end = End(after_seconds=1.5)
    for operator in (first, other):
        operator.connection.spoil(Break.SILENT, "pods")
    await scene.at(DUE + 230)
    return scene


async def wait_cas(prepare: Prepare | None = None) -> Scene:
    """A replica decides that a firing is to wait for another run, and sleeps; another launches it, unseen, and its Pod is deleted."""
    scene, first, other = await two_replicas(prepare, schedule="1,2 9 * * *", concurrencyPolicy="Replace")
    scene.end = End(after_seconds=300)
    await scene.at(DUE + 59)
    sleep = Fault(stall=Point.BEFORE_SEND, stall_seconds=17)
    first.connection.plan.add(
        Rule(fault=sleep, method="PATCH", resource="leases", where=lambda request: b"waits-for" in request.body)
    )
    for operator in (first, other):
        operator.connection.spoil(Break.SILENT, "pods")
    delete_pods(scene, after_seconds=0.3, most=2)
    await scene.at(DUE + 260)
    return scene


def claims_of(scene: Scene) -> str:
    """What the names of a job's claims begin with."""
    return next(iter(scene.witness.accounts)).replace("-", "")


# The ways to take a guard out


class Unfenced:
    """The server has no fence, and the engine believes that it has."""

    fence = False

    def __call__(self, engine: Replica) -> None:
        engine.starter._fenced = lambda: True


class Forgetful(Launcher):
    """Never finds a trace of a Pod."""

    async def trace(self, run: Run, claim: Claim) -> Trace:
        """Nothing ever was."""
        del run, claim
        return Trace(Traced.NEVER)


class Stubborn(Launcher):
    """Sends a Pod again where the answer leaves doubt."""

    async def create(self, run: Run, window: Window, *, timeout_seconds: int) -> Launched:
        """Twice."""
        result = await super().create(run, window, timeout_seconds=timeout_seconds)
        if result.launch is not Launch.UNKNOWN:
            return result
        await asyncio.sleep(1)
        return await super().create(run, window, timeout_seconds=timeout_seconds)


class Blind(Api):
    """Writes a kind of object whatever its revision is by now."""

    kind = ""

    async def patch(self, path: str, document: Mapping[str, Any], *, metadata_only: bool = False) -> Answer:
        """Without the precondition."""
        if self.kind in path:
            meta = {key: value for key, value in document["metadata"].items() if key != "resourceVersion"}
            document = {**document, "metadata": meta}
        return await super().patch(path, document, metadata_only=metadata_only)


def forget_traces(engine: Replica) -> None:
    """Without trace."""
    engine.starter._launcher = Forgetful(engine.api)


def send_again(engine: Replica) -> None:
    """Without once."""
    engine.starter._launcher = Stubborn(engine.api)


def write_statuses_blindly(engine: Replica) -> None:
    """Without cas."""
    engine.writer._api = blind(engine, "/scheduledjobs/")


def write_claims_blindly(engine: Replica) -> None:
    """Without skip-cas."""
    engine.claims._api = blind(engine, "/leases/")


def blind(engine: Replica, kind: str) -> Api:
    """The engine's API client, less one precondition."""
    api = Blind(engine.api._transport, engine.api.clock)
    api.kind = kind
    return api


def take_over_at_once(patch: pytest.MonkeyPatch) -> None:
    """Without wait."""
    for module in (starter, decision):
        patch.setattr(module, "commit_gap", lambda _: -100)


def reap_what_is_unrecorded(patch: pytest.MonkeyPatch) -> None:
    """Without keep-unrecorded."""
    patch.setattr(janitor.Janitor, "_kept", lambda *_: False)


def reap_at_once(patch: pytest.MonkeyPatch) -> None:
    """Without keep: neither the two minutes, nor what holds back the reaping of claims that may still come."""
    patch.setattr(janitor, "KEEP_SECONDS", 0)
    patch.setattr(janitor, "_CLOSED_SECONDS", -120)


def settle_early(patch: pytest.MonkeyPatch) -> None:
    """Without late-gap."""
    for module in (decision, desk, settling, status):
        patch.setattr(module, "LATE_SECONDS", 3)
