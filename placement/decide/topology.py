"""The nodes, and which of them work as one unit: what changes only when a node does."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from placement.decide.fit import Cause, misfit, unusable
from placement.observe.model import Demand, Node


class Unit(NamedTuple):
    """The nodes that share a value of a topology label, which is its id, by name; and their names."""

    id: str
    nodes: tuple[Node, ...]
    names: frozenset[str]


class Topology:
    """The nodes of a cluster, by name. Kept from decision to decision while no node changes."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: Mapping[str, Node] = {node.name: node for node in nodes}
        self.units_by = lru_cache(maxsize=16)(self._units_by)
        self.near = lru_cache(maxsize=4096)(self._near)
        self.suited = lru_cache(maxsize=64)(self._suited)

    def _units_by(self, key: str) -> Mapping[str, Unit]:
        """Every unit that a topology label makes, by id."""
        found: defaultdict[str, dict[str, Node]] = defaultdict(dict)
        for name, node in sorted(self.nodes.items()):
            if value := node.unit(key):
                found[value][name] = node
        return {
            value: Unit(value, tuple(nodes.values()), frozenset(nodes))
            for value, nodes in sorted(found.items())
        }

    def _near(self, key: str, value: str) -> tuple[str, ...]:
        """The names of the nodes with a label's value, whether they make a unit or not."""
        return tuple(name for name, node in self.nodes.items() if node.labels.get(key) == value)

    def unit(self, key: str, unit_id: str | None) -> Unit | None:
        """The unit with an id; None where there is none."""
        return self.units_by(key).get(unit_id) if unit_id else None

    def _suited(
        self, key: str, size: int, most: int, demands: tuple[Demand, ...]
    ) -> tuple[Mapping[str, Unit], Mapping[str, Cause]]:
        """The units that suit pods, whoever is on them, by id; and why the others do not."""
        fitting, unfit = {}, {}
        for unit in self.units_by(key).values():
            part, cause = _fitting(unit, size, most, demands)
            if cause is None:
                fitting[unit.id] = part
            else:
                unfit[unit.id] = cause
        return fitting, unfit

    @cached_property
    def usable(self) -> frozenset[str]:
        """The names of the nodes that are Ready and not cordoned."""
        return frozenset(node.name for node in self.nodes.values() if unusable(node) is None)


def unsuited(node: Node, demands: Iterable[Demand]) -> Cause | None:
    """Why a node does not suit pods, whoever is on it; None where it does."""
    if state := unusable(node):
        return Cause(state, f"node {node.name} {state}")
    return next((cause for demand in demands if (cause := misfit(demand, node))), None)


def _fitting(unit: Unit, size: int, most: int, demands: tuple[Demand, ...]) -> tuple[Unit, Cause | None]:
    """The nodes of a unit that suit pods, and why there are too few; a unit has so many nodes at most."""
    if len(unit.nodes) < size or len(unit.nodes) > most:
        return unit, Cause("incomplete", f"{len(unit.nodes)} of {most} nodes present")
    causes = {node.name: unsuited(node, demands) for node in unit.nodes}
    if any(causes.values()):
        nodes = tuple(node for node in unit.nodes if causes[node.name] is None)
        if len(nodes) < size:
            return unit, next(filter(None, causes.values()))
        unit = Unit(unit.id, nodes, frozenset(node.name for node in nodes))
    driven = {node.name: node.driven for node in unit.nodes}
    if len({*driven.values()}) > 1:
        name = next(name for name, has in driven.items() if not has)
        return unit, Cause(
            "mixed", f"node {name} has no devices of the Neuron DRA driver, and others of it have"
        )
    return unit, None
