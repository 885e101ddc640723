"""The order in which a decision considers jobs, with the ages and the positions of jobs."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta

from placement.decide.jobs import Job
from placement.decide.lost import Losses
from placement.decide.plan import Memory
from placement.decide.preempt import Preemptions
from placement.decide.reserve import (
    KEEP_AGE,
    KEEP_TIME,
    LARGE_JOB_AGE,
    LARGE_JOB_TIME,
    Reservations,
    Shares,
)
from placement.observe.model import JobKey


class Order:
    """The order of the jobs in one decision, by the memory of the last decision. Adds to the next memory."""

    def __init__(
        self, now: datetime, memory: Memory, next_memory: Memory, losses: Losses, preemptions: Preemptions
    ) -> None:
        self._now, self._memory, self._next_memory = now, memory, next_memory
        self._losses, self._preemptions = losses, preemptions

    def sort(self, jobs: list[Job], shares: Shares) -> None:
        """Sorts jobs in the order in which they are considered."""
        first_large_jobs = self._first_large_jobs(jobs, shares)
        jobs.sort(key=lambda job: self._sort_key(job, shares, first_large_jobs))

    def goes_first(self, job: Job) -> bool:
        """Returns whether a job needs only its own units, or new ones in place of units with failed nodes.

        A job with a failed admission or a refused write in the memory does not go first, nor does a victim.
        """
        moves = (job.is_returning or self._losses.moves(job)) and not self._preemptions.is_victim(job.key)
        return moves and job.key not in self._next_memory.failures

    def age_start(self, job: Job) -> datetime:
        """Returns when the age of a job begins: from then on, the job exists and could have been admitted.

        If an admission fails, the jobs of the namespace lose their age, except jobs that wait again after a
        node failure or a preemption. Otherwise a namespace could hold a unit by jobs that fail, one after the
        other. A debt of the namespace reduces the age of all its jobs.
        """
        created, failure, namespace = job.created, self._next_memory.failures.get(job.key), job.key[0]
        failed_at = self._next_memory.failed_namespaces.get(namespace, created)
        age_start = self._memory.age_starts.get(job.key, created)
        age_start = self._losses.age_start(job) or max(created, age_start, failed_at)
        if failure and failure.count and not failure.refusal:
            age_start = max(failure.at, age_start)
        debt, _ = self._next_memory.age_debts.get(namespace, (timedelta(), None))
        return age_start + debt

    def keep_age_start(self, job: Job, *, is_stuck: bool) -> None:
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
        has a gated worker created since then. While a namespace has a debt or a failure, none of its jobs
        begins to keep its position.
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

    def _first_large_jobs(self, jobs: Iterable[Job], shares: Shares) -> Collection[JobKey]:
        """Returns, for each namespace, the oldest large job that has waited for `LARGE_JOB_AGE`.

        If this job does not start within `LARGE_JOB_TIME`, no other job of the namespace replaces it until it
        starts or is deleted. A namespace with a debt has no such job.
        """
        first_since = self._next_memory.large_first_since
        oldest: dict[str, tuple[datetime, JobKey]] = {}
        for job in jobs:
            namespace, nodes = job.key[0], len(job.unpinned_workers)
            if nodes and (since := self._memory.large_first_since.get(job.key)):
                first_since[job.key] = since
            if not shares.may_come_first(namespace, nodes) or job.obstacle:
                continue
            age_start = self.age_start(job)
            if self._now - age_start >= LARGE_JOB_AGE:
                oldest[namespace] = min(oldest.get(namespace, (age_start, job.key)), (age_start, job.key))
        expired = {key[0] for key, since in first_since.items() if self._now - since >= LARGE_JOB_TIME}
        for namespace in oldest.keys() & (expired | self._next_memory.age_debts.keys()):
            del oldest[namespace]
        first_jobs = [key for _, key in oldest.values()]
        first_since.update((key, first_since.get(key, self._now)) for key in first_jobs)
        return first_jobs

    def _sort_key(
        self, job: Job, shares: Shares, first_large_jobs: Collection[JobKey]
    ) -> tuple[bool, int, bool, int, float, datetime, JobKey]:
        """Returns the sort key of a job: jobs of `goes_first`, then higher priority, then higher urgency.

        Among jobs of the same priority, jobs that preempt come first, then jobs that keep their position,
        then ``first_large_jobs``. A job loses its position after `KEEP_TIME`, after a failure that reduces
        its age, or if its namespace has a debt.
        """
        age_start, kept_since = self.age_start(job), self._memory.position_kept_since.get(job.key)
        urgency = shares.urgency(job.key[0], self._now - age_start)
        goes_first, preempts = self.goes_first(job), self._preemptions.preempts(job)
        is_kept = kept_since is not None and age_start <= kept_since and self._now - kept_since < KEEP_TIME
        is_kept = is_kept and job.key[0] not in self._next_memory.age_debts
        position = 0 if is_kept else 1 if job.key in first_large_jobs else 2
        return not goes_first, -job.priority, not preempts, position, -urgency, age_start, job.key
