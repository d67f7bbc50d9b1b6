"""What may go wrong between a replica and the server, chosen beforehand: by rules, or by seeded chances."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from math import inf

import orjson

from .resources import Target, parse_path


class Outcome(StrEnum):
    """What becomes of a request, and what its sender learns."""

    ANSWERED = "Answered"
    NOT_SENT = "NotSent"  # no connection: NotSent, and nothing was done
    LOST = "Lost"  # it never arrives: Unanswered, and nothing was done
    UNANSWERED = "Unanswered"  # it is done: Unanswered
    REFUSED = "Refused"  # a Status of `status`, and nothing was done
    BROKEN = "Broken"  # a Status of `status`, and yet it is done


class Point(StrEnum):
    """A point in the life of a request at which its sender may be stopped."""

    BEFORE_SEND = "BeforeSend"
    AFTER_SEND = "AfterSend"  # on its way, neither arrived nor committed
    AFTER_COMMIT = "AfterCommit"  # committed, and not answered


class Break(StrEnum):
    """How a stream goes wrong in its midst."""

    CUT = "Cut"  # the connection breaks: Unanswered
    SILENT = "Silent"  # it stays open and brings nothing any more
    END = "End"  # the server ends it without a word
    GONE = "Gone"  # an ERROR event of 410, then the end
    ERROR = "Error"  # an ERROR event of 500, then the end
    GARBAGE = "Garbage"  # a line that is no JSON, then goes on


@dataclass(frozen=True, kw_only=True)
class Fault:
    """What becomes of one request. Times in seconds; None: as the plan's latency says."""

    outcome: Outcome = Outcome.ANSWERED
    status: int = 500  # of REFUSED and BROKEN
    retry_after_seconds: int = 1  # of 429
    arrival_seconds: float | None = None  # from its send to the server's stamp
    commit_seconds: float | None = None  # from the stamp to the commit; longer than its timeout: 504, and no commit
    commits_anyway: bool = False  # it is committed even after it was answered 504
    answer_seconds: float | None = None  # from the commit to the answer
    unnoticed: bool = (
        False  # a lost request or answer shows only by the sender's own timeout, not by a broken connection
    )
    crash: Point | None = None
    stall: Point | None = None
    stall_seconds: float = 0.0
    stream: Break | None = None  # of a watch
    stream_after: int = 0  # once it has brought so many lines


NO_FAULT = Fault()


@dataclass(frozen=True)
class Request:
    """What a rule can tell a request by. A watch has the method WATCH."""

    replica: str
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes
    sent_at: float  # virtual seconds

    @cached_property
    def target(self) -> Target | None:
        """What its path points to."""
        return parse_path(self.path)

    @cached_property
    def resource(self) -> str:
        """The plural, empty where the path leads nowhere."""
        return self.target.resource.plural if self.target else ""

    @cached_property
    def name(self) -> str:
        """The object's name, for a create that of its body; empty for collections."""
        if self.target and self.target.name:
            return self.target.name
        if self.method != "POST":
            return ""
        return str(orjson.loads(self.body).get("metadata", {}).get("name", ""))


@dataclass(kw_only=True)
class Rule:
    """The n-th request that fits, and so many after it, meet a fault. What is left empty fits everything."""

    fault: Fault
    method: str = ""
    resource: str = ""
    name: str = ""  # a prefix
    subresource: str | None = None  # "" for the object itself
    replica: str = ""
    where: Callable[[Request], bool] | None = None
    nth: int = 1
    times: float = 1  # inf: for ever
    matched: int = field(default=0, init=False)

    def fits(self, request: Request) -> bool:
        """Whether it is of this rule's kind, whatever its number."""
        target = request.target
        return (
            self.method in ("", request.method)
            and self.resource in ("", request.resource)
            and self.replica in ("", request.replica)
            and (self.subresource is None or (target is not None and (target.subresource or "") == self.subresource))
            and request.name.startswith(self.name)
            and (self.where is None or self.where(request))
        )

    def takes(self, request: Request) -> bool:
        """Count the request, and say whether its number has come."""
        if not self.fits(request):
            return False
        self.matched += 1
        return self.nth <= self.matched < self.nth + self.times


@dataclass
class Plan:
    """Rules, of which the first that takes a request decides; and the latency of all else. Replicas may share one."""

    rules: list[Rule] = field(default_factory=list)
    arrival_seconds: float = 0.001
    commit_seconds: float = 0.0
    answer_seconds: float = 0.001
    watch_seconds: float = 0.001  # from a commit to its event at a watch

    def choose(self, request: Request) -> Fault:
        """What becomes of this request. Every rule counts it, also those that come too late."""
        taken = [rule for rule in self.rules if rule.takes(request)]
        return taken[0].fault if taken else NO_FAULT

    def add(self, rule: Rule) -> Rule:
        """Add a rule, also while the scenario runs."""
        self.rules.append(rule)
        return rule


def always(fault: Fault, **fits: str) -> Rule:
    """A rule without end."""
    return Rule(fault=fault, times=inf, method=fits.get("method", ""), resource=fits.get("resource", ""))


class Chances(Plan):
    """Faults by chance, the same ones for the same seed and the same order of requests."""

    def __init__(
        self,
        seed: int,
        *,
        chances: Mapping[Outcome, float],
        arrival_seconds: float = 0.02,
        commit_seconds: float = 0.0,
        answer_seconds: float = 0.02,
        refusals: Iterable[int] = (429, 500),
        unnoticed: float = 0.2,
    ) -> None:
        super().__init__()
        self._random = random.Random(seed)
        self._chances = dict(chances)
        self._refusals = tuple(refusals)
        self._most = (arrival_seconds, commit_seconds, answer_seconds)
        self._unnoticed = unnoticed

    def choose(self, request: Request) -> Fault:
        """A rule that takes the request decides; else chance."""
        fault = super().choose(request)
        if fault is not NO_FAULT:
            return fault
        arrival, commit, answer = (self._random.uniform(0, most) for most in self._most)
        return Fault(
            outcome=self._outcome(),
            status=self._random.choice(self._refusals),
            arrival_seconds=arrival,
            commit_seconds=commit,
            answer_seconds=answer,
            unnoticed=self._random.random() < self._unnoticed,
        )

    def _outcome(self) -> Outcome:
        left = self._random.random()
        for outcome, chance in self._chances.items():
            left -= chance
            if left < 0:
                return outcome
        return Outcome.ANSWERED
