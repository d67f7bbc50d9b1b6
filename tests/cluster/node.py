"""A real node: containerd, kubelet and kube-proxy in namespaces of their own.

Its mounts, interfaces and iptables rules live in a mount and a network namespace which a process called `sandbox`
holds; inside, /run, /var/lib and /var/log are the cluster's own. So the host sees one link and one cgroup, and when
the last process of the node ends, the rest is gone.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from tests.cluster import cgroups, image, node_config, packages
from tests.cluster.api import Api
from tests.cluster.build import program_path
from tests.cluster.errors import ClusterError, PrerequisiteMissingError
from tests.cluster.layout import Layout
from tests.cluster.processes import Process, wait_until

COMPONENTS = ("sandbox", "containerd", "kubelet", "kube-proxy")
_READY_SECONDS = 90

_ENTER = """
mount --make-rshared /
for parameter in {config}/sysctl/*; do
  mount --bind $parameter /proc/sys/$(basename $parameter | tr . /)
done
mount --bind {root}/lib /var/lib
mount --bind {root}/log /var/log
mount -t tmpfs tmpfs /run
echo 1 > /proc/sys/net/ipv4/ip_forward
ip link set lo up
exec sleep infinity
"""


def ensure_prerequisites() -> None:
    """Install what a node needs, or say what is missing."""
    if platform.system() != "Linux" or os.geteuid() != 0:
        raise PrerequisiteMissingError("root on Linux", "containers of a real node; simulated nodes need no root")
    packages.ensure(packages.NODE)


def enter(layout: Layout) -> None:
    """Make the node's namespaces, its cgroup and its link to the host, if they are not there."""
    sandbox = _process(layout, "sandbox")
    if sandbox.pid():
        return
    _check_place(layout)
    # Without its sandbox a node is as after a power cut: what still runs of it is outside the new namespaces.
    remove(layout)
    cgroups.create(layout.cgroup)
    node_config.write(layout)
    script = _ENTER.format(root=layout.root, config=layout.config)
    unshare = ["unshare", "--mount", "--net", "--propagation", "slave"]
    pid = sandbox.start([*unshare, "sh", "-e", "-c", script])
    cgroups.add_service(layout.cgroup, pid)
    comm = Path(f"/proc/{pid}/comm")
    wait_until("the sandbox is set up", lambda: comm.read_text() == "sleep\n", within_seconds=10, alive=[sandbox])
    _link(layout, pid)


def _check_place(layout: Layout) -> None:
    for hidden in ("/run", "/var/lib", "/var/log"):
        if layout.root.resolve().is_relative_to(hidden):
            raise ClusterError(f"state of a node cannot be under {hidden}: set QUARTERJACK_STATE to another directory")


def _link(layout: Layout, pid: int) -> None:
    """Join host and node by a pair of interfaces, and let the host reach Pods and Services through the node."""
    link, inside = layout.link, ["nsenter", "--target", str(pid), "--net", "ip"]
    _run("ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
    _run("ip", "addr", "add", f"{layout.host_ip}/30", "dev", link)
    _run("ip", "link", "set", link, "up")
    _run(*inside, "addr", "add", f"{layout.node_ip}/30", "dev", "eth0")
    _run(*inside, "link", "set", "eth0", "up")
    _run(*inside, "route", "add", "default", "via", layout.host_ip)
    for network in (layout.pod_cidr, layout.service_cidr):
        _run("ip", "route", "add", network, "via", layout.node_ip)


def start(layout: Layout, api: Api, flags: Mapping[str, Sequence[str]]) -> None:
    """Start what is not running of containerd, kubelet and kube-proxy; return when the Node is ready for Pods."""
    fresh = not _process(layout, "containerd").pid()
    start_component(layout, "containerd", flags.get("containerd", []))
    if fresh:
        for archive in image.standard_archives(layout.root / "images"):
            load_image(layout, archive)
    for component in ("kubelet", "kube-proxy"):
        start_component(layout, component, flags.get(component, []))
    alive = [_process(layout, name) for name in COMPONENTS]
    wait_until("the node is ready", lambda: is_ready(api, layout.node_name), within_seconds=_READY_SECONDS, alive=alive)


def start_component(layout: Layout, component: str, flags: Sequence[str] = ()) -> None:
    """Start containerd, kubelet or kube-proxy, unless it runs."""
    process = _process(layout, component)
    if not process.pid():
        command = [*_inside(layout), str(program_path(component)), *node_config.flags(layout, component), *flags]
        path = f"{program_path('containerd').parent}:{os.environ.get('PATH', os.defpath)}"
        pid = process.start(command, {"PATH": path})
        cgroups.add_service(layout.cgroup, pid)
    if component == "containerd":
        wait_until("containerd serves", lambda: _containerd_serves(layout), within_seconds=90, alive=[process])


def is_ready(api: Api, name: str) -> bool:
    """Tell whether the Node `name` is Ready and takes Pods."""
    answer = api.get(f"/api/v1/nodes/{name}")
    if answer.status != 200:
        return False
    found = answer.json()
    conditions = {each["type"]: each["status"] for each in found["status"].get("conditions", [])}
    return conditions.get("Ready") == "True" and not found["spec"].get("taints")


def load_image(layout: Layout, archive: Path) -> None:
    """Import the images of an OCI archive."""
    _run(*_ctr(layout), "images", "import", "--local", str(archive))


def remove(layout: Layout) -> None:
    """Kill all processes of the node, if there is one; with them its namespaces end. Remove its cgroup and its link."""
    cgroups.remove(layout.cgroup)
    for component in COMPONENTS:
        _process(layout, component).forget()
    if Path("/sys/class/net", layout.link).exists():
        # The kernel removes it too, some time after the namespace: whoever is first.
        with suppress(ClusterError):
            _run("ip", "link", "delete", layout.link)


def _containerd_serves(layout: Layout) -> bool:
    return subprocess.run([*_ctr(layout), "version"], capture_output=True, check=False).returncode == 0


def _ctr(layout: Layout) -> list[str]:
    return [*_inside(layout), str(program_path("ctr")), "--namespace", "k8s.io"]


def _inside(layout: Layout) -> list[str]:
    pid = _process(layout, "sandbox").pid()
    if pid is None:
        raise ClusterError(f"cluster {layout.name!r} has no node: start it with --mode node")
    return ["nsenter", "--target", str(pid), "--mount", "--net", "--"]


def _process(layout: Layout, component: str) -> Process:
    return Process(component, layout.pids, layout.logs)


def _run(*command: str) -> None:
    if not shutil.which(command[0]):
        raise ClusterError(f"{command[0]} is missing")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode:
        raise ClusterError(f"{' '.join(command)}: {result.stderr.strip()}")
