"""The jobs of the stage."""

from __future__ import annotations

import time

from tests.api.installation import Document
from tests.node.jobs import FOR_EVER, container, job

SCARCE = "scarce"
REFUSED = {"refused": "at-length"}
REFUSAL = "not today\x1b[31m\npassword=hunter2\n" + "x" * 900 * 1024
NO_SUCH_IMAGE = "127.0.0.1:9/no/such:image"
EVERY_10_SECONDS = "*/10 * * * * *"

SCENERY = (
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": SCARCE}, "value": 1},
    {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none-of-them"},
        "spec": {
            "hard": {"pods": "0"},
            "scopeSelector": {
                "matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": [SCARCE]}]
            },
        },
    },
)

_FILES = {"volumes": [{"name": "files", "emptyDir": {}}]}
_FAILS_ONCE = "test -e /files/tried && { echo second time > /dev/termination-log; exit 0; }; touch /files/tried; exit 9"
_MEMORY = {"limits": {"memory": "32Mi"}}
# Fails, or not, by the second of its firing.
_MIXED = """
second=${SCHEDULED_TIME#*:*:}; second=${second%Z}; second=${second#0}
case $((second / 6 % 4)) in
  0) exit 0;;
  1) exit 1;;
  2) exec tail /dev/zero;;
  3) sleep 3600;;
esac
"""

# Each runs once and ends by itself.
ENDINGS = (
    job("succeeds", "echo one; printf '12 rows\\nand more' > /dev/termination-log"),
    job("fails-with-a-message", "echo one; printf 'first\\nlast token=hunter2' > /dev/termination-log; exit 3"),
    job("fails-with-a-log", "echo one; echo no route to host; exit 4"),
    job("fails-silently", "exit 5"),
    # Kubernetes makes $$ of $$$$, and the shell its own process id of that.
    job("ends-by-a-signal", "kill -SEGV $$$$", pod={"shareProcessNamespace": True}),
    job("takes-too-much", pod={"containers": [container("exec tail /dev/zero", resources=_MEMORY)]}),
    job("has-no-command", pod={"containers": [container("") | {"command": ["/no/such/command"]}]}),
    job("takes-too-long", "trap 'exit 1' TERM; sleep 3600 & wait", activeDeadlineSeconds=30),
    job(
        "has-two-containers",
        pod={"containers": [container("exit 0"), container(FOR_EVER, name="beside")]},
        activeDeadlineSeconds=30,
    ),
    job(
        "has-a-sidecar",
        "sleep 2; echo done > /dev/termination-log",
        pod={"initContainers": [container(f"echo sidecar; {FOR_EVER}", name="beside", restartPolicy="Always")]},
    ),
    job(
        "fails-beside-a-sidecar",
        "sleep 2; exit 6",
        pod={"initContainers": [container(f"echo sidecar; {FOR_EVER}", name="beside", restartPolicy="Always")]},
    ),
    job(
        "succeeds-the-second-time",
        pod={
            "restartPolicy": "OnFailure",
            "containers": [container(_FAILS_ONCE, volumeMounts=[{"name": "files", "mountPath": "/files"}])],
        }
        | _FILES,
    ),
)

# What somebody does to their Pods is up to the tests.
VICTIMS = (
    job("is-evicted", FOR_EVER),
    job("is-deleted", FOR_EVER, schedule=EVERY_10_SECONDS),
    job("is-held", FOR_EVER, schedule=EVERY_10_SECONDS),
)

STUCK = (
    # Several firings are due while one of its runs is: on a busy machine one may be looked at only after that.
    job(
        "outlasts-its-schedule", FOR_EVER, schedule="*/2 * * * * *", activeDeadlineSeconds=20, failedRunsHistoryLimit=50
    ),
    job(
        "has-no-image",
        pod={"containers": [container("exit 0", image=NO_SUCH_IMAGE, imagePullPolicy="IfNotPresent")]},
        schedule=EVERY_10_SECONDS,
        activeDeadlineSeconds=30,
    ),
)

# Made by their tests, for what is refused is tried again ever more rarely.
HAS_NO_QUOTA = job("has-no-quota", "exit 0", pod={"priorityClassName": SCARCE})
IS_REFUSED = job("is-refused-at-length", "exit 0", labels=REFUSED)

ALL = (*ENDINGS, *VICTIMS, *STUCK)


def mixed(minute: time.struct_time) -> Document:
    """Ends in each way in turn, for one minute."""
    return job(
        "ends-in-many-ways",
        pod={"containers": [container(_MIXED, resources=_MEMORY)]},
        schedule=f"*/6 {minute.tm_min} {minute.tm_hour} * * *",
        concurrencyPolicy="Allow",
        activeDeadlineSeconds=30,
        successfulRunsHistoryLimit=2,
        failedRunsHistoryLimit=2,
        podHistoryLimit=1,
    )
