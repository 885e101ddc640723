"""The urgency of waiting jobs, the ends of running jobs, and the reservations of units."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import chain
from typing import Final, NamedTuple

from placement.decide.guarantee import Guarantees
from placement.decide.jobs import Job
from placement.observe.model import Guarantee, Holders, JobKey, is_jobless

# This is added to the share of a namespace. So at the same age, a job of a namespace without nodes is 1,331
# times (1.1 / 0.1, to the third power) as urgent as a job of a namespace with all nodes.
SHARE_OFFSET: Final = 0.1
SHARE_POWER: Final = 3
# Below this age, only a resuming job (`Order.is_resuming`) gets a reservation. So if jobs arrive together,
# the jobs that fit start first. This time is also added to each age, so that shares matter for new jobs, too.
MIN_AGE: Final = timedelta(minutes=10)
# A job of this age may get a reservation although an earlier job of another namespace has one. Otherwise
# the earlier job could hold the only reservation for ever, if it selects a unit that is never free.
OVERDUE_AGE: Final = timedelta(days=1)
# The maximum number of general reservations.
MOST_RESERVATIONS: Final = 4
# After a job has exceeded its time limit, the limits of all jobs of its namespace are ignored for this time.
# For the same time, a victim that restarted without freeing its units is not a victim again.
DISTRUST: Final = timedelta(days=1)


class Shares:
    """The share of each namespace: its part of all nodes with devices."""

    def __init__(self, holders: Holders, node_count: int) -> None:
        self.node_count = max(node_count, 1)
        counts = Counter(chain.from_iterable({name for name, _ in jobs} for jobs in holders.values()))
        self.by_namespace = {name: count / self.node_count for name, count in counts.items()}

    def urgency(self, namespace: str, age: timedelta) -> float:
        """Returns (age + `MIN_AGE`) / (the namespace's share + `SHARE_OFFSET`)³. Larger values come first."""
        share = SHARE_OFFSET + self.by_namespace.get(namespace, 0.0)
        return max(age + MIN_AGE, timedelta()).total_seconds() / share**SHARE_POWER


class End(NamedTuple):
    """The time at which a job ends or a unit becomes free.

    A known time sorts before an assumed time. But a known time that is further away than the default time
    limit sorts last, so that a reservation does not prefer a unit that becomes free only after years.
    """

    is_late: bool
    is_assumed: bool
    at: datetime


class AdmittedJob(NamedTuple):
    """When a job got its units, and the time limit that it had then: later limits have no effect."""

    since: datetime
    limit: timedelta | None


class Ends:
    """The times at which the admitted jobs end.

    The time limit of a job begins with its admission. A job that has no limit, or has exceeded it, is assumed
    to run for as long again as it has run. If it has already run for the default limit, its end is unknown.

    Args:
        now: The time.
        exceeded_limits: By namespace, when a job last exceeded its time limit.
        admitted_jobs: The admissions of the jobs that have units.
        default_limit: The time limit of a job that has none.
        bound: The maximum duration of an admission (`Tuning.bound`).
    """

    def __init__(
        self,
        now: datetime,
        exceeded_limits: Mapping[str, datetime],
        admitted_jobs: Mapping[JobKey, AdmittedJob],
        default_limit: timedelta,
        bound: timedelta,
    ) -> None:
        self._now, self._default, self._bound = now, default_limit, bound
        self.exceeded_limits = {name: at for name, at in exceeded_limits.items() if now - at < DISTRUST}
        self.admitted_jobs = dict(admitted_jobs)
        self._jobs: Mapping[JobKey, Job] = {}
        self._end_cache: dict[JobKey, End | None] = {}

    def add(self, jobs: Iterable[Job], holders: Holders) -> None:
        """Adds all jobs, and records the namespaces of jobs that have exceeded their time limits.

        A deleted job keeps its admission while its pods still hold nodes: their grace period may be long.
        """
        self._jobs = {job.key: job for job in jobs}
        known, ending = self.admitted_jobs, set(chain.from_iterable(holders.values())) - self._jobs.keys()
        self.admitted_jobs = {key: admitted for key, admitted in known.items() if key in ending}
        for key, job in self._jobs.items():
            if (since := job.admitted_at) is not None:
                admission = known.get(key) or AdmittedJob(since, job.limit)
                self.admitted_jobs[key] = AdmittedJob(min(admission.since, since), admission.limit)
        for (namespace, _), (since, limit) in self.admitted_jobs.items():
            if limit and self._now - since > limit + self._bound:
                self.exceeded_limits[namespace] = self._now

    def admit(self, job: Job) -> None:
        """Adds a job that is admitted now."""
        self.admitted_jobs.setdefault(job.key, AdmittedJob(self._now, job.limit))

    def last_end(self, holders: Iterable[JobKey]) -> End | None:
        """Returns when the last of the holders ends (now if there is none); None if any end is unknown.

        Ignores pods without a job: units that these pods fill are not considered (`Cluster.can_become_free`).
        """
        latest = End(is_late=False, is_assumed=False, at=self._now)
        for holder in holders:
            end = latest if is_jobless(holder) else self.end(holder)
            if end is None:
                return None
            latest = max(latest, end)
        return latest

    def latest_end(self, job: Job) -> datetime:
        """Returns the latest end of a job that is admitted now: after its trusted limit, else the default."""
        return self._now + self._bound + (self._trusted_limit(job.key, job.limit) or self._default)

    def end(self, key: JobKey) -> End | None:
        """Returns when a job ends; None if that is unknown."""
        if key not in self._end_cache:
            self._end_cache[key] = self._end(key) if key in self._jobs or key in self.admitted_jobs else None
        return self._end_cache[key]

    def _end(self, key: JobKey) -> End | None:
        since, first_limit = self.admitted_jobs.get(key) or AdmittedJob(self._now, None)
        age, limit = self._now - since, self._trusted_limit(key, first_limit)
        if limit and limit > age:
            return End(is_late=limit - age > self._default, is_assumed=False, at=since + limit)
        return End(is_late=False, is_assumed=True, at=self._now + age) if age < self._default else None

    def _trusted_limit(self, key: JobKey, limit: timedelta | None) -> timedelta | None:
        return None if key[0] in self.exceeded_limits else limit


@dataclass(frozen=True, slots=True, eq=False)
class Reservation:
    """Units that are held free for a job that does not fit."""

    job: JobKey
    units: tuple[str, ...]  # the units that the job will get
    # The names of the nodes of these units, and of further units that must become free for other teams.
    nodes: frozenset[str]
    begin: datetime  # when the last unit becomes free
    is_assumed: bool  # whether ``begin`` depends on an assumed end
    is_internal: bool  # whether only jobs of this job's namespace are excluded
    # If not None, the units are within this guarantee, and jobs of other teams may still use them.
    guarantee: Guarantee | None = None

    def excludes(self, job: JobKey, end: datetime) -> bool:
        """Returns whether a job must not use the units, because it may end after the reservation begins."""
        is_exempt = job == self.job or (self.is_internal and job[0] != self.job[0])
        return not is_exempt and end > self.begin


class Reservations(list[Reservation]):
    """The reservations of a decision, in the order of the queue.

    A reservation is general, or within a guarantee. A job may have one of each.
    """

    def __init__(self, guarantees: Guarantees, ends: Ends) -> None:
        super().__init__()
        self._guarantees, self._ends = guarantees, ends
        self._nodes: dict[tuple[Reservation, ...], frozenset[str]] = {}

    @property
    def general(self) -> list[Reservation]:
        """The reservations that are not within a guarantee."""
        return [reservation for reservation in self if not reservation.guarantee]

    def earliest_of(self, job: JobKey) -> Reservation | None:
        """Returns the reservation of a job (of two, the one that begins first); None if it has none."""
        own = (reservation for reservation in self if reservation.job == job)
        return min(own, key=lambda reservation: reservation.begin, default=None)

    def put_first(self, reservation: Reservation) -> None:
        """Adds a reservation before all others. It replaces other reservations of the same job."""
        self[:] = [reservation, *(other for other in self if other.job != reservation.job)]

    def permitted_guarantees(self, job: Job, age: timedelta) -> list[Guarantee | None]:
        """Returns the guarantees within which a job may have a reservation; None means a general one.

        The first job that does not fit may have a general reservation. A job of at least the age
        `OVERDUE_AGE` may have a general reservation, too, if no job of its namespace has one and there are
        fewer than `MOST_RESERVATIONS`. The first job of a team that does not fit may have a reservation
        within the team's guarantee.
        """
        guarantees: list[Guarantee | None] = []
        namespaces = [other.job[0] for other in self.general]
        is_further = len(namespaces) < MOST_RESERVATIONS and job.key[0] not in namespaces
        if not namespaces or (age >= OVERDUE_AGE and is_further):
            guarantees.append(None)
        guarantee = self._guarantees.guarantee_for(job)
        if guarantee and all(other.guarantee is not guarantee for other in self):
            guarantees.append(guarantee)
        return guarantees

    def excluding(self, job: Job) -> tuple[Reservation, ...]:
        """Returns the reservations of other jobs whose units a job must not use.

        If all units that the job needs are owed to its team, only reservations within the team's guarantee
        are returned.
        """
        other_teams, end = self._of_other_teams(job), self._ends.latest_end(job)
        others = (other for other in self if other not in other_teams)
        reservations = tuple(other for other in others if other.excludes(job.key, end))
        if reservations and self._guarantees.covers(job):
            return tuple(reservation for reservation in reservations if reservation.guarantee)
        return reservations

    def nodes_reserved_before(self, job: Job) -> frozenset[str]:
        """Returns the nodes that cannot be reserved for a job, because they are reserved for earlier jobs.

        Internal reservations of other namespaces are ignored. Reservations within a guarantee are ignored,
        too: a guarantee keeps a number of units, not certain units.
        """
        earlier = (other for other in self.general if other.job != job.key)
        return self.nodes(other for other in earlier if not other.is_internal or other.job[0] == job.key[0])

    def nodes_of_other_teams(self, job: Job) -> frozenset[str]:
        """Returns the nodes that are reserved within guarantees of other teams. A job takes them last."""
        return self.nodes(self._of_other_teams(job))

    def nodes(self, reservations: Iterable[Reservation] | None = None) -> frozenset[str]:
        """Returns the names of the nodes of the given reservations; without an argument, of all."""
        key = tuple(self if reservations is None else reservations)
        if key not in self._nodes:
            self._nodes[key] = frozenset[str]().union(*(reservation.nodes for reservation in key))
        return self._nodes[key]

    def _of_other_teams(self, job: Job) -> tuple[Reservation, ...]:
        """Returns the reservations within guarantees that do not apply to a job's namespace."""
        own_guarantees = (None, *self._guarantees.guarantees_of(job.key[0]))
        return tuple(other for other in self if other.guarantee not in own_guarantees)
