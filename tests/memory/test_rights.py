"""The rights that the chart gives: some minutes of all kinds of work need each of them, and nothing else.

Reflectors list and watch the jobs and their runs by hand in place of kopf, which needs the same rights to do so.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from math import inf
from typing import NamedTuple

import pytest

from quarterjack.errors import QuarterjackError
from tests.up.rights import rights

from .actors import End, delete_pod, objects, start_run
from .engine import NAMESPACE, Operator, Scene, play
from .fan_out import planned
from .faults import Fault, Outcome, Plan, Request, Rule
from .resources import PODS
from .virtual import ScenarioError

_OF_COLLECTIONS = {"GET": "list", "DELETE": "deletecollection"}
_VERBS = {"GET": "get", "POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete", "WATCH": "watch"}


class Right(NamedTuple):
    """One verb of a rule; `place` is the kind of the role: Role in its own namespace, ClusterRole where it serves."""

    place: str
    resource: str  # with its group, and with its subresource
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource} ({self.place})"


def granted() -> Iterator[Right]:
    """All that the chart grants."""
    for role in rights():
        for rule in role.get("rules", ()):
            for group in rule["apiGroups"]:
                for name in rule["resources"]:
                    resource, slash, subresource = name.partition("/")
                    qualified = f"{resource}.{group}" if group else resource
                    yield from (Right(role["kind"], qualified + slash + subresource, verb) for verb in rule["verbs"])


def needed(request: Request) -> Right:
    """The right without which a request is refused."""
    target = request.target
    assert target is not None, request.path
    verb = _VERBS[request.method] if target.name else _OF_COLLECTIONS.get(request.method, _VERBS[request.method])
    subresource = f"/{target.subresource}" if target.subresource else ""
    place = target.name if target.resource.plural == "namespaces" else target.namespace
    return Right("Role" if place == NAMESPACE else "ClusterRole", target.resource.qualified + subresource, verb)


ALL = sorted(granted())
OF_ITS_NAMESPACE = Right("Role", "namespaces", "get")


def scene_of_all_kinds(without: Right | None = None) -> tuple[Scene, Operator]:
    """A replica with jobs of all kinds; where one right is taken away, what needs it gets a 403."""
    lost = Rule(fault=Fault(outcome=Outcome.UNANSWERED), method="POST", resource="pods", name="late", nth=2)
    refused = Fault(outcome=Outcome.REFUSED, status=403)
    taken = Rule(fault=refused, where=lambda request: needed(request) == without, times=inf)
    scene = Scene()
    scene.job("often", schedule="*/20 * * * * *", podHistoryLimit=1, successfulRunsHistoryLimit=1)
    scene.job("late")
    scene.job("replaced", schedule="*/30 * * * * *", concurrencyPolicy="Replace")
    scene.job("never", schedule="0 0 30 2 *")
    planned(scene, "a\nb\n", name="fanned", schedule="1 9 * * *")
    scene.start("a", plan=Plan(rules=[taken, lost]))
    return scene, scene.operators["a"]


async def acts(scene: Scene, operator: Operator) -> AsyncIterator[None]:
    """What happens to it, up to the replica's end."""
    await scene.at(70)
    yield
    for number in range(3):
        start_run(scene.api, f"by-hand-{number}", "often")
    scene.end = End(after_seconds=40)
    await scene.at(130)
    yield
    for pod in objects(scene.api, PODS):
        if pod["status"]["phase"] == "Running":
            delete_pod(scene.api, pod["metadata"]["name"])
    await scene.at(600)  # claims are reaped with all of their minute, once no record of it is young
    yield
    await operator.process.start(operator.running.shut_down())
    yield


def test_each_right_is_needed_and_no_other_is_asked_for() -> None:
    async def scenario() -> set[Right]:
        scene, operator = scene_of_all_kinds()
        async for _ in acts(scene, operator):
            pass
        return {needed(request) for request in operator.connection.requests}

    asked = play(scenario)

    idle = [f"granted, and not needed by any of this: {right}" for right in ALL if right not in asked]
    lacking = [f"asked for, and not granted: {right}" for right in sorted(asked - {*ALL})]
    assert idle + lacking == []


@pytest.mark.parametrize("right", [right for right in ALL if right != OF_ITS_NAMESPACE], ids=str)
def test_without_one_of_them_a_replica_is_refused_something_counts_it_and_goes_on(right: Right) -> None:
    async def scenario() -> bool:
        scene, operator = scene_of_all_kinds(without=right)
        async for _ in acts(scene, operator):
            if any(code == "403" for _, code in operator.running.api.requests):
                return True
        return False

    refused = play(scenario)

    assert refused, (
        f"nothing needs {right}: take it out of charts/quarterjack/files/rights, or add to the acts what needs it"
    )


def test_without_the_right_to_read_its_namespace_a_replica_ends_and_says_why() -> None:
    async def scenario() -> None:
        _, operator = scene_of_all_kinds(without=OF_ITS_NAMESPACE)
        await operator.process.over()

    with pytest.raises(ScenarioError) as caught:
        play(scenario)

    ended = caught.value.__cause__
    assert isinstance(ended, ExceptionGroup)
    [error] = ended.exceptions
    assert isinstance(error, QuarterjackError)
    assert "namespace 'quarterjack' (--namespace) cannot be read: status 403" in str(error)
