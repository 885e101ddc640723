"""Chooses free units for a job, so that as many large units as possible stay free for larger jobs.

Small jobs get units on UltraServers that are already in use. Among equally good units the first by name is
chosen, so that equal inputs give equal decisions.
"""

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cached_property
from itertools import islice

from common.times import EARLIEST
from contract.placement import Placement
from placement.decide.cluster import Cluster
from placement.decide.fit import Cause
from placement.decide.guarantee import try_take
from placement.decide.jobs import Job
from placement.decide.reserve import End, Reservation
from placement.decide.topology import Unit
from placement.observe.model import Demand, Guarantee, JobKey, Node

Rank = tuple[tuple[bool, ...], int, int]
Entry = tuple[Rank, tuple[str, ...]]
"""The rank of a unit; the ids of the units that contain its first node, the largest first; the unit's id.

Among units of equal rank, the units within one larger unit are next to each other.
"""


class Ranking:
    """The units that suit pods with certain demands, and the free ones among them, sorted by rank."""

    def __init__(self, cluster: Cluster, placement: Placement, demands: tuple[Demand, ...]) -> None:
        self._cluster, self.placement, self.demands = cluster, placement, demands
        self._kind = kind = cluster.units.kind_of_placement(placement)
        self.has_parts = kind.is_divisible  # whether a job may have fewer nodes than the unit has
        # By id: the units that suit the pods, free or not; and why each other unit does not suit them.
        self.units, self.causes = cluster.topology.units_for(
            placement.unit, placement.size, kind.nodes, demands
        )
        # The rank depends on the free nodes of larger units, and of the unit itself if jobs share the unit.
        own_label = [placement.unit] if kind.shared else []
        kinds = cluster.units.kinds
        labels = cluster.units.labels
        larger_labels = [*own_label, *(key for key in labels if kinds[key].nodes > kind.nodes)]
        self._larger_labels = [(labels.index(key), key, kinds[key].max_nodes) for key in larger_labels]
        self._unit_ids = cluster.topology.unit_ids(labels)
        self._is_single_node = placement.size == 1 and not kind.is_divisible
        # The value of `possible_units`, and an iterator that finds more of them.
        self._possible_units: list[Unit] = []
        is_possible = cluster.can_become_free
        self._more_units = (
            unit for unit in self.units.values() if is_possible(unit, placement, kind, demands)
        )
        # The units that suit the pods, by id, each with the cause if too few of its nodes are free, or None.
        self.unit_states = {unit.id: (unit, self.why_not_free(unit)) for unit in self.units.values()}
        # The entries of the free units: by unit id, and the best first. `update` changes both.
        self._entries = {unit.id: self._entry(unit) for unit, cause in self.unit_states.values() if not cause}
        self._ranked = sorted(self._entries.values())
        # A search may examine all units, so the maximum number of units for a job is stored. The key has the
        # guarantees of its namespace, the reservations that exclude it, and the nodes that come last.
        self._max_counts: dict[tuple[object, ...], int] = {}
        # The value of `ending_units`; None if it must be computed again.
        self._ending_units: list[tuple[Unit, End, Sequence[JobKey]]] | None = None

    def best_units(self, job: Job, count: int, doubtful_nodes: Mapping[str, datetime]) -> list[Unit]:
        """Returns the best ``count`` units for a job; an empty list if there are too few.

        Three sorts of units come last: units with doubtful nodes (an admitted job did not get them), units
        that are reserved within another team's guarantee, and units with too many anti-affinity terms.
        """
        cluster = self._cluster
        reservations = cluster.reservations.excluding(job)
        reserved_nodes = cluster.reservations.nodes(reservations)
        last_nodes = cluster.reservations.nodes_of_other_teams(job).union(doubtful_nodes)
        limits_key = cluster.guarantees.guarantees_of(job.key[0]), reservations, last_nodes
        if self._max_counts.get(limits_key, count) < count:
            return []
        allowances = cluster.allowances(job, reservations)
        best: list[Unit] = []
        last: list[Unit] = []
        repelled_count, has_unclear = 0, False
        for _, (*_, unit_id) in self._ranked:
            unit = self.units[unit_id]
            if not reserved_nodes.isdisjoint(unit.names):
                continue
            if cluster.why_repelled(unit.nodes, job):
                repelled_count += 1
                continue
            is_unclear = cluster.repelling.is_unclear(unit.nodes, job.key[0])
            if is_unclear or not unit.names.isdisjoint(last_nodes):
                has_unclear = has_unclear or is_unclear
                last.append(unit)
            elif try_take(allowances, unit):
                best.append(unit)
                if len(best) == count:
                    return best
        # The unit of the latest failure comes last of all, so that a job does not fail there again and again.
        last.sort(key=lambda unit: max(doubtful_nodes.get(name, EARLIEST) for name in unit.names))
        units = best + list(islice((unit for unit in last if try_take(allowances, unit)), count - len(best)))
        if len(units) == count:
            return units
        if not has_unclear:  # `is_unclear` depends on the namespace, which is not in the key
            self._max_counts[limits_key] = len(units) + repelled_count
        return []

    @cached_property
    def unusable_units(self) -> Mapping[str, Cause]:
        """The units that the pods select and cannot use, by id, each with the cause."""
        return {unit_id: cause for unit_id, cause in self.causes.items() if cause.category != "not selected"}

    def why_not_free(self, unit: Unit) -> Cause | None:
        """Returns why too few nodes of a unit are free; None if enough are free for a block."""
        return self._cluster.why_not_free(unit, self.placement, self._kind, self.demands)

    def jobs_to_end(self, unit: Unit, removable_jobs: AbstractSet[JobKey]) -> frozenset[JobKey] | None:
        """Returns the jobs that must end before a block can have a unit; None if not all may end.

        Only jobs in ``removable_jobs`` may end. If jobs share the unit, nodes with the fewest jobs are used.
        """
        holders, is_shared = self._cluster.holders, self._kind.shared
        whole_unit = unit if is_shared else self._cluster.topology.whole_unit(self.placement.unit, unit)
        by_node = [frozenset(holders.get(name, ())) for name in sorted(whole_unit.names)]
        count = self.placement.size if is_shared else len(by_node)
        chosen = sorted((jobs for jobs in by_node if jobs <= removable_jobs), key=len)[:count]
        return frozenset[JobKey]().union(*chosen) if len(chosen) == count else None

    def update(self, nodes: Collection[Node]) -> None:
        """Examines the units on the UltraServers of these nodes again, after a job has got the nodes."""
        self._ending_units = None
        self._max_counts.clear()
        for server in {self._largest_unit_id(node) for node in nodes}:
            for unit in self._units_by_server[server].values():
                cause = self.why_not_free(unit)
                self.unit_states[unit.id] = unit, cause
                if old_entry := self._entries.pop(unit.id, None):
                    del self._ranked[bisect_left(self._ranked, old_entry)]
                if cause is None:
                    self._entries[unit.id] = entry = self._entry(unit)
                    insort(self._ranked, entry)

    @cached_property
    def _units_by_server(self) -> Mapping[str, Mapping[str, Unit]]:
        """The units by the id of the largest unit that contains them, and by their own id."""
        by_server: defaultdict[str, dict[str, Unit]] = defaultdict(dict)
        for unit in self.units.values():
            # Nodes that do not suit the pods are included: their holders can keep a job off the whole unit.
            for node in self._cluster.topology.whole_unit(self.placement.unit, unit).nodes:
                by_server[self._largest_unit_id(node)][unit.id] = unit
        return by_server

    def possible_units(self, count: int | None = None) -> Sequence[Unit]:
        """Returns at least ``count`` (or else all) units that a job could have if all other jobs ended."""
        missing_count = None if count is None else max(count - len(self._possible_units), 0)
        self._possible_units.extend(islice(self._more_units, missing_count))
        return self._possible_units

    def reservation_for(self, count: int, job: Job, guarantee: Guarantee | None) -> Reservation | None:
        """Returns a reservation of the units that become free first; None if there are too few.

        Two sorts of units come last: units with an assumed end and a holder of the job's namespace; and full
        units with pods of this namespace that are not workers. A reservation with a unit of these sorts is
        internal. With ``guarantee``, only units within this guarantee of the job's team are reserved.
        """
        guarantees = self._cluster.guarantees
        reservations = self._cluster.reservations
        reserved_nodes = frozenset[str]() if guarantee else reservations.nodes_reserved_before(job)
        allowances = guarantees.allowances(job, reserved_nodes, within=guarantee)
        # When the reservation begins, the units that are owed to other teams must still be free. If fewer
        # units than these are free now, the reservation also includes units that become free for these teams.
        missing_count = 0 if guarantee else guarantees.missing_units(job)
        suitable_units = self._reservable_units(job, reserved_nodes)
        available = (entry for entry in suitable_units if try_take(allowances, entry[0]))
        chosen = list(islice(available, count + missing_count))
        if len(chosen) < count:
            return None
        node_names = frozenset[str]().union(*(unit.names for unit, _, _ in chosen))
        begin = max(end.at for _, end, _ in chosen)
        is_assumed = any(end.is_assumed for _, end, _ in chosen)
        is_internal = any(is_last for _, _, is_last in chosen)
        units = tuple(sorted(unit.id for unit, _, _ in chosen[:count]))
        return Reservation(job.key, units, node_names, begin, is_assumed, is_internal, guarantee)

    def _reservable_units(self, job: Job, reserved_nodes: frozenset[str]) -> Iterator[tuple[Unit, End, bool]]:
        """Yields the units that can be reserved for a job, each with its end, and whether it comes last."""
        cluster, namespace = self._cluster, job.key[0]
        other_pod_nodes = cluster.other_pod_nodes.get(namespace, frozenset[str]())
        last_units = []
        for unit, end, holders in self.ending_units:
            if not reserved_nodes.isdisjoint(unit.names):
                continue
            if cluster.why_repelled(unit.nodes, job, ending_jobs=holders):
                continue
            is_last = end.is_assumed and any(holder[0] == namespace for holder in holders)
            if not is_last and not other_pod_nodes.isdisjoint(unit.names):
                is_last = cluster.why_full(unit.nodes, self.demands) is not None
            if is_last:
                last_units.append((unit, end, True))
            else:
                yield unit, end, False
        yield from last_units

    @property
    def ending_units(self) -> Sequence[tuple[Unit, End, Sequence[JobKey]]]:
        """The units that become free at a known or assumed time, each with the time and its holders.

        They are sorted by `End`. Among assumed times, units with fewer holders on their nodes come first.
        """
        if self._ending_units is None:
            holders = self._cluster.holders
            self._ending_units = [
                (unit, end, [holder for name in unit.names for holder in holders.get(name, ())])
                for unit in self.possible_units()
                if (end := self._end(unit))
            ]
            self._ending_units.sort(key=_order_of_ends)
        return self._ending_units

    def _end(self, unit: Unit) -> End | None:
        """Returns when a unit has enough free nodes for a block of a job; None if that is unknown."""
        holders, ends = self._cluster.holders, self._cluster.ends
        if not self._kind.shared:
            whole_unit = self._cluster.topology.whole_unit(self.placement.unit, unit)
            return ends.last_end({holder for name in whole_unit.names for holder in holders.get(name, ())})
        by_node = (ends.last_end(holders.get(name, ())) for name in unit.names)
        ends_of_nodes = sorted(end for end in by_node if end)
        return ends_of_nodes[self.placement.size - 1] if self.placement.size <= len(ends_of_nodes) else None

    def _entry(self, unit: Unit) -> Entry:
        return self._rank(unit), (*self._unit_ids[unit.nodes[0].name], unit.id)

    def _rank(self, unit: Unit) -> Rank:
        """Returns the rank: units within larger units that are not whole come first, the fullest first.

        Among equal single nodes, nodes with fewer free devices come first.
        """
        node, cluster = unit.nodes[0], self._cluster
        unit_ids = self._unit_ids[node.name]
        are_whole, free_count = [], None
        for index, key, max_nodes in self._larger_labels:
            unit_id = unit_ids[index]
            free = cluster.free_count(key, unit_id)
            are_whole.append(free >= max_nodes)
            if free_count is None and unit_id:
                free_count = free
        return tuple(are_whole), free_count or 0, cluster.free_devices(node) if self._is_single_node else 0

    def _largest_unit_id(self, node: Node) -> str:
        """Returns the id of the largest unit that contains a node; for a node in no unit, the node's name."""
        return next(filter(None, self._unit_ids[node.name]), node.name)


def _order_of_ends(entry: tuple[Unit, End, Sequence[JobKey]]) -> tuple[bool, bool, int, End, str]:
    unit, end, holders = entry
    return end.is_late, end.is_assumed, len(holders) if end.is_assumed else 0, end, unit.id
