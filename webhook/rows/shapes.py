"""Shapes: rows about the size of jobs."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field as Limits

from webhook.rows.written import Given, Message, Name, Positive, Row, written


@dataclass(frozen=True)
class Count:
    """A set of worker counts: one number, or every multiple of one.

    Attributes:
        number: the count, or the divisor; at least 1.
        multiple: whether multiples of the number count too.
    """

    number: int
    multiple: bool = False

    def __contains__(self, workers: int) -> bool:
        return workers % self.number == 0 and workers > 0 if self.multiple else workers == self.number

    def __str__(self) -> str:
        return f"multiple of {self.number}" if self.multiple else str(self.number)

    def covers(self, other: "Count") -> bool:
        """Whether every count of another is one of its own."""
        return other.number % self.number == 0 if self.multiple else self == other


def _count(said: int | str) -> Count:
    return Count(last_number(said), multiple=True) if isinstance(said, str) else Count(said)


def last_number(text: str) -> int:
    """The number at the end of a text."""
    return int(text.rpartition(" ")[2])


Strictness = Literal["required", "preferred", "none"]


@dataclass(frozen=True)
class Shape(Row):
    """A size of jobs.

    Attributes:
        name: Unique.
        workers: A number of workers, or ``multiple of N``.
        node_config: Nodes in a unit: 1, 2 or 4 on UltraServers.
        topology_key: The node label whose value a unit's nodes share.
        together: How strictly workers share a unit: required, preferred or none (default).
        apart: The same, for keeping other jobs' workers off.
        warn: Message of a warning.
        deny: Message of a refusal.
    """

    name: Name
    workers: Annotated[
        Count, written(Positive | Annotated[str, Limits(pattern="^multiple of [1-9][0-9]{0,3}$")], _count)
    ]
    node_config: Annotated[Positive, Limits(le=1000)]
    topology_key: Given[str] = None
    together: Strictness = "none"
    apart: Strictness = "none"
    warn: Message = None
    deny: Message = None

    @cached_property
    def facts(self) -> Mapping[str, str]:
        """What ``match.shape`` of a rule compares, by the names the table uses."""
        return {
            "name": self.name,
            "nodeConfig": str(self.node_config),
            "together": self.together,
            "apart": self.apart,
        }
