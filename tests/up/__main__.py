"""`make up` and `make down`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence

from tests.cluster import Cluster, state
from tests.cluster.build import program_path
from tests.cluster.cluster import down_abandoned
from tests.cluster.errors import ClusterError
from tests.up import kubectl as clients
from tests.up import record as records
from tests.up.first_run import await_first_run
from tests.up.install import EXAMPLES, apply_examples, documents, install, replica_kubeconfig, uninstall
from tests.up.kubectl import Kubectl
from tests.up.record import CURRENT, USUAL, Record
from tests.up.replicas import Replicas
from tests.up.words import headline, say

# An image has to be pulled where the cluster is not ours.
_RUN_SECONDS = 120.0
_RUN_WITH_PULL_SECONDS = 300.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one of the two commands; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.up", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    start = commands.add_parser("up", help="start all that does not run, and show it")
    start.add_argument("--cluster", default=USUAL, help="a name for a cluster of our own, or: current")
    start.set_defaults(run=lambda given: up(given.cluster))
    end = commands.add_parser("down", help="end all that `up` started, and remove it")
    end.add_argument("--cluster", action="append", help="only this one; may be repeated (default: all)")
    end.set_defaults(run=lambda given: down(given.cluster))
    given = parser.parse_args(arguments)
    try:
        given.run(given)
    except ClusterError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted; `make up` goes on from here, `make down` removes what is there", file=sys.stderr)
        return 130
    return 0


def up(target: str) -> None:
    """Bring everything to life on the cluster `target`, and wait for a first run."""
    start_seconds = time.monotonic()
    with state.lock(f"up_{target}"):
        record = records.load(target) or _new_record(target)
        kubectl = _reach(record)
        headline("installing the operator")
        install(kubectl, record)
        headline("starting three replicas")
        replicas = Replicas(record)
        replicas.start(replica_kubeconfig(kubectl))
        headline("applying the examples")
        apply_examples(kubectl, record)
        headline("waiting for a firing to run in a real container")
        examples = {document["metadata"]["name"] for path in EXAMPLES for document in documents(path)}
        seconds = _RUN_WITH_PULL_SECONDS if target == CURRENT else _RUN_SECONDS
        await_first_run(kubectl, record.examples_namespace, examples, within_seconds=seconds)
    headline(f"up in {time.monotonic() - start_seconds:.0f} s")
    print(_what_to_look_at(record, kubectl, replicas), flush=True)


def _new_record(target: str) -> Record:
    if target != CURRENT:
        return Record(target)
    kubeconfig = os.environ.get("KUBECONFIG", "")
    return Record(target, context=clients.current_context(kubeconfig), kubeconfig=kubeconfig)


def _reach(record: Record) -> Kubectl:
    """Start our own cluster, or look at the one that is given."""
    cache = record.directory / "kubectl"
    if record.target == CURRENT:
        kubectl = clients.of_context(record.context, record.kubeconfig, cache)
        _explain(record, kubectl)
        return kubectl
    headline(f"starting the cluster {record.target}: one real node (the first time builds it, about ten minutes)")
    down_abandoned()
    cluster = Cluster(record.target)
    fresh = not cluster.running()
    cluster.up(with_node=True)
    if fresh:
        record.ours.clear()
    record.save()
    say(f"Kubernetes {cluster.version} at {cluster.url}")
    return clients.of_cluster(cluster, cache)


def _explain(record: Record, kubectl: Kubectl) -> None:
    view = kubectl.json("config", "view", "--minify")
    server = view["clusters"][0]["cluster"]["server"]
    record.examples_namespace = view["contexts"][0]["context"].get("namespace", "default")
    examples = ", ".join(path.stem for path in EXAMPLES)
    headline(f"using the cluster of the kubectl context {record.context} ({server}). This will")
    say("install the CRDs scheduledjobs and scheduledjobruns, and the admission policy quarterjack-fence")
    say("create the namespace quarterjack-system with a ServiceAccount and its rights: charts/quarterjack/files/rights")
    say("run three replicas as processes on this machine, with that account's token")
    say(f"create the examples in the namespace {record.examples_namespace}: {examples}")
    say("`make down` removes what this has added, and nothing that was there before")
    kubectl.out("version", "--request-timeout=10s")
    record.save()


def _what_to_look_at(record: Record, kubectl: Kubectl, replicas: Replicas) -> str:
    namespace = () if record.examples_namespace == "default" else (f"--namespace={record.examples_namespace}",)
    named = "" if record.target == USUAL else f" CLUSTER={record.target}"
    lines = ["", kubectl.out("get", "scheduledjobs", *namespace).rstrip(), "", "Look at it:"]
    if record.target != CURRENT:
        lines += [
            f"  export KUBECONFIG={Cluster(record.target).kubeconfig}",
            f"  export PATH={program_path('kubectl').parent}:$PATH   # kubectl",
        ]
    lines += [
        "  kubectl get scheduledjobs --watch",
        "  kubectl describe scheduledjob hello",
        "  kubectl get pods -l quarterjack.dev/job=hello",
        "  kubectl logs -l quarterjack.dev/job=hello",
        "",
        "The replicas:",
    ]
    for number, process in enumerate(replicas.processes):
        lines.append(f"  {process.name}  pid {process.pid()}  {replicas.url(number)}/metrics  {process.log}")
    lines += [
        "",
        f"Kill one, and see that nothing changes; `make up{named}` starts it again:",
        f"  kill -9 {replicas.processes[0].pid()}; kubectl get scheduledjobs --watch",
        "",
        f"End it all: make down{named}",
    ]
    return "\n".join(lines)


def down(chosen: Sequence[str] | None) -> None:
    """Undo `up`, wherever it has been."""
    names = list(chosen) if chosen else records.targets()
    for target in names:
        with state.lock(f"up_{target}"):
            _end(records.load(target) or Record(target))
    if not names:
        say("nothing is up")


def _end(record: Record) -> None:
    headline(f"ending {record.target}")
    Replicas(record).stop()
    say("replicas: gone")
    if record.target == CURRENT:
        uninstall(clients.of_context(record.context, record.kubeconfig, record.directory / "kubectl"), record)
    else:
        Cluster(record.target).down()
        say("cluster: gone")
    record.forget()


if __name__ == "__main__":
    sys.exit(main())
