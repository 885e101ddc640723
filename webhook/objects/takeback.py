"""Removes the additions that a record names, in one walk from the leaves up, within a budget of work.

Taking back is the only part of an evaluation whose cost a user could choose, because the record has the
positions and digests to compare. So it is paid for in units, in proportion to the object's size, and a record
that costs more is not the webhook's (ADR 0002). There is no clock: an object always costs the same.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from common.pointers import parse_pointer
from webhook.objects.lists import EXPRESSIONS, Kind, kind
from webhook.objects.tree import Json, canonical, digest_of_text, is_empty, shared, with_entry

FLOOR: Final = 1 << 16
"""Units of every evaluation: ordinary jobs need fewer, so that their size need not be computed."""

PER_CHARACTER: Final = 12
"""Units for each character of the object as JSON.

A genuine record costs at most two for lists and maps: an added element is digested once, and once more as
a part of an added container. A node selector term costs one for each expression that a table added, and four
for the search that ends without a match, or eight if it also has fields: enough for four to eight expressions
of a table in a job that consists of terms only.
"""

LAST = 4
"""Expressions at the end of each list of a node selector term that may have been added.

Additions are at the end, except for a few that another webhook may have appended after them.
"""


class OverBudgetError(Exception):
    """The record needs more work than the object's size permits."""


class Budget:
    """The units left to one evaluation. One unit is a digested character, or an examined element."""

    def __init__(self, obj: Json) -> None:
        """Stores the object; computes its size only after the first units are spent."""
        self.left = FLOOR
        self._unmeasured: Json = obj

    def spend(self, units: int) -> None:
        """Takes units away.

        Raises:
            OverBudgetError: There are not enough left.
        """
        self.left -= units
        if self.left < 0 and self._unmeasured is not None:
            self.left += PER_CHARACTER * len(canonical(self._unmeasured))
            self._unmeasured = None
        if self.left < 0:
            raise OverBudgetError


@dataclass(frozen=True, slots=True)
class Taken:
    """A value that was removed from a template.

    Attributes:
        path: The path of a map entry, or of an element's list; ``[NAME]`` selects an element by its name.
        value: The entry's value, or the element; for a node selector term only the expression.
        element: Whether it was in a list.
    """

    path: tuple[str, ...]
    value: Json
    element: bool


@dataclass
class _Place:
    """A position that a record names, or a parent of one."""

    wanted: str | list[str] | None = None
    below: dict[str, "_Place"] = field(default_factory=dict)


def take_back(
    template: Json, added: Mapping[str, str | list[str]], budget: Budget, taken: list[Taken] | None = None
) -> Json:
    """Returns the template without unchanged additions; the same object if it has none.

    The additions are as in ``merge.Additions``; ``taken`` receives the removed values in order.

    Raises:
        OverBudgetError: The work costs more than the budget.
    """
    root = _Place()
    for pointer, wanted in added.items():
        place = root
        for part in parse_pointer(pointer):
            place = place.below.setdefault(part, _Place())
        place.wanted = wanted
    return _Walk(budget, [] if taken is None else taken).value(template, root, ())


class _Walk:
    """Visits each position once, the inner ones first: an added element may have later additions."""

    def __init__(self, budget: Budget, taken: list[Taken]) -> None:
        self._budget, self._taken = budget, taken

    def value(self, node: Json, place: _Place, path: tuple[str, ...]) -> Json:
        if place.below and isinstance(node, dict):
            node = self._map(node, place, path)
        elif place.below and isinstance(node, list) and kind(path) is Kind.BY_KEY:
            node = self._elements(node, place, path)
        if isinstance(place.wanted, str):
            if self._digest(node) != place.wanted:
                return node
            self._taken.append(Taken(path, node, element=False))
            return None
        if isinstance(place.wanted, list) and isinstance(node, list):
            return self._list(node, place.wanted, path)
        return node

    def _map(self, node: dict[str, Json], place: _Place, path: tuple[str, ...]) -> Json:
        changed = {}
        for key, below in place.below.items():
            if key in node:
                new = self.value(node[key], below, (*path, key))
                if new is not node[key]:
                    changed[key] = new
        if not changed:
            return node
        self._budget.spend(len(node))
        merged = ((key, changed.get(key, value)) for key, value in node.items())
        return {key: value for key, value in merged if key not in changed or not is_empty(value)}

    def _elements(self, node: list[Json], place: _Place, path: tuple[str, ...]) -> Json:
        """Returns a list without additions to its elements; ``[NAME]`` in the path selects one by name."""
        self._budget.spend(len(node))
        # The last one of two with the same name, as in a merge.
        named = {
            f"[{item['name']}]": index
            for index, item in enumerate(node)
            if isinstance(item, dict) and isinstance(item.get("name"), str)
        }
        result = list(node)
        for key, below in place.below.items():
            if key in named:
                index = named[key]
                result[index] = self.value(node[index], below, (*path, key))
        return shared(node, result)

    def _list(self, node: list[Json], digests: list[str], path: tuple[str, ...]) -> Json:
        match kind(path):
            case Kind.TERMS:
                return self._terms(node, digests, path)
            case Kind.VALUE:
                return node
            case _:
                left = Counter(text.partition(" ")[0] for text in digests)
                before = dict(text.split(" ", 1) for text in digests if " " in text)
                kept = []
                for item in node:
                    if not self._take(left, item, path, item):
                        kept.append(item)
                    elif before and isinstance(item, dict) and (digest := self._digest(item)) in before:
                        kept.append({**item, "value": before.pop(digest)})  # once: a forged value may be long
                return shared(node, kept)

    def _terms(self, node: list[Json], digests: list[str], path: tuple[str, ...]) -> Json:
        """Returns node selector terms without the expressions that were added; each digest counts once.

        The last expressions of all terms are removed first, one of each in every round, because a user's term
        may equal another term of theirs plus an expression of a rule.
        """
        left, bare, first = Counter(digests), list(node), len(self._taken)
        for back in range(1, 1 + LAST):
            giving = [index for index, term in enumerate(bare) if isinstance(term, dict)]
            while giving:
                giving = [index for index in giving if self._take_from(bare, index, back, left, path)]
        self._taken[first:] = reversed(self._taken[first:])  # in the order of addition
        return shared(node, [now for now, was in zip(bare, node, strict=True) if now or not was])

    def _take_from(
        self, terms: list[Json], index: int, back: int, left: Counter[str], path: tuple[str, ...]
    ) -> bool:
        """Removes the expression at an index from the end, if it is the last addition to the term."""
        term = terms[index]
        for name in EXPRESSIONS:
            items = term.get(name)
            if isinstance(items, list) and back <= len(items):
                place = len(items) - back
                less = with_entry(term, name, [*items[:place], *items[place + 1 :]])
                if self._take(left, [less, items[place]], path, {name: [items[place]]}):
                    terms[index] = less
                    return True
        return False

    def _take(self, wanted: Counter[str], value: Json, path: tuple[str, ...], element: Json) -> bool:
        """Returns whether a value is one of the wanted ones; if so, counts it down and stores its element."""
        digest = self._digest(value)
        if wanted[digest] <= 0:
            return False
        wanted[digest] -= 1
        self._taken.append(Taken(path, element, element=True))
        return True

    def _digest(self, value: Json) -> str:
        text = canonical(value)
        self._budget.spend(1 + len(text))
        return digest_of_text(text)
