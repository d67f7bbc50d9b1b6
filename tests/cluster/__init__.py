"""A real Kubernetes cluster on this machine, built from source, for tests, benchmarks and demonstrations.

`python -m tests.cluster --help` shows the commands; tests use `Cluster`, or the fixtures of `tests.cluster.fixtures`.
"""

from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError, PrerequisiteMissingError

__all__ = ["Cluster", "ClusterError", "PrerequisiteMissingError"]
