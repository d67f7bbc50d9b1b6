"""A Kubernetes cluster of our own on this machine: a control plane, and on request a node or simulated nodes."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.cluster import control_plane, kwok, node, state
from tests.cluster.api import Api
from tests.cluster.build import CONTROL_PLANE, NODE, SIMULATED_NODES, build, kubernetes_version, program_path
from tests.cluster.errors import ClusterError
from tests.cluster.layout import NO_SLOT, Layout, state_root
from tests.cluster.pki import write_kubeconfig
from tests.cluster.processes import Process, own_environment, stop, wait_until

READY_SECONDS = 90
# With its default of 20 requests a second the controller manager takes 5 s to start, for it makes an account for each
# controller. What measures the default starts it without: restart_controller_manager().
QUICK_START = {"kube-controller-manager": ("--kube-api-qps=200", "--kube-api-burst=400")}
# Small heaps are collected so often here that it costs a third of the API server's time; memory is not what lacks.
_ENVIRONMENT = {"GOGC": "400"}
_GRACE_SECONDS = 5
_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}[a-z0-9]")


class Cluster:
    """The cluster `name`, whether it runs or not.

    Safe to make anywhere: only `up`, `down` and what is named after an act change anything.
    """

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ClusterError(f"cluster name {name!r}: lower-case letters, digits and -, 2 to 32 characters")
        self.name = name

    # What it is

    @property
    def state(self) -> state.State:
        found = state.load(self.name)
        if found is None:
            raise ClusterError(f"there is no cluster {self.name!r}; start it with: python -m tests.cluster up")
        return found

    @property
    def layout(self) -> Layout:
        return Layout(self.name, self.state.slot)

    @property
    def url(self) -> str:
        """Where the API server is; Pods of a node must reach it too, so then it is not the loopback address."""
        return f"https://{self._bind_address}:{self.layout.ports.apiserver}"

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    @property
    def ca_path(self) -> Path:
        return control_plane.cluster_authority(self.layout).certificate

    @property
    def admin_token(self) -> str:
        return control_plane.admin_token(self.layout)

    @property
    def api(self) -> Api:
        return Api(self.url, self.ca_path, self.admin_token)

    @cached_property
    def version(self) -> str:
        return kubernetes_version()

    @property
    def log_dir(self) -> Path:
        return self.layout.logs

    @property
    def _bind_address(self) -> str:
        return self.layout.host_ip if self.state.node else "127.0.0.1"

    # Starting and ending

    def up(
        self,
        *,
        with_node: bool = False,
        simulated_nodes: int = 0,
        flags: Mapping[str, Sequence[str]] | None = None,
        owner: int = 0,
    ) -> None:
        """Start the cluster, or add what it lacks; return when the API server, and the nodes, are ready.

        `flags` are put after a component's own; a new cluster has QUICK_START where they name no others. The remains
        of a crash are cleared first: a cluster without etcd or API server has lost what it was, and starts anew.
        """
        if with_node:
            node.ensure_prerequisites()
        build([*CONTROL_PLANE, *(NODE if with_node else ()), *(SIMULATED_NODES if simulated_nodes else ())])
        with state.lock(self.name):
            self._clear_remains()
            given = dict(flags or {})
            if state.load(self.name) is None:
                self._create(owner)
                given = {**QUICK_START, **given}
            self._extend(with_node, simulated_nodes, given)
            self._start()

    def down(self) -> None:
        """End every process of the cluster and remove all that it has left on this machine."""
        with state.lock(self.name):
            self._remove()

    def running(self) -> bool:
        """Tell whether the control plane's core lives: etcd and the API server."""
        found = state.load(self.name)
        return found is not None and all(self.process(name).pid() for name in ("etcd", "kube-apiserver"))

    def _clear_remains(self) -> None:
        if not self.running():
            self._remove()

    def _create(self, owner: int) -> None:
        layout, _ = state.create(self.name, owner)
        control_plane.create_credentials(layout)

    def _extend(self, with_node: bool, simulated_nodes: int, flags: Mapping[str, Sequence[str]]) -> None:
        """Note what is asked for; a control plane that moves to another address, or gets other flags, is stopped."""
        known = self.state
        changed = {name for name, value in flags.items() if known.flags.get(name, []) != list(value)}
        if with_node and not known.node:
            changed |= set(control_plane.COMPONENTS) | {"kwok"}
        self.stop_components(*sorted(changed))
        known.node |= with_node
        known.simulated_nodes = max(simulated_nodes, known.simulated_nodes)
        known.flags |= {name: list(value) for name, value in flags.items()}
        known.save(self.layout)

    def _start(self) -> None:
        control_plane.write_kubeconfigs(self.layout, self.url)
        if self.state.node:
            node.enter(self.layout)
        self.start_component("etcd")
        self.start_component("kube-apiserver")
        self.start_component("kube-controller-manager")
        self.start_component("kube-scheduler")
        self._await("the default ServiceAccount", "/api/v1/namespaces/default/serviceaccounts/default")
        if self.state.node:
            node.start(self.layout, self.api, self.state.flags)
        if self.state.simulated_nodes:
            self.start_component("kwok")
            kwok.ensure_nodes(self.api, self.state.simulated_nodes, tainted=self.state.node)

    def _remove(self) -> None:
        known = state.load(self.name)
        layout = Layout(self.name, known.slot if known else NO_SLOT)
        names = sorted(path.stem for path in layout.pids.glob("*.json"))
        stop([self._process_in(layout.root, name) for name in names], grace_seconds=0)
        node.remove(layout)
        shutil.rmtree(layout.root, ignore_errors=True)
        if layout.root.exists():
            raise ClusterError(f"cannot remove {layout.root}")
        # Other clusters may have their directories next to it.
        with suppress(OSError):
            state_root().rmdir()

    # Its components

    def process(self, component: str) -> Process:
        """Return the process of a component: of the control plane, `kwok`, or of the node."""
        return self._process_in(self.layout.root, component)

    @staticmethod
    def _process_in(root: Path, component: str) -> Process:
        return Process(component, root / "pids", root / "logs")

    def start_component(self, component: str) -> None:
        """Start a component, of the control plane or the node, if it does not run; return when it serves."""
        flags = self.state.flags.get(component, [])
        if component in node.COMPONENTS:
            node.start_component(self.layout, component, flags)
            return
        process = self.process(component)
        if not process.pid():
            process.start([*self._command(component), *flags], _ENVIRONMENT)
        self._await_component(component, process)

    def stop_components(self, *components: str) -> None:
        """Ask `components` to end, and kill what has not ended after some seconds; `up` starts them again."""
        stop([self.process(component) for component in components], grace_seconds=_GRACE_SECONDS)

    def restart(self, component: str, flags: Sequence[str] | None = None) -> None:
        """Restart one component, with other extra `flags` if they are given; not a node's `sandbox`."""
        self.stop_components(component)
        if flags is not None:
            known = self.state
            known.flags[component] = list(flags)
            known.save(self.layout)
        self.start_component(component)

    def restart_controller_manager(self, flags: Sequence[str] = ()) -> None:
        """Restart the controller manager with exactly these extra `flags`: without any it has upstream's defaults."""
        self.restart("kube-controller-manager", flags)

    def signal(self, component: str, number: signal.Signals) -> None:
        """Send a signal to a component: SIGSTOP and SIGCONT make an outage that heals, SIGKILL a crash."""
        self.process(component).signal(number)

    def _command(self, component: str) -> list[str]:
        if component == "kwok":
            return kwok.command(self.layout)
        return control_plane.command(self.layout, component, self._bind_address)

    def _await_component(self, component: str, process: Process) -> None:
        if component == "kube-apiserver":
            self._await("the API server", "/readyz", self.process("etcd"), process)
            return
        port = {
            "etcd": self.layout.ports.etcd,
            "kube-controller-manager": self.layout.ports.controller_manager,
            "kube-scheduler": self.layout.ports.scheduler,
            "kwok": self.layout.ports.kwok,
        }[component]
        wait_until(f"{component} listens", lambda: _listens(port), within_seconds=READY_SECONDS, alive=[process])

    def _await(self, what: str, path: str, *alive: Process) -> None:
        api = self.api
        wait_until(f"{what} is ready", lambda: api.get(path).status == 200, within_seconds=READY_SECONDS, alive=alive)

    # Using it

    def kubectl(self, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        """Run kubectl as the administrator and return what it prints; with `check`, a failure is an error."""
        command = [str(program_path("kubectl")), *arguments]
        variables = {**own_environment(), **environment(self)}
        result = subprocess.run(command, input=stdin, capture_output=True, text=True, check=False, env=variables)
        if check and result.returncode:
            raise ClusterError(f"kubectl {' '.join(arguments)}: {result.stderr.strip()}")
        return result.stdout

    def service_account_token(self, namespace: str, name: str, *, expiration_seconds: int = 3600) -> str:
        """Ask for a token of a ServiceAccount (TokenRequest); the API server grants at least 600 seconds."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
        answer = self.api.post(path, {"spec": {"expirationSeconds": expiration_seconds}})
        if answer.status != 201:
            raise ClusterError(f"no token for {namespace}/{name}: {answer.status} {answer.text}")
        token: str = answer.json()["status"]["token"]
        return token

    def write_kubeconfig(self, path: Path, token: str) -> Path:
        """Write a kubeconfig that shows `token`, such as one of a ServiceAccount."""
        authority = control_plane.cluster_authority(self.layout)
        write_kubeconfig(path, url=self.url, authority=authority, user={"token": token})
        return path

    def load_image(self, archive: Path) -> None:
        """Make the images of an OCI archive known to the node."""
        node.load_image(self.layout, archive)

    def status(self) -> dict[str, Any]:
        """Return what runs, for people and scripts."""
        names = sorted(path.stem for path in self.layout.pids.glob("*.json"))
        return {
            "name": self.name,
            "url": self.url,
            "kubeconfig": str(self.kubeconfig),
            "ready": self.api.get("/readyz").status == 200,
            "processes": {name: self.process(name).pid() or "dead" for name in names},
        }


def down_abandoned() -> list[str]:
    """Remove the clusters whose test session has died; return their names."""
    names = [name for name, known in state.existing().items() if known.abandoned]
    for name in names:
        Cluster(name).down()
    return names


def environment(cluster: Cluster) -> dict[str, str]:
    """Return environment variables with which kubectl and other clients find the cluster."""
    path = f"{program_path('kubectl').parent}:{os.environ.get('PATH', os.defpath)}"
    cache = str(cluster.layout.root / "kubectl")
    return {"KUBECONFIG": str(cluster.kubeconfig), "KUBECACHEDIR": cache, "PATH": path}


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
