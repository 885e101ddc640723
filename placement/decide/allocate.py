"""Finds a unit for each block of a job: the unit that has workers of the block already, or a free unit."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final

from placement import messages
from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster, display_name
from placement.decide.jobs import Job
from placement.decide.members import Member
from placement.decide.plan import Admission, Shortage
from placement.decide.topology import why_unsuited
from placement.messages import Reason
from placement.observe.model import Demand, Guarantee, Node

Members = Sequence[Member]

MOST_DEMANDS: Final = 4  # maximum number of demands of a job's workers; equal demands count once
MOST_COMPARED: Final = 1000  # maximum number of conditions that a decision compares for one namespace
RANKING_COST: Final = 10  # conditions that are counted for each `Ranking`, because it compares all nodes
MOST_TRIES: Final = 8  # maximum number of searches for units to reserve, for each namespace and guarantee


class UnplacedError(Exception):
    """Some blocks of a job get no unit now. The message is empty if ``shortage`` has the reason."""

    def __init__(
        self, why: str = "", reason: Reason = Reason.UNITS, shortage: Shortage | None = None
    ) -> None:
        super().__init__(why)
        self.reason, self.shortage = reason, shortage


class Allocator:
    """Chooses units for jobs, one job after the other."""

    def __init__(self, cluster: Cluster, doubtful: Mapping[str, datetime]) -> None:
        # ``doubtful`` has the nodes that an admitted job did not get, and when. Their units are chosen last.
        self._cluster, self._doubtful = cluster, doubtful
        self._rankings: dict[tuple[str, int, tuple[Demand, ...]], Ranking] = {}
        self._compared_conditions: Counter[str] = Counter()
        # By namespace and guarantee, the number of searches for units to reserve.
        self._tries: Counter[tuple[str, Guarantee | None]] = Counter()

    def admit(self, job: Job, age: timedelta | None) -> Admission:
        """Returns the admission of a job without a `Job.obstacle`, and holds the new units for the job.

        ``age`` is the age of the job; None if no units may be reserved for the job.

        Raises:
            UnplacedError: A block gets no unit, or the workers of a block cannot have the same unit.
        """
        units, unplaced = dict[int, str](), list(job.blocks.values())
        if not job.all_wait:
            self._check_pins(job)
            units_by_block = {block: self._rejoin(job, pods) for block, pods in job.blocks.items()}
            unplaced = [job.blocks[block] for block, unit in units_by_block.items() if unit is None]
            unpinned = {member.pod.block for member in job.unpinned_workers}
            units = {block: unit for block, unit in units_by_block.items() if unit and block in unpinned}
        if unplaced:
            units |= self.assign_units(job, unplaced, age)
        return Admission(job, units)

    def _check_pins(self, job: Job) -> None:
        """Raises an error if pins conflict. Two leaders can write different pins, and a pin never changes."""
        owners: dict[str, int] = {}
        for block, pods in job.blocks.items():
            units = {member.unit for member in pods if member.unit}
            if len(units) > 1 and any(member.pin and not member.pod.node for member in pods):
                raise UnplacedError(messages.several_pins(block, ", ".join(sorted(units)[:4])))
            for unit in units if job.placement.size > 1 else ():
                if owners.setdefault(unit, block) != block:
                    raise UnplacedError(messages.same_pin(owners[unit], block, unit))

    def _rejoin(self, job: Job, pods: Members) -> str | None:
        """Returns a unit of a block's workers that has room for the block; None if no worker has a unit."""
        for member in pods:
            pod = member.pod
            if not pod.gated and member.unit is None:
                raise UnplacedError(messages.by_hand(pod.name, pod.node))
        units = sorted({member.unit for member in pods if member.unit})
        unpinned_workers = [member for member in pods if member.pod.gated and member.pod.admitted_at is None]
        admitted_workers = [member for member in pods if not member.pod.gated or member.pod.admitted_at]
        why = None
        for unit in units:
            present_workers = [member for member in admitted_workers if member.unit == unit]
            why = self._why_crowded(job, unit, present_workers, unpinned_workers)
            if why is None:
                return unit
        if why is not None:
            raise UnplacedError(why)
        return None

    def _why_crowded(
        self, job: Job, unit_id: str, present_workers: Members, unpinned_workers: Members
    ) -> str | None:
        """Returns why a unit has too few nodes for the unbound workers of a block; None if it has enough."""
        unbound = [member for member in (*present_workers, *unpinned_workers) if not member.pod.node]
        unit = self._cluster.topology.unit(job.placement.unit, unit_id)
        occupied_nodes = {member.pod.node for member in present_workers}
        nodes = [node for node in unit.nodes if node.name not in occupied_nodes] if unit else []
        reasons = [reason for node in nodes if (reason := self._why_unfit(job, node, unbound))]
        if len(nodes) - len(reasons) >= len(unbound):
            return None
        why = reasons[0] if reasons else messages.too_few_nodes(len(nodes))
        return messages.crowded(unbound[0].pod.name, unit_id, why)

    def _why_unfit(self, job: Job, node: Node, pods: Iterable[Member]) -> str | None:
        """Returns why pods of a job cannot use a node in the job's unit; None if they can."""
        demands = tuple(dict.fromkeys(member.demand for member in pods))
        cause = why_unsuited(node, demands)
        # A unit of one node is not compared, because its usage already includes the job's own pinned pods.
        kind = self._cluster.units.kind_of_label(job.placement.unit)
        if cause is None and (job.placement.size > 1 or kind.is_divisible):
            other_jobs = [holder for holder in self._cluster.holders.get(node.name, ()) if holder != job.key]
            if other_jobs:
                return messages.node_held_by(node.name, display_name(other_jobs[0]))
            cause = self._cluster.why_full([node], demands)
        cause = cause or self._cluster.why_repelled([node], job)
        return cause.detail if cause else None

    def assign_units(self, job: Job, blocks: Sequence[Members], age: timedelta | None) -> dict[int, str]:
        """Returns free units for blocks, by block number, and holds the units.

        If there are too few, raises an `UnplacedError`, and reserves units if the job may have a reservation.
        """
        cluster, ranking = self._cluster, self._ranking(job)
        needed = len(blocks)
        units = ranking.best_units(job, needed, self._doubtful)
        if not units:
            possible = len(ranking.possible_units(needed))
            if possible >= needed and (why := cluster.guarantees.why_never(job)):
                raise UnplacedError(why, reason=Reason.NODES)
            if age is not None and possible >= needed:
                self._reserve(job, ranking, needed, age)
            is_reserved = cluster.reservations.earliest_of(job.key) is not None
            shortage = Shortage(ranking, needed, possible, is_reserved)
            raise UnplacedError(reason=Reason.UNITS if shortage.can_end else Reason.NODES, shortage=shortage)
        by_block: dict[int, str] = {}
        for unit, pods in zip(units, blocks, strict=True):
            by_block[pods[0].pod.block] = unit.id
            cluster.hold_unit(unit, job.key, job.placement, pods[0].demand, pods[0].pod.block)
            whole_unit = cluster.topology.whole_unit(job.placement.unit, unit)
            for known_ranking in self._rankings.values():
                known_ranking.update(whole_unit.nodes)
        return by_block

    def _reserve(self, job: Job, ranking: Ranking, count: int, age: timedelta) -> None:
        """Adds the reservations that a job may have, if enough units have a known or assumed end."""
        reservations, namespace = self._cluster.reservations, job.key[0]
        for guarantee in reservations.permitted_guarantees(job, age):
            tries = self._tries[namespace, guarantee]
            if tries < MOST_TRIES and len(ranking.ending_units) >= count:
                self._tries[namespace, guarantee] += 1
                reservation = ranking.reservation_for(count, job, guarantee)
                reservations += [reservation] if reservation else []

    def _ranking(self, job: Job) -> Ranking:
        """Returns the units that suit a job.

        Raises:
            UnplacedError: The job has too many demands, or its namespace has too many conditions to compare.
        """
        placement, demands = job.placement, job.demands
        if len(demands) > MOST_DEMANDS:
            raise UnplacedError(messages.many_demands(len(demands), MOST_DEMANDS), reason=Reason.PODS)
        ranking = self._rankings.get((placement.unit, placement.size, demands))
        if ranking is None:
            namespace = job.key[0]
            conditions = RANKING_COST + sum(demand.cost for demand in demands)
            compared = self._compared_conditions[namespace]
            if compared + conditions > MOST_COMPARED:
                why = messages.many_conditions(namespace, compared, conditions, MOST_COMPARED)
                raise UnplacedError(why, reason=Reason.PODS)
            self._compared_conditions[namespace] += conditions
            ranking = Ranking(self._cluster, placement, demands)
            self._rankings[(placement.unit, placement.size, demands)] = ranking
        return ranking
