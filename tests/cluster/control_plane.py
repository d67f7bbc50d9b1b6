"""The commands and credentials of etcd, the API server, the controller manager and the scheduler."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from tests.cluster.build import program_path
from tests.cluster.layout import Layout
from tests.cluster.pki import Authority, create_signing_key, write_kubeconfig

COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")

# Each reaches the API server with a certificate of its own: user and group, as RBAC's default bindings name them.
_USERS = {
    "kube-controller-manager": ("system:kube-controller-manager", ""),
    "kube-scheduler": ("system:kube-scheduler", ""),
    "kube-proxy": ("system:kube-proxy", ""),
    "kwok": ("kwok", "system:masters"),
}


def cluster_authority(layout: Layout) -> Authority:
    return Authority(layout.pki, "ca")


def _etcd_authority(layout: Layout) -> Authority:
    return Authority(layout.pki / "etcd", "ca")


def token_file(layout: Layout) -> Path:
    return layout.pki / "tokens.csv"


def admin_token(layout: Layout) -> str:
    """Return the bearer token of the cluster's administrator."""
    return token_file(layout).read_text().partition(",")[0]


def component_kubeconfig(layout: Layout, component: str) -> Path:
    return layout.config / f"{component}.kubeconfig"


def create_credentials(layout: Layout) -> None:
    """Make every certificate, key and token of the cluster; those of the node too, whether it is started or not."""
    authority = cluster_authority(layout)
    authority.create()
    names = ["localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"]
    authority.sign_server("apiserver", "kube-apiserver", [*names, "127.0.0.1", layout.host_ip, layout.first_service_ip])
    authority.sign_client("apiserver-kubelet", "kube-apiserver-kubelet-client", "system:masters")
    sign_node(authority, layout)
    authority.sign_server("simulated-kubelet", "kwok", ["127.0.0.1"])
    for component, (user, group) in _USERS.items():
        authority.sign_client(component, user, group)
    etcd = _etcd_authority(layout)
    etcd.create()
    etcd.sign_server("server", "etcd", ["localhost", "127.0.0.1"])
    etcd.sign_client("apiserver", "kube-apiserver")
    create_signing_key(layout.pki / "service-accounts.key", layout.pki / "service-accounts.pub")
    token_file(layout).touch(mode=0o600)
    token_file(layout).write_text(f"{secrets.token_urlsafe(24)},admin,admin,system:masters\n")


def sign_node(authority: Authority, layout: Layout) -> None:
    """Make what a kubelet serves with, and what it is known by."""
    authority.sign_server("kubelet-server", layout.node_name, [layout.node_name, layout.node_ip])
    authority.sign_client("kubelet", f"system:node:{layout.node_name}", "system:nodes")


def create_node_credentials(layout: Layout, control_plane: Layout, url: str) -> None:
    """Make those of one more node of a control plane, whose API server is at `url`."""
    shutil.copytree(control_plane.pki, layout.pki)
    sign_node(cluster_authority(layout), layout)
    _write_component_kubeconfigs(layout, url, ("kubelet", "kube-proxy"))


def write_kubeconfigs(layout: Layout, url: str) -> None:
    """Write the administrator's kubeconfig and one for each component, for an API server at `url`."""
    authority = cluster_authority(layout)
    write_kubeconfig(layout.kubeconfig, url=url, authority=authority, user={"token": admin_token(layout)})
    _write_component_kubeconfigs(layout, url, (*_USERS, "kubelet"))


def _write_component_kubeconfigs(layout: Layout, url: str, components: Iterable[str]) -> None:
    authority = cluster_authority(layout)
    for component in components:
        certificate, key = (str(layout.pki / f"{component}.{end}") for end in ("crt", "key"))
        user = {"client-certificate": certificate, "client-key": key}
        write_kubeconfig(component_kubeconfig(layout, component), url=url, authority=authority, user=user)


def command(layout: Layout, component: str, bind_address: str) -> list[str]:
    """Return the command line of `component`; the API server listens on `bind_address`."""
    flags = {
        "etcd": _etcd_flags,
        "kube-apiserver": lambda layout: _apiserver_flags(layout, bind_address),
        "kube-controller-manager": _controller_manager_flags,
        "kube-scheduler": _scheduler_flags,
    }[component](layout)
    return [str(program_path(component)), *(f"--{name}={value}" for name, value in flags.items())]


def _etcd_flags(layout: Layout) -> dict[str, object]:
    client_url = f"https://127.0.0.1:{layout.ports.etcd}"
    peer_url = f"http://127.0.0.1:{layout.ports.etcd_peer}"
    pki = layout.pki / "etcd"
    return {
        "data-dir": layout.root / "etcd",
        "name": "default",
        "listen-client-urls": client_url,
        "advertise-client-urls": client_url,
        "listen-peer-urls": peer_url,
        "initial-advertise-peer-urls": peer_url,
        "initial-cluster": f"default={peer_url}",
        "cert-file": pki / "server.crt",
        "key-file": pki / "server.key",
        "trusted-ca-file": pki / "ca.crt",
        "client-cert-auth": "true",
        # The data dies with the cluster: no power cut needs to be survived.
        "unsafe-no-fsync": "true",
        "quota-backend-bytes": 8 * 1024**3,
        "log-level": "warn",
    }


def _apiserver_flags(layout: Layout, bind_address: str) -> dict[str, object]:
    pki = layout.pki
    return {
        "etcd-servers": f"https://127.0.0.1:{layout.ports.etcd}",
        "etcd-cafile": pki / "etcd" / "ca.crt",
        "etcd-certfile": pki / "etcd" / "apiserver.crt",
        "etcd-keyfile": pki / "etcd" / "apiserver.key",
        "bind-address": bind_address,
        "advertise-address": layout.host_ip,
        "secure-port": layout.ports.apiserver,
        "tls-cert-file": pki / "apiserver.crt",
        "tls-private-key-file": pki / "apiserver.key",
        "client-ca-file": pki / "ca.crt",
        "token-auth-file": token_file(layout),
        "authorization-mode": "Node,RBAC",
        "enable-admission-plugins": "NodeRestriction",
        "allow-privileged": "true",
        "service-account-issuer": "https://kubernetes.default.svc",
        "service-account-key-file": pki / "service-accounts.pub",
        "service-account-signing-key-file": pki / "service-accounts.key",
        "service-cluster-ip-range": layout.service_cidr,
        "kubelet-client-certificate": pki / "apiserver-kubelet.crt",
        "kubelet-client-key": pki / "apiserver-kubelet.key",
        "kubelet-certificate-authority": pki / "ca.crt",
        # Nothing resolves the node's host name.
        "kubelet-preferred-address-types": "InternalIP",
    }


def _controller_manager_flags(layout: Layout) -> dict[str, object]:
    return {
        "kubeconfig": component_kubeconfig(layout, "kube-controller-manager"),
        "bind-address": "127.0.0.1",
        "secure-port": layout.ports.controller_manager,
        "leader-elect": "false",
        "use-service-account-credentials": "true",
        "service-account-private-key-file": layout.pki / "service-accounts.key",
        "root-ca-file": layout.pki / "ca.crt",
        "cluster-signing-cert-file": layout.pki / "ca.crt",
        "cluster-signing-key-file": layout.pki / "ca.key",
        # It would make its default, a directory of the host.
        "flex-volume-plugin-dir": layout.root / "volume-plugins",
    }


def _scheduler_flags(layout: Layout) -> dict[str, object]:
    return {
        "kubeconfig": component_kubeconfig(layout, "kube-scheduler"),
        "bind-address": "127.0.0.1",
        "secure-port": layout.ports.scheduler,
        "leader-elect": "false",
    }
