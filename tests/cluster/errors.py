"""What can go wrong while a cluster is built, started or stopped, said in one line."""

INSTEAD = "or use a cluster that you have (kind, k3d, any kubectl context): make up CLUSTER=current"


class ClusterError(Exception):
    """A cluster could not do what was asked; the message is for the person who asked."""


class PrerequisiteMissingError(ClusterError):
    """This machine lacks something that a cluster of our own needs."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"missing prerequisite: {what} ({why}); provide it, {INSTEAD}")
