"""A fan-out for real: what a plan prints on a node becomes units, and what becomes of them is on record."""

from __future__ import annotations

import json

import pytest

from tests.api.installation import Document, Installation
from tests.node.jobs import await_end, job, lines, pods, verdict

pytestmark = pytest.mark.node

UNITS = '{"units": ["acme", "globex", "Zürich 8001"], "note": "of 4 tenants"}'
DIGEST = """
case $RUN_UNIT in
  globex) echo no such tenant; exit 3;;
esac
echo "digest of $OPTION_TENANT" > /dev/termination-log
"""


def command(script: str) -> list[str]:
    return ["sh", "-c", script]


def digest(name: str, plan: str) -> Document:
    option = {"name": "tenant", "type": "String", "required": False}
    fan_out = {"plan": {"command": command(plan)}, "unitOption": "tenant", "maxParallel": 2}
    retry = {"maxRetries": 1, "delay": "1s"}
    return job(name, DIGEST, fanOut=fan_out, options=[option], retry=retry, podHistoryLimit=10)


def run(name: str, of: str, unit: str) -> Document:
    return {
        "apiVersion": "quarterjack.dev/v1alpha1",
        "kind": "ScheduledJobRun",
        "metadata": {"name": name},
        "spec": {"scheduledJobName": of, "unit": unit},
    }


def test_units_that_a_plan_prints_run_and_one_that_fails_is_a_dead_letter_that_can_be_run_again(
    stage: Installation,
) -> None:
    stage.apply([digest("fans-out", f"echo looking; echo '{UNITS}'")])

    line = await_end(stage, "fans-out")

    assert verdict(line) == ("Failed", "DeadLetters", "2 of 3 units succeeded, 1 dead letter (of 4 tenants)")
    [letter] = [line for line in lines(stage, "fans-out") if line["state"] == "DeadLettered"]
    assert (letter["unit"], letter["attempt"]) == ("globex", 2)
    assert letter["message"] == "Gave up after 2 attempts: no such tenant"
    told = sorted(pod["metadata"]["annotations"].get("quarterjack.dev/unit", "") for pod in pods(stage, "fans-out"))
    assert told == ["", "Zürich 8001", "acme", "globex", "globex"]
    ledger = stage.kubectl.out(
        "get", "configmaps", "-l", "quarterjack.dev/job=fans-out", "-o", "jsonpath={.items[*].data.units}"
    )
    kept = {unit["unit"]: unit.get("message", "") for unit in map(json.loads, ledger.splitlines())}
    assert kept == {
        "acme": "digest of acme",
        "globex": "Gave up after 2 attempts: no such tenant",
        "Zürich 8001": "digest of Zürich 8001",
    }

    stage.kubectl.out("create", "-f", "-", stdin=json.dumps(run("once-more", "fans-out", "globex")))

    def status() -> Document:
        found: Document = stage.kubectl.get("scheduledjobrun", "once-more").get("status") or {}
        return found

    stage.wait_for("it is over", lambda: status().get("completionTime"), seconds=60)
    assert (status()["state"], status()["message"]) == ("DeadLettered", letter["message"])


def test_what_a_plan_warns_of_on_its_standard_error_is_no_unit(stage: Installation) -> None:
    plan = """echo slow >&2; echo looking; echo '{"units": ["acme", "globex"]}'; echo late >&2"""
    stage.apply([digest("warns", plan)])

    line = await_end(stage, "warns")

    assert line["message"] == "1 of 2 units succeeded, 1 dead letter"
    told = {pod["metadata"]["annotations"].get("quarterjack.dev/unit", "") for pod in pods(stage, "warns")}
    assert told == {"", "acme", "globex"}


@pytest.mark.parametrize(
    ("name", "plan", "reason"),
    [
        pytest.param("plans-nothing", "exit 0", "PlanEmpty", id="nothing"),
        pytest.param("plans-garbage", r"printf '\377\376'", "PlanInvalid", id="garbage"),
        pytest.param("plans-too-many", "seq 10001", "PlanInvalid", id="10,001 units"),
        pytest.param("plans-in-vain", "echo acme; exit 7", "ExitCode", id="units, and fails"),
    ],
)
def test_a_plan_that_gives_no_units_fails_the_run(stage: Installation, name: str, plan: str, reason: str) -> None:
    stage.apply([digest(name, plan)])

    line = await_end(stage, name)

    assert verdict(line)[:2] == ("Failed", reason)
    given_up = lambda: [line["state"] for line in lines(stage, name)] == ["Failed", "Failed"]  # noqa: E731
    stage.wait_for("it is given up", given_up, seconds=60)
    assert [pod["metadata"]["annotations"].get("quarterjack.dev/unit") for pod in pods(stage, name)] == [None, None]
