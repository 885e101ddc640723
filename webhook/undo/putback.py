"""Putting back what an update of a stored pod template took out: exactly what the record names.

The opposite of ``takeback.py``, and built on it: what can be taken back from the stored template is what the
webhook added and nobody has changed since. It goes into the new template as a rule's fragment would.
"""

from typing import Final

from contract import keys
from webhook.objects.lists import Kind, kind
from webhook.objects.merge import Merge
from webhook.objects.tree import Json, Path, canonical, drop, get, put
from webhook.undo import record
from webhook.undo.budget import Budget
from webhook.undo.record import Record
from webhook.undo.takeback import Taken, take_back

CHARACTERS: Final = 4
"""Of the new template, for one unit of the budget: each thing that is put back is looked for in its lists."""


def put_back(stored: Json, new: Json, at: Path, budget: Budget) -> Json:
    """The new template with all that the stored one has by its record; record and claims are as stored.

    What the new template has otherwise at the same place stays. Elements of a list that are their own
    identity, affinity terms for one, have no such place: a changed one stays beside ours.

    Args:
        stored: the template before the update.
        new: the template that the update would store.
        at: path of both in the object.
        budget: what it may cost.

    Raises:
        OverBudgetError: if the record costs more.
        WrongTypeError: where the new template has a type that Kubernetes does not allow.
    """
    found = record.read(stored)
    result = new if found is None else _with_additions(stored, found, new, at, budget)
    # Who a job is, is never taken over from anybody else; the record speaks of what was added at creation.
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
    bare = take_back(new, found.added, budget)
    return Merge(at).apply(bare, fragment(taken))


def fragment(taken: list[Taken]) -> Json:
    """What was taken from a template, in the form in which a rule adds it.

    An element that was amended after it was added comes as a whole first, then as its amendment.
    """
    result: Json = {}
    for one in sorted(taken, key=lambda one: len(one.path)):
        result = _with(result, one, 0)
    return result


def _with(node: Json, one: Taken, depth: int) -> Json:
    if depth == len(one.path):
        return _joined(node, one)
    part = one.path[depth]
    if part.startswith("[") and kind(one.path[:depth]) is Kind.BY_KEY:
        items, name = node if isinstance(node, list) else [], part[1:-1]
        amended = (i for i, item in enumerate(items) if "image" not in item and item.get("name") == name)
        index = next(amended, len(items))
        old = items[index] if index < len(items) else {"name": name}
        return [*items[:index], _with(old, one, depth + 1), *items[index + 1 :]]
    below = node if isinstance(node, dict) else {}
    return {**below, part: _with(below.get(part), one, depth + 1)}


def _joined(node: Json, one: Taken) -> Json:
    if not one.element:
        return one.value
    items = node if isinstance(node, list) else []
    if kind(one.path) is not Kind.TERMS:
        return [*items, one.value]
    # A rule says it in one term, whatever number of terms gets it.
    term = items[0] if items else {}
    # They were taken from the end of a term, the last one first.
    return [{**term, **{name: [*more, *term.get(name, ())] for name, more in one.value.items()}}]
