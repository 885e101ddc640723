"""The nodes and their units, which change only when a node changes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from placement import messages
from placement.decide.fit import Cause, misfit, unusable
from placement.observe.model import Demand, Node


class Unit(NamedTuple):
    """The nodes that share a value of a topology label, which is the unit's id."""

    id: str
    nodes: tuple[Node, ...]
    names: frozenset[str]


class Topology:
    """The nodes of a cluster, by name. Decisions use the same object until a node changes."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self.nodes: Mapping[str, Node] = {node.name: node for node in nodes}
        self.units_by = lru_cache(maxsize=16)(self._units_by)
        self.unit_ids = lru_cache(maxsize=4)(self._unit_ids)
        self.near = lru_cache(maxsize=4096)(self._near)
        self.cut_off = lru_cache(maxsize=4)(self._cut_off)
        self.suited = lru_cache(maxsize=64)(self._suited)

    def _units_by(self, key: str) -> Mapping[str, Unit]:
        """Returns the units of a topology label, by id."""
        by_value: defaultdict[str, dict[str, Node]] = defaultdict(dict)
        for name, node in sorted(self.nodes.items()):
            if value := node.unit(key):
                by_value[value][name] = node
        return {
            value: Unit(value, tuple(nodes.values()), frozenset(nodes))
            for value, nodes in sorted(by_value.items())
        }

    def _unit_ids(self, labels: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
        """Returns for each node, by name, the ids of its units for some labels; empty if it is in none."""
        return {name: tuple(node.unit(key) or "" for key in labels) for name, node in self.nodes.items()}

    def _near(self, key: str, value: str) -> tuple[str, ...]:
        """Returns the names of the nodes with a value of a label, even if they form no unit."""
        return tuple(name for name, node in self.nodes.items() if node.labels.get(key) == value)

    def dead(self, name: str) -> str | None:
        """Returns why nothing runs on a node any more, as far as can be seen; None if something may."""
        node = self.nodes.get(name)
        if node is None:
            return messages.node_is(name, messages.GONE)
        return None if node.ready else messages.node_is(name, messages.NOT_READY)

    def _cut_off(self, labels: tuple[str, ...]) -> bool:
        """Returns whether most nodes, or most of the nodes in units of the given labels, are not Ready.

        Probably the network to them has failed, and their pods run.
        """
        every = self.nodes.values()
        inside = [node for node in every if any(map(node.unit, labels))]
        return any(2 * sum(not node.ready for node in nodes) > len(nodes) for nodes in (every, inside))

    def unit(self, key: str, unit_id: str | None) -> Unit | None:
        """Returns the unit with an id; None if there is none."""
        return self.units_by(key).get(unit_id) if unit_id else None

    def names(self, key: str, units: Iterable[str]) -> frozenset[str]:
        """Returns the names of the nodes of some units."""
        known = self.units_by(key)
        return frozenset[str]().union(*(known[unit].names for unit in units if unit in known))

    def whole(self, key: str, part: Unit) -> Unit:
        """Returns the unit with all its nodes, given one that has only the nodes that suit the pods."""
        return self.units_by(key).get(part.id, part)

    def _suited(
        self, key: str, size: int, most: int, demands: tuple[Demand, ...]
    ) -> tuple[Mapping[str, Unit], Mapping[str, Cause]]:
        """Returns the units that suit pods, apart from their holders, by id; and why the others do not."""
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
    """Returns why a node does not suit pods, apart from its holders; None if it does."""
    if state := unusable(node):
        return Cause(state, messages.node_is(node.name, state))
    return next((cause for demand in demands if (cause := misfit(demand, node))), None)


def _fitting(unit: Unit, size: int, most: int, demands: tuple[Demand, ...]) -> tuple[Unit, Cause | None]:
    """Returns the nodes of a unit that suit the pods, and the cause if not; a whole unit has ``most``."""
    if len(unit.nodes) < size or len(unit.nodes) > most:
        return unit, Cause("incomplete", messages.incomplete(len(unit.nodes), most))
    causes = {node.name: unsuited(node, demands) for node in unit.nodes}
    if any(causes.values()):
        nodes = tuple(node for node in unit.nodes if causes[node.name] is None)
        if len(nodes) < size:
            return unit, next(filter(None, causes.values()))
        unit = Unit(unit.id, nodes, frozenset(node.name for node in nodes))
    driven = {node.name: node.driven for node in unit.nodes}
    if len({*driven.values()}) > 1:
        name = next(name for name, has in driven.items() if not has)
        return unit, Cause("mixed", messages.mixed(name))
    return unit, None
