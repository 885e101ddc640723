"""Chooses the free units for a job: those whose loss costs larger jobs least.

Smaller jobs fill UltraServers that are already in use, so that whole ones stay free. Among equal units the
first by name is chosen, so that a decision always has the same result.
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
"""The rank; then the ids of the larger units that contain the unit, and its own: neighbours come together."""


class Ranking:
    """The units that suit pods with equal demands, those with the least loss first.

    This is a heap with entries that can be outdated: `take` drops an entry whose rank is no longer the
    unit's, because `touched` has added a new one.
    """

    def __init__(self, cluster: Cluster, place: Place, demands: tuple[Demand, ...]) -> None:
        self._cluster, self.place, self.demands = cluster, place, demands
        # Every unit that suits the pods, held or not, by id; and why the others do not suit them.
        kind = cluster.units.kinds.get(place.unit, Kind(place.size))
        self.parts = kind.divides  # whether a job may have fewer nodes of a unit than there are
        self.fitting, self.unfit = cluster.topology.suited(place.unit, place.size, kind.nodes, demands)
        # The rank depends on what is left in wider units, and in the unit itself if jobs share it.
        shared = [place.unit] if kind.shared else []
        kinds = cluster.units.kinds
        wider = [*shared, *(key for key in cluster.units.labels if kinds[key].nodes > kind.nodes)]
        self._wider = [(key, kinds[key].usable) for key in wider]
        self._single = place.size == 1 and not kind.divides
        # Nothing becomes free during a decision, so full units are not ranked.
        free = [unit for unit in self.fitting.values() if cluster.taken(unit, place, demands) is None]
        self._heap: list[Entry] = [self._entry(unit) for unit in free]
        # Units that are reserved against the last job; they may be free for the next one, of another
        # namespace.
        self._aside: list[Entry] = []
        self._inside: defaultdict[tuple[str, str], list[Unit]] = defaultdict(list)
        for unit in free:
            self._inside[self._server(unit.nodes[0])].append(unit)
        heapify(self._heap)

    def take(
        self, job: Job, count: int, avoided: Collection[str] = (), doubtful: Collection[str] = ()
    ) -> tuple[list[Unit], int]:
        """Returns the best units for a job that needs a number of them.

        Units with doubtful nodes (given by name), and unclear units, come after all others; avoided units
        (given by id) come last.

        Returns:
            The units, none if there are too few; and the number of units, counted up to the needed number.
        """
        best: list[Entry] = []
        last: list[Entry] = []
        repelled: list[Entry] = []
        if self._aside and not self._is_kept(self._aside[0], job):
            for entry in self._aside:
                heappush(self._heap, entry)
            self._aside.clear()
        seen: set[str] = set()
        while self._heap and len(best) < count:
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
                (last if is_last else best).append(entry)
        last.sort(key=lambda entry: entry[1][-1] in avoided)
        both = best + last[: max(count - len(best), 0)]
        for entry in chain(best, last, repelled):
            heappush(self._heap, entry)
        return ([self.fitting[names[-1]] for _, names in both] if len(both) == count else []), len(both)

    def touched(self, nodes: Iterable[Node]) -> None:
        """Ranks the units of some nodes' UltraServers again, after a job has got these nodes."""
        for server in {self._server(node) for node in nodes}:
            for unit in self._inside.get(server, ()):
                if self._cluster.taken(unit, self.place, self.demands) is None:
                    heappush(self._heap, self._entry(unit))

    @cached_property
    def possible(self) -> tuple[Unit, ...]:
        """The units that a job could have after other jobs have ended."""
        can = self._cluster.can_become_free
        return tuple(unit for unit in self.fitting.values() if can(unit, self.place, self.demands))

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
        """Returns the rank: units in large units that are already in use come first, the fullest before."""
        node, cluster = unit.nodes[0], self._cluster
        whole, first = [], None
        for key, usable in self._wider:
            unit_id = node.unit(key)
            left = cluster.free(key, unit_id)
            whole.append(left >= usable)
            if first is None and unit_id:
                first = left
        return tuple(whole), first or 0, cluster.neuron_left(node) if self._single else 0

    def _server(self, node: Node) -> tuple[str, str]:
        """Returns the largest unit that contains a node; a node in no unit counts as its own."""
        units = ((key, unit) for key in self._cluster.units.labels if (unit := node.unit(key)))
        return next(units, ("", node.name))
