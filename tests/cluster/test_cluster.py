"""The cluster itself: that it is what it claims to be, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster import Cluster, ClusterError, PrerequisiteMissingError, cgroups, kwok, node, state
from tests.cluster.api import Api
from tests.cluster.build import build, program_path
from tests.cluster.cluster import down_abandoned
from tests.cluster.image import BUSYBOX, build_from_directory
from tests.cluster.processes import Process, process_alive, stop, wait_until

REFUSE_STALE = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicy",
    "metadata": {"name": "stale"},
    "spec": {
        "failurePolicy": "Fail",
        "matchConstraints": {
            "objectSelector": {"matchLabels": {"stale": "checked"}},
            "resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}
            ],
        },
        "validations": [
            {
                "expression": "timestamp(object.metadata.creationTimestamp) <= timestamp(object.data.notAfter)",
                "message": "too late",
            }
        ],
    },
}
BIND_REFUSE_STALE = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingAdmissionPolicyBinding",
    "metadata": {"name": "stale"},
    "spec": {"policyName": "stale", "validationActions": ["Deny"]},
}


@pytest.fixture
def spare() -> Iterator[Cluster]:
    """A cluster that is not started and that a test may break; removed after the test."""
    cluster = Cluster(f"spare-{os.getpid()}")
    yield cluster
    cluster.down()


def pod(name: str, command: str, **spec: Any) -> str:
    container = {"name": "main", "image": BUSYBOX, "imagePullPolicy": "Never", "command": ["sh", "-c", command]}
    full_spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 0, "containers": [container], **spec}
    return yaml.safe_dump({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": full_spec})


def get(cluster: Cluster, kind: str, name: str) -> Any:
    return cluster.api.get(f"/api/v1/namespaces/default/{kind}/{name}").json()


def await_phase(cluster: Cluster, name: str, phase: str) -> Any:
    def reached() -> bool:
        return bool(get(cluster, "pods", name)["status"]["phase"] == phase)

    wait_until(f"Pod {name} is {phase}", reached, within_seconds=60)
    return get(cluster, "pods", name)


def dry_run(cluster: Cluster, name: str, not_after: str) -> int:
    labels = {"stale": "checked"}
    body = {"metadata": {"name": name, "labels": labels}, "data": {"notAfter": not_after}}
    return cluster.api.post("/api/v1/namespaces/default/configmaps?dryRun=All", body).status


# What needs no cluster


def test_a_missing_go_is_named_with_what_else_would_serve(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUARTERJACK_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(PrerequisiteMissingError, match=r"missing prerequisite: go .*CLUSTER=current"):
        build(["etcd"])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("Demo", id="upper case"),
        pytest.param("../demo", id="a way out of the state directory"),
        pytest.param("d" * 33, id="too long"),
        pytest.param("", id="empty"),
    ],
)
def test_a_name_that_is_no_safe_directory_is_refused(name: str) -> None:
    with pytest.raises(ClusterError, match="cluster name"):
        Cluster(name)


def test_a_cluster_that_does_not_exist_says_so() -> None:
    with pytest.raises(ClusterError, match="there is no cluster 'never-started'"):
        _ = Cluster("never-started").url


def test_removing_a_cluster_that_does_not_exist_is_no_error() -> None:
    Cluster("never-started").down()


def test_a_pid_file_of_an_earlier_boot_is_not_taken_for_a_process_of_this_one(tmp_path: Path) -> None:
    process = Process("sleeper", tmp_path / "pids", tmp_path / "logs")
    pid = process.start(["sleep", "60"])
    written = (tmp_path / "pids" / "sleeper.json").read_text()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()

    (tmp_path / "pids" / "sleeper.json").write_text(written.replace(boot_id, "another-boot"))
    of_another_boot = process.pid()
    (tmp_path / "pids" / "sleeper.json").write_text(written)

    assert (of_another_boot, process.pid()) == (None, pid)
    stop([process], grace_seconds=0)
    assert process.pid() is None


def test_a_program_that_died_before_its_start_was_noted_is_not_alive(tmp_path: Path) -> None:
    process = Process("breaker", tmp_path / "pids", tmp_path / "logs")
    pid = process.start(["true"])
    wait_until("it has ended", lambda: not process_alive(pid), within_seconds=10)
    pid_file = tmp_path / "pids" / "breaker.json"
    noted = json.loads(pid_file.read_text())

    pid_file.write_text(json.dumps({**noted, "start_ticks": None}))

    assert process.pid() is None


def test_a_program_that_dies_while_it_is_awaited_is_named_with_the_end_of_its_log(tmp_path: Path) -> None:
    process = Process("breaker", tmp_path / "pids", tmp_path / "logs")
    process.start(["sh", "-c", "echo the reason; exit 1"])

    with pytest.raises(ClusterError, match=r"(?s)breaker died.*the reason"):
        wait_until("it serves", lambda: False, within_seconds=30, alive=[process])


# The control plane


@pytest.mark.api
def test_the_api_server_reports_its_version(control_plane: Cluster) -> None:
    version = control_plane.api.get("/version").json()

    assert (version["gitVersion"], version["major"], version["minor"]) == ("v1.37.2", "1", "37")


@pytest.mark.api
def test_a_token_of_an_account_without_rights_is_forbidden(control_plane: Cluster) -> None:
    token = control_plane.service_account_token("default", "default")

    answer = Api(control_plane.url, control_plane.ca_path, token).get("/api/v1/namespaces/default/secrets")

    assert answer.status == 403
    assert "system:serviceaccount:default:default" in answer.text


@pytest.mark.api
def test_a_made_up_token_is_unauthorized(control_plane: Cluster) -> None:
    assert Api(control_plane.url, control_plane.ca_path, "made-up").get("/api/v1/namespaces").status == 401


@pytest.mark.api
def test_a_kubeconfig_with_another_token_acts_as_its_account(control_plane: Cluster, tmp_path: Path) -> None:
    token = control_plane.service_account_token("default", "default")
    kubeconfig = control_plane.write_kubeconfig(tmp_path / "kubeconfig", token)

    who = subprocess.run(
        [program_path("kubectl"), f"--kubeconfig={kubeconfig}", f"--cache-dir={tmp_path}", "auth", "whoami"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "system:serviceaccount:default:default" in who.stdout


@pytest.mark.api
def test_a_failing_kubectl_is_an_error_with_its_message(control_plane: Cluster) -> None:
    with pytest.raises(ClusterError, match=r'pods "absent" not found'):
        control_plane.kubectl("get", "pod", "absent")


@pytest.mark.api
def test_starting_it_again_changes_nothing(control_plane: Cluster) -> None:
    before = control_plane.status()

    control_plane.up()

    assert control_plane.status() == before
    assert before["ready"]


@pytest.mark.api
def test_the_controller_manager_restarts_with_other_flags(control_plane: Cluster) -> None:
    control_plane.restart_controller_manager(["--concurrent-cron-job-syncs=50"])

    pid = control_plane.process("kube-controller-manager").pid()
    arguments = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    assert "--concurrent-cron-job-syncs=50" in arguments
    assert not any(argument.startswith("--kube-api-qps") for argument in arguments)
    control_plane.kubectl("create", "namespace", "made-after-restart")
    account = "/api/v1/namespaces/made-after-restart/serviceaccounts/default"
    wait_until("its account", lambda: control_plane.api.get(account).status == 200, within_seconds=90)


@pytest.mark.api
def test_a_policy_can_compare_the_creation_timestamp(control_plane: Cluster) -> None:
    control_plane.kubectl("apply", "-f", "-", stdin=yaml.safe_dump_all([REFUSE_STALE, BIND_REFUSE_STALE]))

    def refused() -> bool:
        return dry_run(control_plane, "late", "2020-01-01T00:00:00Z") == 422

    wait_until("the policy holds", refused, within_seconds=90)

    assert dry_run(control_plane, "in-time", "2999-01-01T00:00:00Z") == 201


@pytest.mark.api
def test_an_api_server_that_was_stopped_answers_again(spare: Cluster) -> None:
    spare.up()
    spare.signal("kube-apiserver", signal.SIGSTOP)

    with socket.create_connection(("127.0.0.1", spare.layout.ports.apiserver)) as connection:
        connection.settimeout(0.5)
        connection.sendall(b"GET /readyz HTTP/1.1\r\n\r\n")
        with pytest.raises(TimeoutError):
            connection.recv(1)
    spare.signal("kube-apiserver", signal.SIGCONT)

    wait_until("it answers", lambda: spare.api.get("/readyz").status == 200, within_seconds=90)


@pytest.mark.api
def test_a_crashed_cluster_starts_anew_beside_a_running_one(control_plane: Cluster, spare: Cluster) -> None:
    spare.up()
    spare.kubectl("create", "namespace", "lost")
    for component in ("etcd", "kube-apiserver"):
        spare.signal(component, signal.SIGKILL)

    spare.up()

    assert spare.api.get("/api/v1/namespaces/lost").status == 404
    assert spare.layout.slot != control_plane.layout.slot
    assert control_plane.status()["ready"]


@pytest.mark.api
def test_simulated_pods_end_as_their_annotations_say(spare: Cluster) -> None:
    spare.up(simulated_nodes=2)
    spare.kubectl("apply", "-f", "-", stdin=pod("good", "ignored"))
    failing = yaml.safe_load(pod("bad", "ignored"))
    failing["metadata"]["annotations"] = {
        "simulated.quarterjack.dev/duration": "200ms",
        "simulated.quarterjack.dev/exit-code": "7",
        "simulated.quarterjack.dev/message": 'said: "no"',
    }
    spare.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(failing))

    good = await_phase(spare, "good", "Succeeded")
    bad = await_phase(spare, "bad", "Failed")

    assert good["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    terminated = bad["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"]) == (7, 'said: "no"')


@pytest.mark.api
def test_a_simulated_container_has_printed_what_it_was_given(spare: Cluster) -> None:
    spare.up(simulated_nodes=1)
    lines = [f"tenant-{number}" for number in range(10_000)]
    kwok.print_lines(spare.layout, lines)
    printing = yaml.safe_load(pod("printing", "ignored"))
    printing["spec"]["containers"][0]["name"] = kwok.PRINTER
    spare.kubectl("apply", "-f", "-", stdin=yaml.safe_dump(printing))
    await_phase(spare, "printing", "Succeeded")

    printed = spare.kubectl("logs", "printing").splitlines()

    assert printed == lines


@pytest.mark.api
def test_a_cluster_of_a_dead_test_session_is_removed(spare: Cluster) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    spare.up(owner=ended.pid)

    removed = down_abandoned()

    assert spare.name in removed
    assert spare.name not in state.existing()


@pytest.mark.api
def test_the_end_of_a_control_plane_leaves_no_process_and_no_file(spare: Cluster) -> None:
    spare.up()
    layout = spare.layout
    pids = spare.status()["processes"].values()

    spare.down()

    assert not any(map(process_alive, pids))
    assert not layout.root.exists()
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", layout.ports.apiserver)) != 0


# The node


@pytest.mark.node
def test_a_pod_runs_to_completion_with_its_exit_code_and_its_log(node_cluster: Cluster) -> None:
    command = "echo it is late; echo summary > /dev/termination-log; exit 3"
    node_cluster.kubectl("apply", "-f", "-", stdin=pod("speaks", command))

    ended = await_phase(node_cluster, "speaks", "Failed")

    terminated = ended["status"]["containerStatuses"][0]["state"]["terminated"]
    assert (terminated["exitCode"], terminated["message"]) == (3, "summary\n")
    assert node_cluster.kubectl("logs", "speaks") == "it is late\n"


@pytest.mark.node
def test_a_pod_outlives_a_restart_of_its_kubelet(node_cluster: Cluster) -> None:
    node_cluster.kubectl("apply", "-f", "-", stdin=pod("outlives", "sleep 3600"))
    await_phase(node_cluster, "outlives", "Running")
    before = node_cluster.process("kubelet").pid()

    node_cluster.restart("kubelet")

    assert node_cluster.process("kubelet").pid() != before
    wait_until("its node is ready", lambda: node.is_ready(node_cluster.api, node_cluster.layout.node_name),
               within_seconds=60)  # fmt: skip
    container = get(node_cluster, "pods", "outlives")["status"]["containerStatuses"][0]
    assert (container["restartCount"], container["ready"]) == (0, True)


@pytest.mark.node
def test_the_host_reaches_a_pod_through_its_service(node_cluster: Cluster) -> None:
    node_cluster.kubectl("run", "serves", f"--image={BUSYBOX}", "--image-pull-policy=Never", "--port=80",
                         "--expose", "--command", "--", "httpd", "-f", "-h", "/etc")  # fmt: skip
    await_phase(node_cluster, "serves", "Running")
    address = get(node_cluster, "services", "serves")["spec"]["clusterIP"]

    def reachable() -> bool:
        with socket.socket() as probe:
            probe.settimeout(1)
            return probe.connect_ex((address, 80)) == 0

    wait_until("the Service is reachable", reachable, within_seconds=90)


@pytest.mark.node
def test_a_directory_becomes_an_image_with_its_entrypoint(node_cluster: Cluster, tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "bin").mkdir(parents=True)
    (root / "bin" / "greet").write_bytes(Path("/bin/busybox").read_bytes())
    (root / "bin" / "greet").chmod(0o755)
    (root / "bin" / "echo").symlink_to("greet")
    archive = tmp_path / "greeter.tar"
    config = {"Entrypoint": ["/bin/echo", "made from a directory"], "User": "65534"}
    build_from_directory(archive, name="quarterjack.dev/greeter:test", directory=root, config=config)

    node_cluster.load_image(archive)
    node_cluster.kubectl("run", "greeter", "--image=quarterjack.dev/greeter:test", "--image-pull-policy=Never",
                         "--restart=Never")  # fmt: skip

    await_phase(node_cluster, "greeter", "Succeeded")
    assert node_cluster.kubectl("logs", "greeter") == "made from a directory\n"


@pytest.mark.node
def test_a_node_is_added_lost_and_found_and_leaves_nothing(spare: Cluster) -> None:
    spare.up()
    spare.kubectl("create", "namespace", "kept")

    spare.up(with_node=True)

    assert spare.api.get("/api/v1/namespaces/kept").status == 200
    spare.kubectl("apply", "-f", "-", stdin=pod("sleeps", "sleep 3600", restartPolicy="Always"))
    await_phase(spare, "sleeps", "Running")

    spare.signal("sandbox", signal.SIGKILL)
    spare.up()

    def restarted() -> bool:
        found = get(spare, "pods", "sleeps")["status"]["containerStatuses"][0]
        return bool(found["restartCount"] and found["ready"])

    wait_until("the Pod runs again", restarted, within_seconds=60)
    assert spare.kubectl("exec", "sleeps", "--", "echo", "back") == "back\n"
    layout, pids = spare.layout, cgroups.pids(spare.layout.cgroup)
    assert len(pids) >= 6

    spare.down()

    assert not any(map(process_alive, pids))
    assert not cgroups.exists(layout.cgroup)
    assert not Path("/sys/class/net", layout.link).exists()
    assert str(layout.root) not in Path("/proc/mounts").read_text()
    assert not layout.root.exists()
