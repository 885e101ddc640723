"""Chooses the free units for a job: those whose loss costs larger jobs least.

Smaller jobs fill UltraServers that are already in use, so that whole ones stay free. Among equal units the
first by name is chosen, so that a decision always has the same result.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from heapq import heapify, heappop, heappush
from itertools import chain, islice
from operator import itemgetter

from contract.place import Place
from placement.decide.cluster import Cluster
from placement.decide.fit import Cause
from placement.decide.guarantee import Room, book
from placement.decide.jobs import Job
from placement.decide.reserve import End, Ends, Reservation
from placement.decide.topology import Unit
from placement.observe.model import Demand, Guarantee, JobKey, Node

Rank = tuple[tuple[bool, ...], int, int]
Entry = tuple[Rank, tuple[str, ...]]
"""The rank; then the ids of the larger units that contain the unit, and its own: neighbours come together."""


class Ranking:
    """The units that suit pods with equal demands, those with the least loss first.

    This is a heap with entries that can be outdated: `take` drops an entry whose rank is no longer the
    unit's, because `touched` has added a new one.
    """

    def __init__(self, cluster: Cluster, place: Place, demands: tuple[Demand, ...]) -> None:
        self._cluster, self.place, self.demands = cluster, place, demands
        # Every unit that suits the pods, held or not, by id; and why the others do not suit them.
        self._kind = kind = cluster.units.kind(place)
        self.parts = kind.divides  # whether a job may have fewer nodes of a unit than there are
        self.fitting, self.unfit = cluster.topology.suited(place.unit, place.size, kind.nodes, demands)
        self.broken = {unit: cause for unit, cause in self.unfit.items() if cause.kind != "not selected"}
        self._possible: list[Unit] = []
        can = cluster.can_become_free
        self._unexamined = (unit for unit in self.fitting.values() if can(unit, place, kind, demands))
        # The rank depends on what is left in wider units, and in the unit itself if jobs share it.
        shared = [place.unit] if kind.shared else []
        kinds = cluster.units.kinds
        labels = cluster.units.labels
        wider = [*shared, *(key for key in labels if kinds[key].nodes > kind.nodes)]
        self._wider = [(labels.index(key), key, kinds[key].usable) for key in wider]
        self._unit_ids = cluster.topology.unit_ids(labels)
        self._single = place.size == 1 and not kind.divides
        # Nothing becomes free during a decision, so full units are not ranked.
        self._states = {unit.id: (unit, self.taken(unit)) for unit in self.fitting.values()}
        self._touched: set[str] = set()  # names of nodes that jobs got since then
        free = [unit for unit, cause in self._states.values() if cause is None]
        self._heap: list[Entry] = [self._entry(unit) for unit in free]
        # Units that are reserved or kept against the last job; the next one may use them.
        self._aside: list[Entry] = []
        # With guarantees, a search examines all units: how many a job can have at most, by the guarantees of
        # its namespace, and whether units are reserved against it.
        self._most: dict[tuple[tuple[Guarantee | None, ...], bool], int] = {}
        self._inside: defaultdict[str, list[Unit]] = defaultdict(list)
        for unit in free:
            self._inside[self._server(unit.nodes[0])].append(unit)
        heapify(self._heap)

    def take(
        self, job: Job, count: int, avoided: Collection[str] = (), doubtful: Collection[str] = ()
    ) -> list[Unit]:
        """Returns the best units for a job that needs a number of them; none if there are too few.

        Units with doubtful nodes (given by name), and unclear units, come after all others; avoided units
        (given by id) come last.
        """
        reserved, guarantees = self._cluster.reserved_from(job), self._cluster.guarantees
        rooms, alike = guarantees.rooms(job), (guarantees.teams(job.key[0]), bool(reserved))
        if self._most.get(alike, count) < count:
            return []
        if self._aside and (rooms or not reserved):
            for entry in self._aside:
                heappush(self._heap, entry)
            self._aside.clear()
        best, last, repelled = self._search(job, count, reserved, rooms, avoided, doubtful)
        last.sort(key=lambda entry: entry[1][-1] in avoided)
        others = (entry for entry in last if book(rooms, self.fitting[entry[1][-1]]))
        both = best + list(islice(others, count - len(best)))
        for entry in chain(best, last, repelled):
            heappush(self._heap, entry)
        # With units that come last for this job, another one might get more.
        if rooms and not last and len(both) + len(repelled) < count:
            self._most[alike] = len(both) + len(repelled)
        return [self.fitting[names[-1]] for _, names in both] if len(both) == count else []

    def _search(  # noqa: PLR0913, PLR0917 - all that a search depends on
        self,
        job: Job,
        count: int,
        reserved: frozenset[str],
        rooms: list[Room],
        avoided: Collection[str],
        doubtful: Collection[str],
    ) -> tuple[list[Entry], list[Entry], list[Entry]]:
        """Takes entries from the heap until enough are best; returns these, uncertain and repelled ones."""
        best: list[Entry] = []
        last: list[Entry] = []
        repelled: list[Entry] = []
        for entry, unit in self._ranked():
            if self._cluster.repelled(unit.nodes, job):
                repelled.append(entry)
            elif not reserved.isdisjoint(unit.names):
                self._aside.append(entry)
            elif (
                unit.id in avoided
                or not unit.names.isdisjoint(doubtful)
                or self._cluster.repelling.unclear(unit.nodes, job.key[0])
            ):
                last.append(entry)
            elif book(rooms, unit):
                best.append(entry)
            else:
                self._aside.append(entry)
            if len(best) == count:
                break
        return best, last, repelled

    def _ranked(self) -> Iterator[tuple[Entry, Unit]]:
        """Removes entries from the heap, and yields those whose unit is free, the best first."""
        seen: set[str] = set()
        while self._heap:
            entry = heappop(self._heap)
            unit = self.fitting[entry[1][-1]]
            if unit.id not in seen and entry[0] == self._rank(unit) and self.taken(unit) is None:
                seen.add(unit.id)
                yield entry, unit

    def taken(self, unit: Unit) -> Cause | None:
        """Returns why too few nodes of a unit are free; None if a job can have it."""
        return self._cluster.taken(unit, self.place, self._kind, self.demands)

    def holders(self, unit: Unit, able: AbstractSet[JobKey]) -> frozenset[JobKey] | None:
        """Returns the jobs that must end before a block can have a unit, or None.

        If jobs share the unit, takes the nodes with the fewest holders, all of them in ``able``.
        """
        holders, shared = self._cluster.holders, self._kind.shared
        whole = unit if shared else self._cluster.topology.whole(self.place.unit, unit)
        by_node = [frozenset(holders.get(name, ())) for name in sorted(whole.names)]
        if shared:
            by_node = sorted((jobs for jobs in by_node if jobs <= able), key=len)[: self.place.size]
        return frozenset[JobKey]().union(*by_node) if len(by_node) >= self.place.size else None

    @property
    def states(self) -> Collection[tuple[Unit, Cause | None]]:
        """The units that suit the pods, each with the cause if too few of its nodes are free."""
        key, nodes = self.place.unit, self._cluster.topology.nodes
        for unit_id in {nodes[name].unit(key) or "" for name in self._touched} & self._states.keys():
            unit, _ = self._states[unit_id]
            self._states[unit_id] = unit, self.taken(unit)
        self._touched.clear()
        return self._states.values()

    def touched(self, nodes: Collection[Node]) -> None:
        """Ranks the units on the UltraServers of these nodes again, after a job has got the nodes."""
        self._most.clear()
        self._touched.update(node.name for node in nodes)
        for server in {self._server(node) for node in nodes}:
            for unit in self._inside.get(server, ()):
                if self.taken(unit) is None:
                    heappush(self._heap, self._entry(unit))

    def possible(self, count: int | None = None) -> Sequence[Unit]:
        """Returns the units that a job could have after other jobs have ended, and stops after ``count``."""
        more = None if count is None else max(count - len(self._possible), 0)
        self._possible.extend(islice(self._unexamined, more))
        return self._possible

    def reserve(self, count: int, job: Job, ends: Ends) -> Reservation | None:
        """Reserves for a job the units that become free first; None if too few have a known time.

        Units that jobs of the same namespace hold without a limit, or that its other pods fill, come last.
        """
        cluster, namespace = self._cluster, job.key[0]
        jobless_nodes = cluster.jobless_nodes.get(namespace, frozenset[str]())
        rooms = cluster.guarantees.rooms(job)
        ranked: list[tuple[tuple[bool, bool, bool, int, End, str], Unit]] = []
        for unit in self.possible():
            if (end := self._end(unit, ends)) is None:
                continue
            holders = [holder for name in unit.names for holder in cluster.holders.get(name, ())]
            if cluster.repelled(unit.nodes, job, ending=holders):
                continue
            own = end.assumed and any(holder[0] == namespace for holder in holders)
            fills = (
                not jobless_nodes.isdisjoint(unit.names)
                and cluster.full(unit.nodes, self.demands) is not None
            )
            # If ends are assumed, units with fewer nodes in use come first.
            in_use = len(holders) if end.assumed else 0
            ranked.append(((own or fills, end.late, end.assumed, in_use, end, unit.id), unit))
        # As many units as other teams are owed stay free, even when the reservation begins; if fewer are free
        # now, those that become free first are kept for them as well.
        ordered = (each for each in sorted(ranked, key=itemgetter(0)) if book(rooms, each[1]))
        first = list(islice(ordered, count + cluster.guarantees.lacking(job)))
        if len(first) < count:
            return None
        names = frozenset[str]().union(*(unit.names for _, unit in first))
        begin = max(end.at for (*_, end, _), _ in first)
        own_only, assumed = (any(key[part] for key, _ in first) for part in (0, 2))
        units = tuple(sorted(unit.id for _, unit in first[:count]))
        return Reservation(job.key, units, names, begin, assumed=assumed, own=own_only, ends=ends)

    def _end(self, unit: Unit, ends: Ends) -> End | None:
        """Returns when a unit has enough free nodes for a block of a job; None if that is unknown."""
        holders = self._cluster.holders
        if not self._kind.shared:
            whole = self._cluster.topology.whole(self.place.unit, unit)
            return ends.last({holder for name in whole.names for holder in holders.get(name, ())})
        by_node = (ends.last(holders.get(name, ())) for name in unit.names)
        ends_of_nodes = sorted(end for end in by_node if end)
        return ends_of_nodes[self.place.size - 1] if self.place.size <= len(ends_of_nodes) else None

    def _entry(self, unit: Unit) -> Entry:
        return self._rank(unit), (*self._unit_ids[unit.nodes[0].name], unit.id)

    def _rank(self, unit: Unit) -> Rank:
        """Returns the rank: units in large units that are already in use come first, the fullest before."""
        node, cluster = unit.nodes[0], self._cluster
        unit_ids = self._unit_ids[node.name]
        whole, first = [], None
        for index, key, usable in self._wider:
            unit_id = unit_ids[index]
            free = cluster.free(key, unit_id)
            whole.append(free >= usable)
            if first is None and unit_id:
                first = free
        return tuple(whole), first or 0, cluster.neuron_left(node) if self._single else 0

    def _server(self, node: Node) -> str:
        """Returns the id of the largest unit that contains a node; a node in no unit counts as its own."""
        return next(filter(None, self._unit_ids[node.name]), node.name)
