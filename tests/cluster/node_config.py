"""The configuration files and flags of containerd, the CNI bridge, kubelet and kube-proxy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from tests.cluster import packages
from tests.cluster.control_plane import component_kubeconfig
from tests.cluster.image import PAUSE
from tests.cluster.layout import Layout

_CONTAINERD_SOCKET = "unix:///run/containerd/containerd.sock"

# restrict_oom_score_adj: a machine that is itself a sandbox may not lower the score below its own.
_CONTAINERD = """
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins."io.containerd.cri.v1.images"]
snapshotter = "overlayfs"

[plugins."io.containerd.cri.v1.images".pinned_images]
sandbox = "{pause}"

[plugins."io.containerd.cri.v1.runtime"]
restrict_oom_score_adj = true

[plugins."io.containerd.cri.v1.runtime".cni]
bin_dirs = ["{cni_dir}"]
conf_dir = "/var/lib/cni/net.d"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"

[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
SystemdCgroup = false
"""

# The kubelet sets these kernel parameters of the host to the values here, or dies. It is shown files that have them.
_SYSCTLS = {
    "vm.overcommit_memory": 1,
    "vm.panic_on_oom": 0,
    "kernel.panic": 10,
    "kernel.panic_on_oops": 1,
    "kernel.keys.root_maxkeys": 1_000_000,
    "kernel.keys.root_maxbytes": 25_000_000,
}


def write(layout: Layout) -> None:
    """Write all files that the node's programs read, and make the directories that become its /var/lib and /var/log."""
    networks = layout.root / "lib" / "cni" / "net.d"
    sysctls = layout.config / "sysctl"
    for directory in (sysctls, networks, layout.root / "log"):
        directory.mkdir(parents=True, exist_ok=True)
    (networks / "10-bridge.conflist").write_text(json.dumps(_bridge(layout), indent=2))
    (layout.config / "containerd.toml").write_text(_CONTAINERD.format(pause=PAUSE, cni_dir=packages.cni_dir()))
    (layout.config / "resolv.conf").write_text("")
    for name, value in _SYSCTLS.items():
        (sysctls / name).write_text(f"{value}\n")
    _write_yaml(layout.config / "kubelet.yaml", _kubelet(layout))
    _write_yaml(layout.config / "kube-proxy.yaml", _kube_proxy(layout))


def flags(layout: Layout, component: str) -> list[str]:
    """Return the command line flags of one of the node's programs."""
    config = layout.config
    if component == "containerd":
        return [f"--config={config}/containerd.toml"]
    if component == "kube-proxy":
        return [f"--config={config}/kube-proxy.yaml"]
    return [
        f"--config={config}/kubelet.yaml",
        f"--kubeconfig={component_kubeconfig(layout, 'kubelet')}",
        f"--hostname-override={layout.node_name}",
        f"--node-ip={layout.node_ip}",
    ]


def _bridge(layout: Layout) -> dict[str, Any]:
    return {
        "cniVersion": "1.0.0",
        "name": layout.cgroup,
        "plugins": [
            {
                "type": "bridge",
                "bridge": "pods",
                "isGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "ranges": [[{"subnet": layout.pod_cidr}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            }
        ],
    }


def _kubelet(layout: Layout) -> dict[str, Any]:
    pki = layout.pki
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {"anonymous": {"enabled": False}, "x509": {"clientCAFile": str(pki / "ca.crt")}},
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(pki / "kubelet-server.crt"),
        "tlsPrivateKeyFile": str(pki / "kubelet-server.key"),
        "containerRuntimeEndpoint": _CONTAINERD_SOCKET,
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{layout.cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "localStorageCapacityIsolation": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "50Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
        # Evicts by the host's disk only when it is full; and never removes images, which cannot be pulled again.
        "imageGCHighThresholdPercent": 100,
        "resolvConf": str(layout.config / "resolv.conf"),
        # There is no cluster DNS. Names fail at once in the Pod, rather than with a warning Event for every Pod.
        "clusterDNS": ["127.0.0.1"],
        "clusterDomain": "cluster.local",
        "volumePluginDir": "/var/lib/kubelet/volume-plugins",
        "maxPods": 200,
        "registerWithTaints": [],
    }


def _kube_proxy(layout: Layout) -> dict[str, Any]:
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": str(component_kubeconfig(layout, "kube-proxy"))},
        "hostnameOverride": layout.node_name,
        "mode": "iptables",
        "clusterCIDR": layout.pod_cidr,
        "oomScoreAdj": 0,
        # Only the host's own network namespace may set these.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    }


def _write_yaml(path: Path, content: dict[str, Any]) -> None:
    path.write_text(yaml.safe_dump(content, sort_keys=False))
