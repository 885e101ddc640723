"""Removes the additions that a record names, within a budget of work.

A user who forges a record could choose the cost of this work, because the record decides how many
digests are compared. Therefore an evaluation has a budget of steps in proportion to the object's size. A
record that costs more cannot be the webhook's (ADR 0002). No clock is read, so that the same object always
costs the same.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from common.pointers import parse_pointer
from webhook.objects.lists import EXPRESSIONS, ListKind, list_kind
from webhook.objects.tree import Json, canonical, digest_of_text, is_empty, share, with_entry

MINIMUM_STEPS: Final = 1 << 16
"""Steps that every evaluation may use. Ordinary jobs need fewer, so their size need not be computed."""

STEPS_PER_CHARACTER: Final = 12
"""Number of further steps for each character of the object as JSON.

The record of the webhook costs at most two steps for a character of a list or map: an added element is
digested alone, and as a part of an added container. A character of a node selector term costs one step for
each expression of a rule. At each of the `LAST_EXPRESSIONS` positions, a last search, which finds nothing,
costs one more step, or two if the term has ``matchFields``, too. So even if a job has only terms, the steps
suffice for at least four expressions.
"""

LAST_EXPRESSIONS = 4
"""Number of expressions, from the end of a list in a node selector term, that are compared with the record.

The webhook appends its expressions. Another webhook may have appended a few more.
"""


class OverBudgetError(Exception):
    """The record needs more work than the object's size permits."""


class Budget:
    """The steps that one evaluation may still use. A digested character or an examined element costs one."""

    def __init__(self, obj: Json) -> None:
        """Stores the object; computes its size only if `MINIMUM_STEPS` do not suffice."""
        self.steps_left = MINIMUM_STEPS
        self._unmeasured_object: Json = obj

    def spend(self, steps: int) -> None:
        """Subtracts steps.

        Raises:
            OverBudgetError: Fewer steps are left.
        """
        self.steps_left -= steps
        if self.steps_left < 0 and self._unmeasured_object is not None:
            self.steps_left += STEPS_PER_CHARACTER * len(canonical(self._unmeasured_object))
            self._unmeasured_object = None
        if self.steps_left < 0:
            raise OverBudgetError


@dataclass(frozen=True, slots=True)
class Removal:
    """A value that was removed from a template.

    Attributes:
        path: The path of the map entry, or of the list of the element. ``[NAME]`` selects a list element.
        value: The value of the entry, or the element. For a node selector term, a term that has only the
            removed expression.
        is_element: Whether the value was an element of a list, or a part of an element.
    """

    path: tuple[str, ...]
    value: Json
    is_element: bool


@dataclass
class _Position:
    """A position in a template that a record names, or a parent of such a position."""

    digests: str | list[str] | None = None
    children: dict[str, "_Position"] = field(default_factory=dict)


def take_back(
    template: Json,
    additions: Mapping[str, str | list[str]],
    budget: Budget,
    removals: list[Removal] | None = None,
) -> Json:
    """Returns the template without its unchanged additions; ``template`` itself if it has no such addition.

    A replaced variable of a Pod gets its old value. ``additions`` has the format of ``merge.Additions``. The
    removed values are appended to ``removals``.

    Raises:
        OverBudgetError: The work costs more than the budget.
    """
    root = _Position()
    for pointer, digests in additions.items():
        position = root
        for part in parse_pointer(pointer):
            position = position.children.setdefault(part, _Position())
        position.digests = digests
    return _Remover(budget, [] if removals is None else removals).visit(template, root, ())


class _Remover:
    """Removes additions, inner positions first, because an added element may contain later additions."""

    def __init__(self, budget: Budget, removals: list[Removal]) -> None:
        self._budget, self._removals = budget, removals

    def visit(self, node: Json, position: _Position, path: tuple[str, ...]) -> Json:
        if position.children and isinstance(node, dict):
            node = self._visit_map(node, position, path)
        elif position.children and isinstance(node, list) and list_kind(path) is ListKind.BY_KEY:
            node = self._visit_elements(node, position, path)
        if isinstance(position.digests, str):
            if self._compute_digest(node) != position.digests:
                return node
            self._removals.append(Removal(path, node, is_element=False))
            return None
        if isinstance(position.digests, list) and isinstance(node, list):
            return self._remove_elements(node, position.digests, path)
        return node

    def _visit_map(self, node: dict[str, Json], position: _Position, path: tuple[str, ...]) -> Json:
        changes = {}
        for key, child in position.children.items():
            if key in node:
                new_value = self.visit(node[key], child, (*path, key))
                if new_value is not node[key]:
                    changes[key] = new_value
        if not changes:
            return node
        self._budget.spend(len(node))
        entries = ((key, changes.get(key, value)) for key, value in node.items())
        return {key: value for key, value in entries if key not in changes or not is_empty(value)}

    def _visit_elements(self, node: list[Json], position: _Position, path: tuple[str, ...]) -> Json:
        """Returns a list without the additions inside its elements. The record names them as ``[NAME]``."""
        self._budget.spend(len(node))
        # If two elements have the same name, the last one is used, as in a merge.
        indices_by_name = {
            f"[{item['name']}]": index
            for index, item in enumerate(node)
            if isinstance(item, dict) and isinstance(item.get("name"), str)
        }
        result = list(node)
        for key, child in position.children.items():
            if key in indices_by_name:
                index = indices_by_name[key]
                result[index] = self.visit(node[index], child, (*path, key))
        return share(node, result)

    def _remove_elements(self, node: list[Json], digests: list[str], path: tuple[str, ...]) -> Json:
        kind = list_kind(path)
        if kind in (ListKind.TERMS, ListKind.VALUE):
            return self._remove_expressions(node, digests, path) if kind is ListKind.TERMS else node
        counts = Counter(text.partition(" ")[0] for text in digests)
        values = dict(text.split(" ", 1) for text in digests if " " in text)
        items_left = []
        for item in node:
            if not self._take_if_added(counts, item, path, item):
                items_left.append(item)
            elif values and isinstance(item, dict) and (digest := self._compute_digest(item)) in values:
                # A forged value may be long, so it is used only once.
                items_left.append({**item, "value": values.pop(digest)})
        return share(node, items_left)

    def _remove_expressions(self, node: list[Json], digests: list[str], path: tuple[str, ...]) -> Json:
        """Returns node selector terms without the expressions that were added; each digest is used once.

        A term that becomes empty is removed.

        The last expressions of all terms are removed first, at most one from each term in a round. In another
        order, a user's expression could be removed if two terms differ only in the expression of a rule.
        """
        counts, terms, first_removal = Counter(digests), list(node), len(self._removals)
        for distance in range(1, 1 + LAST_EXPRESSIONS):
            indices = [index for index, term in enumerate(terms) if isinstance(term, dict)]
            while indices:
                indices = [i for i in indices if self._remove_expression(terms, i, distance, counts, path)]
        self._removals[first_removal:] = reversed(self._removals[first_removal:])  # in the order of addition
        return share(node, [new for new, old in zip(terms, node, strict=True) if new or not old])

    def _remove_expression(
        self, terms: list[Json], index: int, distance: int, counts: Counter[str], path: tuple[str, ...]
    ) -> bool:
        """Removes a recorded expression at this distance from a term's end; returns whether there was one."""
        term = terms[index]
        for name in EXPRESSIONS:
            items = term.get(name)
            if isinstance(items, list) and distance <= len(items):
                position = len(items) - distance
                bare_term = with_entry(term, name, [*items[:position], *items[position + 1 :]])
                if self._take_if_added(counts, [bare_term, item := items[position]], path, {name: [item]}):
                    terms[index] = bare_term
                    return True
        return False

    def _take_if_added(self, counts: Counter[str], value: Json, path: tuple[str, ...], element: Json) -> bool:
        """Returns whether a digest of the value is left; if so, uses up the digest and stores the element."""
        digest = self._compute_digest(value)
        if counts[digest] <= 0:
            return False
        counts[digest] -= 1
        self._removals.append(Removal(path, element, is_element=True))
        return True

    def _compute_digest(self, value: Json) -> str:
        text = canonical(value)
        self._budget.spend(1 + len(text))
        return digest_of_text(text)
