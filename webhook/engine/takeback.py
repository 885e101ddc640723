"""Taking back what a record names: one walk over the template, from the leaves up, paid from the budget."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from webhook.engine.budget import Budget
from webhook.engine.lists import EXPRESSIONS, Kind, kind
from webhook.engine.tree import Json, canonical, digest_of_text, is_empty, parse_pointer, with_entry

LAST = 4
"""How many expressions from the end of each list of a node selector term are looked at for an added one.

What was added is at the end, but for the little that another webhook may have put behind it.
"""

QUARTER: Final = 4
"""Characters joined and digested for one unit; to make them canonical first, each costs one."""


@dataclass
class _Place:
    """A place that a record names, or that is on the way to one."""

    wanted: str | list[str] | None = None
    below: dict[str, "_Place"] = field(default_factory=dict)


def take_back(template: Json, added: Mapping[str, str | list[str]], budget: Budget) -> Json:
    """The template without what was added to it and is still as it was; the same object where nothing is.

    Args:
        template: a pod template.
        added: see ``merge.Additions``.
        budget: what it may cost.

    Raises:
        OverBudgetError: if it costs more.
    """
    root = _Place()
    for pointer, wanted in added.items():
        place = root
        for part in parse_pointer(pointer):
            place = place.below.setdefault(part, _Place())
        place.wanted = wanted
    return _Walk(budget).value(template, root, ())


class _Walk:
    """Enters every place once, the inner ones first: an added element may have been added to afterwards."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def value(self, node: Json, place: _Place, path: tuple[str, ...]) -> Json:
        if place.below and isinstance(node, dict):
            node = self._map(node, place, path)
        elif place.below and isinstance(node, list) and kind(path) is Kind.BY_KEY:
            node = self._elements(node, place, path)
        if isinstance(place.wanted, str):
            return None if self._digest(node) == place.wanted else node
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
        """A list in which elements were amended; a part in square brackets picks one by its ``name``."""
        self._budget.spend(len(node))
        # Of two with one name the last, as in a merge.
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
        return node if all(a is b for a, b in zip(node, result, strict=True)) else result

    def _list(self, node: list[Json], digests: list[str], path: tuple[str, ...]) -> Json:
        match kind(path):
            case Kind.TERMS:
                return self._terms(node, digests)
            case Kind.VALUE:
                return node
            case _:
                left = Counter(digests)
                kept = [item for item in node if not _take(left, self._digest(item))]
                return node if len(kept) == len(node) else kept

    def _terms(self, node: list[Json], digests: list[str]) -> Json:
        """Node selector terms without the expressions that were added to them, each digest taken once.

        What was added is at the end, but for the little that another webhook may have put behind it. So the
        ends of all terms come first, and each gives one expression a round: a person's term may be another
        one of theirs plus what a rule adds.
        """
        left = Counter(digests)
        terms = [_Term(term) if isinstance(term, dict) else None for term in node]
        self._budget.spend(sum(term.size() for term in terms if term))
        for back in range(1, 1 + LAST):
            giving = [term for term in terms if term]
            while giving:
                giving = [term for term in giving if self._take_from(term, back, left)]
        bare = [term.bare if term else was for term, was in zip(terms, node, strict=True)]
        if all(a is b for a, b in zip(node, bare, strict=True)):
            return node
        return [now for now, was in zip(bare, node, strict=True) if now or not was]

    def _take_from(self, term: "_Term", back: int, left: Counter[str]) -> bool:
        """Removes the expression at a place from the end, where it was added to the term last."""
        for name in list(term.texts):
            if back <= len(term.texts[name]):
                text = term.one_less(name, back)
                self._budget.spend(1 + len(text) // QUARTER)
                if _take(left, digest_of_text(text)):
                    term.remove(name, back)
                    return True
        return False

    def _digest(self, value: Json) -> str:
        text = canonical(value)
        self._budget.spend(1 + len(text))
        return digest_of_text(text)


class _Term:
    """A node selector term, beside the canonical text of its parts.

    Attributes:
        bare: the term as it is by now.
        texts: of the expressions of its lists.
        rest: of what else it holds, by key.
    """

    def __init__(self, term: dict[str, Json]) -> None:
        self.bare: dict[str, Json] = term
        self.texts = {
            key: list(map(canonical, term[key])) for key in EXPRESSIONS if isinstance(term.get(key), list)
        }
        self.rest = {key: canonical(value) for key, value in term.items() if key not in self.texts}

    def size(self) -> int:
        """Characters of it."""
        lists = sum(len(text) for texts in self.texts.values() for text in texts)
        return lists + sum(map(len, self.rest.values()))

    def one_less(self, name: str, back: int) -> str:
        """``[term, expression]`` as canonical text: the term without one of its expressions, and that one."""
        left = {**self.texts, name: _without(self.texts[name], back)}
        lists = {key: f"[{','.join(some)}]" for key, some in left.items() if some or key != name}
        entries = (f"{canonical(key)}:{value}" for key, value in sorted({**self.rest, **lists}.items()))
        return f"[{{{','.join(entries)}}},{self.texts[name][-back]}]"

    def remove(self, name: str, back: int) -> None:
        """Drops an expression, and a list that this empties."""
        self.texts[name] = _without(self.texts[name], back)
        if not self.texts[name]:
            del self.texts[name]
        self.bare = with_entry(self.bare, name, _without(self.bare[name], back))


def _without(items: list[Any], back: int) -> list[Any]:
    """A list without the element at a place from its end, which is 1."""
    index = len(items) - back
    return [*items[:index], *items[index + 1 :]]


def _take(wanted: Counter[str], found: str) -> bool:
    taken = wanted[found] > 0
    wanted[found] -= taken
    return taken
