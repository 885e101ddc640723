"""Computes the object to store, and its JSON patch (RFC 6902), from the received object and new templates."""

from collections.abc import Mapping
from operator import is_
from typing import Any, Final

from common.pointers import pointer
from webhook.objects.lists import ListKind, find_old_indices, list_kind
from webhook.objects.tree import Json, Path, canonical, get, put, same

Operation = dict[str, Any]
"""One RFC 6902 operation: ``op``, ``path`` and, for add and replace, ``value``."""

FEW_EDITS: Final = 16
"""With more operations than this, a list is replaced as a whole if that is shorter."""

OVERHEAD: Final = 30
"""Approximate number of characters in an operation without its path and value."""

_Edit = tuple[str, Path, Json]
"""An operation as name, path and value. Its JSON pointer is written only if the operation is used."""


def compute_patch(received: Json, templates: Mapping[Path, Json]) -> tuple[Json, list[Operation]]:
    """Returns the object to store, and the operations that turn the received object into it, in order.

    The object has the new templates at their paths. It differs from them in one way: a list that has the same
    elements in another order keeps the received order. The reason is that an evaluation removes the webhook's
    earlier additions and appends them again. If another webhook has appended elements after the additions,
    each evaluation would reorder the list.

    Subtrees that the old and the new tree share cost nothing, so the time is proportional to the change. A
    list is replaced as a whole if elements moved, if new elements are between old elements, or if more than
    `FEW_EDITS` operations on its elements are together longer than the list.
    """
    new_object = received
    edits: list[_Edit] = []
    for path, template in templates.items():
        new_object = put(new_object, path, _diff_value(get(received, path), template, path, edits))
    return new_object, [
        {"op": op, "path": pointer(path)} | ({} if op == "remove" else {"value": value})
        for op, path, value in edits
    ]


def _diff_value(old: Json, new: Json, path: Path, edits: list[_Edit]) -> Json:
    if old is new:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return _diff_map(old, new, path, edits)
    if isinstance(old, list) and isinstance(new, list) and list_kind(path) is not ListKind.VALUE:
        return _diff_list(old, new, path, edits)
    if same(old, new):
        return old
    edits.append(("replace", path, new))
    return new


def _diff_map(old: dict[str, Json], new: dict[str, Json], path: Path, edits: list[_Edit]) -> Json:
    edit_count, result = len(edits), dict(new)
    if not old.keys() <= new.keys():
        edits += (("remove", (*path, key), None) for key in old if key not in new)
    for key, value in new.items():
        if key in old:
            result[key] = _diff_value(old[key], value, (*path, key), edits)
        else:
            edits.append(("add", (*path, key), value))
    return old if len(edits) == edit_count else result


def _diff_list(old: list[Json], new: list[Json], path: Path, edits: list[_Edit]) -> Json:
    # In most lists, elements were only appended.
    if len(old) < len(new) <= len(old) + FEW_EDITS and all(map(is_, old, new)):
        edits += (("add", (*path, "-"), item) for item in new[len(old) :])
        return new
    old_indices = find_old_indices(new, old, path)
    element_edits: list[_Edit] = []
    result = [
        item if old_index is None else _diff_value(old[old_index], item, (*path, index), element_edits)
        for index, (item, old_index) in enumerate(zip(new, old_indices, strict=True))
    ]
    kept_indices = [old_index for old_index in old_indices if old_index is not None]
    if not element_edits and len(kept_indices) == len(old) == len(new):
        return old
    # Elements are removed first, from the end of the list, so that the indices of the others stay valid.
    removed_indices = sorted(set(range(len(old))).difference(kept_indices), reverse=True)
    edit_count = len(removed_indices) + len(element_edits) + len(result) - len(kept_indices)
    is_shorter = edit_count > FEW_EDITS and edit_count * (OVERHEAD + len(pointer(path))) > len(
        canonical(result)
    )
    # If elements moved, or if new elements are between old ones, the list is replaced.
    if is_shorter or old_indices != [*sorted(kept_indices), *[None] * (len(old_indices) - len(kept_indices))]:
        if same(old, result):
            return old
        edits.append(("replace", path, result))
        return result
    edits += (("remove", (*path, index), None) for index in removed_indices)
    edits += element_edits
    edits += (("add", (*path, "-"), item) for item in result[len(kept_indices) :])
    return result
