"""Chooses victims of a preemption: running jobs whose units the first job that does not fit gets. Pure.

Rows of the table permit namespaces to preempt. A victim ends as a whole, and only if its author permits a
restart. If the units of all victims would not be enough, no job is preempted.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from placement import messages
from placement.decide.believe import Member
from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster, shown
from placement.decide.jobs import Job
from placement.decide.lost import Loss, Losses
from placement.decide.plan import (
    MOST_LEFT,
    MOST_PREEMPTIONS,
    REMEMBERED,
    Memory,
    Opening,
    Preemption,
    Tuning,
)
from placement.decide.reserve import DISTRUST, YOUNG, Ends, Reservation
from placement.observe.inventory import Inventory
from placement.observe.model import Ended, JobKey, Pod

MOST_VICTIMS: Final = 32  # victims of one preemption
MOST_CHECKS: Final = 3  # decisions that check whether a victim can be spared
LONGEST_END: Final = timedelta(hours=1)  # maximum time until the pods of the victims have ended

Fits = Callable[[Collection[JobKey]], Opening | None]
"""Returns how the job would be admitted if the given jobs did not exist; None if it would still wait."""


@dataclass
class Preemptions:
    """The preemptions during one decision."""

    cluster: Cluster
    now: datetime
    tuning: Tuning
    memory: Memory  # of the next decision
    losses: Losses
    ends: Ends

    current: Preemption | None = field(default=None, init=False)
    _jobs: Mapping[JobKey, Job] = field(default_factory=dict, init=False)
    _pods: Iterable[Pod | Ended] = field(default=(), init=False)
    _tried: bool = field(default=False, init=False)

    def follow(
        self, jobs: Mapping[JobKey, Job], pods: Iterable[Pod | Ended], before: Preemption | None
    ) -> None:
        """Continues with the victims until their pods have ended, and then for the time of an admission."""
        self._jobs, self._pods = jobs, pods
        if before is None or ((job := jobs.get(before.job)) and (job.begun or not job.gated)):
            return
        running = frozenset[str]().union(*map(self.losses.running, before.victims)) & before.pods
        gone = None if running else before.gone or self.now
        over = gone + self.tuning.bound if gone else before.at + LONGEST_END
        same = job and _uids(job.workers) == before.workers and job.priority == before.priority
        workers = {key: jobs[key].workers for key in before.victims & jobs.keys()}
        old = {
            key: members
            for key, each in workers.items()
            if (members := tuple(member for member in each if member.pod.uid in before.pods))
        }
        # A launcher that has a node already never had the gate: deleting the workers would not help.
        returned = [key for key in old if not _uids(self.losses.launchers_of(key)) <= before.pods]
        self.memory.spared.update(dict.fromkeys(returned, self.now + DISTRUST))
        if job is None or not same or self.now >= over or returned:
            self.memory.in_vain[before.job] = self.now
            return
        self.current = before._replace(gone=gone)
        for key, members in old.items():
            self.losses.lasting[key] = self.losses.victim(jobs[key], job, members)

    def preempts(self, job: Job) -> bool:
        """Returns whether a job preempts others now."""
        return bool(self.current and self.current.job == job.key)

    def is_victim(self, key: JobKey) -> bool:
        """Returns whether a job is a victim, and pods that ran when the preemption began still exist."""
        current = self.current
        return bool(current and key in current.victims and self.losses.running(key) & current.pods)

    def pause(self, job: Job) -> str | None:
        """Returns why a job is not admitted again yet; None if it may be."""
        return messages.ENDING if self.is_victim(job.key) else None

    def admit(self, job: Job) -> None:
        """Ends the preemption of a job that is admitted."""
        if self.current and self.preempts(job):
            for key in self.current.victims:
                self.losses.lasting.pop(key, None)
            self.current = None

    def may(self, job: Job) -> bool:
        """Returns whether a job, the first one in the queue, may preempt others."""
        times, namespace = self.memory.preempted.get(job.key[0], ()), job.key[0]
        permitted = self.tuning.preempts and self.tuning.units.preempts(namespace)
        first = self.cluster.reservation is None or self.cluster.reservation.job == job.key
        # A new leader does not know what the last one began.
        knows = self.now - (self.memory.first or self.now) >= YOUNG
        able = knows and not self.current and not self._tried and job.key not in self.memory.in_vain
        return permitted and first and able and not job.begun and len(times) < MOST_PREEMPTIONS

    def begin(self, job: Job, ranking: Ranking, fits: Fits) -> Sequence[tuple[Job, Loss]]:
        """Begins a preemption for a job, and returns the victims.

        Returns none if that would not help; then the job does not try again for a while.
        """
        able = {each.key: each for each in self._jobs.values() if self._may_end(each, job)}
        victims, opening = self._chosen(job, ranking, able.keys()), None
        if victims is not None and not victims:
            return ()  # pods that are already being deleted will leave enough units
        self._tried = True
        if victims and len(victims) <= MOST_VICTIMS:
            opening = fits(victims)
            for victim in sorted(victims, key=self._since)[: MOST_CHECKS if opening else 0]:
                if without_it := fits(victims - {victim}):
                    victims, opening = victims - {victim}, without_it
        if not victims or opening is None:
            self.memory.in_vain[job.key] = self.now
            return ()
        nodes = self.cluster.topology.names(job.place.unit, opening.units)
        pods = frozenset[str]().union(*map(self.losses.running, victims))
        workers, units = _uids(job.workers), opening.units
        self.current = Preemption(job.key, workers, job.priority, self.now, victims, pods, units, nodes)
        self.memory.preempted[job.key[0]] = (*self.memory.preempted.get(job.key[0], ()), self.now)
        self.memory.spared.update(dict.fromkeys(victims, self.now + REMEMBERED))
        ending = [able[victim] for victim in sorted(victims)]
        return [(each, self.losses.victim(each, job, each.workers)) for each in ending]

    def hold(self, job: Job) -> tuple[str, ...]:
        """Reserves the units of the victims for a job; returns the names of these jobs."""
        if not self.current or not self.preempts(job):
            return ()
        units, nodes, begin = self.current.units, self.current.nodes, self.now + self.tuning.bound
        self.cluster.reservation = Reservation(
            job.key, units, nodes, begin, assumed=True, own=False, ends=self.ends
        )
        return tuple(sorted(map(shown, self.current.victims)))

    def _may_end(self, job: Job, by: Job) -> bool:
        """Returns whether a job may be a victim of another: all of it was admitted, and may be restarted."""
        return (
            job.priority < by.priority
            and job.settled
            and not job.gated
            and job.key not in self.memory.spared
            and len(self.memory.launchers.get(job.key, ())) < MOST_LEFT
            and all(member.pod.opened and member.pod.on_failure and member.neuron for member in job.workers)
            and job.key not in self.losses.lasting
            and self.losses.pause(job) is None
            and not self.cluster.guarantees.protects(job)
        )

    def _since(self, key: JobKey) -> datetime:
        return self.ends.admitted[key].since

    def _chosen(self, job: Job, ranking: Ranking, able: AbstractSet[JobKey]) -> frozenset[JobKey] | None:
        """Returns victims whose units are enough for a job, few and young ones; None if there are too few."""
        ending = _ending(self._pods)
        usable = able | ending
        ways: dict[str, frozenset[JobKey]] = {}
        for unit in ranking.possible():
            holders = ranking.holders(unit, usable)
            if holders is not None and holders <= usable and not self.cluster.guarantees.cause(unit, job):
                ways[unit.id] = holders - ending
        victims, remaining, wanted = frozenset[JobKey](), dict(ways), len(job.blocks)
        if len(ways) < wanted:
            return None
        units = Counter(ways.values())

        def cost(unit: str, missing: int) -> tuple[float, float, str]:
            holders = remaining[unit]
            new = holders - victims
            oldest = min((self._since(key) for key in new), default=self.now)
            return len(new) / min(units[holders], missing), (self.now - oldest).total_seconds(), unit

        for missing in range(wanted, 0, -1):
            victims |= remaining.pop(min(remaining, key=partial(cost, missing=missing)))
        for key in sorted(victims, key=self._since):
            if sum(holders <= victims - {key} for holders in ways.values()) >= wanted:
                victims -= {key}
        return victims


def _uids(members: Iterable[Member]) -> frozenset[str]:
    return frozenset(member.pod.uid for member in members)


def _ending(pods: Iterable[Pod | Ended]) -> frozenset[JobKey]:
    """Returns the jobs all of whose pods that have nodes are being deleted."""
    admitted = [pod for pod in pods if isinstance(pod, Pod) and (pod.node or pod.opened)]
    return frozenset(
        {pod.key for pod in admitted if pod.deleting} - {pod.key for pod in admitted if not pod.deleting}
    )


def without(
    pods: Iterable[Pod | Ended], inventory: Inventory, jobs: Collection[JobKey]
) -> tuple[Sequence[Pod | Ended], Inventory]:
    """Returns the pods and the inventory without those of the given jobs."""
    others: list[Pod | Ended] = []
    claims = dict(inventory.claims)
    for pod in pods:
        if (pod.key if isinstance(pod, Pod) else pod.job) not in jobs:
            others.append(pod)
        elif isinstance(pod, Pod):
            for _, name in pod.claims:
                claims.pop((pod.namespace, name), None)
    return others, replace(inventory, claims=claims)
