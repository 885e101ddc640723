"""Chooses the victims of a preemption: running jobs that end so that the first waiting job can start. Pure.

Rows of the table permit namespaces to preempt. A job can be a victim only if its author or a row
permits a restart, because all its pods are deleted. If even all possible victims together would free too few
units, no job is preempted.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster, display_name
from placement.decide.jobs import Job
from placement.decide.lost import Loss, Losses
from placement.decide.members import Member
from placement.decide.plan import MEMORY_TIME, MOST_DEPARTURES, Admission, Memory, Preemption, Tuning
from placement.decide.reserve import DISTRUST, MIN_AGE, Reservation
from placement.observe.inventory import Inventory
from placement.observe.model import EndedWorker, JobKey, Pod

MOST_PREEMPTIONS: Final = 3  # how often jobs of a namespace may preempt other jobs within `MEMORY_TIME`
MOST_VICTIMS: Final = 32  # maximum number of victims of one preemption
MOST_CHECKS: Final = 3  # maximum number of victims for which a decision checks whether they are needed
LONGEST_ENDING: Final = timedelta(hours=1)  # maximum time until the pods of all victims have ended

Fits = Callable[[Collection[JobKey]], Admission | None]
"""Returns the admission of the waiting job if the given jobs did not exist; None if it would still wait."""


@dataclass
class Preemptions:
    """The preemptions during one decision."""

    cluster: Cluster
    now: datetime
    tuning: Tuning
    memory: Memory  # the memory for the next decision
    losses: Losses

    current: Preemption | None = field(default=None, init=False)
    _jobs: Mapping[JobKey, Job] = field(default_factory=dict, init=False)
    _pods: Iterable[Pod | EndedWorker] = field(default=(), init=False)
    _was_tried: bool = field(default=False, init=False)

    def follow(
        self, jobs: Mapping[JobKey, Job], pods: Iterable[Pod | EndedWorker], previous: Preemption | None
    ) -> None:
        """Continues the last preemption until the victims' pods have ended, and then for `Tuning.bound`."""
        self._jobs, self._pods = jobs, pods
        if previous is None or ((job := jobs.get(previous.job)) and (job.was_admitted or not job.gated_pods)):
            return
        uids = map(self.losses.uids_on_nodes, previous.victims)
        running_pods = frozenset[str]().union(*uids) & previous.pods
        ended = None if running_pods else previous.ended or self.now
        deadline = ended + self.tuning.bound if ended else previous.began + LONGEST_ENDING
        is_same_job = job and _uids(job.workers) == previous.workers and job.priority == previous.priority
        workers = {key: jobs[key].workers for key in previous.victims & jobs.keys()}
        old_workers = {
            key: members
            for key, all_workers in workers.items()
            if (members := tuple(member for member in all_workers if member.pod.uid in previous.pods))
        }
        # If a recreated launcher has a node, it never had the gate: the victim restarts and frees no unit.
        restarted = [key for key in old_workers if not _uids(self.losses.launchers_of(key)) <= previous.pods]
        self.memory.spared_until.update(dict.fromkeys(restarted, self.now + DISTRUST))
        if job is None or not is_same_job or self.now >= deadline or restarted:
            self.memory.failed_preemptions[previous.job] = self.now
            return
        self.current = previous._replace(ended=ended)
        for key, members in old_workers.items():
            self.losses.lasting[key] = self.losses.loss_of_victim(jobs[key], job, members)

    def preempts(self, job: Job) -> bool:
        """Returns whether a job has victims now."""
        return bool(self.current and self.current.job == job.key)

    def is_victim(self, key: JobKey) -> bool:
        """Returns whether a job is a victim, and a pod that ran when the preemption began has not ended."""
        current = self.current
        return bool(current and key in current.victims and self.losses.uids_on_nodes(key) & current.pods)

    def admit(self, job: Job) -> None:
        """Ends the preemption for a job that is admitted."""
        if self.current and self.preempts(job):
            for key in self.current.victims:
                self.losses.lasting.pop(key, None)
            self.current = None

    def can_begin(self, job: Job) -> bool:
        """Returns whether a job may begin a preemption now. Only the first job that does not fit may."""
        times, namespace = self.memory.preemption_times.get(job.key[0], ()), job.key[0]
        is_permitted = self.tuning.preempts and self.tuning.units.preempts(namespace)
        is_first = next((other.job for other in self.cluster.reservations.general), job.key) == job.key
        # A new leader does not know which preemptions the last leader began, so it waits.
        has_history = self.now - (self.memory.first_decision or self.now) >= MIN_AGE
        is_ready = has_history and not self.current and not self._was_tried
        can_try = is_ready and job.key not in self.memory.failed_preemptions and len(times) < MOST_PREEMPTIONS
        return is_permitted and is_first and can_try and not job.was_admitted

    def begin(self, job: Job, ranking: Ranking, fits: Fits) -> Sequence[tuple[Job, Loss]]:
        """Begins a preemption for a job, and returns the victims, each with its loss.

        Returns no victims if ending jobs free enough units, or if no preemption would help. In the second
        case, the job does not try again for `MEMORY_TIME`.
        """
        candidates = {key: other for key, other in self._jobs.items() if self._can_be_victim(other, job)}
        victims, admission = self._choose_victims(job, ranking, candidates.keys()), None
        if victims is not None and not victims:
            return ()  # pods that are already being deleted will free enough units
        self._was_tried = True
        if victims and len(victims) <= MOST_VICTIMS:
            admission = fits(victims)
            for key in sorted(victims, key=self._admitted_at)[: MOST_CHECKS if admission else 0]:
                if admission_without := fits(victims - {key}):
                    victims, admission = victims - {key}, admission_without
        if not victims or admission is None:
            self.memory.failed_preemptions[job.key] = self.now
            return ()
        nodes = self.cluster.topology.node_names(job.placement.unit, admission.units)
        pods = frozenset[str]().union(*map(self.losses.uids_on_nodes, victims))
        workers, units = _uids(job.workers), admission.units
        self.current = Preemption(job.key, workers, job.priority, self.now, victims, pods, units, nodes)
        times = self.memory.preemption_times.get(job.key[0], ())
        self.memory.preemption_times[job.key[0]] = (*times, self.now)
        self.memory.spared_until.update(dict.fromkeys(victims, self.now + MEMORY_TIME))
        victim_jobs = [candidates[key] for key in sorted(victims)]
        return [(victim, self.losses.loss_of_victim(victim, job, victim.workers)) for victim in victim_jobs]

    def reserve_units(self, job: Job) -> tuple[str, ...]:
        """Reserves the units that a job gets by its preemption. Returns the names of its victims, if any."""
        if not self.current or not self.preempts(job):
            return ()
        units, nodes, begin = self.current.units, self.current.nodes, self.now + self.tuning.bound
        reservation = Reservation(job.key, units, nodes, begin, is_assumed=True, is_internal=False)
        self.cluster.reservations.put_first(reservation)
        return tuple(sorted(map(display_name, self.current.victims)))

    def _can_be_victim(self, job: Job, preemptor: Job) -> bool:
        """Returns whether a job can be a victim: it runs, has a lower priority, and may be restarted now."""
        return (
            job.priority < preemptor.priority
            and job.is_settled
            and not job.gated_pods
            and job.key not in self.memory.spared_until
            and len(self.memory.launcher_deletions.get(job.key, ())) < MOST_DEPARTURES
            and all(
                member.pod.admitted_at and member.pod.on_failure and member.uses_devices
                for member in job.workers
            )
            and job.key not in self.losses.lasting
            and self.losses.backoff_reason(job) is None
            and not self.cluster.guarantees.protects(job)
        )

    def _admitted_at(self, key: JobKey) -> datetime:
        return self.cluster.ends.admitted_jobs[key].since

    def _choose_victims(
        self, job: Job, ranking: Ranking, candidates: AbstractSet[JobKey]
    ) -> frozenset[JobKey] | None:
        """Returns few, recently admitted victims; None if even all ``candidates`` would free too few units.

        If ending jobs free enough units, no victims are needed, and the result is empty.
        """
        ending_jobs = _ending_jobs(self._pods)
        removable_jobs = candidates | ending_jobs
        holders_by_unit: dict[str, frozenset[JobKey]] = {}
        allowances = self.cluster.guarantees.allowances(job)
        for unit in ranking.possible_units():
            holders = ranking.jobs_to_end(unit, removable_jobs)
            if holders is not None and not self.cluster.guarantees.why_kept(unit, job, allowances):
                holders_by_unit[unit.id] = holders - ending_jobs
        victims, remaining, needed = frozenset[JobKey](), dict(holders_by_unit), len(job.blocks)
        if len(holders_by_unit) < needed:
            return None
        unit_counts = Counter(holders_by_unit.values())

        def cost(unit: str, missing: int) -> tuple[float, float, str]:
            holders = remaining[unit]
            new_victims = holders - victims
            oldest = min((self._admitted_at(key) for key in new_victims), default=self.now)
            count = len(new_victims) / min(unit_counts[holders], missing)
            return count, (self.now - oldest).total_seconds(), unit

        for missing in range(needed, 0, -1):
            victims |= remaining.pop(min(remaining, key=partial(cost, missing=missing)))
        for key in sorted(victims, key=self._admitted_at):
            if sum(holders <= victims - {key} for holders in holders_by_unit.values()) >= needed:
                victims -= {key}
        return victims


def _uids(members: Iterable[Member]) -> frozenset[str]:
    return frozenset(member.pod.uid for member in members)


def _ending_jobs(pods: Iterable[Pod | EndedWorker]) -> frozenset[JobKey]:
    """Returns the ending jobs: all their pods that have a node or were admitted are being deleted."""
    admitted_pods = [pod for pod in pods if isinstance(pod, Pod) and (pod.node or pod.admitted_at)]
    remaining_jobs = {pod.key for pod in admitted_pods if not pod.deleting}
    return frozenset(pod.key for pod in admitted_pods if pod.deleting) - remaining_jobs


def without_jobs(
    pods: Iterable[Pod | EndedWorker], inventory: Inventory, jobs: Collection[JobKey]
) -> tuple[Sequence[Pod | EndedWorker], Inventory]:
    """Returns the pods and the inventory, without the pods of the given jobs and without their claims."""
    other_pods: list[Pod | EndedWorker] = []
    claims = dict(inventory.claims)
    for pod in pods:
        if (pod.key if isinstance(pod, Pod) else pod.job) not in jobs:
            other_pods.append(pod)
        elif isinstance(pod, Pod):
            for _, name in pod.claims:
                claims.pop((pod.namespace, name), None)
    return other_pods, replace(inventory, claims=claims)
