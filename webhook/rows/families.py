"""Defines the family rows, which describe machines of one sort and the sizes of jobs on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from pydantic import Field as Limits

from webhook.objects.templates import is_glob
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
"""Stands for all devices of a node, in place of a number."""


@dataclass(frozen=True)
class Claimed(Row):
    """What a pod gets by a device claim.

    Attributes:
        takes: ``node``, or a number of devices. A number as in wholeNode's first resource is a whole node.
        node_config: The node config of the claim's template. A job that names another node config is refused.
    """

    takes: Positive | Literal["node"]
    node_config: Maybe[Positive] = None


@dataclass(frozen=True)
class Unit(Row):
    """Nodes that work as one.

    Attributes:
        label: The node label whose value they share. May be empty in a family with mode off: the table that
            switches the family on gives the label. E.g. example.com/rack
        nodes: How many nodes form a unit.
        other_labels: Other labels that group nodes in the same way, such as a level of Kueue's Topology.
        usable: The maximum that a job can use in a unit, and so the maximum nodeConfig. Default: all nodes.
        names: The singular and the plural name of these units in previews.
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
        topology_key: The node label of the job's units; None if each worker has a node and no unit.
    """

    shape: Shape
    node_config: int
    topology_key: str | None

    @property
    def name(self) -> str:
        """The name of the shape."""
        return self.shape.name

    def fact(self, key: str) -> str:
        """Returns the value of a key of ``match.shape``."""
        own = {"nodeConfig": self.node_config, "topologyKey": self.topology_key or ""}
        return str(own.get(key) if key in own else getattr(self.shape, key))


@dataclass(frozen=True)
class Family(Row):
    """Machines of one sort.

    Attributes:
        name: The family's name, which no other family has.
        mode: enforce (default), or off: the table does not place jobs for such machines.
        instance_types: Instance types; all except the first may be globs. The first is the default for a job
            that names no type. The table does not place a job that excludes all of them.
        whole_node: The resources by which workers request nodes, with the amount that a node has; 0 means any
            amount. The table does not place a job that requests less. With a Range, it also does not place a
            job that requests more and selects no type.
        claims: What pods get by a device claim, by a glob of the name of the claim's ResourceClaimTemplate.
            The first match is used.
        node_labels: Other labels of the family's nodes, with globs of their values. The table does not place
            a job that selects other values.
        units: Which nodes work as one. A shape uses the smallest unit that has enough nodes.
        shapes: Sizes of jobs. The first shape that fits the job is used; if the job names a node config, the
            first that also has this node config.
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
        """The name of the first resource in ``whole_node``, and its amount."""
        name, amount = next(iter(self.whole_node.items()))
        return name, amount.at_least

    def unit(self, shape: Shape) -> Unit | None:
        """Returns the smallest unit with enough nodes for a shape; None for a shape without units."""
        nodes = shape.node_config.maximum
        large_units = [unit for unit in self.units if unit.capacity >= nodes] if nodes > 1 else ()
        return min(large_units, key=lambda unit: unit.nodes, default=None)

    def fits(self, nodes: int) -> bool:
        """Returns whether a job with this number of nodes has a shape that does not refuse it."""
        shape = next((shape for shape in self.shapes if shape.fit(nodes)), None)
        return shape is not None and not shape.deny

    def shape_of_job(self, shape: Shape, node_config: int) -> JobShape:
        """Returns a shape with the node config and the topology key of one job."""
        return JobShape(shape, node_config, self._labels[shape.name])

    @cached_property
    def _labels(self) -> Mapping[str, str | None]:
        """The node label of the unit, by the name of the shape."""
        units = ((shape.name, self.unit(shape)) for shape in self.shapes)
        return {name: unit.label if unit else None for name, unit in units}

    @cached_property
    def has_type_globs(self) -> bool:
        """Whether one of the instance types is a glob."""
        return any(map(is_glob, self.instance_types))
