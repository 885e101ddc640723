"""Computes the object to store, and its JSON patch (RFC 6902), from the received object and new templates."""

from collections.abc import Mapping
from operator import is_
from typing import Any, Final

from common.pointers import pointer
from webhook.objects.lists import ListKind, list_kind, pair
from webhook.objects.tree import Json, Path, canonical, get, put, same

Operation = dict[str, Any]
"""One RFC 6902 operation: ``op``, ``path`` and, for add and replace, ``value``."""

FEW: Final = 16
"""Up to this number of operations on a list, their length is not compared with that of the list."""

OVERHEAD: Final = 30
"""Approximate number of characters in an operation without its path and value."""

_Edit = tuple[str, Path, Json]
"""An operation as name, path and value. Its JSON pointer is written only if the operation is used."""


def compute_patch(received: Json, templates: Mapping[Path, Json]) -> tuple[Json, list[Operation]]:
    """Returns the object to store, and the operations that turn the received object into it, in order.

    The object has the new templates at their paths. It differs from them in one way: a list that has the same
    elements in another order keeps the received order. The reason is that an evaluation removes the webhook's
    earlier additions and appends them again. If another webhook has appended elements after them, the patch
    would only reorder the list.

    Subtrees that both trees share cost nothing, so the time is proportional to the change. A list is replaced
    as a whole if the operations on its elements would be longer than the list.
    """
    after = received
    edits: list[_Edit] = []
    for path, desired in templates.items():
        after = put(after, path, _diff_value(get(received, path), desired, path, edits))
    return after, [
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
    edit_count, after = len(edits), dict(new)
    if not old.keys() <= new.keys():
        edits += (("remove", (*path, key), None) for key in old if key not in new)
    for key, value in new.items():
        if key in old:
            after[key] = _diff_value(old[key], value, (*path, key), edits)
        else:
            edits.append(("add", (*path, key), value))
    return old if len(edits) == edit_count else after


def _diff_list(old: list[Json], new: list[Json], path: Path, edits: list[_Edit]) -> Json:
    if len(old) < len(new) <= len(old) + FEW and all(map(is_, old, new)):  # most lists are only appended to
        edits += (("add", (*path, "-"), item) for item in new[len(old) :])
        return new
    origins = pair(new, old, path)
    element_edits: list[_Edit] = []
    after = [
        item if origin is None else _diff_value(old[origin], item, (*path, index), element_edits)
        for index, (item, origin) in enumerate(zip(new, origins, strict=True))
    ]
    kept = [origin for origin in origins if origin is not None]
    if not element_edits and len(kept) == len(old) == len(new):
        return old
    # Elements are removed first, from the end of the list, so that the indices of the others stay valid.
    removed_indices = sorted(set(range(len(old))).difference(kept), reverse=True)
    size = len(removed_indices) + len(element_edits) + len(after) - len(kept)
    is_shorter = size > FEW and size * (OVERHEAD + len(pointer(path))) > len(canonical(after))
    # If elements moved, or if new elements are between old ones, the list is replaced.
    if is_shorter or origins != [
        *sorted(kept),
        *[None] * (len(origins) - len(kept)),
    ]:
        if same(old, after):
            return old
        edits.append(("replace", path, after))
        return after
    edits += (("remove", (*path, index), None) for index in removed_indices)
    edits += element_edits
    edits += (("add", (*path, "-"), item) for item in after[len(kept) :])
    return after
