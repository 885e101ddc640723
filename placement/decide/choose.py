"""Which of the free units a job gets: those that are the least loss to larger jobs.

Jobs of fewer nodes fill UltraServers that are broken into already, so that whole ones stay free. Among
equals the first by name is taken, so that every run of the same decision says the same.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable
from functools import cached_property
from heapq import heapify, heappop, heappush
from itertools import chain
from operator import itemgetter

from contract.keys import SERVER_2, SERVER_4
from contract.place import Place
from placement.decide.cluster import Cluster
from placement.decide.jobs import Job
from placement.decide.reserve import End, Ends, Reservation
from placement.decide.topology import Unit
from placement.observe.model import SIZES, Demand, Node

Rank = tuple[bool, bool, int, int]
Entry = tuple[Rank, tuple[str, str, str]]
"""Rank, then UltraServer, pair and unit: of equals those beside each other are taken."""


class Ranking:
    """The units that suit pods of equal demands, the least loss first.

    A heap whose entries go out of date: one whose rank is no longer the unit's is dropped when it comes up,
    because `touched` has put in another.
    """

    def __init__(self, cluster: Cluster, place: Place, demands: tuple[Demand, ...]) -> None:
        self._cluster, self.place, self.demands = cluster, place, demands
        # Every unit that suits the pods, held or not, by id; and why the others do not.
        self.fitting, self.unfit = cluster.topology.suited(place.unit, place.size, demands)
        # Nothing becomes free while this is decided, so what is full is not ranked, whatever comes of others.
        free = [
            unit
            for unit in self.fitting.values()
            if cluster.holder(unit, place.size) is None and cluster.full(unit.nodes, demands) is None
        ]
        self._heap: list[Entry] = [self._entry(unit) for unit in free]
        # What is kept from the last that asked, and may not be from the next, of another namespace.
        self._aside: list[Entry] = []
        self._inside: defaultdict[str, list[Unit]] = defaultdict(list)
        for unit in free:
            self._inside[_server(unit.nodes[0])].append(unit)
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
        for server in {_server(node) for node in nodes}:
            for unit in self._inside.get(server, ()):
                if self._cluster.holder(unit, self.place.size) is None:
                    heappush(self._heap, self._entry(unit))

    @cached_property
    def possible(self) -> tuple[Unit, ...]:
        """The units that a job could have once other jobs have ended."""
        cluster, size = self._cluster, self.place.size
        return tuple(
            unit for unit in self.fitting.values() if cluster.can_become_free(unit, size, self.demands)
        )

    def reserve(self, count: int, job: Job, ends: Ends) -> Reservation | None:
        """So many of those, the ones that become free first; None if that cannot be said of so many.

        Units that jobs of its namespace hold without a limit, or that its other pods fill, come last.
        """
        cluster, holders, namespace = self._cluster, self._cluster.holders, job.key[0]
        free: list[tuple[tuple[bool, bool, int, End, str], Unit]] = []
        for unit in self.possible:
            end = ends.of(unit, holders)
            if end is None or cluster.repelled(unit.nodes, job, always=True):
                continue
            there = [holder for node in unit.nodes for holder in holders.get(node.name, ())]
            own = end.unlimited and any(holder[0] == namespace for holder in there)
            lodges = any((node.name, namespace) in cluster.lodgers for node in unit.nodes)
            fills = lodges and cluster.full(unit.nodes, self.demands) is not None
            # Where nobody says when jobs end, the units count that most of them have left.
            left = len(there) if end.unlimited else 0
            free.append(((own or fills, end.unlimited, left, end, unit.id), unit))
        if len(free) < count:
            return None
        first = sorted(free, key=itemgetter(0))[:count]
        nodes = frozenset[str]().union(*(unit.names for _, unit in first))
        begin = max(end.at for (*_, end, _), _ in first)
        inside = any(own for (own, *_), _ in first)
        return Reservation(job.key, nodes, begin, inside=inside, ends=ends)

    def _is_kept(self, entry: Entry, job: Job) -> bool:
        return self._cluster.kept_from(self.fitting[entry[1][-1]], job) is not None

    def _good(self, entry: Entry) -> bool:
        rank, names = entry
        unit, cluster = self.fitting[names[-1]], self._cluster
        return (
            cluster.holder(unit, self.place.size) is None
            and rank == self._rank(unit)
            and cluster.full(unit.nodes, self.demands) is None
        )

    def _entry(self, unit: Unit) -> Entry:
        node = unit.nodes[0]
        return self._rank(unit), (_server(node), node.unit(SERVER_2) or "", unit.id)

    def _rank(self, unit: Unit) -> Rank:
        """Order: UltraServers broken into, pairs broken into, the fullest first."""
        if self.place.size >= 4:  # noqa: PLR2004 - a whole UltraServer, or more
            return (False, False, 0, 0)
        node, cluster = unit.nodes[0], self._cluster
        free = cluster.free(SERVER_4, node.unit(SERVER_4))
        if self.place.size > 1:
            return (free == SIZES[SERVER_4], False, free, 0)
        pair = cluster.free(SERVER_2, node.unit(SERVER_2)) == SIZES[SERVER_2]
        return (free == SIZES[SERVER_4], pair, free, cluster.neuron_left(node))


def _server(node: Node) -> str:
    """The UltraServer of a node; a node outside is one by itself."""
    if server := node.unit(SERVER_4):
        return server
    pair = node.unit(SERVER_2)
    return f"pair/{pair}" if pair else f"node/{node.name}"
