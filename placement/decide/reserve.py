"""The order of waiting jobs, when units become free, and the reservation of units."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from placement.decide.jobs import Job
from placement.observe.model import Holders, JobKey, is_pod

# Added to the share of the nodes that a namespace has: a job of a namespace without nodes waits about a tenth
# as long as one of a namespace with nearly all.
LEAST_SHARE: Final = 0.1
# A younger job gets no reservation: of jobs that arrive together, those that fit start. It is also added to
# each age, so that the shares of new jobs matter.
YOUNG: Final = timedelta(minutes=10)
# How long the limits of a namespace's jobs are ignored after one of these jobs exceeded its limit.
DISTRUST: Final = timedelta(days=1)


class Shares:
    """The share of the nodes that each namespace has."""

    def __init__(self, holders: Holders, total: int) -> None:
        nodes = Counter(chain.from_iterable({name for name, _ in jobs} for jobs in holders.values()))
        self.by_namespace = {name: count / max(total, 1) for name, count in nodes.items()}

    def urgency(self, namespace: str, age: timedelta) -> float:
        """Returns the age of a job, divided by the share of its namespace; the largest comes first."""
        share = LEAST_SHARE + self.by_namespace.get(namespace, 0.0)
        return (max(age, timedelta()) + YOUNG).total_seconds() / share


class End(NamedTuple):
    """When a job ends, or a unit becomes free.

    Known times sort before assumed times. A known time beyond the default limit sorts last: otherwise one
    unit with a limit of years would leave all other units to other jobs.
    """

    late: bool
    assumed: bool
    at: datetime


class Admission(NamedTuple):
    """When a job got its units, and its limit then: later changes, and new Pods, have no effect."""

    since: datetime
    limit: timedelta | None


class Ends:
    """When the admitted jobs end.

    The time limit of a job runs from its admission. A job without a limit, or beyond it, is assumed to run
    for as long again as it has run. If that is longer than the default limit, its end is unknown.

    Args:
        exceeded: By namespace, when a job last exceeded its limit: the limits of its jobs are then ignored.
        admitted: The jobs that have units.
        default: The limit of a job that has none.
        bound: How long an admission may take.
    """

    def __init__(
        self,
        now: datetime,
        exceeded: Mapping[str, datetime],
        admitted: Mapping[JobKey, Admission],
        default: timedelta,
        bound: timedelta,
    ) -> None:
        self._now, self._default, self._bound = now, default, bound
        self.exceeded_limits = {name: at for name, at in exceeded.items() if now - at < DISTRUST}
        self.admissions = dict(admitted)
        self._jobs: Mapping[JobKey, Job] = {}
        self._known: dict[JobKey, End | None] = {}

    def add(self, jobs: Iterable[Job]) -> None:
        """Adds all jobs, and looks for those that have exceeded their limits."""
        self._jobs = {job.key: job for job in jobs}
        before, self.admissions = self.admissions, {}
        for key, job in self._jobs.items():
            if (since := job.admitted_at) is None:
                continue
            first = before.get(key) or Admission(since, job.limit)
            limit = first.limit
            self.admissions[key] = Admission(min(first.since, since), limit)
            if limit and self._now - self.admissions[key].since > limit + self._bound:
                self.exceeded_limits[key[0]] = self._now

    def admit(self, job: Job) -> None:
        """Adds a job that is admitted now."""
        self.admissions.setdefault(job.key, Admission(self._now, job.limit))

    def last(self, holders: Iterable[JobKey]) -> End | None:
        """Returns when the last of the holders ends; None if that is unknown.

        Pods without a job are ignored, because they leave room (`Cluster.can_become_free`).
        """
        last = End(late=False, assumed=False, at=self._now)
        for holder in holders:
            end = last if is_pod(holder) else self.end(holder)
            if end is None:
                return None
            last = max(last, end)
        return last

    def over(self, job: Job) -> datetime:
        """Returns when a job that is admitted now has ended."""
        return self._now + self._bound + (self._limit(job.key, job.limit) or self._default)

    def end(self, key: JobKey) -> End | None:
        """Returns when a job ends; None if that is unknown."""
        if key not in self._known:
            self._known[key] = self._end(key) if key in self._jobs else None
        return self._known[key]

    def _end(self, key: JobKey) -> End | None:
        since, first_limit = self.admissions.get(key) or Admission(self._now, None)
        age, limit = self._now - since, self._limit(key, first_limit)
        if limit and limit > age:
            return End(late=limit - age > self._default, assumed=False, at=since + limit)
        return End(late=False, assumed=True, at=self._now + age) if age < self._default else None

    def order(self, nodes: Iterable[str], holders: Holders) -> tuple[JobKey, ...]:
        """Returns the jobs on the nodes, in the order of their ends, the latest first."""
        jobs = {key for node in nodes for key in holders.get(node, ())}
        ends = {key: end.at for key in sorted(jobs) if (end := self.end(key))}
        return tuple(sorted(ends, key=ends.__getitem__, reverse=True))

    def _limit(self, key: JobKey, limit: timedelta | None) -> timedelta | None:
        return None if key[0] in self.exceeded_limits else limit


@dataclass(frozen=True, slots=True)
class Reservation:
    """The units that are held free for the first job that does not fit."""

    job: JobKey
    units: tuple[str, ...]
    nodes: frozenset[str]
    begin: datetime  # when the last of the units becomes free
    assumed: bool  # whether this time depends on a job without a time limit
    own: bool  # whether only jobs of its own namespace are kept off them
    ends: Ends

    def excludes(self, job: Job) -> bool:
        """Returns whether a job may not use the units, because it may run after the reservation begins."""
        other = job.key != self.job and (job.key[0] == self.job[0] or not self.own)
        return other and self.ends.over(job) > self.begin
