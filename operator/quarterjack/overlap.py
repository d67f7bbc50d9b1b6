"""Whether a run may start beside the others of its job, as `concurrencyPolicy` says.

Under Forbid and Replace every live Pod of the job counts, also one without the run lease: the policy may just have been changed. A
view may be late, so what it shows is read before anything is decided by it.

Replace, for a firing that falls due while an earlier one is alive:

1. What waits for its turn since an earlier firing gives way: its claim is settled as replaced.
2. The earlier runs are stopped (see `stops`): they end as Canceled, Replaced.
3. The firing waits: its claim says for whom, in the place of a launch. No replica waits with it: whichever sees that the other has
   ended, or that its grace has passed, takes the claim at the revision that says so, and decides anew.

A run stops only runs of earlier scheduled times. Where a later one is alive, it is itself skipped; where a later one has begun, it is
not tried again.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import names
from .api import Ending
from .attempts import waits_for_others
from .clock import rfc3339
from .launcher import Launcher
from .lease import Claims
from .manifests import Run
from .model import Outcome, PodSight, Policy, State
from .runs import Held, RunLeases, Taken
from .stops import Stops
from .store import Store


class Overlap:
    """Asks for each run."""

    def __init__(self, store: Store, launcher: Launcher, claims: Claims, run_leases: RunLeases, stops: Stops) -> None:
        self._store = store
        self._launcher = launcher
        self._claims = claims
        self._run_leases = run_leases
        self._stops = stops

    async def verdict(self, run: Run) -> Outcome | Held | Taken:
        """YES: it may start, with the run lease where one is needed. Held: it is to wait for another. An outcome: it never starts."""
        match run.job.spec.policy:
            case Policy.ALLOW:
                return Taken.YES
            case Policy.FORBID:
                held = await self._first_alive(run) or await self._run_leases.take(run)
                if isinstance(held, Held) and not waits_for_others(run.attempt, run.trigger):
                    return _skipped(held)
                return held
            case Policy.REPLACE:
                return await self._replace(run)

    async def _first_alive(self, run: Run) -> Held | Taken | None:
        """Another run's Pod that is alive."""
        for pod in self._others(run):
            found = await self._look(run, pod)
            if found is not None:
                return found
        return None

    def _others(self, run: Run) -> Iterable[PodSight]:
        pods = self._store.firings_of(run.job.uid).pods.values()
        return [p for p in pods if not _is_same(p.key, run) and not p.ended and p.given_up is None]

    async def _look(self, run: Run, pod: PodSight) -> Held | Taken | None:
        """Who is in the way, by a read of a Pod that a view shows: nobody, where it has ended or is given up."""
        found = await self._launcher.look(pod)
        if found is Ending.ABSENT:
            return None
        if not isinstance(found, PodSight):
            return Taken.DOUBT
        self._store.put_pod(found)
        over = found.ended or await self._run_leases.is_given_up(run.job, found)
        return None if over else Held(found.key, found)

    async def _replace(self, run: Run) -> Outcome | Held | Taken:
        if run.attempt > 1 and (later := self._later_run(run)) is not None:
            return _replaced_by(later)
        await self._send_away(run)
        alive: list[Held] = []
        for pod in self._others(run):
            found = await self._look(run, pod)
            if isinstance(found, Taken):
                return found
            alive += [found] if found is not None else []
        if not alive:
            taken = await self._run_leases.take(run)
            if isinstance(taken, Taken):
                return taken
            alive = [taken]
        return await self._stop(run, alive)

    async def _stop(self, run: Run, alive: list[Held]) -> Outcome | Held:
        later = next((held for held in alive if held.order >= names.order_of(run.key)), None)
        if later is not None:
            return _replaced_by(later.key) if run.attempt > 1 else _superseded(later)
        for held in alive:
            if held.pod is not None:
                await self._stops.stop(held.pod, _replaced_by(run.key))
        return alive[0]

    def _later_run(self, run: Run) -> str | None:
        """A later run that has begun, as far as is seen: while it is alive or just over, it has the run lease."""
        lines, own = self._store.entries(run.job.uid).values(), names.order_of(run.key)
        begun = [line.id for line in lines if line.pod_name and names.order_of(line.id) > own]
        return max(begun, key=names.order_of, default=None)

    async def _send_away(self, run: Run) -> None:
        """Settle the claims of earlier firings that wait, at the revision at which they do."""
        for claim in list(self._store.firings_of(run.job.uid).claims.values()):
            earlier = names.order_of(claim.key) < names.order_of(run.key)
            if earlier and claim.waits_for and claim.outcome is None:
                outcome = _replaced_by(run.key)
                if claim.attempt == 1:
                    outcome = Outcome(State.SKIPPED, outcome.reason, outcome.message)
                settled = await self._claims.settle(claim, outcome)
                if settled is not None:
                    self._store.put_claim(settled)


def _skipped(held: Held) -> Outcome:
    return Outcome(State.SKIPPED, "Overlap", f"concurrencyPolicy is Forbid and {held.name} {held.state}")


def _superseded(later: Held) -> Outcome:
    return Outcome(State.SKIPPED, "Overlap", f"concurrencyPolicy is Replace and a later run, {later.name}, is there")


def _is_same(key: str, run: Run) -> bool:
    return names.run_of(key) == names.run_of(run.key)


def _replaced_by(key: str) -> Outcome:
    what = "run by hand" if names.request_of(key) else "firing"
    return Outcome(State.CANCELED, "Replaced", f"Replaced by the {what} of {rfc3339(names.firing_of(key))}")
