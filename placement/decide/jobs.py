"""A job: the pods of a namespace that have the same job label."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Final

from contract.keys import GATE, HOSTNAME
from contract.placement import Placement, Placer
from placement import messages
from placement.decide.fit import ANY_LABEL, selects
from placement.decide.members import Member
from placement.observe.model import Apart, Demand, JobKey, is_jobless

BY_NAME: Final = attrgetter("pod.name")
MOST_TERMS: Final = 16
"""Maximum number of different anti-affinity terms of a job's workers. Terms on the host name are ignored."""


Layout = tuple[int, int, str]
"""The number of workers of a job, the size of a block, and the node label of the units."""


@dataclass(frozen=True)
class Job:
    """The existing pods of a job that are not being deleted."""

    key: JobKey
    pods: tuple[Member, ...]  # sorted by name
    # The number, within the job, of each worker that has ended and is not recreated. A batch/v1 Job does not
    # replace a pod that succeeded: if another pod fails, only the failed pod is recreated.
    ended_numbers: Collection[int] = ()

    @cached_property
    def workers(self) -> tuple[Member, ...]:
        """The pods that take nodes."""
        return tuple(member for member in self.pods if member.placement is not None)

    @cached_property
    def gated_pods(self) -> tuple[Member, ...]:
        """The pods that have the scheduling gate."""
        return tuple(member for member in self.pods if member.pod.gated)

    @cached_property
    def unpinned_workers(self) -> tuple[Member, ...]:
        """The gated workers that the program has not pinned yet."""
        return tuple(member for member in self.workers if member.pod.gated and member.pod.admitted_at is None)

    @cached_property
    def demands(self) -> tuple[Demand, ...]:
        """The different demands of the unpinned workers."""
        return tuple(dict.fromkeys(member.demand for member in self.unpinned_workers))

    @cached_property
    def unbound_workers(self) -> tuple[Member, ...]:
        """The workers that have no node yet."""
        return tuple(member for member in self.workers if not member.pod.node)

    @cached_property
    def anti_affinity(self) -> tuple[Apart, ...]:
        """The anti-affinity terms of the workers that have no node yet."""
        different_terms = dict.fromkeys(member.pod.apart for member in self.unbound_workers)
        return tuple(dict.fromkeys(chain.from_iterable(different_terms)))

    @cached_property
    def label_pairs(self) -> frozenset[tuple[str, str]]:
        """The labels of the workers that have no node yet, each with its value; and `ANY_LABEL`."""
        return frozenset({ANY_LABEL}.union(*(member.pod.labels.items() for member in self.unbound_workers)))

    @cached_property
    def admitted_workers(self) -> tuple[Member, ...]:
        """The workers that this program admitted, without workers whose gate a user removed."""
        return tuple(member for member in self.workers if member.pod.admitted_at)

    @cached_property
    def was_admitted(self) -> bool:
        """Whether at least one worker with devices was admitted."""
        return any(member.uses_devices for member in self.admitted_workers)

    @cached_property
    def all_wait(self) -> bool:
        """Whether all workers have the gate, and no worker has a node or a pin."""
        return all(member.pod.gated and not member.pod.node and member.pin is None for member in self.workers)

    @property
    def limit(self) -> timedelta | None:
        """The time limit of the job, from its deadline or its annotation; None if it has none."""
        return self.workers[0].pod.limit if self.workers else None

    @cached_property
    def admitted_at(self) -> datetime | None:
        """The earliest admission (else creation) of the workers that have a node or pin; or None."""
        pods = (member.pod for member in self.workers if member.pod.node or member.pin)
        return min((pod.admitted_at or pod.created for pod in pods), default=None)

    @cached_property
    def is_returning(self) -> bool:
        """Whether the job was admitted, and each gated worker (if any) belongs to a block that has a unit."""
        if not self.was_admitted:
            return False
        blocks = {
            member.pod.block for member in self.workers if member.uses_devices and member.pin is not None
        }
        return all(member.pod.block in blocks for member in self.gated_pods if member.placement)

    @cached_property
    def priority(self) -> int:
        """The lowest priority of the workers; without workers, of the pods."""
        return min(member.pod.priority for member in self.workers or self.pods)

    @cached_property
    def created(self) -> datetime:
        """When the last gated worker was created; without gated workers, the last pod."""
        waiting = [member for member in self.workers if member.pod.gated]
        return max(member.pod.created for member in waiting or self.pods)

    @cached_property
    def is_settled(self) -> bool:
        """Whether every worker is bound to a node, or has ended."""
        are_bound = (member.pod.node and not member.pod.gated for member in self.workers)
        return not self.incomplete_reason and all(are_bound)

    @cached_property
    def placement(self) -> Placement:
        """The placement annotation of the first worker. Without a `mismatch`, all workers have its layout."""
        return [member.placement for member in self.workers if member.placement][0]  # noqa: RUF015 - an IndexError without workers

    @cached_property
    def blocks(self) -> Mapping[int, tuple[Member, ...]]:
        """The workers of each block, by the block's number."""
        blocks: defaultdict[int, list[Member]] = defaultdict(list)
        for member in self.workers:
            blocks[member.pod.block].append(member)
        return {block: tuple(blocks[block]) for block in sorted(blocks)}

    @cached_property
    def incomplete_reason(self) -> str | None:
        """Why workers are missing or do not match; None if each number has one worker, existing or ended."""
        if self.mismatch:
            return self.mismatch
        total = self.placement.workers
        numbers = {member.pod.number for member in self.workers}.union(self.ended_numbers)
        count = sum(number < total for number in numbers)
        return None if count == total else messages.missing(count, total)

    @cached_property
    def layouts(self) -> AbstractSet[Layout]:
        """The layouts in the workers' placement annotations: more than one if annotations differ."""
        placements = {member.placement for member in self.workers if member.placement}
        return {(placement.workers, placement.size, placement.unit) for placement in placements}

    @cached_property
    def mismatch(self) -> str | None:
        """Why the workers cannot belong to one job; None if they can."""
        if not self.layouts:
            return messages.NO_WORKERS
        if len(self.layouts) > 1:
            return messages.unlike([(count, size) for count, size, _ in sorted(self.layouts)[:2]])
        total = self.placement.workers
        names: dict[int, str] = {}
        for pod in (member.pod for member in self.workers):
            if pod.number >= total:
                return messages.high_number(pod.name, pod.number, total)
            if pod.number in names:
                return messages.same_number(names[pod.number], pod.name, pod.number)
            names[pod.number] = pod.name
        return None

    @property
    def can_continue(self) -> bool:
        """Whether the job runs, and each gated pod is a worker that returns to the unit of its block.

        Then the job does not wait for missing workers, because they may never be recreated: a batch/v1 Job
        does not recreate a worker that succeeded, and the Pod of that worker is gone if its node was deleted.
        """
        if self.mismatch or not any(member.pod.admitted_at and member.pod.started for member in self.workers):
            return False
        blocks = {member.pod.block for member in self.workers if member.pod.node or member.pod.admitted_at}
        # A gated worker without other workers in its block has no unit to which it returns.
        return all(member.placement and member.pod.block in blocks for member in self.gated_pods)

    @cached_property
    def obstacle(self) -> str | None:
        """Why the job could not be admitted even if all units were free; None if it could."""
        for member in self.pods:
            if member.problem:
                return messages.about(member.pod.name, member.problem)
        if self.gated_pods and is_jobless(self.key):
            return messages.no_job_label(self.gated_pods[0].pod.name)
        for member in self.gated_pods:
            pod, placement = member.pod, member.placement
            if placement and placement.placer is not Placer.WHOLE_JOB:
                return messages.other_placer(pod.name, str(placement).split()[0])
            if len(pod.gates) > 1 and (other_gates := [gate for gate in pod.gates if gate != GATE]):
                return messages.other_gate(pod.name, other_gates[0])
            if placement and not member.uses_devices:
                return messages.no_devices(pod.name)
        if self.incomplete_reason and not self.can_continue:
            return self.incomplete_reason
        workers, size = self.placement.workers, self.placement.size
        if workers % size:
            return messages.partial_unit(workers, size)
        return self._why_it_repels_itself()

    def _why_it_repels_itself(self) -> str | None:
        """Returns why the workers' own anti-affinity, or its number of terms, prevents an admission; or None.

        A term on the label of the units is checked within each block, any other term among all workers.
        """
        namespace, terms = self.key[0], [term for term in self.anti_affinity if term.key != HOSTNAME]
        if len(terms) > MOST_TERMS:
            return messages.many_terms(len(terms), MOST_TERMS)
        for term in terms:
            # Most labels are equal on all workers. One worker is examined for each combination of the values.
            names = [item.key for item in term.labels or ()]
            samples = {tuple(map(member.pod.labels.get, names)): member.pod.labels for member in self.workers}
            selected = {key for key, labels in samples.items() if selects(term, namespace, namespace, labels)}
            if not selected:
                continue
            for pods in self.blocks.values() if term.key == self.placement.unit else (self.workers,):
                avoided = [member for member in pods if tuple(map(member.pod.labels.get, names)) in selected]
                owners = (member for member in pods if term in member.pod.apart)
                if avoided and any(avoided != [owner] for owner in owners):
                    return messages.repels_itself(term.key)
        return None


# By key: the pods of the job in the order in which they were read, and the job.
JobCache = dict[JobKey, tuple[list[Member], Job]]


def jobs_of(pods: Iterable[Member], known_jobs: JobCache | None = None) -> JobCache:
    """Returns the jobs of pods, by key, each with its pods. A job has at least one gated pod or one worker.

    If a known job still has the same pods, its object is used again, with the properties that it has cached.
    """
    by_key: defaultdict[JobKey, list[Member]] = defaultdict(list)
    for member in pods:
        if not member.pod.deleting and (member.placement is not None or member.pod.gated):
            by_key[member.key].append(member)
    jobs: JobCache = {}
    for key, members in by_key.items():
        known_entry = known_jobs.get(key) if known_jobs else None
        if known_entry and known_entry[0] == members:
            jobs[key] = known_entry
        else:
            jobs[key] = members, Job(key, tuple(sorted(members, key=BY_NAME)))
    return jobs
