"""Which of the free units a job gets: those that are the least loss to larger jobs.

Jobs of fewer nodes fill UltraServers that are broken into already, so that whole ones stay free. Among
equals the first by name is taken, so that every run of the same decision says the same.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain

from contract.place import Place
from placement.decide.cluster import Cluster
from placement.decide.jobs import Job
from placement.decide.topology import Unit
from placement.observe.model import Demand, Kind, Node

Rank = tuple[tuple[bool, ...], int, int]
Entry = tuple[Rank, tuple[str, ...]]
"""Rank, then the units that it is in, the largest first, and itself: of equals neighbours are taken."""


class Ranking:
    """The units that suit pods of equal demands, the least loss first.

    A heap whose entries go out of date: one whose rank is no longer the unit's is dropped when it comes up,
    because `touched` has put in another.
    """

    def __init__(self, cluster: Cluster, place: Place, demands: tuple[Demand, ...]) -> None:
        self._cluster, self.place, self.demands = cluster, place, demands
        # Every unit that suits the pods, held or not, by id; and why the others do not.
        kind = cluster.units.kinds.get(place.unit, Kind(place.size))
        self.fitting, self.unfit = cluster.topology.suited(place.unit, place.size, kind.nodes, demands)
        # Of wider units, and of one that jobs share itself, it matters what is left.
        shared = [place.unit] if kind.shared else []
        sizes = {key: each.nodes for key, each in cluster.units.kinds.items()}
        self._wider = [*shared, *(key for key in cluster.units.labels if sizes[key] > kind.nodes)]
        # Nothing becomes free while this is decided, so what is full is not ranked, whatever comes of others.
        free = [unit for unit in self.fitting.values() if cluster.taken(unit, place, demands) is None]
        self._heap: list[Entry] = [self._entry(unit) for unit in free]
        # What is kept from the last that asked, and may not be from the next, of another namespace.
        self._aside: list[Entry] = []
        self._inside: defaultdict[tuple[str, str], list[Unit]] = defaultdict(list)
        for unit in free:
            self._inside[self._server(unit.nodes[0])].append(unit)
        heapify(self._heap)

    def take(
        self, job: Job, count: int, avoided: Collection[str] = (), doubtful: Collection[str] = ()
    ) -> tuple[list[Unit], int]:
        """The best units for a job that needs so many.

        Those with doubtful nodes, by name, or unclear ones come after all others, and those that are avoided,
        by id, last.

        Returns:
            The units, none if there are too few; and how many there are, counted up to what is needed.
        """
        found: list[Entry] = []
        last: list[Entry] = []
        repelled: list[Entry] = []
        if self._aside and not self._is_kept(self._aside[0], job):
            for entry in self._aside:
                heappush(self._heap, entry)
            self._aside.clear()
        seen: set[str] = set()
        while self._heap and len(found) < count:
            entry = heappop(self._heap)
            unit_id = entry[1][-1]
            if unit_id in seen or not self._good(entry):
                continue
            seen.add(unit_id)
            unit = self.fitting[unit_id]
            if self._is_kept(entry, job):
                self._aside.append(entry)
            elif self._cluster.repelled(unit.nodes, job):
                repelled.append(entry)
            else:
                unsure = unit_id in avoided or self._cluster.repelling.unclear(unit.nodes, job.key[0])
                is_last = unsure or not unit.names.isdisjoint(doubtful)
                (last if is_last else found).append(entry)
        last.sort(key=lambda entry: entry[1][-1] in avoided)
        both = found + last[: max(count - len(found), 0)]
        for entry in chain(found, last, repelled):
            heappush(self._heap, entry)
        return ([self.fitting[names[-1]] for _, names in both] if len(both) == count else []), len(both)

    def touched(self, nodes: Iterable[Node]) -> None:
        """Rank the units of some nodes' UltraServers again: these nodes were taken."""
        for server in {self._server(node) for node in nodes}:
            for unit in self._inside.get(server, ()):
                if self._cluster.taken(unit, self.place, self.demands) is None:
                    heappush(self._heap, self._entry(unit))

    @cached_property
    def possible(self) -> tuple[Unit, ...]:
        """The units that a job could have once other jobs have ended."""
        cluster, size = self._cluster, self.place.size
        return tuple(
            unit
            for unit in self.fitting.values()
            if cluster.can_become_free(unit, self.place.unit, size, self.demands)
        )

    def nearest(self, count: int, job: Job) -> tuple[list[Unit], bool]:
        """So many of those, the ones first from which the fewest nodes are missing; fewer if there are fewer.

        Units that jobs of its namespace hold, or that its other pods fill, come last.

        Returns:
            The units, and whether there are such among them.
        """
        cluster, holders, namespace = self._cluster, self._cluster.holders, job.key[0]
        possible = (unit for unit in self.possible if not cluster.repelled(unit.nodes, job, always=True))

        def own(unit: Unit) -> bool:
            if any(key[0] == namespace for node in unit.nodes for key in holders.get(node.name, ())):
                return True
            fills = any((node.name, namespace) in cluster.lodgers for node in unit.nodes)
            return fills and cluster.full(unit.nodes, self.demands) is not None

        def held(unit: Unit) -> int:
            return sum(1 for node in unit.nodes if holders.get(node.name))

        found = sorted(possible, key=lambda unit: (own(unit), held(unit), unit.id))[:count]
        return found, any(map(own, found))

    def _is_kept(self, entry: Entry, job: Job) -> bool:
        return self._cluster.kept_from(self.fitting[entry[1][-1]], job.key) is not None

    def _good(self, entry: Entry) -> bool:
        rank, names = entry
        unit = self.fitting[names[-1]]
        return rank == self._rank(unit) and self._cluster.taken(unit, self.place, self.demands) is None

    def _entry(self, unit: Unit) -> Entry:
        node, labels = unit.nodes[0], self._cluster.units.labels
        return self._rank(unit), (*(node.unit(key) or "" for key in labels), unit.id)

    def _rank(self, unit: Unit) -> Rank:
        """Order: the largest units broken into, then the next, the fullest first."""
        node, cluster = unit.nodes[0], self._cluster
        free = {key: cluster.free(key, node.unit(key)) for key in self._wider}
        whole = tuple(left >= cluster.units.kinds[key].usable for key, left in free.items())
        first = next((left for key, left in free.items() if node.unit(key)), 0)
        single = self.place.size == 1 and not cluster.divides(self.place.unit)
        return whole, first, cluster.neuron_left(node) if single else 0

    def _server(self, node: Node) -> tuple[str, str]:
        """The largest unit that a node is in; a node in none is one by itself."""
        found = ((key, unit) for key in self._cluster.units.labels if (unit := node.unit(key)))
        return next(found, ("", node.name))
