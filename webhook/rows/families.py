"""Families: rows that describe machines of one sort, and the sizes of jobs on them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Literal, NamedTuple

from pydantic import Field as Limits

from webhook.objects.templates import is_glob
from webhook.rows.shapes import Shape
from webhook.rows.written import (
    Given,
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
    written,
)

NODE: Literal["node"] = "node"
"""In place of a number of devices: all that a node has."""


@dataclass(frozen=True)
class Claimed(Row):
    """What a claim takes.

    Attributes:
        takes: ``node``, or a number of devices (a node if it is that of wholeNode's first resource).
        node_config: The node config of its template. A job that names another node config is refused.
    """

    takes: Positive | Literal["node"]
    node_config: Given[Positive] = None


@dataclass(frozen=True)
class Unit(Row):
    """Nodes that work as one.

    Attributes:
        label: The node label whose value they share. May be empty in a family with mode off: the table that
            switches the family on gives the label. E.g. example.com/rack
        nodes: How many there are.
        other_labels: Other labels that group nodes in the same way, such as a level of Kueue's Topology.
        usable: The most that a job can have, and so the largest nodeConfig of its shapes. Default: all.
        names: The singular and the plural name of these units in previews.
    """

    label: str
    nodes: Positive
    usable: Given[Positive] = None
    names: Given[Annotated[tuple[str, ...], Limits(min_length=2, max_length=2)]] = None
    other_labels: Texts = ()

    @property
    def most(self) -> int:
        """The number of nodes that a job can have in a unit."""
        return self.nodes if self.usable is None else self.usable


class Fitted(NamedTuple):
    """The shape of a job.

    Attributes:
        node_config: The number of its workers that share a unit.
        topology_key: The label of its units; None if each worker is alone.
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
        instance_types: Globs, except the first one, which is the default for a job that names no type. The
            table does not place a job that excludes all of them.
        whole_node: The resources by which workers request nodes, and how much of each a node has; a job that
            requests less is left alone, and with a Range one that requests more and selects no type.
            0: any amount is enough.
        claims: What a device claim takes, by globs of the name of its ResourceClaimTemplate; the first match
            is used.
        node_labels: Other labels of its nodes; globs. The table does not place a job that selects other
            values.
        units: Which nodes work as one. A shape uses the smallest unit that has enough nodes.
        shapes: Sizes of jobs; the first that fits is used. For a job with a node config, the first with this
            node config that fits.
    """

    name: Name
    instance_types: Unique[str]
    whole_node: Annotated[
        Mapping[str, Annotated[Range, written(Whole | Range, as_range)]], Limits(min_length=1)
    ]
    shapes: Annotated[tuple[Shape, ...], Limits(min_length=1)]
    mode: Annotated[Literal["enforce", "off"], or_bare_off(Literal["enforce", "off", False])] = "enforce"
    claims: Mapping[str, Claimed] = field(default_factory=dict)
    node_labels: Patterns = field(default_factory=dict)
    units: tuple[Unit, ...] = ()

    @cached_property
    def device(self) -> tuple[str, int]:
        """The first resource of a whole node, and its amount."""
        name, amount = next(iter(self.whole_node.items()))
        return name, amount.at_least

    def unit(self, shape: Shape) -> Unit | None:
        """Returns the unit of a shape: the smallest with enough nodes; None if its workers are alone."""
        most = shape.node_config.most
        enough = [unit for unit in self.units if unit.most >= most] if most > 1 else ()
        return min(enough, key=lambda unit: unit.nodes, default=None)

    def fits(self, nodes: int) -> bool:
        """Returns whether a job with a number of nodes has a shape and is not refused by it."""
        shape = next((shape for shape in self.shapes if shape.size(nodes)), None)
        return shape is not None and not shape.deny

    def fitted(self, shape: Shape, node_config: int) -> Fitted:
        """Returns a shape for a job, with the number of workers that share a unit."""
        return Fitted(shape, node_config, self._labels[shape.name])

    @cached_property
    def _labels(self) -> Mapping[str, str | None]:
        """The label of each shape's unit."""
        units = ((shape.name, self.unit(shape)) for shape in self.shapes)
        return {name: unit.label if unit else None for name, unit in units}

    @cached_property
    def other_types(self) -> bool:
        """Whether some types are globs."""
        return any(map(is_glob, self.instance_types))
