"""Chooses free units for a job, so that as many large units as possible stay free for larger jobs.

Small jobs get units on UltraServers that are already in use. Among equally good units the first by name is
chosen, so that equal inputs give equal decisions.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain, islice

from contract.place import Place
from placement.decide.cluster import Cluster
from placement.decide.fit import Cause
from placement.decide.guarantee import Allowance, try_take
from placement.decide.jobs import Job
from placement.decide.reserve import End, Ends, Reservation
from placement.decide.topology import Unit
from placement.observe.model import Demand, Guarantee, JobKey, Node

Rank = tuple[tuple[bool, ...], int, int]
Entry = tuple[Rank, tuple[str, ...]]
"""The rank of a unit; then the ids of the larger units that contain the unit, and its own id.

In this order, units of the same larger unit come together.
"""


class Ranking:
    """The units that suit pods with equal demands, sorted by rank.

    The units are in a heap, whose entries can be outdated. If the rank of a unit changes, `update` adds a new
    entry, and `take` drops the old entry.
    """

    def __init__(self, cluster: Cluster, place: Place, demands: tuple[Demand, ...]) -> None:
        self._cluster, self.place, self.demands = cluster, place, demands
        # The units that suit the pods, by id, whether or not they have holders; and why other units do not.
        self._kind = kind = cluster.units.kind_of_place(place)
        self.has_parts = kind.is_divisible  # whether a job may have fewer nodes than the unit has
        self.units, self.causes = cluster.topology.units_for(place.unit, place.size, kind.nodes, demands)
        self._examined: list[Unit] = []
        is_possible = cluster.can_become_free
        self._unexamined = (unit for unit in self.units.values() if is_possible(unit, place, kind, demands))
        # The rank depends on the free nodes of larger units, and of the unit itself if jobs share the unit.
        own_label = [place.unit] if kind.shared else []
        kinds = cluster.units.kinds
        labels = cluster.units.labels
        larger_labels = [*own_label, *(key for key in labels if kinds[key].nodes > kind.nodes)]
        self._larger_labels = [(labels.index(key), key, kinds[key].max_nodes) for key in larger_labels]
        self._unit_ids = cluster.topology.unit_ids(labels)
        self._is_single_node = place.size == 1 and not kind.is_divisible
        # No unit becomes free during a decision, so only units that are free now are ranked.
        self._unit_states = {unit.id: (unit, self.why_not_free(unit)) for unit in self.units.values()}
        self._changed_nodes: set[str] = set()  # names of nodes that jobs got since then
        free = [unit for unit, cause in self._unit_states.values() if cause is None]
        self._heap: list[Entry] = [self._entry(unit) for unit in free]
        # Entries of units that the last job could not use, because of a reservation or a guarantee.
        self._set_aside: list[Entry] = []
        # The units that a job could have and whose jobs all have a known end, with the last end and the jobs.
        self._ending_units: list[tuple[Unit, End, Sequence[JobKey]]] | None = None
        self._set_aside_for: tuple[Reservation, ...] = ()  # the reservations against the last job
        # With guarantees, a search examines all units, so its result is stored: the maximum number of units
        # that a job can have, by the guarantees of its namespace and the reservations against it.
        self._maximum: dict[tuple[tuple[Guarantee | None, ...], tuple[Reservation, ...]], int] = {}
        self._units_by_server: defaultdict[str, list[Unit]] = defaultdict(list)
        for unit in free:
            self._units_by_server[self._largest_unit_id(unit.nodes[0])].append(unit)
        heapify(self._heap)

    def take(
        self, job: Job, count: int, avoided: Collection[str] = (), doubtful: Collection[str] = ()
    ) -> list[Unit]:
        """Returns the best ``count`` units for a job; an empty list if there are too few.

        Avoided units come last. Before them come units with doubtful nodes, units that are reserved for a job
        within the guarantee of another team, and units whose anti-affinity terms are too many to examine.

        Args:
            job: The job.
            count: The number of units.
            avoided: The ids of units at which the job failed before.
            doubtful: The names of nodes that an admitted job did not get.
        """
        cluster, guarantees = self._cluster, self._cluster.guarantees
        reservations = cluster.reservations.excluding(job)
        reserved_nodes = cluster.reservations.nodes(reservations)
        limits_key = guarantees.guarantees_of(job.key[0]), reservations
        if self._maximum.get(limits_key, count) < count:
            return []
        allowances = cluster.allowances(job, reservations)
        if allowances or reservations != self._set_aside_for:
            entries_aside, self._set_aside = self._set_aside, []
            for entry in entries_aside:
                if reserved_nodes.isdisjoint(self.units[entry[1][-1]].names):
                    heappush(self._heap, entry)
                else:
                    self._set_aside.append(entry)
        self._set_aside_for = reservations
        if nodes := cluster.reservations.nodes_of_other_teams(job):
            doubtful = nodes.union(doubtful)
        best, last, repelled = self._take_entries(job, count, reserved_nodes, allowances, avoided, doubtful)
        last.sort(key=lambda entry: entry[1][-1] in avoided)
        others = (entry for entry in last if try_take(allowances, self.units[entry[1][-1]]))
        entries = best + list(islice(others, count - len(best)))
        for entry in chain(best, last, repelled):
            heappush(self._heap, entry)
        # If some units come last for this job only, another job may get more units than this job.
        last_units = (self.units[names[-1]] for _, names in last)
        is_equal_for_all = not any(unit.names.isdisjoint(doubtful) for unit in last_units)
        if allowances and is_equal_for_all and len(entries) + len(repelled) < count:
            self._maximum[limits_key] = len(entries) + len(repelled)
        return [self.units[names[-1]] for _, names in entries] if len(entries) == count else []

    def _take_entries(  # noqa: PLR0913, PLR0917 - all that a search depends on
        self,
        job: Job,
        count: int,
        reserved_nodes: frozenset[str],
        allowances: list[Allowance],
        avoided: Collection[str],
        doubtful: Collection[str],
    ) -> tuple[list[Entry], list[Entry], list[Entry]]:
        """Removes entries from the heap until it has ``count`` of the best. Returns three lists of entries.

        They are the best units, units that come last, and units that the job's pods cannot have because of
        anti-affinity. Units that reservations or guarantees keep from the job are added to `_set_aside`.
        """
        best_entries: list[Entry] = []
        last_entries: list[Entry] = []
        repelled: list[Entry] = []
        for entry, unit in self._ranked():
            if self._cluster.why_repelled(unit.nodes, job):
                repelled.append(entry)
            elif not reserved_nodes.isdisjoint(unit.names):
                self._set_aside.append(entry)
            elif (
                unit.id in avoided
                or not unit.names.isdisjoint(doubtful)
                or self._cluster.repelling.is_unclear(unit.nodes, job.key[0])
            ):
                last_entries.append(entry)
            elif try_take(allowances, unit):
                best_entries.append(entry)
            else:
                self._set_aside.append(entry)
            if len(best_entries) == count:
                break
        return best_entries, last_entries, repelled

    def _ranked(self) -> Iterator[tuple[Entry, Unit]]:
        """Removes entries from the heap, and yields those of free units, each with its unit, best first."""
        yielded_ids: set[str] = set()
        while self._heap:
            entry = heappop(self._heap)
            unit = self.units[entry[1][-1]]
            if unit.id not in yielded_ids and entry[0] == self._rank(unit) and not self.why_not_free(unit):
                yielded_ids.add(unit.id)
                yield entry, unit

    @cached_property
    def unusable_units(self) -> Mapping[str, Cause]:
        """The units that the pods select and cannot use, by id, each with the cause."""
        return {unit_id: cause for unit_id, cause in self.causes.items() if cause.category != "not selected"}

    def why_not_free(self, unit: Unit) -> Cause | None:
        """Returns why too few nodes of a unit are free; None if enough are free for a block."""
        return self._cluster.why_not_free(unit, self.place, self._kind, self.demands)

    def jobs_to_end(self, unit: Unit, removable_jobs: AbstractSet[JobKey]) -> frozenset[JobKey] | None:
        """Returns the jobs that must end before a block can have a unit; None if too few nodes remain.

        If jobs share the unit, chooses the nodes with the fewest holders, and only nodes whose holders are
        all in ``removable_jobs``.
        """
        holders, is_shared = self._cluster.holders, self._kind.shared
        whole_unit = unit if is_shared else self._cluster.topology.whole_unit(self.place.unit, unit)
        by_node = [frozenset(holders.get(name, ())) for name in sorted(whole_unit.names)]
        if is_shared:
            by_node = sorted((jobs for jobs in by_node if jobs <= removable_jobs), key=len)[: self.place.size]
        return frozenset[JobKey]().union(*by_node) if len(by_node) >= self.place.size else None

    @property
    def unit_states(self) -> Collection[tuple[Unit, Cause | None]]:
        """The units that suit the pods, each with the cause if too few of its nodes are free, or None."""
        key, nodes = self.place.unit, self._cluster.topology.nodes
        unit_ids = {nodes[name].unit(key) or "" for name in self._changed_nodes}
        for unit_id in unit_ids & self._unit_states.keys():
            unit, _ = self._unit_states[unit_id]
            self._unit_states[unit_id] = unit, self.why_not_free(unit)
        self._changed_nodes.clear()
        return self._unit_states.values()

    def update(self, nodes: Collection[Node]) -> None:
        """Ranks the units on the UltraServers of these nodes again, after a job has got the nodes."""
        self._maximum.clear()
        self._ending_units = None
        self._changed_nodes.update(node.name for node in nodes)
        for server in {self._largest_unit_id(node) for node in nodes}:
            for unit in self._units_by_server.get(server, ()):
                if self.why_not_free(unit) is None:
                    heappush(self._heap, self._entry(unit))

    def possible_units(self, count: int | None = None) -> Sequence[Unit]:
        """Returns units that a job could have if other jobs ended: all, or at least ``count`` if possible."""
        missing_count = None if count is None else max(count - len(self._examined), 0)
        self._examined.extend(islice(self._unexamined, missing_count))
        return self._examined

    def reserve(
        self, count: int, job: Job, ends: Ends, guarantee: Guarantee | None = None
    ) -> Reservation | None:
        """Returns a reservation of the units that become free first; None if too few have a known end.

        Units come last if a job of the same namespace without a time limit holds them, or if pods of the
        namespace that are not workers fill them. With ``guarantee``, only units within this guarantee of the
        job's team are reserved.
        """
        guarantees = self._cluster.guarantees
        reservations = self._cluster.reservations
        reserved_nodes = frozenset[str]() if guarantee else reservations.nodes_reserved_before(job)
        allowances = guarantees.allowances(job, reserved_nodes, within=guarantee)
        # When the reservation begins, the units that are owed to other teams must still be free. If fewer
        # units are free now, the reservation also includes units that become free for these teams.
        missing_count = 0 if guarantee else guarantees.missing_units(job)
        suitable_units = self._reservable_units(job, ends, reserved_nodes)
        available = (entry for entry in suitable_units if try_take(allowances, entry[0]))
        chosen = list(islice(available, count + missing_count))
        if len(chosen) < count:
            return None
        node_names = frozenset[str]().union(*(unit.names for unit, _, _ in chosen))
        begin = max(end.at for _, end, _ in chosen)
        is_assumed = any(end.is_assumed for _, end, _ in chosen)
        is_internal = any(is_last for _, _, is_last in chosen)
        units = tuple(sorted(unit.id for unit, _, _ in chosen[:count]))
        return Reservation(job.key, units, node_names, begin, is_assumed, is_internal, ends, guarantee)

    def _reservable_units(
        self, job: Job, ends: Ends, reserved_nodes: frozenset[str]
    ) -> Iterator[tuple[Unit, End, bool]]:
        """Yields the units that can be reserved for a job, each with its end, and whether it comes last."""
        cluster, namespace = self._cluster, job.key[0]
        other_pod_nodes = cluster.other_pod_nodes.get(namespace, frozenset[str]())
        last_units = []
        for unit, end, holders in self.ending_units(ends):
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

    def ending_units(self, ends: Ends) -> Sequence[tuple[Unit, End, Sequence[JobKey]]]:
        """Returns the units that become free at a known time, each with the time and its holders.

        They are sorted by their `End`. Among assumed times, units with fewer nodes in use come first.
        """
        if self._ending_units is None:
            holders = self._cluster.holders
            self._ending_units = [
                (unit, end, [holder for name in unit.names for holder in holders.get(name, ())])
                for unit in self.possible_units()
                if (end := self._end(unit, ends))
            ]
            self._ending_units.sort(key=_order_of_ends)
        return self._ending_units

    def _end(self, unit: Unit, ends: Ends) -> End | None:
        """Returns when a unit has enough free nodes for a block of a job; None if that is unknown."""
        holders = self._cluster.holders
        if not self._kind.shared:
            whole_unit = self._cluster.topology.whole_unit(self.place.unit, unit)
            return ends.last_end({holder for name in whole_unit.names for holder in holders.get(name, ())})
        by_node = (ends.last_end(holders.get(name, ())) for name in unit.names)
        ends_of_nodes = sorted(end for end in by_node if end)
        return ends_of_nodes[self.place.size - 1] if self.place.size <= len(ends_of_nodes) else None

    def _entry(self, unit: Unit) -> Entry:
        return self._rank(unit), (*self._unit_ids[unit.nodes[0].name], unit.id)

    def _rank(self, unit: Unit) -> Rank:
        """Returns the rank: units within larger units that are in use come first, the fullest first."""
        node, cluster = unit.nodes[0], self._cluster
        unit_ids = self._unit_ids[node.name]
        are_whole, smallest_free = [], None
        for index, key, max_nodes in self._larger_labels:
            unit_id = unit_ids[index]
            free = cluster.free_count(key, unit_id)
            are_whole.append(free >= max_nodes)
            if smallest_free is None and unit_id:
                smallest_free = free
        return tuple(are_whole), smallest_free or 0, cluster.free_devices(node) if self._is_single_node else 0

    def _largest_unit_id(self, node: Node) -> str:
        """Returns the id of the largest unit that contains a node; for a node in no unit, the node's name."""
        return next(filter(None, self._unit_ids[node.name]), node.name)


def _order_of_ends(entry: tuple[Unit, End, Sequence[JobKey]]) -> tuple[bool, bool, int, End, str]:
    unit, end, holders = entry
    return end.is_late, end.is_assumed, len(holders) if end.is_assumed else 0, end, unit.id
