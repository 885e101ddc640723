"""Defines the family rows, which describe machines of one sort and the sizes of jobs on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from pydantic import Field as Limits

from webhook.rows.shapes import Shape
from webhook.rows.written import (
    Maybe,
    Name,
    Patterns,
    Positive,
    Range,
    Row,
    Texts,
    Unique,
    Whole,
    as_range,
    or_bare_off,
    read_as,
)

NODE: Literal["node"] = "node"
"""The word for all devices of a node, in place of a number."""


@dataclass(frozen=True)
class Claimed(Row):
    """How many devices a device claim requests.

    Attributes:
        takes: ``node`` for all devices of a node, or a number of devices. A number that is at least the
            minimum of the first resource in wholeNode also means all devices.
        node_config: The node config of the claim template. A job that names another node config is refused.
    """

    takes: Positive | Literal["node"]
    node_config: Maybe[Positive] = None


@dataclass(frozen=True)
class Unit(Row):
    """Nodes that work as one, such as an UltraServer.

    Attributes:
        label: The node label whose value is the same on all nodes of a unit. May be empty in a family with
            mode off: the table that switches the family on sets the label. E.g. example.com/rack
        nodes: The number of nodes in a unit.
        other_labels: Other labels that group nodes into the same units, such as the label of a level in
            Kueue's Topology.
        usable: The maximum number of nodes that a job can have in a unit. A shape with a larger nodeConfig
            cannot use these units. Default: all nodes.
        names: The singular and the plural name of these units in previews. Default: unit or units of LABEL.
    """

    label: str
    nodes: Positive
    usable: Maybe[Positive] = None
    names: Maybe[Annotated[tuple[str, ...], Limits(min_length=2, max_length=2)]] = None
    other_labels: Texts = ()

    @property
    def capacity(self) -> int:
        """The number of nodes that a job can use in one unit."""
        return self.nodes if self.usable is None else self.usable


class JobShape(NamedTuple):
    """The shape of one job.

    Attributes:
        node_config: The number of the job's workers that share a unit.
        topology_key: The node label of the job's units; None if the shape has no units.
    """

    shape: Shape
    node_config: int
    topology_key: str | None

    def value_of(self, key: str) -> str:
        """Returns the job's value, as text, for a key of ``match.shape``."""
        values = {"nodeConfig": self.node_config, "topologyKey": self.topology_key or ""}
        return str(values.get(key) if key in values else getattr(self.shape, key))


@dataclass(frozen=True)
class Family(Row):
    """Machines of one sort, and the sizes of jobs on them.

    Attributes:
        name: The family's name, which no other family has.
        mode: enforce (default); or off: the table does not place jobs on these machines. E.g. enforce
        instance_types: Instance types: a name, and then names or globs. A job that selects no instance type
            gets the first. The table does not place a job that excludes all these types.
        whole_node: Resources of a node, each with a minimum, or with a Range that can also have a maximum; 0
            means any amount above 0. A worker must request one of them in such an amount. If workers request
            less than the minimum, the job is placed only if it is opted in; if they request more than the
            maximum of a Range, only if they select an instance type.
        claims: What a device claim requests, by the name of its ResourceClaimTemplate; globs. The first glob
            that matches is used.
        node_labels: Node labels of these machines, except the instance type, with values; globs. The table
            does not place a job that selects other values.
        units: The units of these machines. A shape uses the smallest unit that has enough nodes.
        shapes: Sizes of jobs. A job gets the first shape that fits its number of workers and, if the job
            names a node config, this node config.
    """

    name: Name
    instance_types: Unique[str]
    whole_node: Annotated[
        Mapping[str, Annotated[Range, read_as(Whole | Range, as_range)]], Limits(min_length=1)
    ]
    shapes: Annotated[tuple[Shape, ...], Limits(min_length=1)]
    mode: Annotated[Literal["enforce", "off"], or_bare_off(Literal["enforce", "off", False])] = "enforce"
    claims: Mapping[str, Claimed] = field(default_factory=dict)
    node_labels: Patterns = field(default_factory=dict)
    units: tuple[Unit, ...] = ()

    @cached_property
    def device(self) -> tuple[str, int]:
        """The name of the first resource in ``whole_node``, and its minimum."""
        name, amount = next(iter(self.whole_node.items()))
        return name, amount.at_least

    def unit_of(self, shape: Shape) -> Unit | None:
        """Returns the smallest unit with enough usable nodes for a shape.

        None if there is no such unit, or if the shape places workers on single nodes.
        """
        nodes = shape.node_config.maximum
        large_units = [unit for unit in self.units if unit.capacity >= nodes] if nodes > 1 else ()
        return min(large_units, key=lambda unit: unit.nodes, default=None)

    def fits(self, nodes: int) -> bool:
        """Returns whether a job with this number of nodes gets a shape that does not deny the job."""
        shape = next((shape for shape in self.shapes if shape.find_config(nodes)), None)
        return shape is not None and not shape.deny

    def shape_of_job(self, shape: Shape, node_config: int) -> JobShape:
        """Returns a shape with the node config and the topology key of one job."""
        unit = self.unit_of(shape)
        return JobShape(shape, node_config, unit.label if unit else None)
