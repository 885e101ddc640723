"""The nodes and their units. They change only when a node changes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache
from typing import NamedTuple

from placement import messages
from placement.decide.fit import Cause, why_misfit, why_unusable
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
        self.units_of_label = lru_cache(maxsize=16)(self._units_of_label)
        self.unit_ids = lru_cache(maxsize=4)(self._unit_ids)
        self.nodes_with = lru_cache(maxsize=4096)(self._nodes_with)
        self.is_cut_off = lru_cache(maxsize=4)(self._is_cut_off)
        self.units_for = lru_cache(maxsize=64)(self._units_for)
        self.count_with_devices = lru_cache(maxsize=4)(self._count_with_devices)

    def _units_of_label(self, key: str) -> Mapping[str, Unit]:
        """Returns the units of a topology label, by id."""
        by_value: defaultdict[str, dict[str, Node]] = defaultdict(dict)
        for name, node in sorted(self.nodes.items()):
            if value := node.unit(key):
                by_value[value][name] = node
        entries = sorted(by_value.items())
        return {value: Unit(value, tuple(nodes.values()), frozenset(nodes)) for value, nodes in entries}

    def _unit_ids(self, labels: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
        """Returns, by node name, the id of the node's unit for each label; an empty id if it is in none."""
        return {name: tuple(node.unit(key) or "" for key in labels) for name, node in self.nodes.items()}

    def _nodes_with(self, key: str, value: str) -> tuple[str, ...]:
        """Returns the names of the nodes whose label has the given value, even if they form no unit."""
        return tuple(name for name, node in self.nodes.items() if node.labels.get(key) == value)

    def _count_with_devices(self, devices: frozenset[str]) -> int:
        """Returns the number of nodes that have one of these resources, or devices that pods can claim."""
        nodes = self.nodes.values()
        return sum(bool(node.devices) or not devices.isdisjoint(node.allocatable) for node in nodes)

    def why_dead(self, name: str) -> str | None:
        """Returns why pods on a node probably do not run any more; None if they may run."""
        node = self.nodes.get(name)
        if node is None:
            return messages.node_is(name, messages.GONE)
        return None if node.ready else messages.node_is(name, messages.NOT_READY)

    def _is_cut_off(self, labels: tuple[str, ...]) -> bool:
        """Returns whether over half of all nodes, or of the nodes in units of these labels, are not Ready.

        In that case, the network to these nodes has probably failed, and their pods still run.
        """
        all_nodes = self.nodes.values()
        in_units = [node for node in all_nodes if any(map(node.unit, labels))]
        return any(2 * sum(not node.ready for node in nodes) > len(nodes) for nodes in (all_nodes, in_units))

    def unit(self, key: str, unit_id: str | None) -> Unit | None:
        """Returns the unit with an id; None if there is none."""
        return self.units_of_label(key).get(unit_id) if unit_id else None

    def node_names(self, key: str, units: Iterable[str]) -> frozenset[str]:
        """Returns the names of the nodes of some units."""
        by_id = self.units_of_label(key)
        return frozenset[str]().union(*(by_id[unit].names for unit in units if unit in by_id))

    def whole_unit(self, key: str, part: Unit) -> Unit:
        """Returns the unit with all its nodes. ``part`` may have only the nodes that suit certain pods."""
        return self.units_of_label(key).get(part.id, part)

    def _units_for(
        self, key: str, size: int, unit_size: int, demands: tuple[Demand, ...]
    ) -> tuple[Mapping[str, Unit], Mapping[str, Cause]]:
        """Returns units with the nodes that suit pods; and causes for unsuitable units. Ignores holders."""
        units, causes = {}, {}
        for unit in self.units_of_label(key).values():
            part, cause = _fitting_part(unit, size, unit_size, demands)
            if cause is None:
                units[unit.id] = part
            else:
                causes[unit.id] = cause
        return units, causes

    @cached_property
    def usable_nodes(self) -> frozenset[str]:
        """The names of the nodes that are Ready and not cordoned."""
        return frozenset(node.name for node in self.nodes.values() if why_unusable(node) is None)


def why_unsuited(node: Node, demands: Iterable[Demand]) -> Cause | None:
    """Returns why a node does not suit pods; None if it does. The node's holders are ignored."""
    if state := why_unusable(node):
        return Cause(state, messages.node_is(node.name, state))
    return next((cause for demand in demands if (cause := why_misfit(demand, node))), None)


def _fitting_part(
    unit: Unit, size: int, unit_size: int, demands: tuple[Demand, ...]
) -> tuple[Unit, Cause | None]:
    """Returns a unit with only the nodes that suit pods, and why a block cannot have it; None if it can."""
    if len(unit.nodes) < size or len(unit.nodes) > unit_size:
        return unit, Cause("incomplete", messages.incomplete(len(unit.nodes), unit_size))
    causes = {node.name: why_unsuited(node, demands) for node in unit.nodes}
    if any(causes.values()):
        nodes = tuple(node for node in unit.nodes if causes[node.name] is None)
        if len(nodes) < size:
            return unit, next(filter(None, causes.values()))
        unit = Unit(unit.id, nodes, frozenset(node.name for node in nodes))
    has_driver = {node.name: node.has_driver for node in unit.nodes}
    if len({*has_driver.values()}) > 1:
        name = next(name for name in has_driver if not has_driver[name])
        return unit, Cause("mixed", messages.mixed(name))
    return unit, None
