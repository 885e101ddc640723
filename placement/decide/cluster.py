"""Who holds which nodes, and why a unit cannot be used."""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final

from contract.keys import DEVICES
from placement.decide.allocation import CLAIMED, Taken
from placement.decide.believe import Member
from placement.decide.fit import Cause, lacking, pair_of, selects
from placement.decide.jobs import Job
from placement.decide.topology import Topology, Unit
from placement.observe.model import MARKS, SIZES, Apart, Demand, JobKey, Node, Pod, Units, is_pod

# Of one namespace's pods: terms of anti-affinity that are looked at where nodes share a label's value (those
# that select by one label or by none are looked up), and pods that they are compared with in a decision.
MOST_TERMS: Final = 200
MOST_COMPARED: Final = 200_000
# More devices than a node has.
MOST: Final = 10_000


class Cluster:
    """The nodes, and who holds them; fills up as openings are decided."""

    def __init__(self, topology: Topology, resting: Container[JobKey]) -> None:
        self.topology = topology
        # For each node that is held, the jobs (or pods, where they are of no job) that do, and the size of
        # the unit that each needs to itself.
        self.holders: dict[str, dict[JobKey, int]] = {}
        # What the pods on a node have, in thousandths, by resource; and those of no job, which may stay.
        self.used: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.staying: defaultdict[str, dict[str, int]] = defaultdict(dict)
        # Nodes with namespaces of pods there that hold them for no job, whatever they say.
        self.lodgers: set[tuple[str, str]] = set()
        # Nodes that are kept for a job which waited too long; and whether from its own namespace's jobs only.
        self.kept: dict[str, JobKey] = {}
        self.kept_inside = False
        # Jobs whose pods cannot be changed now: what they are pinned to behind the gate is not held.
        self.resting = resting
        self._given: set[tuple[JobKey, str]] = set()
        # By node label, its value and the namespace that they are about, empty for several: terms of pods
        # there, each with their namespace, and whose they are.
        self._apart: defaultdict[tuple[str, str, str], dict[tuple[str, Apart], JobKey]] = defaultdict(dict)
        # The same of terms about pods with a label: by this, whose they are, a job's or a pod's of none.
        self._exact: defaultdict[tuple[str, str, str], dict[tuple[str, str], dict[bool, JobKey]]]
        self._exact = defaultdict(dict)
        # How many of the former there are, by the pods' namespace as well; and where there are too many.
        self._terms: Counter[tuple[str, str, str, str]] = Counter()
        self._unclear: set[tuple[str, str, str]] = set()
        self._keys: set[str] = set()  # the node labels of these
        # The pods of each node that terms may select.
        self._marked: defaultdict[str, list[Member]] = defaultdict(list)
        self._met: dict[tuple[str, Apart, JobKey], bool] = {}
        self._near: dict[tuple[JobKey, Apart, str], JobKey | None] = {}
        self._compared: Counter[str] = Counter()  # with how many pods the terms of a namespace were compared

    def stand(self, member: Member) -> None:
        """Count a pod in, where it stands or is about to."""
        pod, key, place, demand, neuron = member.pod, member.key, member.place, member.demand, member.neuron
        if pod.node:
            _add(self.used[pod.node], demand)
            # Who has the whole unit to itself keeps nobody off that could have it.
            alone = place and place.size > 1 and neuron and not pod.deleting
            if (pod.labels or pod.apart) and not (
                place and alone and all(term.key == place.unit for term in pod.apart)
            ):
                self._stand_apart(member)
            if is_pod(key):
                _add(self.staying[pod.node], demand)
            if place is None or not neuron:
                self.lodgers.add((pod.node, pod.namespace))
            if neuron and (place is not None or member.claimed or self._has_devices(pod)):
                self._held(pod.node, key, place.size if place else 1)
        # Of those that wait, most are nowhere yet; without devices it takes no unit.
        there = pod.node or (member.pin and not (pod.gated and key in self.resting))
        if place is None or not there or not neuron or pod.deleting or (place.size == 1 and pod.node):
            return
        unit_id = self.unit_of(member)
        # The whole unit, for as long as one of its workers is there: another may have to come back.
        known = place.size > 1 and (key, unit_id) in self._given
        if not known and (unit := self.topology.unit(place.unit, unit_id)):
            self._given.add((key, unit.id))
            self.hold(unit, key, place.size, demand)

    def take(self, taken: Taken) -> None:
        """Count devices in that a claim has."""
        for counts in (self.used, self.staying) if taken.stranger else (self.used,):
            used = counts[taken.node]
            used.update((name, used.get(name, 0) + amount) for name, amount in taken.used.items())
        if taken.stranger:
            self._held(taken.node, taken.claim, 1)

    def hold_by_name(self, member: Member, units: Units) -> None:
        """Hold what a pod with devices names, its node and its pin, where more cannot be found out."""
        place, pinned = member.place, None
        if place and (place.unit, place.size) in units:
            pinned = self.topology.unit(place.unit, member.pin)
        for name in {member.pod.node, *(pinned.names if pinned else ())} - {""} if member.neuron else ():
            self._held(name, member.key, max(SIZES.values()))

    def unit_of(self, member: Member) -> str | None:
        """The unit of a worker: the one of its node, whose label may have changed, or the one of its pin."""
        node = self.topology.nodes.get(member.pod.node) if member.place else None
        return (node.unit(member.place.unit) if node and member.place else None) or member.pin

    def hold(self, unit: Unit, job: JobKey, size: int, demand: Demand) -> None:
        """Give a unit to a job; of one of a single node, which may be shared, the resources count at once."""
        for name in unit.names:
            self._held(name, job, size)
        if size == 1:
            _add(self.used[unit.nodes[0].name], demand)

    def holder(self, unit: Unit, size: int) -> JobKey | None:
        """Who is on a unit; one of a single node may be shared by those who need no more."""
        if self.holders.keys().isdisjoint(unit.names):
            return None
        for node in unit.nodes:
            for holder, needed in self.holders.get(node.name, {}).items():
                if size > 1 or needed > 1:
                    return holder
        return None

    def cause(self, unit: Unit, size: int, demands: Iterable[Demand], job: Job) -> Cause | None:
        """Why a job cannot have a unit that suits its pods; None where it can."""
        if holder := self.holder(unit, size):
            return Cause("held", f"held by {shown(holder)}")
        return (
            self.full(unit.nodes, demands) or self.repelled(unit.nodes, job) or self.kept_from(unit, job.key)
        )

    def repelled(self, nodes: Collection[Node], job: Job, *, always: bool = False) -> Cause | None:
        """Why kube-scheduler binds no worker of a job to some nodes: anti-affinity, others' or its own.

        With ``always`` only that of pods of no job, which may stay for ever, and of its own namespace.
        """
        ours = (self._avoids(term, value, job) for term in job.apart for value in _values(nodes, term.key))
        for whose in chain(self._others(nodes, job), filter(None, ours)):
            if is_pod(whose) or not always or whose[0] == job.key[0]:
                return Cause("repelled", f"kept off by anti-affinity and {shown(whose)}")
        return None

    def repelled_at_home(self, unit: Unit, job: Job) -> bool:
        """Whether pods of a job's own namespace keep it off a unit that nobody holds."""
        free = self.holder(unit, job.place.size) is None
        return free and any(whose[0] == job.key[0] for whose in self._others(unit.nodes, job))

    def _others(self, nodes: Collection[Node], job: Job) -> Iterator[JobKey]:
        """Whose pods keep a job off some nodes by terms of their own."""
        for key in self._keys:
            for value in _values(nodes, key):
                yield from self._repelling(key, value, job)

    def _repelling(self, key: str, value: str, job: Job) -> Iterator[JobKey]:
        """Whose pods keep a job off the nodes with a label's value."""
        for about in ("", job.key[0]):
            if exact := self._exact.get((key, value, about)):
                yield from chain(*(exact[pair].values() for pair in exact.keys() & job.pairs))
            for (own, term), whose in self._apart.get((key, value, about), {}).items():
                if self._compared[own] >= MOST_COMPARED:
                    self._unclear.add((key, value, about))
                if self._meets(own, term, job):
                    yield whose

    def unclear(self, nodes: Iterable[Node], namespace: str) -> bool:
        """Whether pods may keep those of a namespace off some nodes by terms that are too many to look at."""
        return bool(self._unclear) and any(
            (key, node.labels.get(key), about) in self._unclear
            for node in nodes
            for key in self._keys
            for about in ("", namespace)
        )

    def _stand_apart(self, member: Member) -> None:
        """Count in whom a pod keeps off, and who keeps off it."""
        pod, key = member.pod, member.key
        if pod.labels:
            self._marked[pod.node].append(member)
        node = self.topology.nodes.get(pod.node)
        for term in pod.apart if node else ():
            if node and term.labels is not None and (value := node.labels.get(term.key)) is not None:
                several = term.spaces is not None or len(term.namespaces) > 1
                about = "" if several else next(iter(term.namespaces), pod.namespace)
                where, pair = (term.key, value, about), pair_of(term)
                self._keys.add(term.key)
                if pair and (term.spaces == () or not several):
                    self._exact[where].setdefault(pair, {}).setdefault(is_pod(key), key)
                elif (pod.namespace, term) not in self._apart[where]:
                    self._terms[*where, pod.namespace] += 1
                    if self._terms[*where, pod.namespace] <= MOST_TERMS:
                        self._apart[where][pod.namespace, term] = key
                    else:
                        self._unclear.add(where)

    def _meets(self, own: str, term: Apart, job: Job) -> bool:
        """Whether a term of a pod of a namespace is about any worker of a job that has no node yet."""
        key = (own, term, job.key)
        if key not in self._met:
            self._met[key] = self._selected(term, own, job.coming) is not None
        return self._met[key]

    def _avoids(self, term: Apart, value: str, job: Job) -> JobKey | None:
        """Whose pod is where a term of a job's own keeps it off nodes, as far as such labels are kept."""
        if not all(item.key in MARKS for item in term.labels or ()):
            return None
        key = (job.key, term, value)
        if key not in self._near:
            near = self.topology.units_by(term.key).get(value)
            pods = chain.from_iterable(self._marked.get(name, ()) for name in (near.names if near else ()))
            self._near[key] = self._selected(term, job.key[0], pods)
        return self._near[key]

    def _selected(self, term: Apart, own: str, pods: Iterable[Member]) -> JobKey | None:
        """Whose the first pod is that a term of a namespace's pods selects."""
        for member in pods:
            if self._compared[own] >= MOST_COMPARED:
                return None
            self._compared[own] += 1
            if selects(term, own, member.pod.namespace, member.pod.labels):
                return member.key
        return None

    def can_become_free(self, unit: Unit, size: int, demands: Iterable[Demand]) -> bool:
        """Whether a job could have a unit that suits its pods, once other jobs have ended."""
        if size > 1 and any(map(is_pod, chain(*(self.holders.get(name, ()) for name in unit.names)))):
            return False
        return _short(unit.nodes, demands, self.staying) is None

    def full(self, nodes: Iterable[Node], demands: Iterable[Demand]) -> Cause | None:
        """Of which resource too little is left on nodes."""
        return _short(nodes, demands, self.used)

    def kept_from(self, unit: Unit, job: JobKey) -> Cause | None:
        """For which other job a unit is kept."""
        for node in unit.nodes:
            keeper = self.kept.get(node.name, job)
            if keeper != job and (keeper[0] == job[0] or not self.kept_inside):
                return Cause("kept", f"kept for {shown(self.kept[node.name])}, which has waited long")
        return None

    def neuron_left(self, node: Node) -> int:
        """What is left of a node's Neuron devices and cores together, in thousandths."""
        used = self.used.get(node.name, {})
        return sum(amount - used.get(name, 0) for name, amount in node.allocatable.items() if name in DEVICES)

    def free(self, key: str, unit_id: str | None) -> int:
        """Nodes of a unit that are usable and held by nobody."""
        unit = self.topology.unit(key, unit_id)
        return len((unit.names & self.topology.usable).difference(self.holders)) if unit else 0

    def whole(self, key: str, size: int) -> tuple[int, int]:
        """How many units are wholly free, and how many are broken into: some of their nodes only are."""
        counts = [self.free(key, unit_id) for unit_id in self.topology.units_by(key)]
        return counts.count(size), sum(0 < count < size for count in counts)

    def _has_devices(self, pod: Pod) -> bool:
        """Whether its node has what a pod asks for: a kubelet runs it without what no plugin there offers."""
        node = self.topology.nodes.get(pod.node)
        wanted = pod.demand.requests
        return node is not None and any(wanted.get(name) for name in DEVICES if name in node.allocatable)

    def _held(self, node: str, job: JobKey, size: int) -> None:
        held = self.holders.setdefault(node, {})
        if size > held.get(job, 0):  # where its pods disagree, the largest counts
            held[job] = size


def _values(nodes: Collection[Node], key: str) -> set[str]:
    """The values of a label of nodes; empty text for those without it."""
    return {node.labels.get(key, "") for node in nodes}


def _short(
    nodes: Iterable[Node], demands: Iterable[Demand], used: Mapping[str, Mapping[str, int]]
) -> Cause | None:
    for node in nodes:
        there = used.get(node.name, {})
        for demand in demands:
            if resource := lacking(demand, node, there):
                return Cause("full", f"node {node.name} has too little {resource}")
    return None


def _add(used: dict[str, int], demand: Demand) -> None:
    """Count one more pod in."""
    for ask in demand.claims:
        used[CLAIMED] = used.get(CLAIMED, 0) + 1000 * (ask.count or MOST)
    used["pods"] = used.get("pods", 0) + 1000
    for name, amount in demand.requests.items():
        used[name] = used.get(name, 0) + amount


@lru_cache(maxsize=4096)
def shown(job: JobKey) -> str:
    """A job, or a pod or claim without one, for people: ``namespace/name`` where the label says the name."""
    namespace, label = job
    if label.startswith("claim/"):
        return f"claim {namespace}/{label.removeprefix('claim/')}"
    return f"{namespace}/{label.removeprefix('pod/').removeprefix(f'{namespace}.')}"
