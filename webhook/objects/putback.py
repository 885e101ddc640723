"""Puts the webhook's additions back into a pod template from which an update removed them.

``takeback.py`` finds the additions in the stored template: the values that the record names and that no user
has changed. Each addition is merged into the new template like the fragment of a rule.
"""

from typing import Final

from contract import keys
from webhook.objects import record
from webhook.objects.lists import ListKind, list_kind
from webhook.objects.merge import Merge
from webhook.objects.record import Record
from webhook.objects.takeback import Budget, Removal, take_back
from webhook.objects.tree import Json, Path, canonical, drop, get, get_maps, put

INIT_CONTAINERS: Final = ("spec", "initContainers")

CHARACTERS_PER_STEP: Final = 4
"""Characters of the new template that cost one step, for each value that is searched in the template."""


def put_back(stored: Json, new: Json, template_path: Path, budget: Budget) -> Json:
    """Returns the new template with the stored record, the record's additions, and the stored `record.MARKS`.

    A record, marks and a gate that the stored template does not have are removed from the new template.
    If the new template has another value in the field of an addition, the other value stays. An element
    without a key, such as an affinity term, is identified by its content. If the user has changed such an
    element, the changed element stays, and the webhook's element is added, too.

    Raises:
        OverBudgetError: The record costs too much.
        WrongTypeError: A value in the new template has a type that Kubernetes does not allow.
    """
    entry = record.read(stored)
    result = new if entry is None else _with_additions(stored, entry, new, template_path, budget)
    # A user may have changed the new marks and record, so the marks and record of the stored object are used.
    for path in ((*record.ANNOTATIONS, keys.ADDED), *record.MARKS):
        value = get(stored, path)
        result = drop(result, path) if value is None else put(result, path, value)
    return result if record.is_gated(stored) else record.without_gate(result)


def _with_additions(stored: Json, entry: Record, new: Json, template_path: Path, budget: Budget) -> Json:
    removals: list[Removal] = []
    take_back(stored, entry.additions, budget, removals)
    # The same expression may have been removed from several node selector terms.
    distinct_removals = list({(item.path, canonical(item.value)): item for item in removals}.values())
    budget.spend(len(distinct_removals) * len(canonical(new)) // CHARACTERS_PER_STEP)
    # Removes all additions and merges them again, because the order matters in lists of init containers.
    result = take_back(new, entry.additions, budget)
    names = [container.get("name", "") for container in get_maps(stored, INIT_CONTAINERS)]
    # An added element is merged before later additions to the element, whose paths are longer.
    for removal in sorted(distinct_removals, key=lambda removal: len(removal.path)):
        position = names.index(removal.value["name"]) if removal.path == INIT_CONTAINERS else len(names)
        result = Merge(template_path, before=names[position + 1 :]).apply(result, as_fragment(removal))
    return result


def as_fragment(removal: Removal) -> Json:
    """Returns a removed value in the form of a fragment, which a rule could add."""
    result: Json = [removal.value] if removal.is_element else removal.value
    for depth in reversed(range(len(removal.path))):
        part = removal.path[depth]
        if part.startswith("[") and list_kind(removal.path[:depth]) is ListKind.BY_KEY:
            result = [{"name": part[1:-1], **result}]
        else:
            result = {part: result}
    return result
