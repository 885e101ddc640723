"""Stores which nodes of UltraServers are free. The nodes are numbers."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from copy import copy

NODES = 4
"""The number of nodes of an UltraServer. Nodes 0 to 3 form the first UltraServer, 0 and 1 its first pair."""

Unit = tuple[int, ...]


def sick_nodes(servers: int, count: int, seed: int) -> frozenset[int]:
    """Returns a random node of each of ``count`` random UltraServers."""
    randomness = random.Random(f"sick {seed}")  # noqa: S311 - an experiment must be reproducible
    return frozenset(
        server * NODES + randomness.randrange(NODES) for server in randomness.sample(range(servers), count)
    )


class Fleet:
    """The nodes of a cluster, of which some are free.

    Attributes:
        nodes: The number of all nodes.
        usable: The number of nodes that are not sick.
        free: The free nodes of each UltraServer.
        units: The units of each size that have no sick node.
    """

    def __init__(self, servers: int, sick: Collection[int] = ()) -> None:
        self.nodes = servers * NODES
        self.usable = self.nodes - len(sick)
        self.free = [
            {node for node in range(server * NODES, server * NODES + NODES) if node not in sick}
            for server in range(servers)
        ]
        healthy = set().union(*self.free)
        units = {size: [tuple(range(n, n + size)) for n in range(0, self.nodes, size)] for size in (1, 2, 4)}
        self.units: dict[int, list[Unit]] = {
            size: [unit for unit in all_units if healthy.issuperset(unit)]
            for size, all_units in units.items()
        }
        self._units_by_server = {
            size: [
                [unit for unit in healthy_units if unit[0] // NODES == server] for server in range(servers)
            ]
            for size, healthy_units in self.units.items()
        }

    def copy(self) -> Fleet:
        """Returns a copy, on which a policy can try a choice."""
        other = copy(self)
        other.free = [set(free) for free in self.free]
        return other

    def take(self, nodes: Iterable[int]) -> None:
        """Marks nodes as used.

        Raises:
            ValueError: A node is not free.
        """
        for node in nodes:
            if node not in self.free[node // NODES]:
                raise ValueError(f"node {node} is not free")
            self.free[node // NODES].remove(node)

    def give_back(self, nodes: Iterable[int]) -> None:
        """Marks nodes as free."""
        for node in nodes:
            self.free[node // NODES].add(node)

    @property
    def count(self) -> int:
        """The number of free nodes."""
        return sum(map(len, self.free))

    @property
    def fragmented(self) -> int:
        """The number of free nodes in UltraServers that are not wholly free."""
        return sum(len(free) for free in self.free if len(free) < NODES)

    def choose(self, size: int, units: int, reserved: Collection[int] = ()) -> list[int] | None:
        """Chooses free units of a size without reserved nodes. If possible, larger units stay whole.

        Returns:
            The nodes of the units; None if there are too few units.
        """
        suitable = [
            (*self._split_cost(unit), unit)
            for free, server_units in zip(self.free, self._units_by_server[size], strict=True)
            if len(free) >= size
            for unit in server_units
            if free.issuperset(unit) and not any(node in reserved for node in unit)
        ]
        if len(suitable) < units:
            return None
        nodes: list[int] = []
        for _ in range(units):
            best = min(suitable)
            nodes += best[-1]
            suitable.remove(best)
            if units > 1 and size < NODES:  # now the chosen UltraServer is partly used
                chosen = set(nodes)
                suitable = [(*self._split_cost(unit, chosen), unit) for *_, unit in suitable]
        return nodes

    def _split_cost(self, unit: Unit, chosen: Collection[int] = ()) -> tuple[bool, bool, int]:
        """Returns whether a unit splits a free UltraServer, or pair; and the UltraServer's free nodes."""
        if len(unit) == NODES:
            return False, False, 0
        free = self.free[unit[0] // NODES].difference(chosen)
        whole_pair = len(unit) == 1 and unit[0] ^ 1 in free
        return len(free) == NODES, whole_pair, len(free)


def is_whole(nodes: Sequence[int], size: int) -> bool:
    """Returns whether nodes form complete units of a size."""
    ordered = sorted(nodes)
    groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return all(group[0] % size == 0 and group == list(range(group[0], group[0] + size)) for group in groups)
