"""Finds a unit for every block of a job: the one where others of the block are, or a free one."""

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from placement import messages
from placement.decide.believe import Member
from placement.decide.choose import Ranking
from placement.decide.cluster import Cluster, shown
from placement.decide.jobs import Job
from placement.decide.plan import Failure, Opening, Shortage
from placement.decide.reserve import Ends
from placement.decide.topology import unsuited
from placement.messages import Reason
from placement.observe.model import Demand, Node

Members = Sequence[Member]

MOST_DEMANDS: Final = 4  # different demands on nodes that the workers of one job may have
MOST_COMPARED: Final = 1000  # conditions of one namespace's waiting jobs that a decision compares
OF_A_KIND: Final = 10  # cost of one more demand, in conditions: a demand is compared with every node


class UnplacedError(Exception):
    """Some blocks of a job get no unit now; the message has the reason, unless there is a shortage."""

    def __init__(
        self, why: str = "", reason: Reason = Reason.UNITS, shortage: Shortage | None = None
    ) -> None:
        super().__init__(why)
        self.reason, self.shortage = reason, shortage


class Allocator:
    """Gives units to jobs, one job after the other."""

    def __init__(self, cluster: Cluster, doubtful: Collection[str], ends: Ends) -> None:
        # Nodes that an admitted job did not get, by name: their units are chosen last for every job.
        self._cluster, self._doubtful, self._ends = cluster, doubtful, ends
        self._rankings: dict[tuple[str, int, tuple[Demand, ...]], Ranking] = {}
        self._compared: Counter[str] = Counter()

    def open(self, job: Job, failure: Failure | None, *, reserves: bool) -> Opening:
        """Returns a unit for every block of a job without `Job.obstacle`.

        Units of an earlier failure are the last that it gets. The first job that may reserve units, and does
        not fit, gets the reservation.

        Raises:
            UnplacedError: There is none.
        """
        units, unplaced = dict[int, str](), list(job.blocks.values())
        if not job.all_wait:
            self._check_pins(job)
            own = {block: self._rejoin(job, pods) for block, pods in job.blocks.items()}
            unplaced = [job.blocks[block] for block, unit in own.items() if unit is None]
            unpinned = {member.block for member in job.unpinned_workers}
            units = {block: unit for block, unit in own.items() if unit and block in unpinned}
        if unplaced:
            units |= self.settle(job, unplaced, failure, reserves=reserves)
        return Opening(job, units)

    def _check_pins(self, job: Job) -> None:
        """Checks that pins of two simultaneous leaders do not contradict each other: pins stay."""
        owners: dict[str, int] = {}
        for block, pods in job.blocks.items():
            units = {member.unit for member in pods if member.unit}
            if len(units) > 1 and any(member.pin and not member.pod.node for member in pods):
                raise UnplacedError(messages.several_pins(block, sorted(units)[:4]))
            for unit in units if job.place.size > 1 else ():
                if owners.setdefault(unit, block) != block:
                    raise UnplacedError(messages.same_pin(owners[unit], block, unit))

    def _rejoin(self, job: Job, pods: Members) -> str | None:
        """Returns the unit where other workers of the block are; None if there are none."""
        for member in pods:
            pod = member.pod
            if not pod.gated and member.unit is None:
                raise UnplacedError(messages.by_hand(pod.name, pod.node))
        units = sorted({member.unit for member in pods if member.unit})
        coming = [member for member in pods if member.pod.gated and member.pod.opened is None]
        standing = [member for member in pods if not member.pod.gated or member.pod.opened is not None]
        why = None
        for unit in units:
            present = [member for member in standing if member.unit == unit]
            why = self._crowded(job, unit, present, coming)
            if why is None:
                return unit
        if why is not None:
            raise UnplacedError(why)
        return None

    def _crowded(self, job: Job, unit_id: str, present: Members, coming: Members) -> str | None:
        """Returns why the workers of a block without a node cannot all get one in a unit; or None."""
        unplaced = [member for member in (*present, *coming) if not member.pod.node]
        unit = self._cluster.topology.unit(job.place.unit, unit_id)
        occupied = {member.pod.node for member in present}
        nodes = [node for node in unit.nodes if node.name not in occupied] if unit else []
        reasons = [reason for node in nodes if (reason := self._unfit(job, node, unplaced))]
        if len(nodes) - len(reasons) >= len(unplaced):
            return None
        why = reasons[0] if reasons else messages.too_few_nodes(len(nodes))
        return messages.crowded(unplaced[0].pod.name, unit_id, why)

    def _unfit(self, job: Job, node: Node, pods: Iterable[Member]) -> str | None:
        """Returns why a node of a job's own unit does not suit its pods; None if it does."""
        demands = tuple(dict.fromkeys(member.demand for member in pods))
        cause = unsuited(node, demands)
        # Others may share a single node, and what a pod that is pinned to it takes is already counted there.
        if cause is None and (job.place.size > 1 or self._cluster.units.of(job.place.unit).divides):
            others = [holder for holder in self._cluster.holders.get(node.name, ()) if holder != job.key]
            if others:
                return messages.node_held_by(node.name, shown(others[0]))
            cause = self._cluster.full([node], demands)
        cause = cause or self._cluster.repelled([node], job)
        return cause.detail if cause else None

    def settle(
        self, job: Job, blocks: Sequence[Members], failure: Failure | None, *, reserves: bool
    ) -> dict[int, str]:
        """Returns free units for whole blocks, by the numbers of the blocks."""
        cluster, ranking = self._cluster, self._ranking(job)
        avoided = failure.units if failure else ()
        wanted = len(blocks)
        units = ranking.take(job, wanted, avoided, self._doubtful)
        if not units:
            possible = len(ranking.possible(wanted))
            if possible >= wanted and (excess := cluster.guarantees.excess(job)):
                raise UnplacedError(excess, reason=Reason.NODES)
            if reserves and cluster.reservation is None and possible >= wanted:
                cluster.reservation = ranking.reserve(wanted, job, self._ends)
            reserved = cluster.reservation is not None and cluster.reservation.job == job.key
            shortage = Shortage(ranking, wanted, possible, reserved)
            raise UnplacedError(reason=Reason.UNITS if shortage.can_end else Reason.NODES, shortage=shortage)
        by_block: dict[int, str] = {}
        for unit, pods in zip(units, blocks, strict=True):
            by_block[pods[0].block] = unit.id
            cluster.hold_unit(unit, job.key, job.place, pods[0].demand, pods[0].block)
            whole = cluster.topology.whole(job.place.unit, unit)
            for other in self._rankings.values():
                other.touched(whole.nodes)
        return by_block

    def _ranking(self, job: Job) -> Ranking:
        """Returns the units that suit a job.

        Raises:
            UnplacedError: The conditions of the job, or of its namespace's jobs, cost too much to compare.
        """
        place, demands = job.place, job.demands
        if len(demands) > MOST_DEMANDS:
            raise UnplacedError(messages.many_demands(len(demands), MOST_DEMANDS), reason=Reason.PODS)
        ranking = self._rankings.get((place.unit, place.size, demands))
        if ranking is None:
            namespace = job.key[0]
            parts = OF_A_KIND + sum(demand.parts for demand in demands)
            before = self._compared[namespace]
            if before + parts > MOST_COMPARED:
                why = messages.many_conditions(namespace, before, parts, MOST_COMPARED)
                raise UnplacedError(why, reason=Reason.PODS)
            self._compared[namespace] += parts
            ranking = Ranking(self._cluster, place, demands)
            self._rankings[(place.unit, place.size, demands)] = ranking
        return ranking
