"""Whose turn it is, when units become free, and what is reserved for the first job that does not fit."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from placement.decide.jobs import Job
from placement.observe.model import JobKey, Node, is_pod

# How long a job has waited counts by the part of the nodes that its namespace has, and this one: who has
# none waits about a tenth as long as who has nearly all.
LEAST_SHARE: Final = 0.1
# A job that has waited for less has no reservation: of those that come together the ones that fit start.
# And so much is added to what each has waited, so that their shares count.
YOUNG: Final = timedelta(minutes=10)
# For how long after a job that did not end in time no limit of its namespace's jobs is believed.
UNTRUE: Final = timedelta(days=1)

Holders = Mapping[str, Mapping[JobKey, int]]
"""Who is on each node, as `Cluster.holders`."""


class Shares:
    """What part of the nodes each namespace has."""

    def __init__(self, holders: Holders, total: int) -> None:
        held = Counter(space for there in holders.values() for space in {space for space, _ in there})
        self._shares = {space: count / max(total, 1) for space, count in held.items()}

    def urgency(self, namespace: str, waited: timedelta) -> float:
        """More for whose turn it is."""
        share = LEAST_SHARE + self._shares.get(namespace, 0.0)
        return (max(waited, timedelta()) + YOUNG).total_seconds() / share


class End(NamedTuple):
    """When something ends: what has a limit comes before all that has run for the shortest time."""

    unlimited: bool
    at: datetime


class Ends:
    """When jobs that have units end, as far as can be said.

    A limit counts from when the job was admitted. Without one, or after it, a job is taken to run for as long
    again as it has. When that is longer than a job without a limit is given, it is unknown.

    Args:
        untrue: Namespaces whose limits are not believed.
        default: What a job without a limit is given.
        bound: How long an admission may take.
    """

    def __init__(
        self, now: datetime, untrue: Mapping[str, datetime], default: timedelta, bound: timedelta
    ) -> None:
        self._now, self._untrue, self._default, self._bound = now, untrue, default, bound
        self._jobs: Mapping[JobKey, Job] = {}
        self._known: dict[JobKey, End | None] = {}

    def seen(self, jobs: Iterable[Job]) -> dict[str, datetime]:
        """Take note of the jobs that there are; returns the namespaces whose limits are not believed now."""
        self._jobs = {job.key: job for job in jobs}
        limited = ((job, job.limit, job.since) for job in self._jobs.values() if job.limit is not None)
        late = {
            job.key[0]: self._now
            for job, limit, since in limited
            if limit is not None and since is not None and self._now - since > limit + self._bound
        }
        self._untrue = {name: at for name, at in self._untrue.items() if self._now - at < UNTRUE} | late
        return self._untrue

    def of(self, nodes: Collection[Node], holders: Holders, needed: int) -> End | None:
        """When so many of some nodes are free; None if that is unknown."""
        ends = sorted(end for node in nodes if (end := self._free(holders.get(node.name, ()))))
        return ends[needed - 1] if needed <= len(ends) else None

    def _free(self, there: Iterable[JobKey]) -> End | None:
        # A pod of no job leaves room, or the unit could not become free.
        ends = [self._end(holder) for holder in there if not is_pod(holder)]
        last = max((end for end in ends if end), default=End(unlimited=False, at=self._now))
        return None if None in ends else last

    def over(self, job: Job) -> datetime:
        """When a job that is admitted now is over."""
        limit = self._limit(job)
        return self._now + self._bound + (self._default if limit is None else limit)

    def _end(self, key: JobKey) -> End | None:
        if key not in self._known:
            job = self._jobs.get(key)
            self._known[key] = self._end_of(job, job.since or self._now) if job else None
        return self._known[key]

    def _end_of(self, job: Job, since: datetime) -> End | None:
        limit, passed = self._limit(job), self._now - since
        if limit is not None and limit > passed:
            return End(unlimited=False, at=since + limit)
        return End(unlimited=True, at=self._now + passed) if passed < self._default else None

    def _limit(self, job: Job) -> timedelta | None:
        return None if job.key[0] in self._untrue else job.limit


@dataclass(frozen=True, slots=True)
class Reservation:
    """Units that are held free for a job: the first in turn that does not fit."""

    job: JobKey
    nodes: frozenset[str]
    begin: datetime  # when the last of them becomes free
    inside: bool  # whether they are kept from its own namespace's jobs only
    ends: Ends

    def keeps_out(self, job: Job) -> bool:
        """Whether a job may not have such a unit: it may still be there when the reservation begins."""
        other = job.key != self.job and (job.key[0] == self.job[0] or not self.inside)
        return other and self.ends.over(job) > self.begin
