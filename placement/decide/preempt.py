"""Chooses running jobs of lower priority that end for the first job that does not fit. Pure.

Rows of the table permit it to namespaces. A job ends as a whole, and only if its author chose that it may
start again. If its units would not be enough, nothing ends.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final

from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster, shown
from placement.decide.jobs import Job
from placement.decide.lost import Losses
from placement.decide.plan import MOST_PREEMPTIONS, Memory, Opening, Preemption, Tuning, recent_times
from placement.decide.reserve import Ends, Reservation
from placement.observe.inventory import Inventory
from placement.observe.model import Ended, JobKey, Pod

MOST_VICTIMS: Final = 32  # jobs that end for one
MOST_CHECKS: Final = 8  # decisions about whether all of them have to end

Fits = Callable[[Collection[JobKey]], Opening | None]
"""Returns how a job would be admitted if some jobs did not exist; None if it would not."""


@dataclass
class Preemptions:
    """The jobs that end for another one, while a decision is made."""

    cluster: Cluster
    now: datetime
    tuning: Tuning
    memory: Memory
    losses: Losses
    ends: Ends

    def __post_init__(self) -> None:
        """Takes over what the last decision began, for as long as an admission may take."""
        before = self.memory.preemption
        self.current = before if before and self.now - before.at < self.tuning.bound else None
        self.times = recent_times(self.memory.preempted, self.now)
        self._jobs: Mapping[JobKey, Job] = {}

    def follow(self, jobs: Mapping[JobKey, Job]) -> None:
        """Goes on with the jobs that were to end, if the job for which they end still waits."""
        self._jobs = jobs
        if not self.current:
            return
        job = jobs.get(self.current.job)
        if job is None or not job.gated:
            self.current = None
            return
        for key in self.current.victims & jobs.keys():
            times = [member.pod.opened for member in jobs[key].workers]
            if all(at and at <= self.current.at for at in times):  # not admitted again meanwhile
                self.losses.end(jobs[key], job)

    def preempts(self, job: Job) -> bool:
        """Returns whether jobs end for a job."""
        return bool(self.current and self.current.victims and self.current.job == job.key)

    def may(self, job: Job) -> bool:
        """Returns whether jobs may end for a job that is the first one in the queue."""
        times, namespace = self.times.get(job.key[0], ()), job.key[0]
        permitted = self.tuning.preempts and self.tuning.units.preempts(namespace)
        first = self.cluster.reservation is None or self.cluster.reservation.job == job.key
        return permitted and first and not self.current and not job.begun and len(times) < MOST_PREEMPTIONS

    def begin(self, job: Job, ranking: Ranking, fits: Fits) -> Sequence[Job]:
        """Returns the jobs that end for a job; none if that would not help, which is not tried again soon."""
        able = {each.key: each for each in self._jobs.values() if self._may_end(each, job)}
        victims, opening = self._chosen(job, ranking, able.keys()), None
        if victims and len(victims) <= MOST_VICTIMS:
            opening = fits(victims)
            for victim in sorted(victims, key=self._since)[: MOST_CHECKS if opening else 0]:
                if found := fits(victims - {victim}):
                    victims, opening = victims - {victim}, found
        if opening is None:
            self.current = Preemption(job.key, self.now, frozenset(), (), frozenset())
            return ()
        units = (self.cluster.topology.unit(job.place.unit, unit) for unit in opening.units)
        nodes = frozenset[str]().union(*(unit.names for unit in units if unit))
        self.current = Preemption(job.key, self.now, victims, opening.units, nodes)
        self.times[job.key[0]] = (*self.times.get(job.key[0], ()), self.now)
        ending = [able[victim] for victim in sorted(victims)]
        for each in ending:
            self.losses.end(each, job)
        return ending

    def hold(self, job: Job) -> Sequence[str]:
        """Reserves the units of the jobs that end for a job; returns the names of these jobs."""
        if not self.current or not self.preempts(job):
            return ()
        units, nodes, begin = self.current.units, self.current.nodes, self.now + self.tuning.bound
        self.cluster.reservation = Reservation(
            job.key, units, nodes, begin, assumed=True, own=False, ends=self.ends
        )
        return sorted(map(shown, self.current.victims))

    def _may_end(self, job: Job, by: Job) -> bool:
        """Returns whether a job may end for another one: all of it was admitted, and it may start again."""
        guarantees = self.cluster.guarantees
        return (
            job.order[0] > by.order[0]
            and job.settled
            and not job.gated
            and all(member.pod.opened and member.pod.on_failure and member.neuron for member in job.workers)
            and job.key not in self.losses.lasting
            and self.losses.pause(job) is None
            and not (guarantees and guarantees.protects(job))
        )

    def _since(self, key: JobKey) -> datetime:
        return self.ends.admitted[key].since

    def _chosen(self, job: Job, ranking: Ranking, able: AbstractSet[JobKey]) -> frozenset[JobKey]:
        """Returns the jobs whose units are enough for a job: few, and young ones; none if there are none."""
        ways: dict[str, frozenset[JobKey]] = {}
        for unit in ranking.possible():
            held = ranking.holders(unit, able)
            if held is not None and held <= able and not self.cluster.guaranteed(unit, job):
                ways[unit.id] = held
        chosen, left, wanted = frozenset[JobKey](), dict(ways), len(job.blocks)
        if len(ways) < wanted:
            return chosen
        units = Counter(ways.values())

        def cost(unit: str, missing: int) -> tuple[float, float, str]:
            held = left[unit]
            new = held - chosen
            oldest = min((self._since(key) for key in new), default=self.now)
            return len(new) / min(units[held], missing), (self.now - oldest).total_seconds(), unit

        for missing in range(wanted, 0, -1):
            chosen |= left.pop(min(left, key=partial(cost, missing=missing)))
        for key in sorted(chosen, key=self._since):
            if sum(held <= chosen - {key} for held in ways.values()) >= wanted:
                chosen -= {key}
        return chosen


def without(
    pods: Iterable[Pod | Ended], inventory: Inventory, jobs: Collection[JobKey]
) -> tuple[Sequence[Pod | Ended], Inventory]:
    """Returns the pods and the inventory if some jobs did not exist."""
    left: list[Pod | Ended] = []
    claims = dict(inventory.claims)
    for pod in pods:
        if (pod.key if isinstance(pod, Pod) else pod.job) not in jobs:
            left.append(pod)
        elif isinstance(pod, Pod):
            for _, name in pod.claims:
                claims.pop((pod.namespace, name), None)
    return left, replace(inventory, claims=claims)
