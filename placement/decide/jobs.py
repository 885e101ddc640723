"""Jobs: the pods that carry one job label in one namespace."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import chain
from typing import Final

from contract.keys import GATE, HOSTNAME, INJECT
from contract.place import Place, Placer
from placement.decide.believe import Member
from placement.decide.fit import ANY_LABEL, selects
from placement.observe.model import Apart, JobKey, is_pod

MOST_OWN: Final = 16
"""Terms of anti-affinity that the workers of a job may have between them; those by host name do not count."""


@dataclass(frozen=True)
class Job:
    """The pods of a job that are there and are not being deleted."""

    key: JobKey
    pods: tuple[Member, ...]  # by name
    # The numbers of workers that have ended and are not waited for: a Job does not replace one that
    # succeeded, so another that failed comes back without it.
    ended: Collection[int] = ()

    @cached_property
    def workers(self) -> tuple[Member, ...]:
        """The pods that take nodes."""
        return tuple(member for member in self.pods if member.place is not None)

    @cached_property
    def gated(self) -> tuple[Member, ...]:
        """The pods that wait."""
        return tuple(member for member in self.pods if member.pod.gated)

    @cached_property
    def unpinned(self) -> tuple[Member, ...]:
        """The workers that have no unit yet."""
        return tuple(member for member in self.workers if member.pod.gated and member.pod.opened is None)

    @cached_property
    def coming(self) -> tuple[Member, ...]:
        """The workers that have no node yet."""
        return tuple(member for member in self.workers if not member.pod.node)

    @cached_property
    def apart(self) -> tuple[Apart, ...]:
        """The terms of their anti-affinity."""
        kinds = dict.fromkeys(member.pod.apart for member in self.coming)
        return tuple(dict.fromkeys(chain.from_iterable(kinds)))

    @cached_property
    def pairs(self) -> frozenset[tuple[str, str]]:
        """Their labels, for terms that select by one or by none."""
        return frozenset({ANY_LABEL}.union(*(member.pod.labels.items() for member in self.coming)))

    @property
    def begun(self) -> bool:
        """Whether a part of it was opened: a worker whose gate somebody else took off gives no turn."""
        return any(member.pod.opened and member.neuron for member in self.workers)

    @property
    def limit(self) -> timedelta | None:
        """How long it says that it runs at most."""
        return self.workers[0].pod.limit if self.workers else None

    @property
    def since(self) -> datetime | None:
        """When it was admitted: when the first of its workers that has a unit was; None where none has."""
        there = (member.pod for member in self.workers if member.pod.node or member.pin)
        return min((pod.opened or pod.created for pod in there), default=None)

    @cached_property
    def returns(self) -> bool:
        """Whether it was opened and all that wait have units: by the stored plan, or their block's."""
        if not self.begun:
            return False
        stands = {member.block for member in self.workers if member.neuron and member.pin is not None}
        return all(member.block in stands for member in self.gated if member.place)

    @cached_property
    def order(self) -> tuple[int, datetime, JobKey]:
        """Whose turn it is: by the lowest priority of its workers, then age, then name."""
        return -min(member.pod.priority for member in self.workers or self.pods), self.created, self.key

    @cached_property
    def created(self) -> datetime:
        """When the last of its workers that wait was created: it could not have been admitted before."""
        waiting = [member for member in self.workers if member.pod.gated]
        return max(member.pod.created for member in waiting or self.pods)

    @property
    def settled(self) -> bool:
        """Whether every worker is there and bound."""
        return not self.missing and all(member.pod.node and not member.pod.gated for member in self.workers)

    @property
    def place(self) -> Place:
        """What its workers agree on; only where `trouble` finds nothing.

        Raises:
            LookupError: It has no workers.
        """
        for member in self.workers:
            if member.place is not None:
                return member.place
        raise LookupError(f"job {self.key} has no workers")

    @cached_property
    def blocks(self) -> Mapping[int, tuple[Member, ...]]:
        """The workers of each unit, by the block's number."""
        found: defaultdict[int, list[Member]] = defaultdict(list)
        for member in self.workers:
            found[member.block].append(member)
        return {block: tuple(found[block]) for block in sorted(found)}

    @cached_property
    def missing(self) -> str | None:
        """Why its workers, and those that have ended, are not all it needs; None where each is, once."""
        if self.unlike:
            return self.unlike
        total = self.place.workers
        numbers = {*(member.pod.number for member in self.workers), *self.ended}
        there = sum(number < total for number in numbers)
        return None if there == total else f"{there} of {total} workers exist"

    @cached_property
    def unlike(self) -> str | None:
        """Why its workers cannot be those of one job; None where they can."""
        places = [member.place for member in self.workers if member.place is not None]
        if not places:
            return "none of its workers exists yet"
        agreed = {(place.workers, place.size, place.unit) for place in places}
        if len(agreed) > 1:
            shown = sorted(agreed)[:2]
            said = " and ".join(f"{count} workers of node config {size}" for count, size, _ in shown)
            return f"its workers disagree: {said}; delete those that are not of this job"
        total = places[0].workers
        seen: dict[int, str] = {}
        for pod in (member.pod for member in self.workers):
            if pod.number >= total:
                return f"{pod.name} has number {pod.number}, but the job was admitted with {total} workers"
            if pod.number in seen:
                return f"{seen[pod.number]} and {pod.name} have the same number {pod.number}"
            seen[pod.number] = pod.name
        return None

    @property
    def goes_on(self) -> bool:
        """Whether it is at work and those that wait go back to units that it has, even if others are there.

        Of a worker that is missing nobody can say that it will come: a Job recreates none that succeeded, and
        the Pod of one that did is deleted with its node.
        """
        if self.unlike or not any(member.pod.opened and member.pod.started for member in self.workers):
            return False
        stands = {member.block for member in self.workers if member.pod.node or member.pod.opened}
        # A unit of one node is none to go back to: it may be another, so all of the job come first.
        return all(member.place and member.block in stands for member in self.gated)

    def trouble(self) -> str | None:
        """Why it cannot be opened whatever is free; None where it can."""
        for member in self.pods:
            pod, place = member.pod, member.place
            if member.problem:
                return f"{pod.name}: {member.problem}"
            if pod.gated and is_pod(member.key):
                return f"{pod.name} has the gate {GATE} but no job label: delete it, so that it is recreated"
            if pod.gated and place and place.placer is not Placer.WHOLE_JOB:
                said = f"its place says {str(place).split()[0]}"
                return f"{pod.name} has the gate {GATE}, but {said}: remove the gate"
            if pod.gated and (others := [gate for gate in pod.gates if gate != GATE]):
                return f"{pod.name} waits for another gate as well: {others[0]}"
        if self.workers and not any(member.neuron for member in self.workers):
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
            kinds = {tuple(map(member.pod.labels.get, names)): member.pod.labels for member in self.workers}
            selected = {kind for kind, labels in kinds.items() if selects(term, own, own, labels)}
            if not selected:
                continue
            for pods in self.blocks.values() if term.key == self.place.unit else (self.workers,):
                there = [member for member in pods if tuple(map(member.pod.labels.get, names)) in selected]
                if there and any(term in member.pod.apart and there != [member] for member in pods):
                    return f"its workers' required anti-affinity by {term.key} is about themselves: remove it"
        return None


def jobs_of(pods: Iterable[Member]) -> list[Job]:
    """The jobs of which a pod, of those that have not ended, waits or takes a node."""
    found: defaultdict[JobKey, list[Member]] = defaultdict(list)
    for member in pods:
        if not member.pod.deleting and (member.place is not None or member.pod.gated):
            found[member.key].append(member)
    return [Job(key, tuple(sorted(own, key=lambda member: member.pod.name))) for key, own in found.items()]
