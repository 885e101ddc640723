"""The holders of nodes and units, and why a job cannot use a unit."""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from contract.place import Place
from placement import messages
from placement.decide.allocation import CLAIMED, Taken
from placement.decide.believe import Member
from placement.decide.fit import Cause, lacking
from placement.decide.guarantee import Guarantees
from placement.decide.jobs import Job
from placement.decide.repel import Repelling
from placement.decide.topology import Topology, Unit, unsuited
from placement.observe.model import UNITS, Demand, JobKey, Kind, Node, Pod, Units, is_pod

if TYPE_CHECKING:
    from placement.decide.reserve import Reservation

# The states of a unit: too few nodes are Ready and not cordoned; reserved; all nodes, some or none are free.
STATES: Final = ("sick", "reserved", "free", "part", "used")
# More devices than a node has.
MOST: Final = 10_000


@dataclass(slots=True)
class Part:
    """The part of a block in a unit that several jobs share."""

    size: int
    demand: Demand  # the demand of its pods on a node
    nodes: set[str]  # the nodes of its pods

    @property
    def due(self) -> int:
        """The number of its pods without a node: not bound yet, or to be recreated."""
        return max(self.size - len(self.nodes), 0)


class Cluster:
    """The nodes and their holders; a decision adds the jobs that it admits."""

    def __init__(self, topology: Topology, resting: Container[JobKey], units: Units = UNITS) -> None:
        self.topology, self.units = topology, units
        # By label and id of a unit that jobs share: the blocks that have a part of it.
        self.parts: defaultdict[tuple[str, str], dict[tuple[JobKey, int], Part]] = defaultdict(dict)
        # For each node with holders: the jobs (or the pods without a job), and the size of the unit that each
        # needs for itself.
        self.holders: dict[str, dict[JobKey, int]] = {}
        # The amounts that the pods on a node use, in thousandths, by resource; and those of pods without a
        # job, which may stay.
        self.used: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.permanent_use: defaultdict[str, dict[str, int]] = defaultdict(dict)
        # Nodes that a pod without a job, or a claim, holds: it may stay.
        self._permanently_held: set[str] = set()
        # By namespace, the nodes with pods of no job, or whose placement annotation is not trusted.
        self.jobless_nodes: defaultdict[str, set[str]] = defaultdict(set)
        self.reservation: Reservation | None = None
        # Jobs whose pods the API server refused to change: a unit to which gated pods are pinned is not held.
        self.resting = resting
        self._held_units: set[tuple[JobKey, str]] = set()
        self.repelling = Repelling(topology)
        self.guarantees = Guarantees(topology, units, self.holders, self.parts)

    def add_pod(self, member: Member) -> None:
        """Adds a pod to the node that it has, or to the unit to which it is pinned."""
        pod, key, place, demand, neuron = member.pod, member.key, member.place, member.demand, member.neuron
        if node := pod.node:
            _add(self.used, node, demand)
            self.repelling.there[node].append(member)
            if pod.apart:
                # A job that holds a whole unit needs no anti-affinity there: no other job can get the unit.
                whole = place and place.size > 1 and neuron and not pod.deleting
                if not (place and whole and all(term.key == place.unit for term in pod.apart)):
                    self.repelling.add_pod(member)
            if member.alone:
                _add(self.permanent_use, node, demand)
            if place is None or not neuron:
                self.jobless_nodes[pod.namespace].add(node)
            if neuron and (place is not None or member.claimed or self._has_devices(pod)):
                self.hold(node, key, self.units.of(place.unit).needed(place.size) if place else 1)
                if member.alone:
                    self._permanently_held.add(node)
        # Most waiting pods have neither node nor pin. A pod without devices holds no unit.
        holds = pod.node or (member.pin and not (pod.gated and key in self.resting))
        if place is not None and holds and neuron and not pod.deleting:
            self._hold_unit_of(member, place)

    def _hold_unit_of(self, member: Member, place: Place) -> None:
        """Holds the unit of a worker while the worker exists: others of its block may be recreated there."""
        pod, key, kind = member.pod, member.key, self.units.of(place.unit)
        alone = place.size == 1 and not kind.divides
        if alone and pod.node:
            return
        known = not alone and (key, member.unit) in self._held_units
        unit = None if known else self.topology.unit(place.unit, member.unit)
        if unit is None:
            return
        self.hold_unit(unit, key, place, member.demand, member.block)
        if not kind.shared:
            self._held_units.add((key, unit.id))
        elif pod.node:
            self.parts[place.unit, unit.id][key, member.block].nodes.add(pod.node)

    def add_claim(self, taken: Taken) -> None:
        """Adds the devices that are allocated to a claim."""
        for counts in (self.used, self.permanent_use) if taken.stranger else (self.used,):
            used = counts[taken.node]
            used.update((name, used.get(name, 0) + amount) for name, amount in taken.used.items())
        if taken.stranger:
            self.hold(taken.node, taken.claim, 1)
            self._permanently_held.add(taken.node)

    def hold(self, node: str, job: JobKey, size: int = MOST) -> None:
        """Holds a node for a job that needs units of a size for itself; by default, of any size."""
        jobs = self.holders.setdefault(node, {})
        if size > jobs.get(job, 0):  # if its pods name different sizes, the largest is used
            jobs[job] = size

    def hold_unexamined(self, member: Member) -> None:
        """Holds the node and the pin of a pod with devices that cannot be examined further."""
        place, pinned = member.place, None
        if place and self.units.of(place.unit).takes(place.size):
            pinned = self.topology.unit(place.unit, member.pin)
        for name in {member.pod.node, *(pinned.names if pinned else ())} - {""} if member.neuron else ():
            self.hold(name, member.key)
            if member.alone:
                self._permanently_held.add(name)

    def hold_unit(self, unit: Unit, job: JobKey, place: Place, demand: Demand, block: int) -> None:
        """Gives a unit to a block of a job, or the resources of a single node, which jobs may share."""
        kind, whole = self.units.of(place.unit), self.topology.whole(place.unit, unit)
        if kind.shared:
            part = Part(place.size, demand, set())
            self.parts[place.unit, unit.id].setdefault((job, block), part)
        else:
            for name in whole.names:
                self.hold(name, job, kind.needed(place.size))
            if is_pod(job):
                self._permanently_held |= whole.names
            if place.size == 1 and not kind.divides:
                _add(self.used, unit.nodes[0].name, demand)
        self.guarantees.changed(whole.nodes)

    def taken(self, unit: Unit, place: Place, kind: Kind, demands: tuple[Demand, ...]) -> Cause | None:
        """Returns why too few nodes of a unit that suits pods are free for a block of their job."""
        if kind.shared:
            return self._crowded(unit, place, demands)
        size, whole = place.size, unit
        if kind.most:
            size, whole = kind.needed(size), self.topology.whole(place.unit, unit)
        if holder := self.holder(whole, size):
            return _held_by(holder)
        full = self.full(unit.nodes, demands)
        if full and kind.most and len(self._open(unit.nodes, demands)) >= place.size:
            return None
        return full

    def _crowded(self, unit: Unit, place: Place, demands: tuple[Demand, ...]) -> Cause | None:
        """Returns why a shared unit has no part for one more block; None if it has one.

        The scheduler may bind each pod without a node to any node that suits it, so there must be enough
        nodes for all of these pods, whichever pods are bound first.
        """
        parts = self.parts.get((place.unit, unit.id), {})
        due = Counter[Demand]()
        for part in parts.values():
            due[part.demand] += part.due
        wanted = place.size + due.total()
        whole = self.topology.whole(place.unit, unit)
        for demand in (None, *+due):
            nodes = unit.nodes if demand is None else [n for n in whole.nodes if not unsuited(n, (demand,))]
            free_nodes = len(self._open(nodes, demands if demand is None else (demand,)))
            if free_nodes < wanted:
                others = sorted({shown(job) for job, _ in parts})
                free = max(free_nodes - wanted + place.size, 0)
                return Cause("held", messages.crowded_unit(free, others[:2]))
        return None

    def _open(self, nodes: Iterable[Node], demands: Iterable[Demand]) -> list[Node]:
        """Returns the nodes without a holder that have enough resources left."""
        free = (node for node in nodes if node.name not in self.holders)
        return [node for node in free if _short((node,), demands, self.used) is None]

    def holder(self, unit: Unit, size: int) -> JobKey | None:
        """Returns a job that holds a unit; jobs that need a single node may share it."""
        for node in unit.nodes:
            if jobs := self.holders.get(node.name):
                for holder, needed in jobs.items():
                    if size > 1 or needed > 1:
                        return holder
        return None

    def repelled(
        self, nodes: Collection[Node], job: Job, ending: Collection[JobKey] | None = None
    ) -> Cause | None:
        """Returns the cause if anti-affinity keeps workers of the job off the nodes; otherwise None.

        With ``ending``, the jobs that will have ended, only by anti-affinity that may stay: of pods without a
        job, and of other jobs of its namespace.
        """
        if not (self.repelling.namespaces or job.anti_affinity):
            return None
        for whose in self.repelling.off(nodes, job):
            if ending is None or is_pod(whose) or (whose[0] == job.key[0] and whose not in ending):
                return Cause("repelled", messages.repelled(shown(whose)))
        return None

    def repelled_at_home(self, unit: Unit, job: Job) -> bool:
        """Returns whether pods of a job's own namespace keep it off a unit without a holder."""
        free = self.holder(unit, job.place.size) is None
        return free and any(whose[0] == job.key[0] for whose in self.repelling.others(unit.nodes, job))

    def can_become_free(self, unit: Unit, place: Place, kind: Kind, demands: Iterable[Demand]) -> bool:
        """Returns whether a job could have a unit that suits its pods, after other jobs have ended."""
        if not kind.divides:
            free = place.size == 1 or self._permanently_held.isdisjoint(unit.names)
            return free and _short(unit.nodes, demands, self.permanent_use) is None
        whole = self.topology.whole(place.unit, unit)
        if not (kind.shared or self._permanently_held.isdisjoint(whole.names)):
            return False
        nodes = (node for node in unit.nodes if node.name not in self._permanently_held)
        return sum(_short((node,), demands, self.permanent_use) is None for node in nodes) >= place.size

    def full(self, nodes: Iterable[Node], demands: Iterable[Demand]) -> Cause | None:
        """Returns the cause if pods do not fit on the nodes: the resource that is short; None if they fit."""
        short = _short(nodes, demands, self.used)
        return Cause("full", messages.full(*short)) if short else None

    def reserved_from(self, job: Job) -> frozenset[str]:
        """Returns the nodes that a job may not use, because they are reserved for another one."""
        reservation = self.reservation
        if reservation is None or not reservation.excludes(job):
            return frozenset()
        return frozenset() if self.guarantees.covers(job) else reservation.nodes

    def filler(self, nodes: Iterable[Node], demands: Iterable[Demand]) -> Pod | None:
        """Returns the pod without devices that uses most of what is short on the first full node; or None."""
        if (short := _short(nodes, demands, self.used)) is None:
            return None
        name, resource = short
        members = (member for member in self.repelling.there.get(name, ()) if not member.neuron)
        amounts = (
            (member.demand.requests.get(resource, 0), member.pod.uid, member.pod) for member in members
        )
        most, _, pod = max(amounts, default=(0, "", None))
        return pod if most else None

    def reserved(self, unit: Unit, job: Job) -> Cause | None:
        """Returns the cause if the unit is reserved for another job; None if the job may use it."""
        if self.reservation and not self.reserved_from(job).isdisjoint(unit.names):
            return Cause("reserved", messages.reserved_for(shown(self.reservation.job)))
        return None

    def neuron_left(self, node: Node) -> int:
        """Returns how many devices of a node are not in use, in thousandths of a device."""
        used, devices = self.used.get(node.name, {}), self.units.devices
        return sum(amount - used.get(name, 0) for name, amount in node.allocatable.items() if name in devices)

    def free(self, key: str, unit_id: str | None) -> int:
        """Returns how many usable nodes of a unit no job or pod holds, or will hold as a part of a job."""
        unit = self.topology.unit(key, unit_id)
        free = len((unit.names & self.topology.usable).difference(self.holders)) if unit else 0
        parts = self.parts.get((key, unit_id)) if unit_id else None
        return max(free - sum(part.due for part in parts.values()), 0) if parts else free

    def states(self, key: str) -> Counter[str]:
        """Returns how many units of a node label are in each state of `STATES`."""
        usable, counts = self.units.of(key).usable, Counter(dict.fromkeys(STATES, 0))
        reserved = self.reservation.nodes if self.reservation else frozenset[str]()
        for unit in self.topology.units_by(key).values():
            free = self.free(key, unit.id)
            if len(unit.names & self.topology.usable) < usable:
                counts["sick"] += 1
            elif not reserved.isdisjoint(unit.names):
                counts["reserved"] += 1
            else:
                counts["free" if free >= usable else "part" if free else "used"] += 1
        return counts

    def _has_devices(self, pod: Pod) -> bool:
        """Returns whether a pod's node offers the requested devices, which may have gone while it runs."""
        node = self.topology.nodes.get(pod.node)
        requests = pod.demand.requests
        return node is not None and any(
            requests.get(name) for name in self.units.devices if name in node.allocatable
        )


def _short(
    nodes: Iterable[Node], demands: Iterable[Demand], used: Mapping[str, Mapping[str, int]]
) -> tuple[str, str] | None:
    """Returns the name of a node with too little of a resource, and the resource; None if there is none."""
    for node in nodes:
        amounts = used.get(node.name, {})
        for demand in demands:
            if resource := lacking(demand, node, amounts):
                return node.name, resource
    return None


def _add(counts: defaultdict[str, dict[str, int]], node: str, demand: Demand) -> None:
    """Adds the amounts of one more pod on a node."""
    if node not in counts and not demand.claims:
        counts[node] = {"pods": 1000, **demand.requests}
        return
    used = counts[node]
    for ask in demand.claims:
        used[CLAIMED] = used.get(CLAIMED, 0) + 1000 * (ask.count or MOST)
    used["pods"] = used.get("pods", 0) + 1000
    for name, amount in demand.requests.items():
        used[name] = used.get(name, 0) + amount


@lru_cache(maxsize=4096)
def _held_by(job: JobKey) -> Cause:
    return Cause("held", messages.held_by(shown(job)))


@lru_cache(maxsize=4096)
def shown(job: JobKey) -> str:
    """Returns the name of a job, pod or claim: ``namespace/name`` if the label has the name."""
    namespace, label = job
    if label.startswith("claim/"):
        return f"claim {namespace}/{label.removeprefix('claim/')}"
    return f"{namespace}/{label.removeprefix('pod/').removeprefix(f'{namespace}.')}"
