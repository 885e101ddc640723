"""Who holds which nodes, and why a unit cannot be used."""

from collections import defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from contract.keys import DEVICES
from placement.decide.allocation import CLAIMED, Taken
from placement.decide.believe import Member
from placement.decide.fit import Cause, lacking
from placement.decide.jobs import Job
from placement.decide.repel import Repelling
from placement.decide.topology import Topology, Unit
from placement.observe.model import SIZES, Demand, JobKey, Node, Pod, Units, is_pod

if TYPE_CHECKING:
    from placement.decide.reserve import Reservation

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
        self.reservation: Reservation | None = None
        # Jobs whose pods cannot be changed now: what they are pinned to behind the gate is not held.
        self.resting = resting
        self._given: set[tuple[JobKey, str]] = set()
        self.repelling = Repelling(topology)

    def stand(self, member: Member) -> None:
        """Count a pod in, where it stands or is about to."""
        pod, key, place, demand, neuron = member.pod, member.key, member.place, member.demand, member.neuron
        if pod.node:
            _add(self.used[pod.node], demand)
            self.repelling.there[pod.node].append(member)
            if pod.apart:
                # Who has the whole unit to itself keeps nobody off that could have it.
                alone = place and place.size > 1 and neuron and not pod.deleting
                if not (place and alone and all(term.key == place.unit for term in pod.apart)):
                    self.repelling.stand(member)
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
        return self.full(unit.nodes, demands) or self.repelled(unit.nodes, job) or self.kept_from(unit, job)

    def repelled(self, nodes: Collection[Node], job: Job, *, always: bool = False) -> Cause | None:
        """Why kube-scheduler binds no worker of a job to some nodes: anti-affinity, others' or its own.

        With ``always`` only that of pods of no job, which may stay for ever, and of its own namespace.
        """
        for whose in self.repelling.off(nodes, job):
            if is_pod(whose) or not always or whose[0] == job.key[0]:
                return Cause("repelled", f"kept off by anti-affinity and {shown(whose)}")
        return None

    def repelled_at_home(self, unit: Unit, job: Job) -> bool:
        """Whether pods of a job's own namespace keep it off a unit that nobody holds."""
        theirs = any(whose[0] == job.key[0] for whose in self.repelling.others(unit.nodes, job))
        return theirs and self.holder(unit, job.place.size) is None

    def can_become_free(self, unit: Unit, size: int, demands: Iterable[Demand]) -> bool:
        """Whether a job could have a unit that suits its pods, once other jobs have ended."""
        if size > 1 and any(map(is_pod, chain(*(self.holders.get(name, ()) for name in unit.names)))):
            return False
        return _short(unit.nodes, demands, self.staying) is None

    def full(self, nodes: Iterable[Node], demands: Iterable[Demand]) -> Cause | None:
        """Of which resource too little is left on nodes."""
        return _short(nodes, demands, self.used)

    def kept_from(self, unit: Unit, job: Job) -> Cause | None:
        """For which other job a unit is kept."""
        kept = self.reservation
        if kept is None or kept.nodes.isdisjoint(unit.names) or not kept.keeps_out(job):
            return None
        return Cause("reserved", f"reserved for {shown(kept.job)}, which is next")

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
