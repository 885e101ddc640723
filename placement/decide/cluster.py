"""The holders of nodes and units, and why a job cannot use a unit."""

from collections import Counter, defaultdict
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from contract.placement import Placement
from placement import messages
from placement.decide.allocation import CLAIMED, Allocation
from placement.decide.fit import Cause, lacking_resource
from placement.decide.guarantee import Allowance, Guarantees
from placement.decide.jobs import Job
from placement.decide.members import Member
from placement.decide.repel import Repelling
from placement.decide.reserve import Ends, Reservation, Reservations
from placement.decide.topology import Topology, Unit, why_unsuited
from placement.observe.model import Demand, JobKey, Node, Pod, UnitKind, UnitSettings, is_jobless

# The states of a unit. It is sick if too few of its nodes are Ready and not cordoned. If it is neither sick
# nor reserved, it has as many free nodes as a job can have (free), fewer (part), or none (used).
STATES: Final = ("sick", "reserved", "free", "part", "used")
# More nodes than any unit has, and more devices than any node has.
MORE_THAN_ANY: Final = 10_000


@dataclass(slots=True)
class Part:
    """The nodes of one block in a unit that several jobs share."""

    size: int  # the number of pods of the block
    demand: Demand  # the demand of each of these pods on a node
    nodes: set[str]  # the names of the nodes of these pods

    @property
    def unbound_count(self) -> int:
        """The number of pods of the block that have no node: unbound pods, and pods that do not exist yet."""
        return max(self.size - len(self.nodes), 0)


class Cluster:
    """The nodes and their holders. A decision adds each job that it admits."""

    def __init__(
        self, topology: Topology, refused_jobs: Container[JobKey], units: UnitSettings, ends: Ends
    ) -> None:
        self.topology, self.units, self.ends = topology, units, ends
        # For each unit that jobs share, by node label and id: its parts, by job and number of the block.
        self.parts: defaultdict[tuple[str, str], dict[tuple[JobKey, int], Part]] = defaultdict(dict)
        # For each node that has holders: the jobs, the pods without a job, and the claims without a pod, each
        # with the number of nodes that it needs for itself.
        self.holders: dict[str, dict[JobKey, int]] = {}
        # By node and resource, the amounts in use, in thousandths. `lasting_usage` has only amounts of pods
        # without a job and claims without a pod: it is unknown whether these pods and claims ever end.
        self.usage: defaultdict[str, dict[str, int]] = defaultdict(dict)
        self.lasting_usage: defaultdict[str, dict[str, int]] = defaultdict(dict)
        # The nodes that have a pod without a job, or a claim without a pod, as a holder.
        self._jobless_nodes: set[str] = set()
        # By namespace, the nodes with pods that are not workers: pods that have no trusted placement
        # annotation, or use no devices.
        self.other_pod_nodes: defaultdict[str, set[str]] = defaultdict(set)
        # Jobs that back off because the API server refused to change their pods. Their gated pods do not hold
        # the unit of their pin.
        self.refused_jobs = refused_jobs
        self._held_units: set[tuple[JobKey, str]] = set()
        self.repelling = Repelling(topology)
        self.guarantees = Guarantees(topology, units, self.holders, self.parts)
        self.reservations = Reservations(self.guarantees, ends)

    def add_pod(self, member: Member) -> None:
        """Adds a pod to its node. A worker with a node or a pin also holds its unit."""
        pod, key, placement, demand = member.pod, member.key, member.placement, member.demand
        uses_devices = member.uses_devices
        if node := pod.node:
            _add_usage(self.usage, node, demand)
            self.repelling.pods_by_node[node].append(member)
            if pod.apart:
                # If a job holds a whole unit, its anti-affinity there is not needed: no other job gets the
                # unit.
                is_shared = placement and self.units.kind_of_placement(placement).shared
                is_block = placement and placement.size > 1 and not is_shared
                has_unit = is_block and uses_devices and not pod.deleting
                if not (placement and has_unit and all(term.key == placement.unit for term in pod.apart)):
                    self.repelling.add_pod(member)
            if is_jobless(member.key):
                _add_usage(self.lasting_usage, node, demand)
            if placement is None or not uses_devices:
                self.other_pod_nodes[pod.namespace].add(node)
            if uses_devices and (placement is not None or member.has_claim or self._has_devices(pod)):
                size = 1
                if placement:
                    size = self.units.kind_of_label(placement.unit).exclusive_nodes(placement.size)
                self.hold_node(node, key, size)
                if is_jobless(member.key):
                    self._jobless_nodes.add(node)
        is_placed = pod.node or (member.pin and not (pod.gated and key in self.refused_jobs))
        if placement is not None and is_placed and uses_devices and not pod.deleting:
            self._hold_unit_of(member, placement)

    def _hold_unit_of(self, member: Member, placement: Placement) -> None:
        """Holds the unit of a worker, so that missing workers of its block can be recreated there."""
        pod, key, kind = member.pod, member.key, self.units.kind_of_label(placement.unit)
        is_single_node = placement.size == 1 and not kind.is_divisible
        if is_single_node and pod.node:
            return
        is_held = not is_single_node and (key, member.unit) in self._held_units
        unit = None if is_held else self.topology.unit(placement.unit, member.unit)
        if unit is None:
            return
        self.hold_unit(unit, key, placement, member.demand, member.pod.block)
        if not kind.shared:
            self._held_units.add((key, unit.id))
        elif pod.node:
            self.parts[placement.unit, unit.id][key, member.pod.block].nodes.add(pod.node)

    def add_claim(self, allocation: Allocation) -> None:
        """Adds the devices of a node that are allocated to a claim. A claim without a pod holds the node."""
        for counts in (self.usage, self.lasting_usage) if allocation.is_orphaned else (self.usage,):
            used = counts[allocation.node]
            used.update((name, used.get(name, 0) + amount) for name, amount in allocation.amounts.items())
        if allocation.is_orphaned:
            self.hold_node(allocation.node, allocation.claim, 1)
            self._jobless_nodes.add(allocation.node)

    def hold_node(self, node: str, job: JobKey, size: int = MORE_THAN_ANY) -> None:
        """Holds a node for a job, whose block needs ``size`` nodes for itself (1: blocks can share it)."""
        jobs = self.holders.setdefault(node, {})
        if size > jobs.get(job, 0):  # if pods of one job have different sizes, the largest is used
            jobs[job] = size

    def hold_unexamined(self, member: Member) -> None:
        """If a pod that a bug affects uses devices, holds its node and its pinned unit."""
        placement, pinned = member.placement, None
        if placement and self.units.kind_of_label(placement.unit).takes(placement.size):
            pinned = self.topology.unit(placement.unit, member.pin)
        names = {member.pod.node, *(pinned.names if pinned else ())} - {""}
        for name in names if member.uses_devices else ():
            self.hold_node(name, member.key)
            if is_jobless(member.key):
                self._jobless_nodes.add(name)

    def hold_unit(self, unit: Unit, job: JobKey, placement: Placement, demand: Demand, block: int) -> None:
        """Holds a unit, or a part of a shared unit, for a block. Jobs can share a unit of one node."""
        kind, whole = self.units.kind_of_label(placement.unit), self.topology.whole_unit(placement.unit, unit)
        if kind.shared:
            part = Part(placement.size, demand, set())
            self.parts[placement.unit, unit.id].setdefault((job, block), part)
        else:
            for name in whole.names:
                self.hold_node(name, job, kind.exclusive_nodes(placement.size))
            if is_jobless(job):
                self._jobless_nodes |= whole.names
            if placement.size == 1 and not kind.is_divisible:
                _add_usage(self.usage, unit.nodes[0].name, demand)
        self.guarantees.recount(whole.nodes)

    def why_not_free(
        self, unit: Unit, placement: Placement, kind: UnitKind, demands: tuple[Demand, ...]
    ) -> Cause | None:
        """Returns why too few nodes of a unit are free for a block of a job; None if enough are free."""
        if kind.shared:
            return self._why_no_part(unit, placement, demands)
        size, whole = placement.size, unit
        if kind.is_divisible:
            size, whole = kind.exclusive_nodes(size), self.topology.whole_unit(placement.unit, unit)
        if holder := self.holder(whole, size):
            return _held_cause(holder)
        cause = self.why_full(unit.nodes, demands)
        if cause and kind.is_divisible and len(self._free_nodes(unit.nodes, demands)) >= placement.size:
            return None
        return cause

    def _why_no_part(self, unit: Unit, placement: Placement, demands: tuple[Demand, ...]) -> Cause | None:
        """Returns why a shared unit has too few free nodes for one more block; None if it has enough.

        The scheduler may bind each pod without a node to any node that suits the pod. So there must be enough
        nodes for all these pods, in any order of binding.
        """
        parts = self.parts.get((placement.unit, unit.id), {})
        unbound = Counter[Demand]()
        for part in parts.values():
            unbound[part.demand] += part.unbound_count
        needed = placement.size + unbound.total()
        whole = self.topology.whole_unit(placement.unit, unit)
        for demand in (None, *+unbound):
            nodes = (
                [node for node in whole.nodes if not why_unsuited(node, (demand,))] if demand else unit.nodes
            )
            free_nodes = len(self._free_nodes(nodes, demands if demand is None else (demand,)))
            if free_nodes < needed:
                other_jobs = sorted({display_name(job) for job, _ in parts})
                free_count = max(free_nodes - needed + placement.size, 0)
                return Cause("held", messages.crowded_unit(free_count, other_jobs[:2]))
        return None

    def _free_nodes(self, nodes: Iterable[Node], demands: Iterable[Demand]) -> list[Node]:
        """Returns the nodes that have no holder and have enough resources left."""
        unheld = (node for node in nodes if node.name not in self.holders)
        return [node for node in unheld if _first_lack((node,), demands, self.usage) is None]

    def holder(self, unit: Unit, size: int) -> JobKey | None:
        """Returns a holder that keeps a block off a unit, or None. Blocks that need 1 node share nodes."""
        for node in unit.nodes:
            if jobs := self.holders.get(node.name):
                for holder, needed in jobs.items():
                    if size > 1 or needed > 1:
                        return holder
        return None

    def why_repelled(
        self, nodes: Collection[Node], job: Job, ending_jobs: Collection[JobKey] | None = None
    ) -> Cause | None:
        """Returns the cause if anti-affinity keeps the job's workers off the nodes; otherwise None.

        Ignores anti-affinity between the job and ``ending_jobs``, because they end before the job starts.
        Anti-affinity with a pod without a job is never ignored.
        """
        if not (self.repelling.namespaces or job.anti_affinity):
            return None
        for owner in self.repelling.repelling_jobs(nodes, job):
            if ending_jobs is None or is_jobless(owner) or owner not in ending_jobs:
                return Cause("repelled", messages.repelled(display_name(owner)))
        return None

    def is_repelled_by_own_namespace(self, unit: Unit, job: Job) -> bool:
        """Returns whether anti-affinity of the namespace's pods keeps the job off a unit without a holder."""
        is_free = self.holder(unit, job.placement.size) is None
        owners = self.repelling.term_owners(unit.nodes, job)
        return is_free and any(owner[0] == job.key[0] for owner in owners)

    def can_become_free(
        self, unit: Unit, placement: Placement, kind: UnitKind, demands: Iterable[Demand]
    ) -> bool:
        """Returns whether a job could have a unit that suits its pods if all other jobs had ended."""
        if not kind.is_divisible:
            is_free = placement.size == 1 or self._jobless_nodes.isdisjoint(unit.names)
            return is_free and _first_lack(unit.nodes, demands, self.lasting_usage) is None
        whole = self.topology.whole_unit(placement.unit, unit)
        if not (kind.shared or self._jobless_nodes.isdisjoint(whole.names)):
            return False
        nodes = (node for node in unit.nodes if node.name not in self._jobless_nodes)
        return (
            sum(_first_lack((node,), demands, self.lasting_usage) is None for node in nodes) >= placement.size
        )

    def why_full(self, nodes: Iterable[Node], demands: Iterable[Demand]) -> Cause | None:
        """Returns the cause if a node has too little of a resource for the pods; None if the pods fit."""
        lack = _first_lack(nodes, demands, self.usage)
        return Cause("full", messages.full(*lack)) if lack else None

    def allowances(self, job: Job, reservations: Iterable[Reservation]) -> list[Allowance]:
        """Returns for each label what a job may take. Units reserved within guarantees count as taken."""
        reserved_nodes = self.reservations.nodes(other for other in reservations if other.guarantee)
        return self.guarantees.allowances(job, reserved_nodes) if self.guarantees.labels else []

    def largest_filler(self, nodes: Iterable[Node], demands: Iterable[Demand]) -> Pod | None:
        """Returns the pod without devices that uses the most of a resource that a node lacks; or None."""
        if (lack := _first_lack(nodes, demands, self.usage)) is None:
            return None
        name, resource = lack
        pods = (member for member in self.repelling.pods_by_node.get(name, ()) if not member.uses_devices)
        amounts = ((member.demand.requests.get(resource, 0), member.pod.uid, member.pod) for member in pods)
        amount, _, pod = max(amounts, default=(0, "", None))
        return pod if amount else None

    @staticmethod
    def why_reserved(unit: Unit, reservations: Iterable[Reservation]) -> Cause | None:
        """Returns the cause if one of the given reservations has a unit; None if none has it."""
        for reservation in reservations:
            if not reservation.nodes.isdisjoint(unit.names):
                return Cause("reserved", messages.reserved_for(display_name(reservation.job)))
        return None

    def free_devices(self, node: Node) -> int:
        """Returns the sum of the free amounts of a node's device resources, in thousandths."""
        used, devices = self.usage.get(node.name, {}), self.units.devices
        return sum(amount - used.get(name, 0) for name, amount in node.allocatable.items() if name in devices)

    def free_count(self, key: str, unit_id: str | None) -> int:
        """Returns how many usable nodes of a unit have no holder and are not needed for unbound pods."""
        unit = self.topology.unit(key, unit_id)
        count = len((unit.names & self.topology.usable_nodes).difference(self.holders)) if unit else 0
        parts = self.parts.get((key, unit_id)) if unit_id else None
        return max(count - sum(part.unbound_count for part in parts.values()), 0) if parts else count

    def count_states(self, key: str) -> Counter[str]:
        """Returns how many units of a node label are in each state of `STATES`."""
        max_nodes, counts = self.units.kind_of_label(key).max_nodes, Counter(dict.fromkeys(STATES, 0))
        reserved = self.reservations.nodes()
        for unit in self.topology.units_of_label(key).values():
            free_count = self.free_count(key, unit.id)
            if len(unit.names & self.topology.usable_nodes) < max_nodes:
                counts["sick"] += 1
            elif not reserved.isdisjoint(unit.names):
                counts["reserved"] += 1
            else:
                counts["free" if free_count >= max_nodes else "part" if free_count else "used"] += 1
        return counts

    def _has_devices(self, pod: Pod) -> bool:
        """Returns whether a pod's node has a device resource that the pod requests, free or in use."""
        node, requests = self.topology.nodes.get(pod.node), pod.demand.requests
        allocatable = node.allocatable if node else ()
        return any(requests.get(name) for name in self.units.devices if name in allocatable)


def _first_lack(
    nodes: Iterable[Node], demands: Iterable[Demand], used: Mapping[str, Mapping[str, int]]
) -> tuple[str, str] | None:
    """Returns the name of the first node that lacks a resource, and the resource; None if all have enough."""
    for node in nodes:
        amounts = used.get(node.name, {})
        for demand in demands:
            if resource := lacking_resource(demand, node, amounts):
                return node.name, resource
    return None


def _add_usage(counts: defaultdict[str, dict[str, int]], node: str, demand: Demand) -> None:
    """Adds the amounts that one more pod uses on a node."""
    if node not in counts and not demand.claims:
        counts[node] = {"pods": 1000, **demand.requests}
        return
    used = counts[node]
    for request in demand.claims:
        used[CLAIMED] = used.get(CLAIMED, 0) + 1000 * (request.count or MORE_THAN_ANY)
    used["pods"] = used.get("pods", 0) + 1000
    for name, amount in demand.requests.items():
        used[name] = used.get(name, 0) + amount


@lru_cache(maxsize=4096)
def _held_cause(job: JobKey) -> Cause:
    return Cause("held", messages.held_by(display_name(job)))


@lru_cache(maxsize=4096)
def display_name(job: JobKey) -> str:
    """Returns the name of a job, pod or claim for people, such as ``namespace/name``."""
    namespace, label = job
    if label.startswith("/claim/"):
        return f"claim {namespace}/{label.removeprefix('/claim/')}"
    return f"{namespace}/{label.removeprefix('/pod/').removeprefix(f'{namespace}.')}"
