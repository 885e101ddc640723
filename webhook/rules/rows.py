"""A table's rows by what they are looked up by while it is checked."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property

from webhook.rows.table import Rule, Shape, Table
from webhook.rows.workloads import ANY, Workload


class Rows:
    """Looks rows up, so that the work of checking a table grows as its length does.

    Attributes:
        table: The rows themselves.
        named: Name -> the rules of that name, of which there should be one.
        replacing: Name of a rule -> those that replace it.
        workload_names: Of all workloads.
    """

    def __init__(self, table: Table) -> None:
        self.table = table
        self.named: dict[str, list[Rule]] = defaultdict(list)
        self.replacing: dict[str, list[Rule]] = defaultdict(list)
        for rule in table.rules:
            self.named[rule.name].append(rule)
            for name in rule.replaces:
                self.replacing[name].append(rule)
        self.workload_names = {workload.name for workload in table.workloads}
        self._workloads: dict[tuple[str, tuple[str, ...]], list[Workload]] = {}
        self._shapes: dict[str, list[Shape]] = {}

    @cached_property
    def places(self) -> dict[str, int]:
        """Name of a rule -> where it is applied: in the place of the first that it replaces."""
        places = {row.name: index for index, row in enumerate(self.table.rules)}
        return {row.name: places.get(row.place, places[row.name]) for row in self.table.rules}

    @cached_property
    def acted_on(self) -> set[tuple[str, str]]:
        """Facts of shapes, name and value, that some rule matches on."""
        facts = (fact for rule in self.table.rules for fact in rule.match.shape.items())
        return {(name, value) for name, allowed in facts for value in allowed}

    def workloads(self, rule: Rule) -> list[Workload]:
        """Those that a rule matches."""
        key = (rule.match.role, rule.match.workload)
        if key not in self._workloads:
            role, wanted = key
            self._workloads[key] = [
                row
                for row in self.table.workloads
                if role in {ANY, *row.roles()} and (not wanted or row.name in wanted)
            ]
        return self._workloads[key]

    def shapes(self, rule: Rule) -> list[Shape]:
        """Those that a rule's match allows."""
        key = repr(rule.match.shape)
        if key not in self._shapes:
            wanted = rule.match.shape.items()
            self._shapes[key] = [
                shape
                for shape in self.table.shapes
                if all(shape.facts[key] in allowed for key, allowed in wanted)
            ]
        return self._shapes[key]


def listed(known: Iterable[str]) -> str:
    """Names for a message."""
    return ", ".join(sorted(known))
