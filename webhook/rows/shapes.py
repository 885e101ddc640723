"""Shapes: rows that describe sizes of jobs."""

from collections.abc import Collection
from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal

from pydantic import Field as Limits

from webhook.rows.written import Message, Name, Positive, Row, written

NODE_CONFIG = "NEURON_ULTRASERVER_NODE_CONFIG"
"""The variable with which containers choose the node config."""


@dataclass(frozen=True)
class Count:
    """A set of numbers: one, those of a range, or every multiple of one.

    Attributes:
        least: The smallest; at least 1.
        most: The largest.
        step: Only its multiples between these are in the set.
    """

    least: int
    most: float
    step: int = 1

    def __contains__(self, number: int) -> bool:
        return self.least <= number <= self.most and number % self.step == 0

    def __str__(self) -> str:
        if self.most == inf:
            return f"multiple of {self.step}"
        return str(self.least) if self.least == self.most else f"{self.least} to {self.most}"

    def __bool__(self) -> bool:
        return self.most > 0

    def covers(self, other: "Count") -> bool:
        """Returns whether it contains every number of another one."""
        if other.least == other.most:
            return other.least in self
        return self.least <= other.least and other.most <= self.most and other.step % self.step == 0


def _count(value: int | str) -> Count:
    if isinstance(value, int):
        return Count(value, value)
    first, _, last = value.partition(" to ")
    if last and int(first) >= int(last):
        raise ValueError(f"is {value!r}: the second number must be the larger")
    number = last_number(value)
    return Count(int(first), number) if last else Count(number, inf, number)


def last_number(text: str) -> int:
    """Returns the number at the end of a text."""
    return int(text.rpartition(" ")[2])


NONE = Count(0, 0)
"""The node config of a shape that has none."""

_RANGE = "[1-9][0-9]{0,3} to [1-9][0-9]{0,3}"

Counted = Annotated[
    Count,
    written(Positive | Annotated[str, Limits(pattern=f"^(multiple of [1-9][0-9]{{0,3}}|{_RANGE})$")], _count),
]
"""``3``, ``1 to 8`` or ``multiple of 4``."""

Strictness = Literal["required", "preferred", "none"]


@dataclass(frozen=True)
class Shape(Row):
    """A size of jobs.

    Attributes:
        name: The shape's name, which no other shape of the family has.
        workers: A number of workers, ``A to B``, or ``multiple of N``.
        node_config: How many workers share a unit: a number, or ``A to B``: the largest number in this range
            that divides the job into equal blocks. A nodeConfig of only 1 (not a range) places each worker by
            itself, in no unit. A shape with ``deny`` needs no nodeConfig.
        together: How strictly workers share a unit: required, preferred or none (default).
        apart: How strictly workers of other jobs stay off the unit: required, preferred or none (default).
        warn: The text of the warning for jobs of this shape.
        deny: Jobs of this shape are denied with this message.
    """

    name: Name
    workers: Counted
    node_config: Annotated[
        Count,
        written(Annotated[Positive, Limits(le=1000)] | Annotated[str, Limits(pattern=f"^{_RANGE}$")], _count),
    ] = NONE
    together: Strictness = "none"
    apart: Strictness = "none"
    warn: Message = None
    deny: Message = None

    def size(self, nodes: int, wanted: int | None = None) -> int | None:
        """Returns how many workers share a unit in a job with a number of nodes; None if it does not fit."""
        config = self.node_config
        if nodes not in self.workers:
            return None
        if not config:
            return 1 if wanted is None else None
        whole = self.together == "required" and config.most > 1
        sizes = range(int(min(config.most, nodes)), config.least - 1, -1) if wanted is None else (wanted,)
        for size in sizes:
            if nodes % size == 0 and size in config and (size == nodes or not whole):
                return size
        return None

    def may_have(self, fact: str, values: Collection[str]) -> bool:
        """Returns whether a job of this shape can have one of the values for a key of ``match.shape``."""
        if fact == "nodeConfig":
            sizes = range(max(self.node_config.least, 1), int(self.node_config.most) + 1)
            return any(str(size) in values for size in sizes)
        return fact == "topologyKey" or getattr(self, fact) in values
