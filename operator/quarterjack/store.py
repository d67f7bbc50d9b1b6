"""What this replica knows: jobs from the feed, claims and Pods from the reflectors, and who else is there.

A view is a hint to act, never evidence of absence. Whoever wants to hear of changes gives a listener.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from . import names
from .asked import Asked
from .attempts import has_record, last_attempts
from .clock import epoch_of
from .decision import is_late_end
from .errors import QuarterjackError
from .model import Claim, Entry, Firings, Job, PodSight
from .pod import read_pod
from .reading import read_claim

EXPIRE_SECONDS = 10.0  # a replica that has not renewed its membership for so long is gone
_PARSED_MOST = 2_000
_GONE_SECONDS = 60.0  # longer than any request: an answer from before its deletion must not bring a job back


@dataclass(frozen=True, slots=True)
class RunLease:
    """The guard against overlap of one job: who holds it, and at which revision.

    A view shows no more. A read of the whole Lease also says for how long it was taken, and when its run was last seen alive.
    """

    uid: str
    revision: int
    holder: str
    seconds: int | None = None
    renewed: int | None = None

    @property
    def key(self) -> str:
        """The run that holds it, empty where none does."""
        key = names.key_of(self.holder)
        return key if names.is_run_key(key) else ""


@dataclass(slots=True)
class Member:
    """A replica and the last sign of life from it, on our monotonic clock; `revision`: of its Lease."""

    sign_time: float
    renewed_time: float
    revision: int


class Store:
    """The views, indexed by job UID."""

    def __init__(self) -> None:
        self.jobs: dict[str, Job] = {}
        self.firings: dict[str, Firings] = {}
        self.units: dict[str, Firings] = {}  # of fan-outs: apart, for there may be ten thousand of them
        self.unit_ends: dict[str, set[str]] = {}  # the units whose end is in a ledger, as far as it is known here
        self.run_leases: dict[str, RunLease] = {}
        self.run_lease_times: dict[str, float] = {}  # when each was seen to change, on our monotonic clock
        self.members: dict[str, Member] = {}
        self.asked = Asked()
        self.on_job: list[Callable[[str], None]] = []
        self.on_claim: list[Callable[[Claim], None]] = []
        self.on_pod: list[Callable[[PodSight], None]] = []
        self.on_unit: list[Callable[[str], None]] = []  # by job
        self.on_members: list[Callable[[], None]] = []
        self.read_times: dict[str, float] = {}  # when the last quorum read of a job began, on the server's clock
        self._entries: OrderedDict[str, tuple[int, dict[str, Entry]]] = OrderedDict()
        self._lasts: dict[str, tuple[int, dict[str, Entry]]] = {}  # of jobs with units: the last line of each run
        self._gone: OrderedDict[str, float] = OrderedDict()  # and until when that is remembered

    def put_job(self, job: Job) -> None:
        """Take a job as an event or an answer showed it, unless what is known is newer."""
        known = self.jobs.get(job.uid)
        if job.uid in self._gone or (known is not None and known.revision >= job.revision):
            return
        self.jobs[job.uid] = job
        self._purge(job.uid)
        for tell in self.on_job:
            tell(job.uid)

    def bury_job(self, uid: str) -> None:
        """A job is gone for good: an event or a quorum read says so, and its UID never comes again."""
        now = asyncio.get_running_loop().time()
        while self._gone and next(iter(self._gone.values())) <= now:
            self._gone.popitem(last=False)
        self._gone[uid] = now + _GONE_SECONDS
        self.drop_job(uid)

    def mark_deleting(self, uid: str) -> None:
        """A job's namespace is being deleted: nothing of it starts any more, though its own deletion may come much later."""
        if uid in self.jobs:
            self.jobs[uid] = replace(self.jobs[uid], deleting=True)

    def drop_job(self, uid: str) -> None:
        """A job is not shown any more."""
        if self.jobs.pop(uid, None) is not None:
            for known in (self._entries, self.read_times, self.unit_ends, self._lasts):
                known.pop(uid, None)
            for tell in self.on_job:
                tell(uid)

    def firings_of(self, uid: str) -> Firings:
        """What is seen of a job's firings; the job itself may not be known yet, or no longer."""
        return self.firings.get(uid) or Firings()

    def units_of(self, uid: str) -> Firings:
        """What is seen of the units of a job's fan-outs."""
        return self.units.get(uid) or Firings()

    def all_firings(self) -> Iterator[tuple[str, Firings]]:
        """What is seen of all firings and units, by job."""
        return chain(list(self.firings.items()), list(self.units.items()))

    def seen_with(self, uid: str, key: str) -> Firings:
        """What is seen of a run, among others."""
        return self.units_of(uid) if names.is_unit_key(key) else self.firings_of(uid)

    def _place(self, key: str) -> dict[str, Firings]:
        return self.units if names.is_unit_key(key) else self.firings

    def entries(self, uid: str) -> Mapping[str, Entry]:
        """A job's history by run (not the coalesced lines), parsed once a revision."""
        job = self.jobs.get(uid)
        if job is None:
            return {}
        known = self._entries.get(uid)
        if known is None or known[0] != job.revision:
            known = job.revision, {entry.id: entry for entry in job.status.entries() if not entry.count}
            self._entries[uid] = known
            self._entries.move_to_end(uid)
            while len(self._entries) > _PARSED_MOST:
                self._entries.popitem(last=False)
        return known[1]

    def recorded(self, uid: str, key: str, *, ended: bool) -> bool:
        """Whether a run has its record (and, with `ended`, its final one)."""
        if names.is_unit_key(key):
            return key in self.unit_ends.get(uid, ()) or self._is_over(uid, names.parent_of(key))
        job = self.jobs.get(uid)
        if job is not None and not job.status.live and key.isdigit() and int(key) <= job.recorded_until:
            return True  # no line says otherwise: the history need not be parsed
        return job is not None and has_record(job, self.entries(uid), key, ended=ended)

    def _is_over(self, uid: str, run: str) -> bool:
        """Whether the run of units is over by its record, and with it all of them."""
        job = self.jobs.get(uid)
        if job is None:
            return False
        known = self._lasts.get(uid)
        if known is None or known[0] != job.revision:
            known = self._lasts[uid] = job.revision, last_attempts(self.entries(uid).values())
        last = known[1].get(run)
        return has_record(job, {}, run, ended=True) if last is None else last.ended

    def put_claim(self, claim: Claim) -> None:
        """Take a claim that an answer or an event showed."""
        claims = self._place(claim.key).setdefault(claim.job_uid, Firings()).claims
        known = claims.get(claim.key)
        if known is not None and known.uid == claim.uid and known.revision >= claim.revision:
            return
        claims[claim.key] = claim
        self.sign_of(claim.holder)
        if names.is_unit_key(claim.key):
            self._tell_unit(claim.job_uid)
            return
        for tell in self.on_claim:
            tell(claim)

    def _tell_unit(self, uid: str) -> None:
        for tell in self.on_unit:
            tell(uid)

    def drop_claim(self, uid: str, key: str, lease_uid: str) -> None:
        """A claim is gone."""
        firings = self._place(key).get(uid)
        if firings is not None and key in firings.claims and firings.claims[key].uid == lease_uid:
            del firings.claims[key]
            self._tidy(uid)

    def put_pod(self, sight: PodSight) -> None:
        """Take a Pod as an event showed it; one that is gone stays until its end is recorded."""
        pods = self._place(sight.key).setdefault(sight.job_uid, Firings()).pods
        known = pods.get(sight.key)
        if known is not None and known.uid == sight.uid:
            if sight.revision < known.revision or (known.given_up is not None and sight.revision == known.revision):
                return  # a read was ahead of the view
            if known.ended and not (sight.deleted and not known.deleted):
                return  # an end is final
        if sight.deleted and known is not None and known.uid == sight.uid and known.ended:
            sight = replace(known, deleted=True)
        pods[sight.key] = sight
        if sight.deleted:
            self._purge(sight.job_uid, sight.key)
        self._tell_pod(sight)

    def _tell_pod(self, pod: PodSight) -> None:
        if pod.unit:
            self._tell_unit(pod.job_uid)
            return
        for tell in self.on_pod:
            tell(pod)

    def lose_pod(self, uid: str, key: str) -> None:
        """A Pod was not in a list: if its end is known keep it as gone, else let its absence be verified."""
        firings = self._place(key)[uid]
        pod = firings.pods[key]
        if pod.ended:
            firings.pods[key] = replace(pod, deleted=True)
            self._purge(uid, key)
        else:
            del firings.pods[key]
            self._tidy(uid)
        self._tell_pod(pod)

    def with_remains(self) -> set[str]:
        """The jobs of which there are Leases, or Pods that are gone; of orphaned Pods, which may stay, nothing is to be done."""
        seen = {uid for uid, f in self.all_firings() if f.claims or any(pod.deleted for pod in f.pods.values())}
        return seen | self.run_leases.keys()

    def forget_gone_pods(self, uid: str) -> None:
        """Forget the Pods that are gone of a job that is gone, for which no record will ever be written."""
        for firings in (self.firings_of(uid), self.units_of(uid)) if uid not in self.jobs else ():
            firings.pods = {key: pod for key, pod in firings.pods.items() if not pod.deleted}
        self._tidy(uid)

    def put_run_lease(self, uid: str, lease: RunLease) -> None:
        """Take a job's run lease as an answer or an event showed it."""
        known = self.run_leases.get(uid)
        if known is None or known.uid != lease.uid or known.revision < lease.revision:
            self.run_leases[uid] = lease
            self.run_lease_times[uid] = asyncio.get_running_loop().time()

    def drop_run_lease(self, uid: str, lease_uid: str) -> None:
        """A run lease is gone."""
        known = self.run_leases.get(uid)
        if known is not None and known.uid == lease_uid:
            del self.run_leases[uid], self.run_lease_times[uid]

    def sign_of(self, member: str) -> None:
        """A sign of life from a replica."""
        known = self.members.get(member)
        if known is not None:
            known.sign_time = asyncio.get_running_loop().time()

    def renew_member(self, name: str, *, revision: int, age_seconds: float) -> None:
        """A replica's membership was made or renewed; one that is first seen was so long ago, and may be gone for long."""
        known = self.members.get(name)
        if known is not None and known.revision >= revision:
            return
        age = age_seconds if known is None else 0.0
        if age > EXPIRE_SECONDS:
            return
        renewed = asyncio.get_running_loop().time() - age
        self.members[name] = Member(renewed, renewed, revision)
        if known is None:
            self._tell_members()

    def drop_member(self, name: str) -> None:
        """A replica has left, or has not renewed for too long."""
        if self.members.pop(name, None) is not None:
            self._tell_members()

    def _tell_members(self) -> None:
        for tell in self.on_members:
            tell()

    def _purge(self, uid: str, *keys: str) -> None:
        """Forget the Pods (or those of these runs) that are gone and whose end is on record."""
        for firings in (self.firings_of(uid), self.units_of(uid)) if uid in self.jobs else ():
            for key in keys or tuple(firings.pods):
                pod = firings.pods.get(key)
                if pod is not None and pod.deleted and self._is_told(uid, key, pod):
                    del firings.pods[key]
        self._tidy(uid)

    def _is_told(self, uid: str, key: str, pod: PodSight) -> bool:
        """Whether the record says how it ended: Stale does not, where the end was seen after all."""
        entry = self.entries(uid).get(key)
        return self.recorded(uid, key, ended=True) and not (entry is not None and is_late_end(entry, pod))

    def _tidy(self, uid: str) -> None:
        for place in (self.firings, self.units):
            firings = place.get(uid)
            if firings is not None and not firings.claims and not firings.pods:
                del place[uid]


class LeaseView:
    """Sink of the Leases in our own namespace (metadata only): claims, run leases, members."""

    def __init__(self, store: Store, *, now: Callable[[], float]) -> None:
        self._store = store
        self._now = now
        self._names: dict[str, tuple[str, str, str, str]] = {}  # by name: role, job or name, run, Lease UID

    def sweep(self, present: Set[str]) -> None:
        """All Leases."""
        for name in [name for name, (_, _, _, uid) in self._names.items() if uid not in present]:
            self._drop(name)

    def apply(self, kind: str, item: Mapping[str, Any]) -> None:
        """One event."""
        meta = item["metadata"]
        if kind == "DELETED":
            self._drop(meta["name"])
            return
        role = (meta.get("labels") or {}).get(names.LABEL_ROLE)
        if role == names.ROLE_CLAIM:
            self._claim(item)
        elif role == names.ROLE_RUN:
            self._names[meta["name"]] = role, meta["name"], "", meta["uid"]
            self._store.put_run_lease(meta["name"], read_run_lease(item))
        elif role == names.ROLE_MEMBER:
            self._names[meta["name"]] = role, meta["name"], "", meta["uid"]
            self._member(meta)

    def _claim(self, item: Mapping[str, Any]) -> None:
        claim = read_claim(item)
        if claim is not None:
            self._names[claim.name] = names.ROLE_CLAIM, claim.job_uid, claim.key, claim.uid
            self._store.put_claim(claim)

    def _member(self, meta: Mapping[str, Any]) -> None:
        notes = meta.get("annotations") or {}
        self._store.renew_member(
            notes.get(names.HOLDER, meta["name"]),
            revision=int(meta["resourceVersion"]),
            age_seconds=_age_seconds(notes.get(names.RENEWED), self._now()),
        )

    def _drop(self, name: str) -> None:
        role, of, key, uid = self._names.pop(name, ("", "", "", ""))
        if role == names.ROLE_CLAIM:
            self._store.drop_claim(of, key, uid)
        elif role == names.ROLE_RUN:
            self._store.drop_run_lease(of, uid)
        elif role == names.ROLE_MEMBER:
            self._store.drop_member(member_of(of))


def read_run_lease(item: Mapping[str, Any]) -> RunLease:
    """A run lease, from its metadata or the whole of it."""
    meta, spec = item["metadata"], item.get("spec") or {}
    holder = (meta.get("annotations") or {}).get(names.HOLDER, "")
    renewed = epoch_of(spec["renewTime"]) if spec.get("renewTime") else None
    return RunLease(meta["uid"], int(meta["resourceVersion"]), holder, spec.get("leaseDurationSeconds"), renewed)


def _age_seconds(renewed: str | None, now: float) -> float:
    """How long ago a membership was renewed; one that does not say, or says that it will be, counts as renewed just now."""
    try:
        return max(0.0, now - epoch_of(renewed)) if renewed else 0.0
    except ValueError:
        return 0.0


def member_lease_name(member: str) -> str:
    """The Lease by which a replica shows that it is there."""
    return f"member-{member}"


def member_of(lease_name: str) -> str:
    """The replica whose membership a Lease is."""
    if not lease_name.startswith("member-"):
        raise QuarterjackError(f"not a membership: {lease_name}")
    return lease_name.removeprefix("member-")


class PodView:
    """Sink of the Pods that carry our label, of one namespace or of all."""

    def __init__(self, store: Store, *, namespace: str = "") -> None:
        self._store = store
        self._namespace = namespace

    def sweep(self, present: Set[str]) -> None:
        """All Pods. One that vanished while nobody looked is left to `verify`: its end may have been seen by nobody."""
        for uid, firings in self._store.all_firings():
            for key, pod in list(firings.pods.items()):
                ours = self._namespace in {"", pod.namespace}
                if ours and not pod.deleted and pod.uid not in present:
                    self._store.lose_pod(uid, key)

    def apply(self, kind: str, item: Mapping[str, Any]) -> None:
        """One event."""
        sight = read_pod(item, deleted=kind == "DELETED")
        if sight is not None:
            self._store.put_pod(sight)
