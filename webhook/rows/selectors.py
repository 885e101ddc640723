"""Defines label selectors, as in Kubernetes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from webhook.objects.tree import Json, shown
from webhook.rows import messages
from webhook.rows.written import Row


@dataclass(frozen=True)
class Expression(Row):
    """An expression of a label selector.

    Attributes:
        key: The key of a label. E.g. team
        operator: In, NotIn, Exists or DoesNotExist. E.g. In
        values: The values for In and NotIn. E.g. [vision, speech]
    """

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.operator} {', '.join(self.values)}".rstrip()

    def holds(self, labels: Mapping[str, Json]) -> bool:
        """Returns whether labels meet the expression."""
        is_present = labels.get(self.key) in self.values if self.values else self.key in labels
        return is_present == (self.operator in {"In", "Exists"})


@dataclass(frozen=True, kw_only=True)
class Selector(Row):
    """A label selector, as in Kubernetes.

    Attributes:
        match_labels: Values of labels, all of which the object must have. E.g. {team: vision}
        match_expressions: Conditions on labels, all of which must be true. E.g. [{key: team, operator:
            Exists}]
    """

    match_labels: Mapping[str, str] = field(default_factory=dict)
    match_expressions: tuple[Expression, ...] = ()

    @cached_property
    def expressions(self) -> Sequence[Expression]:
        """All expressions of the selector. Each label in ``match_labels`` is an expression with In."""
        labels = self.match_labels.items()
        return [*(Expression(key, "In", (value,)) for key, value in labels), *self.match_expressions]

    def find_mismatch(self, labels: Mapping[str, Json]) -> str | None:
        """Returns a message about the first expression that labels do not meet; None if they meet all."""
        row = next((row for row in self.expressions if not row.holds(labels)), None)
        return messages.other_value(f"label {row.key}", shown(labels.get(row.key), 40), row) if row else None
