"""The command line: build, start, look at, use and end clusters."""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import time
from pathlib import Path

from tests.cluster import state
from tests.cluster.build import CONTROL_PLANE, NODE, SIMULATED_NODES, build, program_path
from tests.cluster.cluster import Cluster, down_abandoned, environment
from tests.cluster.errors import ClusterError
from tests.cluster.image import build_from_directory
from tests.cluster.processes import own_environment

_SIMULATED_NODES = 10


def main() -> int:
    arguments = _parser().parse_args()
    try:
        return int(arguments.run(arguments) or 0)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    built = commands.add_parser("build", help="build what is not in the cache (about ten minutes when nothing is)")
    built.set_defaults(run=_build)

    up = commands.add_parser("up", help="start a cluster, or add what it lacks")
    _name_argument(up)
    up.add_argument("--mode", choices=("control-plane", "node", "kwok"), default="control-plane")
    up.add_argument("--nodes", type=int, default=_SIMULATED_NODES, help="simulated nodes of the mode kwok")
    up.add_argument(
        "--flag", action="append", default=[], metavar="COMPONENT=FLAG", help="one more flag for a component"
    )
    up.set_defaults(run=_up)

    restart = commands.add_parser(
        "restart", help="restart a component of the control plane, with these extra flags only"
    )
    _name_argument(restart)
    restart.add_argument("component")
    restart.add_argument("flags", nargs=argparse.REMAINDER)
    restart.set_defaults(run=_restart)

    down = commands.add_parser("down", help="end a cluster and remove all that it left")
    _name_argument(down)
    down.add_argument("--all", action="store_true", help="every cluster of ours on this machine")
    down.add_argument("--abandoned", action="store_true", help="those whose test session died")
    down.set_defaults(run=_down)

    for name, run, text in (
        ("status", _status, "show what runs"),
        ("kubeconfig", _kubeconfig, "print the path of the kubeconfig"),
        ("env", _env, "print shell commands that point kubectl at the cluster"),
    ):
        command = commands.add_parser(name, help=text)
        _name_argument(command)
        command.set_defaults(run=run)

    kubectl = commands.add_parser("kubectl", help="run kubectl as administrator")
    _name_argument(kubectl)
    kubectl.add_argument("arguments", nargs=argparse.REMAINDER)
    kubectl.set_defaults(run=_kubectl)

    load = commands.add_parser("load", help="give the node an OCI archive, or a directory as an image")
    _name_argument(load)
    load.add_argument("source", type=Path)
    load.add_argument("--image", help="name of the image that a directory becomes")
    load.add_argument("--entrypoint", nargs=argparse.REMAINDER, default=[])
    load.set_defaults(run=_load)
    return parser


def _name_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--name", default="demo", help="name of the cluster (default: demo)")


def _build(_arguments: argparse.Namespace) -> None:
    programs = [*CONTROL_PLANE, *NODE, *SIMULATED_NODES]
    build(programs)
    for program in programs:
        print(program_path(program))


def _up(arguments: argparse.Namespace) -> None:
    start_seconds = time.monotonic()
    down_abandoned()
    cluster = Cluster(arguments.name)
    flags: dict[str, list[str]] = {}
    for each in arguments.flag:
        component, _, flag = each.partition("=")
        flags.setdefault(component, []).append(flag)
    cluster.up(
        with_node=arguments.mode == "node",
        simulated_nodes=arguments.nodes if arguments.mode == "kwok" else 0,
        flags=flags,
    )
    took_seconds = time.monotonic() - start_seconds
    print(
        f"{cluster.name}: Kubernetes {cluster.version}, ready in {took_seconds:.1f} s, {cluster.url}", file=sys.stderr
    )
    print(cluster.kubeconfig)


def _restart(arguments: argparse.Namespace) -> None:
    Cluster(arguments.name).restart(arguments.component, arguments.flags)


def _down(arguments: argparse.Namespace) -> None:
    if arguments.abandoned:
        names = down_abandoned()
    else:
        names = sorted(state.existing()) if arguments.all else [arguments.name]
        for name in names:
            Cluster(name).down()
    for name in names:
        print(f"{name}: gone", file=sys.stderr)


def _status(arguments: argparse.Namespace) -> None:
    print(json.dumps(Cluster(arguments.name).status(), indent=2))


def _kubeconfig(arguments: argparse.Namespace) -> None:
    print(Cluster(arguments.name).kubeconfig)


def _env(arguments: argparse.Namespace) -> None:
    for key, value in environment(Cluster(arguments.name)).items():
        print(f"export {key}={shlex.quote(value)}")


def _kubectl(arguments: argparse.Namespace) -> None:
    variables = {**own_environment(), **environment(Cluster(arguments.name))}
    words = arguments.arguments
    kubectl = str(program_path("kubectl"))
    os.execve(kubectl, [kubectl, *(words[1:] if words[:1] == ["--"] else words)], variables)


def _load(arguments: argparse.Namespace) -> None:
    cluster = Cluster(arguments.name)
    archive = arguments.source
    if archive.is_dir():
        if not arguments.image:
            raise ClusterError("a directory needs a name as an image: --image NAME:TAG")
        archive = cluster.layout.root / "images" / "loaded.tar"
        archive.parent.mkdir(exist_ok=True)
        config = {"Entrypoint": arguments.entrypoint}
        build_from_directory(archive, name=arguments.image, directory=arguments.source, config=config)
    cluster.load_image(archive)


if __name__ == "__main__":
    sys.exit(main())
