"""From two trees to RFC 6902 operations: small, deterministic, built against the received object."""

from collections import deque
from typing import Any

from webhook.engine.tree import Json, digest, pointer, same

Operation = dict[str, Any]
"""One RFC 6902 operation: ``op``, ``path`` and, for add and replace, ``value``."""


def operations(before: Json, after: Json) -> list[Operation]:
    """The operations that turn ``before`` into ``after``, to be applied in their order.

    Shared subtrees cost nothing, so the price is that of the change and not of the object.
    """
    ops: list[Operation] = []
    _compare(before, after, (), ops)
    return ops


def _compare(before: Json, after: Json, path: tuple[str | int, ...], ops: list[Operation]) -> None:
    if before is after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        _maps(before, after, path, ops)
    elif isinstance(before, list) and isinstance(after, list):
        _lists(before, after, path, ops)
    elif not same(before, after):
        ops.append({"op": "replace", "path": pointer(path), "value": after})


def _maps(before: Json, after: Json, path: tuple[str | int, ...], ops: list[Operation]) -> None:
    ops.extend({"op": "remove", "path": pointer((*path, key))} for key in before if key not in after)
    for key, value in after.items():
        if key in before:
            _compare(before[key], value, (*path, key), ops)
        else:
            ops.append({"op": "add", "path": pointer((*path, key)), "value": value})


def _lists(before: Json, after: Json, path: tuple[str | int, ...], ops: list[Operation]) -> None:
    # What has no counterpart goes first, from the end, so that the indices before it stay true.
    left = paired(before, after)
    gone = [index for index in reversed(range(len(before))) if left[index] is None]
    ops.extend({"op": "remove", "path": pointer((*path, index))} for index in gone)
    rest = [item for item, partner in zip(before, left, strict=True) if partner is not None]
    for index, (old, new) in enumerate(zip(rest, after, strict=False)):
        _compare(old, new, (*path, index), ops)
    ops.extend({"op": "add", "path": pointer((*path, "-")), "value": item} for item in after[len(rest) :])


def paired(items: list[Json], others: list[Json]) -> list[int | None]:
    """For each item the index of its counterpart: equal, or of the same ``name``; each used once.

    The time grows with the length of the lists and not with its square: they are the user's.
    """
    start = next((i for i, (a, b) in enumerate(zip(items, others, strict=False)) if a is not b), None)
    start = min(len(items), len(others)) if start is None else start
    free: dict[tuple[str, str], deque[int]] = {}
    for index in range(start, len(others)):
        free.setdefault(element(others[index]), deque()).append(index)
    rest = (free.get(element(item)) for item in items[start:])
    return [*range(start), *(places.popleft() if places else None for places in rest)]


def element(item: Json) -> tuple[str, str]:
    """What makes a list element the same one, changed or not: its name, or all that it says."""
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        return "named", item["name"]
    return "says", digest(item)
