"""Jobs: the pods that carry one job label in one namespace."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from itertools import chain, groupby
from typing import Final

from contract.keys import GATE, HOSTNAME, INJECT
from contract.place import Place, Placer
from placement.decide.fit import ANY_LABEL, selects
from placement.observe.model import Apart, JobKey, Pod

MOST_OWN: Final = 16
"""Terms of anti-affinity that the workers of a job may have between them; those by host name do not count."""


@dataclass(frozen=True)
class Job:
    """The pods of a job that are there and are not being deleted.

    Attributes:
        key: Namespace and job label.
        pods: The pods, by name.
        ended: The numbers of workers that have ended and are not waited for: a Job does not replace one
            that succeeded, so another that failed comes back without it.
    """

    key: JobKey
    pods: tuple[Pod, ...]
    ended: Collection[int] = ()

    @cached_property
    def workers(self) -> tuple[Pod, ...]:
        """The pods that take nodes."""
        return tuple(pod for pod in self.pods if pod.place is not None)

    @cached_property
    def gated(self) -> tuple[Pod, ...]:
        """The pods that wait."""
        return tuple(pod for pod in self.pods if pod.gated)

    @cached_property
    def unpinned(self) -> tuple[Pod, ...]:
        """The workers that have no unit yet."""
        return tuple(pod for pod in self.workers if pod.gated and pod.opened is None)

    @cached_property
    def coming(self) -> tuple[Pod, ...]:
        """The workers that have no node yet."""
        return tuple(pod for pod in self.workers if not pod.node)

    @cached_property
    def apart(self) -> tuple[Apart, ...]:
        """The terms of their anti-affinity."""
        return tuple(dict.fromkeys(chain.from_iterable(dict.fromkeys(pod.apart for pod in self.coming))))

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Their labels, for terms that select by one or by none."""
        return frozenset({ANY_LABEL}.union(*(pod.labels.items() for pod in self.coming)))

    @property
    def begun(self) -> bool:
        """Whether a part of it was opened: a worker whose gate somebody else took off gives no turn."""
        return any(pod.opened and pod.neuron for pod in self.workers)

    @cached_property
    def returns(self) -> bool:
        """Whether it was opened and all that wait have units: by the stored plan, or their block's."""
        if not self.begun:
            return False
        stands = {pod.block for pod in self.workers if pod.neuron and (pod.opened or pod.due)}
        return all(pod.block in stands for pod in self.gated if pod.place)

    @cached_property
    def order(self) -> tuple[int, datetime, JobKey]:
        """Whose turn it is: by the lowest priority of its workers, then age, then name."""
        return -min(pod.priority for pod in self.workers or self.pods), self.created, self.key

    @cached_property
    def created(self) -> datetime:
        """When the last of its workers that wait was created: it could not have been admitted before."""
        waiting = [pod for pod in self.workers if pod.gated]
        return max(pod.created for pod in waiting or self.pods)

    @property
    def settled(self) -> bool:
        """Whether every worker is there and bound."""
        return not self.missing and all(pod.node and not pod.gated for pod in self.workers)

    @property
    def place(self) -> Place:
        """What its workers agree on; only where `trouble` finds nothing.

        Raises:
            LookupError: It has no workers.
        """
        for pod in self.workers:
            if pod.place is not None:
                return pod.place
        raise LookupError(f"job {self.key} has no workers")

    @cached_property
    def blocks(self) -> Mapping[int, tuple[Pod, ...]]:
        """The workers of each unit, by the block's number."""
        workers = sorted(self.workers, key=lambda pod: pod.block)
        return {block: tuple(pods) for block, pods in groupby(workers, key=lambda pod: pod.block)}

    @cached_property
    def missing(self) -> str | None:
        """Why its workers, and those that have ended, are not all it needs; None where each is, once."""
        if self.unlike:
            return self.unlike
        total = self.place.workers
        numbers = {*(pod.number for pod in self.workers), *self.ended}
        there = sum(number < total for number in numbers)
        return None if there == total else f"{there} of {total} workers exist"

    @cached_property
    def unlike(self) -> str | None:
        """Why its workers cannot be those of one job; None where they can."""
        places = [pod.place for pod in self.workers if pod.place is not None]
        if not places:
            return "none of its workers exists yet"
        agreed = {(place.workers, place.size, place.unit) for place in places}
        if len(agreed) > 1:
            shown = sorted(agreed)[:2]
            said = " and ".join(f"{count} workers of node config {size}" for count, size, _ in shown)
            return f"its workers disagree: {said}; delete those that are not of this job"
        total = places[0].workers
        seen: dict[int, str] = {}
        for pod in self.workers:
            if pod.number >= total:
                return f"{pod.name} has number {pod.number}, but the job was admitted with {total} workers"
            if pod.number in seen:
                return f"{seen[pod.number]} and {pod.name} have the same number {pod.number}"
            seen[pod.number] = pod.name
        return None

    @property
    def goes_on(self) -> bool:
        """Whether it is at work and those that wait go back to units that it has, whoever else is there.

        Of a worker that is missing nobody can say that it will come: a Job recreates none that succeeded, and
        the Pod of one that did is deleted with its node.
        """
        if self.unlike or not any(pod.opened and pod.started for pod in self.workers):
            return False
        stands = {pod.block for pod in self.workers if pod.node or pod.opened}
        # A unit of one node is none to go back to: it may be another, so all of the job come first.
        return all(pod.place and pod.block in stands for pod in self.gated)

    def trouble(self) -> str | None:
        """Why it cannot be opened whatever is free; None where it can."""
        for pod in self.pods:
            if pod.problem:
                return f"{pod.name}: {pod.problem}"
            if pod.gated and not pod.job:
                return f"{pod.name} has the gate {GATE} but no job label: delete it, so that it is recreated"
            if pod.gated and pod.place and pod.place.placer is not Placer.GATE:
                placer = pod.place.placer
                return f"{pod.name} has the gate {GATE}, but its place says placer={placer}: remove the gate"
            others = [gate for gate in pod.gates if gate != GATE]
            if pod.gated and others:
                return f"{pod.name} waits for another gate as well: {others[0]}"
        if self.workers and not any(pod.neuron for pod in self.workers):
            return f"none of its workers asks for Neuron devices: create it with {INJECT}: false"
        if self.missing and not self.goes_on:
            return self.missing
        workers, size = self.place.workers, self.place.size
        if workers % size:
            return f"{workers} workers do not fill units of {size} nodes"
        return self._repels_itself()

    def _repels_itself(self) -> str | None:
        """By which term its workers keep each other off nodes, so that it never runs whole.

        Each worker has a node of its own, and each block a unit. About wider labels nothing is known.
        """
        own, terms = self.key[0], [term for term in self.apart if term.key != HOSTNAME]
        if len(terms) > MOST_OWN:
            return f"its workers have {len(terms)} terms of anti-affinity: at most {MOST_OWN} are looked at"
        for term in terms:
            # Their labels differ in a number at most: those that are alike in what it names are asked once.
            names = [item.key for item in term.labels or ()]
            kinds = {tuple(map(pod.labels.get, names)): pod.labels for pod in self.workers}
            selected = {kind for kind, labels in kinds.items() if selects(term, own, own, labels)}
            if not selected:
                continue
            for pods in self.blocks.values() if term.key == self.place.unit else (self.workers,):
                there = [pod for pod in pods if tuple(map(pod.labels.get, names)) in selected]
                if there and any(term in pod.apart and there != [pod] for pod in pods):
                    return f"its workers' required anti-affinity by {term.key} is about themselves: remove it"
        return None


def jobs_of(pods: Iterable[Pod]) -> list[Job]:
    """The jobs of which a pod, of those that have not ended, waits or takes a node."""
    found: defaultdict[JobKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        if not pod.deleting and (pod.place is not None or pod.gated):
            found[pod.key].append(pod)
    return [Job(key, tuple(sorted(own, key=lambda pod: pod.name))) for key, own in found.items()]
