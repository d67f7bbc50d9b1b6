"""The network between a replica and the server in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from math import inf
from typing import Any

import orjson
import pytest

from quarterjack.transport import JSON, NotSent, Response, Transport, TransportError, Unanswered

from . import actors
from .connection import Connection
from .faults import Break, Chances, Fault, Outcome, Plan, Point, Rule
from .replica import Replica
from .resources import JOBS, LEASES, PODS, Resource
from .server import MemoryApi
from .virtual import in_virtual_time, later, run_virtual, virtual_loop


def now() -> float:
    return round(virtual_loop().time(), 3)


async def create(transport: Transport, name: str = "x", *, timeout: str = "", patience: float = 10) -> Response:
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}
    query = {"timeout": timeout} if timeout else {}
    return await transport.request(
        "POST",
        LEASES.path("default"),
        query=query,
        body=orjson.dumps(body),
        content_type=JSON,
        accept=JSON,
        timeout_seconds=patience,
    )


async def names_of(transport: Transport, resource: Resource = LEASES, **query: str) -> list[tuple[float, str, str]]:
    """What a watch brings, until it ends or breaks; the exception's name at last."""
    seen: list[tuple[float, str, str]] = []
    try:
        async with transport.stream(resource.path(), query=query, accept=JSON, silence_seconds=30) as answer:
            async for line in answer.lines:
                event = orjson.loads(line)
                seen.append(
                    (now(), event.get("type", ""), event.get("object", event).get("metadata", {}).get("name", ""))
                )
    except (TransportError, orjson.JSONDecodeError) as error:
        seen.append((now(), type(error).__name__, ""))
    return seen


def with_rule(api: MemoryApi, fault: Fault, **of: Any) -> Connection:
    return Connection(api, plan=Plan([Rule(fault=fault, **of)]))


def leases(api: MemoryApi) -> list[str]:
    return [document["metadata"]["name"] for document in actors.objects(api, LEASES)]


# Requests


@in_virtual_time
async def test_a_request_takes_its_latency_and_is_stamped_on_arrival() -> None:
    api = MemoryApi()
    plan = Plan(arrival_seconds=1.5, commit_seconds=1, answer_seconds=2)

    answer = await create(Connection(api, plan=plan))

    assert (now(), answer.status) == (4.5, 201)
    assert orjson.loads(answer.body)["metadata"]["creationTimestamp"] == "2026-03-02T09:00:01Z"
    assert answer.headers["date"].endswith("09:00:02 GMT")


@pytest.mark.parametrize(
    ("fault", "error", "done"),
    [
        (Fault(outcome=Outcome.NOT_SENT), NotSent, False),
        (Fault(outcome=Outcome.LOST), Unanswered, False),
        (Fault(outcome=Outcome.LOST, unnoticed=True), Unanswered, False),
        (Fault(outcome=Outcome.UNANSWERED), Unanswered, True),
        (Fault(outcome=Outcome.UNANSWERED, unnoticed=True), Unanswered, True),
    ],
)
@in_virtual_time
async def test_a_request_without_answer_may_have_been_done(
    fault: Fault, error: type[TransportError], done: bool
) -> None:
    api = MemoryApi()

    with pytest.raises(error):
        await create(with_rule(api, fault))

    assert now() == (10 if fault.unnoticed else 0.001 if error is Unanswered else 0)
    assert bool(leases(api)) == done


@pytest.mark.parametrize(("outcome", "done"), [(Outcome.REFUSED, False), (Outcome.BROKEN, True)])
@in_virtual_time
async def test_an_error_does_not_say_whether_it_was_done(outcome: Outcome, done: bool) -> None:
    api = MemoryApi()

    answer = await create(with_rule(api, Fault(outcome=outcome, status=500)))

    assert (answer.status, bool(leases(api))) == (500, done)


@in_virtual_time
async def test_a_throttled_request_says_when_to_come_again() -> None:
    fault = Fault(outcome=Outcome.REFUSED, status=429, retry_after_seconds=7)

    answer = await create(with_rule(MemoryApi(), fault))

    assert (answer.status, answer.headers["retry-after"]) == (429, "7")


@pytest.mark.parametrize("commits", [False, True])
@in_virtual_time
async def test_a_commit_that_takes_longer_than_the_timeout_is_answered_504(commits: bool) -> None:
    api = MemoryApi()
    connection = with_rule(api, Fault(commit_seconds=4, commits_anyway=commits))

    answer = await create(connection, timeout="2s")
    answered_at, then = now(), leases(api)
    await asyncio.sleep(5)

    assert (answer.status, answered_at, then) == (504, 2.002, [])
    assert leases(api) == (["x"] if commits else [])


@in_virtual_time
async def test_an_answer_that_comes_too_late_is_not_waited_for() -> None:
    api = MemoryApi()

    with pytest.raises(Unanswered, match="no answer within 3 s"):
        await create(with_rule(api, Fault(answer_seconds=60)), patience=3)

    assert (now(), leases(api)) == (3, ["x"])


@in_virtual_time
async def test_rules_are_told_by_method_resource_name_replica_and_number() -> None:
    api = MemoryApi()
    lost = Fault(outcome=Outcome.NOT_SENT)
    plan = Plan([Rule(fault=lost, method="POST", resource="leases", name="run-", replica="a", nth=2, times=2)])
    first, second = Connection(api, name="a", plan=plan), Connection(api, name="b", plan=plan)

    async def sent(connection: Connection, name: str) -> bool:
        try:
            await create(connection, name)
        except NotSent:
            return False
        return True

    got = [await sent(first, name) for name in ("run-1", "claim-1", "run-2", "claim-2", "run-3", "run-4")]
    got += [await sent(second, name) for name in ("run-5", "run-6")]

    assert got == [True, True, False, True, False, True, True, True]


def test_chances_are_the_same_for_the_same_seed() -> None:
    async def scenario() -> list[str]:
        api = MemoryApi()
        outcomes = {Outcome.LOST: 0.2, Outcome.UNANSWERED: 0.2, Outcome.REFUSED: 0.2, Outcome.NOT_SENT: 0.1}
        connection = Connection(api, plan=Chances(7, chances=outcomes, commit_seconds=0.5))
        got = []
        for i in range(50):
            try:
                got.append(str((await create(connection, f"x-{i}")).status))
            except TransportError as error:
                got.append(type(error).__name__)
        return [*got, str(now())]

    first, second = run_virtual(scenario()), run_virtual(scenario())

    assert first == second
    assert {"201", "429", "500", "NotSent", "Unanswered"} <= set(first)


@in_virtual_time
async def test_a_partition_is_noticed_at_once_or_only_by_timeouts() -> None:
    api = MemoryApi()
    connection = Connection(api)

    connection.partition()
    with pytest.raises(NotSent):
        await create(connection)
    connection.partition(silent=True)
    with pytest.raises(Unanswered):
        await create(connection)
    assert (now(), leases(api)) == (10, [])
    connection.heal()

    assert (await create(connection)).status == 201


@in_virtual_time
async def test_a_server_that_is_down_is_down_for_all() -> None:
    api = MemoryApi()
    api.options.up = False

    for name in "ab":
        with pytest.raises(NotSent):
            await create(Connection(api, name=name))


# Replicas that are stopped at a point of a request


async def claim(connection: Connection, seen: list[str]) -> None:
    seen.append("sends")
    await create(connection)
    seen.append("answered")


@pytest.mark.parametrize(
    ("point", "done"), [(Point.BEFORE_SEND, False), (Point.AFTER_SEND, True), (Point.AFTER_COMMIT, True)]
)
@in_virtual_time
async def test_a_replica_that_is_killed_never_sees_the_answer(point: Point, done: bool) -> None:
    api, seen = MemoryApi(), list[str]()
    replica = Replica("a")
    connection = Connection(api, replica=replica, plan=Plan([Rule(fault=Fault(crash=point, commit_seconds=0.5))]))

    replica.start(claim(connection, seen))
    await asyncio.sleep(100)

    assert (seen, bool(leases(api))) == (["sends"], done)
    assert replica.send_steps == ([1] if done else [])


@pytest.mark.parametrize(
    ("point", "committed_at"), [(Point.BEFORE_SEND, 60.001), (Point.AFTER_SEND, 0.001), (Point.AFTER_COMMIT, 0.001)]
)
@in_virtual_time
async def test_a_replica_that_is_stopped_sees_the_answer_late(point: Point, committed_at: float) -> None:
    api, seen = MemoryApi(), list[str]()
    replica = Replica("a")
    connection = Connection(api, replica=replica, plan=Plan([Rule(fault=Fault(stall=point, stall_seconds=60))]))

    await replica.start(claim(connection, seen))

    assert seen == ["sends", "answered"]
    assert round(api.ledger.leases[0].at - virtual_loop().start, 3) == committed_at
    assert now() >= 60


@in_virtual_time
async def test_what_a_dead_replica_had_sent_is_still_done_and_nothing_else() -> None:
    api = MemoryApi()
    replica = Replica("a")
    connection = Connection(api, replica=replica, plan=Plan(arrival_seconds=1))

    async def main() -> None:
        for i in range(10):
            await create(connection, f"x-{i}")

    replica.start(main())
    later(1.5, replica.crash)
    await asyncio.sleep(100)

    assert leases(api) == ["x-0", "x-1"]


def test_killing_before_every_step_reaches_every_state_of_the_server() -> None:
    async def scenario(step: int) -> tuple[int, int]:
        api = MemoryApi()
        replica = Replica("a")
        connection = Connection(api, replica=replica)

        async def main() -> None:
            for i in range(4):
                await create(connection, f"x-{i}")

        replica.crash_at(step)
        replica.start(main())
        await asyncio.sleep(10)
        return len(leases(api)), replica.steps

    reached = [run_virtual(scenario(step)) for step in range(1, 7)]

    assert reached == [(0, 0), (1, 1), (2, 2), (3, 3), (4, 4), (4, 5)]


@in_virtual_time
async def test_a_crash_makes_a_difference_only_before_and_after_a_step_that_sends() -> None:
    replica = Replica("a")
    connection = Connection(MemoryApi(), replica=replica)

    async def main() -> None:
        for _ in range(2):
            for _ in range(3):
                await asyncio.sleep(1)
            await create(connection)

    await replica.start(main())

    assert (replica.send_steps, replica.crash_steps, replica.steps) == ([4, 8], [4, 5, 8, 9], 9)


# Watches


async def write(api: MemoryApi, *names: str, every: float = 1.0) -> None:
    for name in names:
        await asyncio.sleep(every)
        await create(Connection(api, plan=Plan(arrival_seconds=0, answer_seconds=0)), name)


@in_virtual_time
async def test_a_watch_brings_its_events_until_the_server_ends_it() -> None:
    api = MemoryApi()
    watching = asyncio.create_task(names_of(Connection(api), timeoutSeconds="10"))

    await write(api, "a", "b")

    assert await watching == [(1.001, "ADDED", "a"), (2.001, "ADDED", "b")]
    assert (now(), api.watches) == (10.002, set())


@in_virtual_time
async def test_events_may_be_late_and_stay_in_order() -> None:
    api = MemoryApi()
    slow, quick = Connection(api, name="a"), Connection(api, name="b")
    slow.delay_watches(15, "leases")
    watching = [asyncio.create_task(names_of(c, timeoutSeconds="20")) for c in (slow, quick)]
    later(1.5, slow.delay_watches, 0, "leases")

    await write(api, "a", "b")

    late, at_once = await asyncio.gather(*watching)
    assert late == [(16.001, "ADDED", "a"), (16.001, "ADDED", "b")]
    assert at_once == [(1.001, "ADDED", "a"), (2.001, "ADDED", "b")]


@pytest.mark.parametrize(
    ("how", "last"),
    [
        (Break.CUT, [(1.5, "Unanswered", "")]),
        (Break.SILENT, [(31.001, "Unanswered", "")]),
        (Break.END, []),
        (Break.GONE, [(1.501, "ERROR", "")]),
        (Break.ERROR, [(1.501, "ERROR", "")]),
        (Break.GARBAGE, [(1.501, "JSONDecodeError", "")]),
    ],
)
@in_virtual_time
async def test_a_watch_may_go_wrong_in_every_way(how: Break, last: list[tuple[float, str, str]]) -> None:
    api = MemoryApi()
    connection = Connection(api)
    watching = asyncio.create_task(names_of(connection))
    later(1.5, connection.spoil, how, "leases")

    await write(api, "a", "b")

    assert await watching == [(1.001, "ADDED", "a"), *last]
    await asyncio.sleep(0)
    assert (api.watches, connection.open_streams()) == (set(), [])


@in_virtual_time
async def test_a_watch_may_go_wrong_after_so_many_lines() -> None:
    api = MemoryApi()
    connection = with_rule(api, Fault(stream=Break.GONE, stream_after=1), method="WATCH", resource="leases")
    watching = asyncio.create_task(names_of(connection))

    await write(api, "a", "b")

    assert await watching == [(1.001, "ADDED", "a"), (2.001, "ERROR", "")]


@in_virtual_time
async def test_a_watch_without_a_line_for_too_long_is_given_up_but_not_one_with_lines() -> None:
    api = MemoryApi()
    watching = asyncio.create_task(names_of(Connection(api)))

    await write(api, "a", "b", "c", every=20)

    assert (await watching)[-1] == (90.001, "Unanswered", "")


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (Fault(outcome=Outcome.NOT_SENT), NotSent),
        (Fault(outcome=Outcome.LOST), Unanswered),
        (Fault(outcome=Outcome.LOST, unnoticed=True), Unanswered),
    ],
)
@in_virtual_time
async def test_a_watch_may_fail_to_open(fault: Fault, error: type[TransportError]) -> None:
    api = MemoryApi()

    assert [kind for _, kind, _ in await names_of(with_rule(api, fault))] == [error.__name__]
    assert api.watches == set()


@in_virtual_time
async def test_a_watch_that_is_refused_has_one_status_for_a_line() -> None:
    api = MemoryApi()
    api.compact()
    connection = Connection(api)

    async with connection.stream(PODS.path(), query={"resourceVersion": "1"}, accept=JSON, silence_seconds=5) as answer:
        lines = [orjson.loads(line) async for line in answer.lines]

    assert (answer.status, [line["reason"] for line in lines]) == (410, ["Expired"])


@in_virtual_time
async def test_the_watches_of_a_dead_replica_are_closed() -> None:
    api = MemoryApi()
    replica = Replica("a")
    connection = Connection(api, replica=replica)
    replica.start(forget(names_of(connection)))
    later(1.5, replica.crash)

    await write(api, "a", "b")

    assert (api.watches, connection.open_streams()) == (set(), [])


async def forget(awaitable: Awaitable[Any]) -> None:
    await awaitable


@in_virtual_time
async def test_events_queue_up_while_a_replica_is_stopped() -> None:
    api = MemoryApi()
    replica = Replica("a")
    watching = replica.start(names_of(Connection(api, replica=replica), timeoutSeconds="60"))
    later(0.5, replica.stall, 100)

    await write(api, "a", "b", "c")

    assert [name for _, _, name in await watching] == ["a", "b", "c"]
    assert now() == 100.5


# All together


def test_what_is_measured_is_the_operator_and_not_the_harness() -> None:
    """An hour of 20 jobs a minute, each with a claim, a Pod and two status writes, seen by three replicas."""

    async def scenario() -> int:
        api = MemoryApi()
        for i in range(20):
            actors.apply_job(api, f"job-{i}", {"schedule": "* * * * *"})
        for name in "abc":
            replica = Replica(name)
            connection = Connection(api, replica=replica)
            for resource in (LEASES, PODS, JOBS):
                replica.start(forget(names_of(connection, resource, allowWatchBookmarks="1")))
            replica.start(launch_each_minute(connection, range("abc".index(name), 20, 3)))
        await asyncio.sleep(3_600)
        return len(api.ledger.pods)

    assert cpu_seconds(lambda: run_virtual(scenario())) < 30


async def launch_each_minute(connection: Connection, jobs: range) -> None:
    minute = 0
    while True:
        minute += 1
        await asyncio.sleep(60 * minute - now())
        for job in jobs:
            await create(connection, f"claim-{job}-{minute}")


def cpu_seconds(call: Callable[[], object]) -> float:
    import time

    began = time.process_time()
    call()
    return time.process_time() - began


def test_rules_without_end_last_for_ever() -> None:
    async def scenario() -> int:
        connection = with_rule(MemoryApi(), Fault(outcome=Outcome.REFUSED, status=503), times=inf)
        return sum([(await create(connection)).status == 503 for _ in range(20)])

    assert run_virtual(scenario()) == 20
