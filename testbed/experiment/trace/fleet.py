"""UltraServers of four nodes, by number, and which of their nodes are free."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Sequence
from copy import copy

NODES = 4
"""Nodes of an UltraServer. Nodes 0 to 3 are the first one's, 0 and 1 its first pair."""

Unit = tuple[int, ...]


def sick_nodes(servers: int, count: int, seed: int) -> frozenset[int]:
    """Returns one node of each of this many UltraServers."""
    chance = random.Random(f"sick {seed}")  # noqa: S311 - an experiment that can be had again
    return frozenset(
        server * NODES + chance.randrange(NODES) for server in chance.sample(range(servers), count)
    )


class Fleet:
    """Which nodes are free.

    Attributes:
        nodes: How many there are.
        usable: How many are not sick.
        free: For each UltraServer its free nodes.
        units: By size, without those that have a sick node.
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
            size: [unit for unit in every if healthy.issuperset(unit)] for size, every in units.items()
        }
        self._inside = {
            size: [
                [unit for unit in healthy_units if unit[0] // NODES == server] for server in range(servers)
            ]
            for size, healthy_units in self.units.items()
        }

    def copy(self) -> Fleet:
        """Returns the same, to try something with."""
        other = copy(self)
        other.free = [set(free) for free in self.free]
        return other

    def take(self, nodes: Iterable[int]) -> None:
        """Marks nodes as used.

        Raises:
            ValueError: One is not free.
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
        """How many nodes are free."""
        return sum(map(len, self.free))

    @property
    def fragmented(self) -> int:
        """How many free nodes are in UltraServers that are not wholly free."""
        return sum(len(free) for free in self.free if len(free) < NODES)

    def choose(self, size: int, units: int, kept: Collection[int] = ()) -> list[int] | None:
        """Returns free nodes for this many units of a size, not reserved, at the least loss to larger jobs.

        Returns:
            The nodes; None if there are too few such units.
        """
        suitable = [
            (*self._loss(unit), unit)
            for free, inside in zip(self.free, self._inside[size], strict=True)
            if len(free) >= size
            for unit in inside
            if free.issuperset(unit) and not any(node in kept for node in unit)
        ]
        if len(suitable) < units:
            return None
        nodes: list[int] = []
        for _ in range(units):
            best = min(suitable)
            nodes += best[-1]
            suitable.remove(best)
            if units > 1 and size < NODES:  # the rest of its UltraServer is broken into now
                taken = set(nodes)
                suitable = [(*self._loss(unit, taken), unit) for *_, unit in suitable]
        return nodes

    def _loss(self, unit: Unit, taken: Collection[int] = ()) -> tuple[bool, bool, int]:
        """Returns whether a whole UltraServer, and a pair, is lost with a unit, and the rest that is free."""
        if len(unit) == NODES:
            return False, False, 0
        free = self.free[unit[0] // NODES].difference(taken)
        whole_pair = len(unit) == 1 and unit[0] ^ 1 in free
        return len(free) == NODES, whole_pair, len(free)


def is_whole(nodes: Sequence[int], size: int) -> bool:
    """Returns whether nodes fill units of a size."""
    ordered = sorted(nodes)
    groups = [ordered[start : start + size] for start in range(0, len(ordered), size)]
    return all(group[0] % size == 0 and group == list(range(group[0], group[0] + size)) for group in groups)
