"""Puts back what an update of a stored pod template removed: exactly what the record names.

This is the inverse of ``takeback.py`` and uses it: what can be taken back from the stored template is what
the webhook added and no user has changed since. It is merged into the new template as a rule's fragment.
"""

from typing import Final

from contract import keys
from webhook.objects.lists import Kind, kind
from webhook.objects.merge import Merge
from webhook.objects.tree import Json, Path, canonical, drop, get, maps_at, put
from webhook.undo import record
from webhook.undo.budget import Budget
from webhook.undo.record import Record
from webhook.undo.takeback import Taken, take_back

INIT: Final = ("spec", "initContainers")

CHARACTERS: Final = 4
"""Elements of the new template for one unit of the budget: each value is searched for in its lists."""


def put_back(stored: Json, new: Json, at: Path, budget: Budget) -> Json:
    """Returns the new template with everything that the stored record names; record and marks are as stored.

    If the new template has another value at the same position, that value stays. Elements that are their own
    identity, such as affinity terms, have no such position: a changed one stays next to ours.

    Raises:
        OverBudgetError: The record costs too much.
        WrongTypeError: The new template has a type that Kubernetes does not allow.
    """
    additions = record.read(stored)
    result = new if additions is None else _with_additions(stored, additions, new, at, budget)
    # The stored object alone identifies the job; the record is about what was added at creation.
    for mark in ((*record.ANNOTATIONS, keys.ADDED), *record.CLAIMS):
        value = get(stored, mark)
        result = drop(result, mark) if value is None else put(result, mark, value)
    return result if record.is_gated(stored) else record.without_gate(result)


def _with_additions(stored: Json, additions: Record, new: Json, at: Path, budget: Budget) -> Json:
    every: list[Taken] = []
    take_back(stored, additions.added, budget, every)
    # An expression was removed from each of the node selector terms.
    taken = list({(one.path, canonical(one.value)): one for one in every}.values())
    budget.spend(len(taken) * len(canonical(new)) // CHARACTERS)
    # All additions and not only the missing ones: init containers, for example, run in order.
    result = take_back(new, additions.added, budget)
    names = [one.get("name", "") for one in maps_at(stored, INIT)]
    # An element comes before the additions to it, which were removed first.
    for one in sorted(taken, key=lambda one: len(one.path)):
        place = names.index(one.value["name"]) if one.path == INIT else len(names)
        result = Merge(at, before=names[place + 1 :]).apply(result, fragment(one))
    return result


def fragment(one: Taken) -> Json:
    """Returns what was removed from a template in the form of a rule's fragment."""
    result: Json = [one.value] if one.element else one.value
    for depth in reversed(range(len(one.path))):
        part = one.path[depth]
        if part.startswith("[") and kind(one.path[:depth]) is Kind.BY_KEY:
            result = [{"name": part[1:-1], **result}]
        else:
            result = {part: result}
    return result
