"""Taking back what a record names: one walk over the template, from the leaves up, paid from the budget."""

from collections import Counter
from collections.abc import Iterator, Mapping
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
        if len(changed) == 1:
            ((key, new),) = changed.items()
            return with_entry(node, key, new)
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
                wanted = set(digests)
                bare = [self._bare(term, wanted) for term in node]
                if all(a is b for a, b in zip(node, bare, strict=True)):
                    return node
                return [now for now, term in zip(bare, node, strict=True) if now or not term]
            case Kind.VALUE:
                return node
            case _:
                left = Counter(digests)
                kept = [item for item in node if not _take(left, self._digest(item))]
                return node if len(kept) == len(node) else kept

    def _bare(self, term: Json, wanted: set[str]) -> Json:
        """A node selector term without the expressions that were added to it, the last added first."""
        if not isinstance(term, dict):
            return term
        texts = {key: list(map(canonical, term[key])) for key in EXPRESSIONS if _is_list(term.get(key))}
        rest = {key: canonical(value) for key, value in term.items() if key not in texts}
        self._budget.spend(sum(map(len, rest.values())) + sum(len(t) for ts in texts.values() for t in ts))
        bare = term
        while (found := self._added(texts, rest, wanted)) is not None:
            key, index = found
            texts[key] = _without(texts[key], index)
            if not texts[key]:
                del texts[key]
            bare = with_entry(bare, key, _without(bare[key], index))
        return bare

    def _added(
        self, texts: Mapping[str, list[str]], rest: Mapping[str, str], wanted: set[str]
    ) -> tuple[str, int] | None:
        """Where in a term, given as canonical texts, an expression is that was added to it last."""
        for text, name, index in _one_less(texts, rest):
            self._budget.spend(1 + len(text) // QUARTER)
            if digest_of_text(text) in wanted:
                return name, index
        return None

    def _digest(self, value: Json) -> str:
        text = canonical(value)
        self._budget.spend(1 + len(text))
        return digest_of_text(text)


def _one_less(texts: Mapping[str, list[str]], rest: Mapping[str, str]) -> Iterator[tuple[str, str, int]]:
    """``[term, expression]`` as canonical text for each expression that may be an added one."""
    for name, items in texts.items():
        for index in range(len(items) - 1, max(len(items) - 1 - LAST, -1), -1):
            left = {**texts, name: _without(items, index)}
            lists = {key: f"[{','.join(some)}]" for key, some in left.items() if some or key != name}
            entries = (f"{canonical(key)}:{value}" for key, value in sorted({**rest, **lists}.items()))
            yield f"[{{{','.join(entries)}}},{items[index]}]", name, index


def _without(items: list[Any], index: int) -> list[Any]:
    return [*items[:index], *items[index + 1 :]]


def _is_list(value: Json) -> bool:
    return isinstance(value, list)


def _take(wanted: Counter[str], found: str) -> bool:
    taken = wanted[found] > 0
    wanted[found] -= taken
    return taken
