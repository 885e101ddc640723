"""Defines the shape rows, which describe sizes of jobs."""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal

from pydantic import Field as Limits

from webhook.rows import messages
from webhook.rows.written import Name, Positive, Row, Words, read_as

NODE_CONFIG_VARIABLE = "NEURON_ULTRASERVER_NODE_CONFIG"
"""The environment variable with which a container names its node config."""


@dataclass(frozen=True)
class NumberSet:
    """A set of whole numbers: one number, a range, or all multiples of a number.

    Attributes:
        minimum: The smallest number.
        maximum: The largest number; infinity for all multiples.
        step: The set contains only multiples of this number.
    """

    minimum: int
    maximum: float
    step: int = 1

    def __contains__(self, number: int) -> bool:
        return self.minimum <= number <= self.maximum and number % self.step == 0

    def __str__(self) -> str:
        if self.maximum == inf:
            return f"multiple of {self.step}"
        return str(self.minimum) if self.minimum == self.maximum else f"{self.minimum} to {self.maximum}"

    def __bool__(self) -> bool:
        return self.maximum > 0

    def covers(self, other: "NumberSet") -> bool:
        """Returns whether this set contains every number of another set."""
        if other.minimum == other.maximum:
            return other.minimum in self
        return self.minimum <= other.minimum and other.maximum <= self.maximum and other.step % self.step == 0


def _parse(value: int | str) -> NumberSet:
    if isinstance(value, int):
        return NumberSet(value, value)
    first_text, _, last_text = value.partition(" to ")
    if last_text and int(first_text) >= int(last_text):
        raise ValueError(messages.not_ascending(value))
    number = last_number(value)
    return NumberSet(int(first_text), number) if last_text else NumberSet(number, inf, number)


def last_number(text: str) -> int:
    """Returns the number after the last space of a text; without a space, the whole text as a number."""
    return int(text.rpartition(" ")[2])


NO_NODE_CONFIG = NumberSet(0, 0)
"""The value of `Shape.node_config` if a shape has no nodeConfig."""

_RANGE = "[1-9][0-9]{0,3} to [1-9][0-9]{0,3}"

WrittenNumberSet = Annotated[
    NumberSet,
    read_as(Positive | Annotated[str, Limits(pattern=f"^(multiple of [1-9][0-9]{{0,3}}|{_RANGE})$")], _parse),
]
"""``3``, ``1 to 8`` or ``multiple of 4``."""

Strictness = Literal["required", "preferred", "none"]


@dataclass(frozen=True)
class Shape(Row):
    """A size of jobs.

    Attributes:
        name: The shape's name, which no other shape of the family has.
        workers: A number of workers, ``A to B``, or ``multiple of N``.
        node_config: The node config: the number of workers in a block. With ``A to B``, it is the largest
            number in this range that divides the job into equal blocks. With 1, workers are placed on single
            nodes, not in units. With a range such as ``1 to 4``, even a job of one worker is placed in a
            unit. A shape with ``deny`` needs no nodeConfig.
        together: How strictly workers share a unit: required (only for jobs of one block), preferred or none
            (default).
        apart: How strictly the workers of other jobs are kept off the unit: required, preferred or none
            (default).
        warn: A warning for jobs of this shape. E.g. a job of 3 workers leaves a node idle
        deny: Jobs of this shape are denied with this message.
    """

    name: Name
    workers: WrittenNumberSet
    node_config: Annotated[
        NumberSet,
        read_as(Annotated[Positive, Limits(le=1000)] | Annotated[str, Limits(pattern=f"^{_RANGE}$")], _parse),
    ] = NO_NODE_CONFIG
    together: Strictness = "none"
    apart: Strictness = "none"
    warn: Words = None
    deny: Words = None

    def find_config(self, nodes: int, config: int | None = None) -> int | None:
        """Returns the node config of a job with this number of nodes; None if the shape does not fit.

        If the job names a node config, ``config``, the result is this node config or None.
        """
        configs = self.node_config
        if nodes not in self.workers:
            return None
        if not configs:
            return 1 if config is None else None
        needs_one_unit = self.together == "required" and configs.maximum > 1
        largest = int(min(configs.maximum, nodes))
        sizes = range(largest, configs.minimum - 1, -1) if config is None else (config,)
        for size in sizes:
            if nodes % size == 0 and size in configs and (size == nodes or not needs_one_unit):
                return size
        return None

    def can_have(self, key: str, values: Collection[str]) -> bool:
        """Returns whether a job of this shape can have one of the values of a key of ``match.shape``.

        True for every topologyKey, because the family's units determine the topology key, and not the shape.
        """
        if key == "nodeConfig":
            node_configs = range(max(self.node_config.minimum, 1), int(self.node_config.maximum) + 1)
            return any(str(node_config) in values for node_config in node_configs)
        return key == "topologyKey" or getattr(self, key) in values
