"""The order in which a decision considers jobs, with the ages and the positions of jobs."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from placement.decide.jobs import Job
from placement.decide.lost import Losses
from placement.decide.plan import Memory
from placement.decide.preempt import Preemptions
from placement.decide.reserve import Reservations, Shares
from placement.observe.model import JobKey

# Two sorts of jobs keep their position, and so come before other jobs of their priority for `KEEP_TIME`: the
# job with the first general reservation, and jobs of at least the age `KEEP_AGE` with a further reservation.
# Otherwise many small jobs of namespaces without nodes could overtake a large job, one after the other, and
# take its reserved units.
KEEP_TIME: Final = timedelta(days=1)
KEEP_AGE: Final = timedelta(days=2)
# For this time, in which its controller recreates its pods, a job that restarts after a node failure comes
# before these two sorts. If the job does not fit, it gets the first reservation, and then keeps its position.
RESTART_TIME: Final = timedelta(minutes=10)
# A job is large if its number of workers is at least this part of the number of nodes with devices. In each
# namespace, the oldest large job, if at least `LARGE_JOB_AGE` old, is favoured for `LARGE_JOB_TIME`: it comes
# before jobs of its priority that do not keep their position. Otherwise it could wait for weeks behind small
# jobs, while more work arrives than the cluster can do. No job is favoured if its namespace already has nodes
# and, with this job, would have more than `LARGE_JOB_SHARE` of all nodes.
LARGE_JOB_PART: Final = 1 / 20
LARGE_JOB_AGE: Final = timedelta(days=5)
LARGE_JOB_TIME: Final = timedelta(days=2)
LARGE_JOB_SHARE: Final = 0.4


class Order:
    """The order of the jobs in one decision. Uses the last decision's memory, and fills ``next_memory``."""

    def __init__(
        self, now: datetime, memory: Memory, next_memory: Memory, losses: Losses, preemptions: Preemptions
    ) -> None:
        self._now, self._memory, self._next_memory = now, memory, next_memory
        self._losses, self._preemptions = losses, preemptions

    def sort(self, jobs: list[Job], shares: Shares) -> None:
        """Sorts jobs in the order in which they are considered, and remembers the favoured jobs."""
        favoured_since = self._next_memory.favoured_since
        for job in jobs:
            since = self._memory.favoured_since.get(job.key)
            if since and job.unpinned_workers and job.created <= since:  # else the job is admitted or new
                favoured_since[job.key] = since
        favoured_jobs = self._favoured_jobs(jobs, shares)
        for key in favoured_jobs:
            favoured_since.setdefault(key, self._now)
        jobs.sort(key=lambda job: self._sort_key(job, shares, favoured_jobs))

    def is_resuming(self, job: Job) -> bool:
        """Returns whether a job needs only its own units, or new units in place of failed units.

        A victim is not resuming. Nor is a job with a failed admission or a refused write in the memory.
        """
        moves = (job.is_returning or self._losses.moves(job)) and not self._preemptions.is_victim(job.key)
        return moves and job.key not in self._next_memory.failures

    def age_start(self, job: Job) -> datetime:
        """Returns when the age of a job begins: from then on, the job exists and could have been admitted.

        If an admission fails, the jobs of the namespace lose their age. Otherwise a namespace could hold a
        unit by jobs that fail, one after the other. Jobs that wait again after a node failure or a preemption
        keep their age. A debt of the namespace reduces the age of all its jobs.
        """
        created, failure, namespace = job.created, self._next_memory.failures.get(job.key), job.key[0]
        failed_at = self._next_memory.failed_namespaces.get(namespace, created)
        age_start = self._memory.age_starts.get(job.key, created)
        age_start = self._losses.age_start(job) or max(created, age_start, failed_at)
        if failure and failure.count and not failure.refusal:
            age_start = max(failure.at, age_start)
        debt, _ = self._next_memory.age_debts.get(namespace, (timedelta(), None))
        return age_start + debt

    def remember_age_start(self, job: Job, *, is_stuck: bool) -> None:
        """Remembers when a job's age begins. If the job is stuck, skips the time since the last decision."""
        since, previous = self._memory.age_starts.get(job.key), self._memory.decided_at
        if is_stuck:  # without a last decision, all time until now is excluded
            since = min((since or job.created) + (self._now - previous), self._now) if previous else self._now
        if since and job.gated_pods:
            self._next_memory.age_starts[job.key] = since

    def position_kept_since(
        self, jobs: Mapping[JobKey, Job], reservations: Reservations
    ) -> dict[JobKey, datetime]:
        """Returns when waiting jobs began to keep their positions, even if `KEEP_TIME` is over.

        ``jobs`` are the jobs that wait or are admitted now. A job is forgotten when it has all its nodes, or
        has a gated worker that is newer than its entry. While a namespace has a debt or a failure, none of
        its jobs begins to keep its position.
        """
        since_by_job = {
            key: since
            for key, since in self._memory.position_kept_since.items()
            if ((job := jobs.get(key)) and job.created <= since) or key in self._next_memory.unsettled
        }
        penalised = self._next_memory.age_debts.keys() | self._next_memory.failed_namespaces.keys()
        for index, reservation in enumerate(reservations.general):
            job = jobs.get(reservation.job)
            if job is None or reservation.is_internal or job.key[0] in penalised:
                continue
            if index == 0 or self._now - self.age_start(job) >= KEEP_AGE:
                since_by_job.setdefault(job.key, self._now)
        return since_by_job

    def _favoured_jobs(self, jobs: Iterable[Job], shares: Shares) -> set[JobKey]:
        """Returns, for each namespace, the oldest large job that has waited for `LARGE_JOB_AGE`.

        A namespace has no favoured job while it has a debt, or while a job that was favoured for
        `LARGE_JOB_TIME` still waits.
        """
        times = self._next_memory.favoured_since.items()
        expired = {key[0] for key, since in times if self._now - since >= LARGE_JOB_TIME}
        oldest: dict[str, tuple[datetime, JobKey]] = {}
        for job in jobs:
            namespace = job.key[0]
            if namespace in expired or namespace in self._next_memory.age_debts:
                continue
            if _is_large_within_share(job, shares):
                entry = self.age_start(job), job.key
                if self._now - entry[0] >= LARGE_JOB_AGE and not _has_obstacle(job):
                    oldest[namespace] = min(oldest.get(namespace, entry), entry)
        return {key for _, key in oldest.values()}

    def _sort_key(
        self, job: Job, shares: Shares, favoured_jobs: Collection[JobKey]
    ) -> tuple[bool, int, bool, int, float, datetime, JobKey]:
        """Returns the sort key of a job: resuming jobs first, then higher priority, then higher urgency.

        Among jobs of the same priority, jobs that preempt come first, then jobs that restart after a node
        failure, then jobs that keep their position, then ``favoured_jobs``. A job loses its position after
        `KEEP_TIME`, after a failure that reduces its age, or if its namespace has a debt.
        """
        age_start, kept_since = self.age_start(job), self._memory.position_kept_since.get(job.key)
        urgency = shares.urgency(job.key[0], self._now - age_start)
        has_debt = job.key[0] in self._next_memory.age_debts
        is_recent = kept_since is not None and age_start <= kept_since and self._now - kept_since < KEEP_TIME
        is_kept = is_recent and not has_debt
        restarted_at = self._losses.restarted_at(job)
        is_restarting = restarted_at and self._now - restarted_at < RESTART_TIME and not has_debt
        rank = 0 if is_restarting else 1 if is_kept else 2 if job.key in favoured_jobs else 3
        is_resuming, preempts = self.is_resuming(job), self._preemptions.preempts(job)
        return not is_resuming, -job.priority, not preempts, rank, -urgency, age_start, job.key


def _is_large_within_share(job: Job, shares: Shares) -> bool:
    """Returns whether a job is large, and would not give its namespace too many nodes."""
    share, part = shares.by_namespace.get(job.key[0], 0.0), len(job.unpinned_workers) / shares.node_count
    is_within_share = share == 0 or share + part <= LARGE_JOB_SHARE
    return LARGE_JOB_PART <= part <= 1 and is_within_share


def _has_obstacle(job: Job) -> bool:
    try:
        return job.obstacle is not None
    except Exception:  # noqa: BLE001 - a bug in this program, which is reported when the job is considered
        return True
