"""Putting back what an update of a stored pod template took out: exactly what the record names.

The opposite of ``takeback.py``, and built on it: what can be taken back from the stored template is what the
webhook added and nobody has changed since. It goes into the new template as a rule's fragment would.
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
"""Of the new template, for one unit of the budget: each thing that is put back is looked for in its lists."""


def put_back(stored: Json, new: Json, at: Path, budget: Budget) -> Json:
    """The new template with all that the stored one has by its record; record and claims are as stored.

    What the new template has otherwise at the same place stays. Elements of a list that are their own
    identity, affinity terms for one, have no such place: a changed one stays beside ours.

    Raises:
        OverBudgetError: if the record costs more.
        WrongTypeError: where the new template has a type that Kubernetes does not allow.
    """
    found = record.read(stored)
    result = new if found is None else _with_additions(stored, found, new, at, budget)
    # Who a job is comes from the stored object alone; the record is of what was added at creation.
    for mark in ((*record.ANNOTATIONS, keys.ADDED), *record.CLAIMS):
        value = get(stored, mark)
        result = drop(result, mark) if value is None else put(result, mark, value)
    return result if record.is_gated(stored) else record.without_gate(result)


def _with_additions(stored: Json, found: Record, new: Json, at: Path, budget: Budget) -> Json:
    every: list[Taken] = []
    take_back(stored, found.added, budget, every)
    # An expression was taken from each of the node selector terms.
    taken = list({(one.path, canonical(one.value)): one for one in every}.values())
    budget.spend(len(taken) * len(canonical(new)) // CHARACTERS)
    # All of it and not only what is missing: init containers, for one, run in their order.
    result = take_back(new, found.added, budget)
    names = [one.get("name", "") for one in maps_at(stored, INIT)]
    # An element comes before what was amended of it, which was taken first.
    for one in sorted(taken, key=lambda one: len(one.path)):
        place = names.index(one.value["name"]) if one.path == INIT else len(names)
        result = Merge(at, before=names[place + 1 :]).apply(result, fragment(one))
    return result


def fragment(one: Taken) -> Json:
    """What was taken from a template, in the form in which a rule adds it."""
    result: Json = [one.value] if one.element else one.value
    for depth in reversed(range(len(one.path))):
        part = one.path[depth]
        if part.startswith("[") and kind(one.path[:depth]) is Kind.BY_KEY:
            result = [{"name": part[1:-1], **result}]
        else:
            result = {part: result}
    return result
