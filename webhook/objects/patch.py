"""Computes the object to be stored, and the RFC 6902 operations for it, from received and desired trees."""

from collections.abc import Mapping
from operator import is_
from typing import Any, Final

from common.pointers import pointer
from webhook.objects.lists import Kind, kind, paired
from webhook.objects.tree import Json, Path, canonical, get, put, same

Operation = dict[str, Any]
"""One RFC 6902 operation: ``op``, ``path`` and, for add and replace, ``value``."""

FEW: Final = 16
"""Operations on the elements of one list that are assumed to be shorter than the list."""

FRAME: Final = 30
"""Characters of an operation without its path and value."""

_Step = tuple[str, Path, Json]
"""An operation before its pointer is written: a list that is replaced as a whole needs no others."""


def patched(received: Json, templates: Mapping[Path, Json]) -> tuple[Json, list[Operation]]:
    """Returns the object to be stored, and the operations that make it from the received one, in order.

    The object has the desired templates, except that a list with the same elements keeps the received order.
    An evaluation removes its own earlier additions and adds them again at the end; without this exception, a
    list to which another webhook has appended would be reordered, with a patch that has no use.

    Shared subtrees cost nothing, so the cost is proportional to the change. A list is replaced as a whole if
    the operations on its elements would be longer than the list.

    Nothing except the templates, which are given by their paths, is changed.
    """
    after = received
    steps: list[_Step] = []
    for path, desired in templates.items():
        after = put(after, path, _value(get(received, path), desired, path, steps))
    return after, [
        {"op": op, "path": pointer(path)} | ({} if op == "remove" else {"value": value})
        for op, path, value in steps
    ]


def _value(old: Json, new: Json, path: Path, steps: list[_Step]) -> Json:
    if old is new:
        return old
    if isinstance(old, dict) and isinstance(new, dict):
        return _map(old, new, path, steps)
    if isinstance(old, list) and isinstance(new, list) and kind(path) is not Kind.VALUE:
        return _list(old, new, path, steps)
    if same(old, new):
        return old
    steps.append(("replace", path, new))
    return new


def _map(old: dict[str, Json], new: dict[str, Json], path: Path, steps: list[_Step]) -> Json:
    before, after = len(steps), dict(new)
    if not old.keys() <= new.keys():
        steps += (("remove", (*path, key), None) for key in old if key not in new)
    for key, value in new.items():
        if key in old:
            after[key] = _value(old[key], value, (*path, key), steps)
        else:
            steps.append(("add", (*path, key), value))
    return old if len(steps) == before else after


def _list(old: list[Json], new: list[Json], path: Path, steps: list[_Step]) -> Json:
    if len(old) < len(new) <= len(old) + FEW and all(map(is_, old, new)):  # most lists are only appended to
        steps += (("add", (*path, "-"), item) for item in new[len(old) :])
        return new
    places = paired(new, old, path)
    inner: list[_Step] = []
    after = [
        item if place is None else _value(old[place], item, (*path, index), inner)
        for index, (item, place) in enumerate(zip(new, places, strict=True))
    ]
    kept = [place for place in places if place is not None]
    if not inner and len(kept) == len(old) == len(new):
        return old
    # Removes elements without a counterpart first, from the end, so that the indices before them stay valid.
    gone = sorted(set(range(len(old))).difference(kept), reverse=True)
    count = len(gone) + len(inner) + len(after) - len(kept)
    shorter = count > FEW and count * (FRAME + len(pointer(path))) > len(canonical(after))
    # Elements in another order, or new ones between old ones, take more than a few operations.
    if shorter or places != [*sorted(kept), *[None] * (len(places) - len(kept))]:
        if same(old, after):
            return old
        steps.append(("replace", path, after))
        return after
    steps += (("remove", (*path, index), None) for index in gone)
    steps += inner
    steps += (("add", (*path, "-"), item) for item in after[len(kept) :])
    return after
