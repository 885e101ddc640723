"""Puts back what an update of a stored pod template removed: exactly what the record names.

This is the inverse of ``takeback.py`` and uses it: what can be taken back from the stored template is what
the webhook added and no user has changed since. It is merged into the new template as a rule's fragment.
"""

from typing import Final

from contract import keys
from webhook.objects import record
from webhook.objects.lists import Kind, kind
from webhook.objects.merge import Merge
from webhook.objects.record import Record
from webhook.objects.takeback import Budget, Taken, take_back
from webhook.objects.tree import Json, Path, canonical, drop, get, maps_at, put

INIT: Final = ("spec", "initContainers")

CHARACTERS: Final = 4
"""Elements of the new template for one unit of the budget: each value is searched for in its lists."""


def put_back(stored: Json, new: Json, at: Path, budget: Budget) -> Json:
    """Returns the new template with everything that the stored record names; record and marks are as stored.

    If the new template has another value at the same position, that value stays. Elements without a key, such
    as affinity terms, have no such position: a changed one stays next to the webhook's.

    Raises:
        OverBudgetError: The record costs too much.
        WrongTypeError: The new template has a type that Kubernetes does not allow.
    """
    additions = record.read(stored)
    result = new if additions is None else _with_additions(stored, additions, new, at, budget)
    # Only the stored object identifies the job, and its record lists what was added at creation.
    for mark in ((*record.ANNOTATIONS, keys.ADDED), *record.MARKS):
        value = get(stored, mark)
        result = drop(result, mark) if value is None else put(result, mark, value)
    return result if record.is_gated(stored) else record.without_gate(result)


def _with_additions(stored: Json, additions: Record, new: Json, at: Path, budget: Budget) -> Json:
    every: list[Taken] = []
    take_back(stored, additions.added, budget, every)
    # An expression was removed from each of the node selector terms.
    removed = list({(value.path, canonical(value.value)): value for value in every}.values())
    budget.spend(len(removed) * len(canonical(new)) // CHARACTERS)
    # All additions and not only the missing ones: init containers, for example, run in order.
    result = take_back(new, additions.added, budget)
    names = [container.get("name", "") for container in maps_at(stored, INIT)]
    # An element comes before the additions to it, which were removed first.
    for taken in sorted(removed, key=lambda taken: len(taken.path)):
        place = names.index(taken.value["name"]) if taken.path == INIT else len(names)
        result = Merge(at, before=names[place + 1 :]).apply(result, fragment(taken))
    return result


def fragment(taken: Taken) -> Json:
    """Returns what was removed from a template in the form of a rule's fragment."""
    result: Json = [taken.value] if taken.element else taken.value
    for depth in reversed(range(len(taken.path))):
        part = taken.path[depth]
        if part.startswith("[") and kind(taken.path[:depth]) is Kind.BY_KEY:
            result = [{"name": part[1:-1], **result}]
        else:
            result = {part: result}
    return result
