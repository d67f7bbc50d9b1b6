"""The API server in memory: what the operator relies on."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import pytest

from quarterjack.transport import METADATA_LIST, METADATA_ONLY, Response

from . import actors
from .actors import apply_job, ask, delete, finish_pod, objects, read, start_pod, succeed
from .resources import CONFIG_MAPS, EVENTS, JOBS, LEASES, NAMESPACES, PODS, RUNS, Resource
from .server import MemoryApi
from .statuses import forbidden
from .virtual import in_virtual_time
from .watches import Watch

NINE = "2026-03-02T09:00:00Z"
LABEL = "quarterjack.dev/firing"


class Lines:
    """A watch's listener that keeps what it gets."""

    def __init__(self) -> None:
        self.watch: Watch | None = None
        self.events: list[dict[str, Any]] = []
        self.ended = False

    def send(self, line: bytes) -> None:
        self.events.append(orjson.loads(line))

    def end(self) -> None:
        self.ended = True

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(event["type"], event["object"]["metadata"].get("name", "")) for event in self.events]


def watch(api: MemoryApi, resource: Resource, *, accept: str = "", **query: str) -> Lines:
    lines = Lines()
    opened = api.watch(api.arrive("GET", resource.path(), query={"watch": "1", **query}, accept=accept), lines)
    assert isinstance(opened, Watch), opened
    return lines


def lease(name: str, **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, **metadata},
        "spec": {"holderIdentity": "a"},
    }


def pod(name: str, **metadata: Any) -> dict[str, Any]:
    spec = {"containers": actors.CONTAINERS}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def create(api: MemoryApi, document: Mapping[str, Any], **query: str) -> Response:
    resource = {"Lease": LEASES, "Pod": PODS, "ConfigMap": CONFIG_MAPS, "Event": EVENTS}[document["kind"]]
    return ask(api, "POST", resource.path("default"), document, **query)


def status_of(response: Response) -> dict[str, Any]:
    status: dict[str, Any] = orjson.loads(response.body)
    assert status["code"] == response.status
    return status


def fenced(name: str, not_before: str, not_after: str) -> dict[str, Any]:
    notes = {"quarterjack.dev/not-before": not_before, "quarterjack.dev/not-after": not_after}
    return lease(name, labels={LABEL: "1"}, annotations=notes)


# Creates


@in_virtual_time
async def test_the_server_gives_a_new_object_its_uid_stamp_and_revision() -> None:
    api = MemoryApi()
    await asyncio.sleep(1.9)

    meta = succeed(create(api, lease("x", uid="mine", creationTimestamp="2020-01-01T00:00:00Z")))["metadata"]

    assert meta["creationTimestamp"] == "2026-03-02T09:00:01Z"
    assert (len(meta["uid"]), meta["resourceVersion"]) == (36, str(api.store.revision))


@in_virtual_time
async def test_the_second_create_of_a_name_is_told_already_exists() -> None:
    api = MemoryApi()
    create(api, lease("x"))

    again = create(api, lease("x"))

    assert again.status == 409
    assert status_of(again)["reason"] == "AlreadyExists"
    assert status_of(again)["message"] == 'leases.coordination.k8s.io "x" already exists'
    assert status_of(again)["details"] == {"name": "x", "group": "coordination.k8s.io", "kind": "leases"}


@in_virtual_time
async def test_the_stamp_is_given_on_arrival_and_the_commit_may_follow() -> None:
    api = MemoryApi()
    call = api.arrive("POST", LEASES.path("default"), body=orjson.dumps(lease("x")))
    await asyncio.sleep(4)

    assert read(api, LEASES, "x") is None
    assert succeed(api.commit(call))["metadata"]["creationTimestamp"] == NINE


@in_virtual_time
async def test_a_dry_run_is_answered_and_does_nothing() -> None:
    api = MemoryApi()

    answer = create(api, lease("x"), dryRun="All")

    assert (answer.status, read(api, LEASES, "x"), len(api.ledger.leases)) == (201, None, 0)


@in_virtual_time
async def test_generated_names_are_made_by_the_server() -> None:
    api = MemoryApi()

    names = [succeed(create(api, lease("", generateName="run-")))["metadata"]["name"] for _ in range(3)]

    assert len(set(names)) == 3
    assert all(name.startswith("run-") and len(name) == 9 for name in names)


@in_virtual_time
async def test_nothing_is_created_in_a_namespace_that_is_not_there_or_on_its_way_out() -> None:
    api = MemoryApi()
    api.add_namespace("old")
    succeed(ask(api, "POST", PODS.path("old"), pod("x", finalizers=["example.com/hold"])))
    actors.delete_namespace(api, "old")

    assert ask(api, "POST", LEASES.path("nowhere"), lease("x")).status == 404
    refused = ask(api, "POST", LEASES.path("old"), lease("x"))
    assert refused.status == 403
    assert "because it is being terminated" in status_of(refused)["message"]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(lease("Upper"), id="a name in upper case"),
        pytest.param(lease("x", labels={"a": "x" * 64}), id="a label of 64 characters"),
        pytest.param(lease("x", annotations={"a": "x" * 300_000}), id="annotations of 300 kB"),
        pytest.param(lease("x", ownerReferences=[{"name": "job"}]), id="an owner without UID"),
        pytest.param(lease("x") | {"spec": {"leaseDurationSeconds": 0}}, id="a Lease of no duration"),
        pytest.param(pod("x") | {"spec": {"containers": []}}, id="a Pod without containers"),
        pytest.param(
            {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "x" * 2_000_000}},
            id="a ConfigMap of 2 MB",
        ),
        pytest.param(
            {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "x"}, "note": "x" * 2_000},
            id="an Event of which most is missing",
        ),
    ],
)
@in_virtual_time
async def test_what_is_invalid_is_refused(document: dict[str, Any]) -> None:
    answer = create(MemoryApi(), document)

    assert (answer.status, status_of(answer)["reason"]) == (422, "Invalid")


@in_virtual_time
async def test_a_renew_time_without_microseconds_cannot_be_read() -> None:
    api = MemoryApi()

    assert create(api, lease("x") | {"spec": {"renewTime": "2026-03-02T09:00:00Z"}}).status == 400
    assert create(api, lease("x") | {"spec": {"renewTime": "2026-03-02T09:00:00.000000Z"}}).status == 201


@in_virtual_time
async def test_a_quota_or_webhook_of_the_test_is_asked_on_every_create() -> None:
    api = MemoryApi()
    api.options.refuse.append(
        lambda verb, resource, document: (
            forbidden(resource, document["metadata"]["name"], "exceeded quota: pods")
            if (verb, resource) == ("CREATE", PODS)
            else None
        )
    )

    assert create(api, pod("x")).status == 403
    assert create(api, lease("x")).status == 201


# The fence


@pytest.mark.parametrize(
    ("window", "status"),
    [
        pytest.param((NINE, NINE), 201, id="both bounds are within"),
        pytest.param(("2026-03-02T08:59:30Z", "2026-03-02T08:59:59Z"), 422, id="too late"),
        pytest.param(("2026-03-02T09:00:01Z", "2026-03-02T09:00:30Z"), 422, id="too early"),
        pytest.param(("", ""), 422, id="no window"),
        pytest.param(("2026-03-02T08:00:00.000Z", "2026-03-02T10:00:00Z"), 422, id="not in whole seconds"),
    ],
)
@in_virtual_time
async def test_a_claim_is_admitted_only_within_its_window(window: tuple[str, str], status: int) -> None:
    api = MemoryApi()
    await asyncio.sleep(0.9)

    assert create(api, fenced("x", *window)).status == status


@in_virtual_time
async def test_the_fence_says_no_in_the_words_of_a_policy() -> None:
    answer = create(MemoryApi(), fenced("x", "2026-03-02T08:00:00Z", "2026-03-02T08:00:30Z"))

    assert status_of(answer)["reason"] == "Invalid"
    assert status_of(answer)["message"] == (
        "leases.coordination.k8s.io \"x\" is forbidden: ValidatingAdmissionPolicy 'quarterjack-fence' with binding "
        "'quarterjack-fence' denied request: quarterjack fence: created at 2026-03-02T09:00:00Z, outside its window "
        "from 2026-03-02T08:00:00Z to 2026-03-02T08:00:30Z"
    )


@in_virtual_time
async def test_the_fence_comes_before_already_exists_and_may_be_missing() -> None:
    api, late = MemoryApi(), fenced("x", "2026-03-02T08:00:00Z", "2026-03-02T08:00:30Z")
    create(api, lease("x"))

    with_fence = create(api, late)
    api.options.fence = False
    without = create(api, late)

    assert (with_fence.status, without.status) == (422, 409)


@in_virtual_time
async def test_the_fence_minds_nothing_but_creates_with_our_label() -> None:
    api = MemoryApi()
    create(api, lease("x"))

    patched = ask(api, "PATCH", LEASES.path("default", "x"), {"metadata": {"labels": {LABEL: "1"}}})

    assert patched.status == 200


# Updates


@in_virtual_time
async def test_a_write_on_an_old_revision_conflicts() -> None:
    api = MemoryApi()
    old = succeed(create(api, lease("x")))["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": old}, "spec": {"holderIdentity": "b"}}

    answers = [ask(api, "PATCH", LEASES.path("default", "x"), patch) for _ in range(2)]

    assert [answer.status for answer in answers] == [200, 409]
    assert status_of(answers[1])["reason"] == "Conflict"
    assert "the object has been modified" in status_of(answers[1])["message"]


@in_virtual_time
async def test_a_write_on_another_object_of_the_same_name_conflicts() -> None:
    api = MemoryApi()
    uid = succeed(create(api, lease("x")))["metadata"]["uid"]
    delete(api, LEASES, "x")
    create(api, lease("x"))

    answer = ask(api, "PATCH", LEASES.path("default", "x"), {"metadata": {"uid": uid}, "spec": {"holderIdentity": "b"}})

    assert answer.status == 409
    assert f"UID in precondition: {uid}" in status_of(answer)["message"]


@in_virtual_time
async def test_a_write_that_changes_nothing_leaves_the_revision_as_it_is() -> None:
    api = MemoryApi()
    create(api, lease("x"))
    lines, before = watch(api, LEASES, resourceVersion=str(api.store.revision)), api.store.revision

    ask(api, "PATCH", LEASES.path("default", "x"), {"spec": {"holderIdentity": "a"}})

    assert (api.store.revision, lines.events) == (before, [])


@in_virtual_time
async def test_a_put_needs_a_revision_and_makes_a_lease_that_is_not_there() -> None:
    api = MemoryApi()

    made = ask(api, "PUT", LEASES.path("default", "x"), lease("x"))
    bare = ask(api, "PUT", LEASES.path("default", "x"), lease("x"))
    with_uid = ask(api, "PUT", LEASES.path("default", "y"), lease("y", uid="of-another"))

    assert [answer.status for answer in (made, bare, with_uid)] == [201, 422, 409]
    assert ask(api, "PATCH", LEASES.path("default", "y"), {}).status == 404


@in_virtual_time
async def test_the_generation_counts_changes_of_the_spec_alone() -> None:
    api = MemoryApi()
    apply_job(api, "job", {"schedule": "* * * * *"})

    actors.annotate(api, JOBS, "job", note="x")
    ask(api, "PATCH", JOBS.path("default", "job", "status"), {"status": {"health": "Healthy"}})
    changed = actors.edit_spec(api, "job", suspend=True)

    assert changed["metadata"]["generation"] == 2
    assert changed["status"] == {"health": "Healthy"}


@in_virtual_time
async def test_the_status_and_the_rest_are_written_by_different_paths() -> None:
    api = MemoryApi()
    apply_job(api, "job", {"schedule": "* * * * *"})
    both = {"spec": {"suspend": True}, "status": {"health": "Healthy"}}

    ask(api, "PATCH", JOBS.path("default", "job"), both)
    first = read(api, JOBS, "job") or {}
    ask(api, "PATCH", JOBS.path("default", "job", "status"), both | {"spec": {"suspend": False}})
    second = read(api, JOBS, "job") or {}

    assert (first["spec"]["suspend"], first.get("status")) == (True, None)
    assert (second["spec"]["suspend"], second["status"]) == (True, {"health": "Healthy"})


@in_virtual_time
async def test_managed_fields_tell_when_the_spec_was_last_changed() -> None:
    api = MemoryApi()
    apply_job(api, "job", {"schedule": "* * * * *"})
    await asyncio.sleep(60)
    ask(api, "PATCH", JOBS.path("default", "job", "status"), {"status": {"health": "Healthy"}}, by="quarterjack")
    await asyncio.sleep(60)
    meta = actors.edit_spec(api, "job", suspend=True)["metadata"]

    of_spec = [e["time"] for e in meta["managedFields"] if "f:spec" in e["fieldsV1"]]
    of_status = [(e["time"], e["subresource"]) for e in meta["managedFields"] if "f:status" in e["fieldsV1"]]

    assert max(of_spec) == "2026-03-02T09:02:00Z"
    assert {"f:schedule", "f:suspend"} <= meta["managedFields"][-1]["fieldsV1"]["f:spec"].keys()
    assert of_status == [("2026-03-02T09:01:00Z", "status")]


@pytest.mark.parametrize(
    "watermark",
    [pytest.param("2026-03-02T08:59:59Z", id="an earlier one"), pytest.param(None, id="none")],
)
@in_virtual_time
async def test_a_watermark_never_falls(watermark: str | None) -> None:
    api = MemoryApi()
    apply_job(api, "job", {"schedule": "* * * * *"})
    path = JOBS.path("default", "job", "status")
    succeed(ask(api, "PATCH", path, {"status": {"watermark": NINE}}))

    answer = ask(api, "PATCH", path, {"status": {"watermark": watermark}})

    assert answer.status == 422
    assert "watermark never falls" in status_of(answer)["message"]
    assert ask(api, "PATCH", path, {"status": {"watermark": "2026-03-02T09:01:00Z"}}).status == 200


@in_virtual_time
async def test_a_run_by_hand_cannot_be_changed() -> None:
    api = MemoryApi()
    actors.start_run(api, "run", "job", options={"day": "monday"})

    answer = ask(api, "PATCH", RUNS.path("default", "run"), {"spec": {"options": {"day": "tuesday"}}})

    assert answer.status == 422
    assert "spec cannot be changed" in status_of(answer)["message"]


@in_virtual_time
async def test_fields_that_the_crd_does_not_have_vanish_and_defaults_appear() -> None:
    api = MemoryApi()

    spec = apply_job(api, "job", {"schedule": "* * * * *", "colour": "red"})["spec"]
    status = {"health": "Healthy", "mood": "good", "history": [{"id": "1", "state": "Running", "smell": "none"}]}
    kept = succeed(ask(api, "PATCH", JOBS.path("default", "job", "status"), {"status": status}))["status"]

    assert ("colour" in spec, spec["suspend"], spec["concurrencyPolicy"]) == (False, False, "Forbid")
    assert kept == {"health": "Healthy", "history": [{"id": "1", "state": "Running"}]}


@pytest.mark.parametrize(
    "status",
    [
        pytest.param({"health": "Splendid"}, id="an unknown value"),
        pytest.param({"activeCount": "one"}, id="a wrong type"),
        pytest.param({"watermark": "yesterday"}, id="no time"),
        pytest.param({"history": [{"id": "1", "state": "Running"}] * 2}, id="an id twice"),
        pytest.param({"history": [{"id": "1"}]}, id="a field missing"),
        pytest.param({"history": [{"id": str(i), "state": "Running"} for i in range(1_000)]}, id="too many"),
    ],
)
@in_virtual_time
async def test_a_status_that_the_crd_does_not_allow_is_refused(status: dict[str, Any]) -> None:
    api = MemoryApi()
    apply_job(api, "job", {"schedule": "* * * * *"})

    assert ask(api, "PATCH", JOBS.path("default", "job", "status"), {"status": status}).status == 422


# Deletes


@in_virtual_time
async def test_a_delete_holds_to_its_preconditions() -> None:
    api = MemoryApi()
    meta = succeed(create(api, lease("x")))["metadata"]
    path = LEASES.path("default", "x")

    wrong_uid = ask(api, "DELETE", path, {"preconditions": {"uid": "another"}})
    wrong_revision = ask(api, "DELETE", path, {"preconditions": {"uid": meta["uid"], "resourceVersion": "1"}})
    right = ask(api, "DELETE", path, {"preconditions": {"uid": meta["uid"]}})

    assert [answer.status for answer in (wrong_uid, wrong_revision, right)] == [409, 409, 200]
    assert ask(api, "DELETE", path).status == 404


@in_virtual_time
async def test_a_running_pod_is_deleted_after_its_grace_and_others_at_once() -> None:
    api = MemoryApi()
    for name in ("unbound", "running", "finished"):
        create(api, pod(name))
    start_pod(api, "running")
    finish_pod(api, "finished")

    for name in ("unbound", "running", "finished"):
        actors.delete_pod(api, name)

    left = objects(api, PODS)
    assert [document["metadata"]["name"] for document in left] == ["running"]
    assert left[0]["metadata"]["deletionTimestamp"] == "2026-03-02T09:00:30Z"
    actors.delete_pod(api, "running", now=True)
    assert objects(api, PODS) == []


@in_virtual_time
async def test_a_finalizer_holds_an_object_until_it_is_taken_away() -> None:
    api = MemoryApi()
    create(api, lease("x", finalizers=["example.com/hold"]))

    delete(api, LEASES, "x")
    held = read(api, LEASES, "x")
    ask(api, "PATCH", LEASES.path("default", "x"), {"metadata": {"finalizers": None}})

    assert held is not None
    assert "deletionTimestamp" in held["metadata"]
    assert read(api, LEASES, "x") is None


@in_virtual_time
async def test_a_collection_is_deleted_by_label() -> None:
    api = MemoryApi()
    for name, bucket in (("a", "1"), ("b", "2"), ("c", "1")):
        create(api, lease(name, labels={"bucket": bucket}))

    succeed(ask(api, "DELETE", LEASES.path("default"), labelSelector="bucket=1"))

    assert [document["metadata"]["name"] for document in objects(api, LEASES)] == ["b"]


@pytest.mark.parametrize(("policy", "left"), [("Background", 0), ("Foreground", 0), ("Orphan", 1)])
@in_virtual_time
async def test_the_pods_of_a_job_go_with_it_unless_orphaned(policy: str, left: int) -> None:
    api = MemoryApi()
    api.options.collect_seconds = 1
    uid = apply_job(api, "job", {"schedule": "* * * * *"})["metadata"]["uid"]
    create(
        api,
        pod("x", ownerReferences=[{"apiVersion": JOBS.api_version, "kind": "ScheduledJob", "name": "job", "uid": uid}]),
    )

    delete(api, JOBS, "job", propagationPolicy=policy)
    api.collect_garbage()
    await asyncio.sleep(2)

    assert read(api, JOBS, "job") is None
    assert len(objects(api, PODS)) == left


@pytest.mark.parametrize("blocks", [True, False])
@in_virtual_time
async def test_a_deletion_in_the_foreground_waits_for_those_that_say_so(blocks: bool) -> None:
    api = MemoryApi()
    uid = apply_job(api, "job", {"schedule": "* * * * *"})["metadata"]["uid"]
    owner = {"apiVersion": JOBS.api_version, "kind": "ScheduledJob", "name": "job", "uid": uid}
    create(api, pod("x", finalizers=["example.com/hold"], ownerReferences=[owner | {"blockOwnerDeletion": blocks}]))

    delete(api, JOBS, "job", propagationPolicy="Foreground")
    api.collect_garbage()

    assert (read(api, JOBS, "job") is not None) == blocks
    assert ["deletionTimestamp" in pod["metadata"] for pod in objects(api, PODS)] == [True]


@in_virtual_time
async def test_what_has_another_owner_left_stays() -> None:
    api = MemoryApi()
    owners = [
        {"apiVersion": JOBS.api_version, "kind": "ScheduledJob", "name": name}
        | {"uid": apply_job(api, name, {"schedule": "* * * * *"})["metadata"]["uid"]}
        for name in ("a", "b")
    ]
    create(api, pod("x", ownerReferences=owners))

    delete(api, JOBS, "a")
    api.collect_garbage()

    assert read(api, PODS, "x") is not None


# Reads


@in_virtual_time
async def test_every_answer_has_the_servers_date_in_whole_seconds() -> None:
    api = MemoryApi()
    api.clock.offset_seconds = 3_600
    await asyncio.sleep(1.999)

    assert ask(api, "GET", NAMESPACES.path(None, "default")).headers["date"] == "Mon, 02 Mar 2026 10:00:01 GMT"
    assert ask(api, "GET", PODS.path("default", "x")).headers["date"] == "Mon, 02 Mar 2026 10:00:01 GMT"


@pytest.mark.parametrize(
    ("selector", "names"),
    [
        ("role=claim", "ab"),
        ("role==claim,bucket!=2", "a"),
        ("role in (run, member)", "c"),
        ("role notin (claim)", "cd"),
        ("bucket", "abc"),
        ("!bucket", "d"),
        ("bucket in (1,3),role", "ac"),
    ],
)
@in_virtual_time
async def test_lists_are_selected_by_labels(selector: str, names: str) -> None:
    api = MemoryApi()
    labels = {
        "a": {"role": "claim", "bucket": "1"},
        "b": {"role": "claim", "bucket": "2"},
        "c": {"role": "run", "bucket": "3"},
    }
    for name in "abcd":
        create(api, lease(name, labels=labels.get(name, {})))

    found = succeed(ask(api, "GET", LEASES.path("default"), labelSelector=selector))

    assert "".join(item["metadata"]["name"] for item in found["items"]) == names
    assert found["metadata"]["resourceVersion"] == str(api.store.revision)


@in_virtual_time
async def test_lists_are_selected_by_fields_that_the_resource_has() -> None:
    api = MemoryApi()
    for name in "ab":
        create(api, pod(name))
    start_pod(api, "b")

    by_name = succeed(ask(api, "GET", PODS.path(), fieldSelector="metadata.name=a"))["items"]
    by_phase = succeed(ask(api, "GET", PODS.path(), fieldSelector="status.phase!=Pending"))["items"]

    assert [len(by_name), by_name[0]["metadata"]["name"], by_phase[0]["metadata"]["name"]] == [1, "a", "b"]
    assert ask(api, "GET", PODS.path(), fieldSelector="spec.colour=red").status == 400


@in_virtual_time
async def test_a_list_in_chunks_is_of_one_revision_whatever_is_written_meanwhile() -> None:
    api = MemoryApi()
    for name in "abc":
        create(api, lease(name))
    revision = api.store.revision

    first = succeed(ask(api, "GET", LEASES.path(), limit="2"))
    delete(api, LEASES, "c")
    second = succeed(ask(api, "GET", LEASES.path(), limit="2", **{"continue": first["metadata"]["continue"]}))

    assert [item["metadata"]["name"] for item in first["items"] + second["items"]] == ["a", "b", "c"]
    assert first["metadata"]["remainingItemCount"] == 1
    assert second["metadata"] == {"resourceVersion": str(revision)}


@in_virtual_time
async def test_a_list_half_read_begins_anew_after_a_compaction() -> None:
    api = MemoryApi()
    for name in "abc":
        create(api, lease(name))
    token = succeed(ask(api, "GET", LEASES.path(), limit="2"))["metadata"]["continue"]

    api.compact()

    answer = ask(api, "GET", LEASES.path(), limit="2", **{"continue": token})
    assert (answer.status, status_of(answer)["reason"]) == (410, "Expired")


@in_virtual_time
async def test_metadata_alone_is_to_be_had_of_lists_objects_and_creates() -> None:
    api = MemoryApi()
    body = orjson.dumps(lease("x"))

    made = api.commit(api.arrive("POST", LEASES.path("default"), body=body, accept=METADATA_ONLY))
    got = api.commit(api.arrive("GET", LEASES.path("default", "x"), accept=METADATA_ONLY))
    listed = succeed(api.commit(api.arrive("GET", LEASES.path(), accept=METADATA_LIST)))

    assert made.body == got.body
    assert succeed(got).keys() == {"kind", "apiVersion", "metadata"}
    assert (listed["kind"], listed["items"]) == ("PartialObjectMetadataList", [succeed(got)])


@pytest.mark.parametrize("path", ["/apis/batch/v1/jobs", "/api/v1/namespaces/default/pods/x/exec", "/metrics", "/"])
@in_virtual_time
async def test_other_paths_lead_nowhere(path: str) -> None:
    api = MemoryApi()
    create(api, pod("x"))

    assert ask(api, "GET", path).status == 404


@in_virtual_time
async def test_a_pods_log_is_what_the_test_says() -> None:
    api = MemoryApi()
    create(api, pod("x"))
    api.logs["default", "x"] = "one\ntwo\n"

    assert ask(api, "GET", PODS.path("default", "x", "log")).body == b"one\ntwo\n"


# Watches


@in_virtual_time
async def test_a_watch_tells_all_that_came_after_its_revision_in_order() -> None:
    api = MemoryApi()
    create(api, lease("a"))
    lines = watch(api, LEASES, resourceVersion=str(api.store.revision))

    create(api, lease("b"))
    ask(api, "PATCH", LEASES.path("default", "b"), {"spec": {"holderIdentity": "b"}})
    delete(api, LEASES, "b")

    assert lines.told == [("ADDED", "b"), ("MODIFIED", "b"), ("DELETED", "b")]
    revisions = [int(event["object"]["metadata"]["resourceVersion"]) for event in lines.events]
    assert revisions == sorted(set(revisions))


@in_virtual_time
async def test_a_watch_from_no_revision_begins_with_what_is_there() -> None:
    api = MemoryApi()
    create(api, lease("a"))

    lines = watch(api, LEASES, accept=METADATA_ONLY)
    create(api, lease("b"))

    assert lines.told == [("ADDED", "a"), ("ADDED", "b")]
    assert {event["object"]["kind"] for event in lines.events} == {"PartialObjectMetadata"}


@in_virtual_time
async def test_a_watch_from_an_earlier_revision_catches_up() -> None:
    api = MemoryApi()
    before = str(api.store.revision)
    for name in "ab":
        create(api, pod(name))
    actors.delete_pod(api, "a")

    lines = watch(api, PODS, resourceVersion=before, fieldSelector="metadata.name=a")

    assert lines.told == [("ADDED", "a"), ("DELETED", "a")]


@in_virtual_time
async def test_objects_come_and_go_as_their_labels_begin_and_cease_to_fit() -> None:
    api = MemoryApi()
    lines = watch(api, LEASES, labelSelector="role=claim", resourceVersion=str(api.store.revision))
    create(api, lease("a"))

    for role in ("claim", "run", "claim"):
        ask(api, "PATCH", LEASES.path("default", "a"), {"metadata": {"labels": {"role": role}}})
    delete(api, LEASES, "a")

    assert lines.told == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a"), ("DELETED", "a")]
    assert lines.events[1]["object"]["metadata"]["labels"] == {"role": "claim"}


@pytest.mark.parametrize("as_event", [False, True])
@in_virtual_time
async def test_a_watch_from_too_old_a_revision_is_gone(as_event: bool) -> None:
    api = MemoryApi(history=2)
    api.options.gone_as_event = as_event
    old = api.store.revision
    for name in "abcd":
        create(api, lease(name))
    lines = Lines()

    opened = api.watch(api.arrive("GET", LEASES.path(), query={"watch": "1", "resourceVersion": str(old + 1)}), lines)

    status = (
        lines.events[0]["object"]
        if as_event
        else status_of(opened if isinstance(opened, Response) else Response(0, b""))
    )
    assert (status["code"], status["reason"], lines.ended) == (410, "Expired", as_event)
    assert watch(api, LEASES, resourceVersion=str(old + 2)).told == [("ADDED", "c"), ("ADDED", "d")]


@in_virtual_time
async def test_a_watch_from_the_future_is_refused() -> None:
    api = MemoryApi()

    answer = api.watch(api.arrive("GET", PODS.path(), query={"watch": "1", "resourceVersion": "99999"}), Lines())

    assert isinstance(answer, Response)
    assert answer.status == 504


@in_virtual_time
async def test_bookmarks_come_each_minute_and_two_seconds_before_the_end() -> None:
    api = MemoryApi()
    revision = str(api.store.revision)
    lines = watch(api, LEASES, resourceVersion=revision, allowWatchBookmarks="true", timeoutSeconds="90")
    short = watch(api, LEASES, resourceVersion=revision, allowWatchBookmarks="true", timeoutSeconds="5")
    create(api, pod("x"))

    await asyncio.sleep(3.5)
    assert [(e["type"], e["object"]["metadata"]["resourceVersion"]) for e in short.events] == [
        ("BOOKMARK", str(api.store.revision))
    ]
    assert not short.ended
    await asyncio.sleep(100)

    assert [event["type"] for event in lines.events] == ["BOOKMARK", "BOOKMARK"]
    assert (lines.ended, short.ended, api.watches) == (True, True, set())


@in_virtual_time
async def test_bookmarks_may_be_behind_the_revision_of_a_list() -> None:
    api = MemoryApi()
    api.options.bookmarks_behind = True
    lines = watch(api, LEASES, resourceVersion=str(api.store.revision), allowWatchBookmarks="true", timeoutSeconds="5")
    shown = succeed(create(api, lease("a")))["metadata"]["resourceVersion"]
    create(api, pod("x"))

    await asyncio.sleep(4)

    assert lines.events[-1]["type"] == "BOOKMARK"
    assert lines.events[-1]["object"]["metadata"]["resourceVersion"] == shown != str(api.store.revision)


# The ledger


@in_virtual_time
async def test_the_ledger_counts_every_launch_even_of_pods_that_are_gone() -> None:
    api = MemoryApi()
    api.options.fence = False
    labels = {"quarterjack.dev/job-uid": "u", LABEL: "1772442000"}
    for name, attempt in (("x", "1"), ("y", "2"), ("z", "1")):
        create(api, pod(name, labels=labels, annotations={"quarterjack.dev/attempt": attempt}))
        actors.delete_pod(api, name)

    assert api.ledger.launches() == {("u", 1772442000, "", 1, ""): 2, ("u", 1772442000, "", 2, ""): 1}
    assert [entry.name for entry in api.ledger.doubles()] == ["x", "z"]
    assert api.ledger.firings("u") == [1772442000]


@in_virtual_time
async def test_a_kubelet_runs_ends_and_stops_pods() -> None:
    api = MemoryApi()
    ends = {"good": actors.End(10), "bad": actors.End(10, "Failed", 3, "no disk"), "stopped": actors.End(None)}
    actors.Kubelet(api, ends=lambda document: ends[document["metadata"]["name"]])
    for name in ends:
        create(api, pod(name))

    await asyncio.sleep(5)
    running = [document["status"]["phase"] for document in objects(api, PODS)]
    actors.delete_pod(api, "stopped")
    await asyncio.sleep(10)

    assert running == ["Running"] * 3
    bad, good = objects(api, PODS)
    assert (good["status"]["phase"], bad["status"]["phase"]) == ("Succeeded", "Failed")
    assert bad["status"]["containerStatuses"][0]["state"]["terminated"]["message"] == "no disk"
