"""Whether a run may start beside the others of its job, as `concurrencyPolicy` says.

Under Forbid every live Pod of the job counts, also one without the run lease: the policy may just have been changed. A view may be
late, so what it shows is read before anything is skipped for it.
"""

from __future__ import annotations

from collections.abc import Iterable

from .api import Ending
from .launcher import Launcher
from .manifests import Run
from .model import Outcome, PodSight, Policy, State
from .runs import Held, RunLeases, Taken
from .store import Store


class Overlap:
    """Asks for each run."""

    def __init__(self, store: Store, launcher: Launcher, run_leases: RunLeases) -> None:
        self._store = store
        self._launcher = launcher
        self._run_leases = run_leases

    async def verdict(self, run: Run) -> Outcome | Taken:
        """The skip where another run of the job is alive, else whether this one may start."""
        if run.job.spec.policy is Policy.ALLOW:
            return Taken.YES
        held = await self._live_pod(run) or await self._run_leases.take(run)
        return _skipped(held) if isinstance(held, Held) else held

    async def _live_pod(self, run: Run) -> Held | Taken | None:
        """Another run's Pod that is alive."""
        for pod in self._others(run):
            found = await self._launcher.look(pod)
            if isinstance(found, PodSight):
                self._store.put_pod(found)
                if not found.ended and not await self._run_leases.is_given_up(run.job, found):
                    return Held(found.key, found)
            elif found is not Ending.ABSENT:
                return Taken.DOUBT
        return None

    def _others(self, run: Run) -> Iterable[PodSight]:
        pods = self._store.firings_of(run.job.uid).pods.values()
        return [p for p in pods if p.firing != run.firing and not p.ended and p.given_up is None]


def _skipped(held: Held) -> Outcome:
    other = held.pod.name if held.pod is not None else "another run"
    return Outcome(State.SKIPPED, "Overlap", f"concurrencyPolicy is Forbid and {other} was still running")
