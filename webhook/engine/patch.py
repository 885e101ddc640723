"""From two trees to RFC 6902 operations: small, deterministic, built against the received object."""

from typing import Any

from webhook.engine.tree import Json, pointer, same

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
    """For each item the index of its counterpart: equal, or of the same ``name``; each used once."""
    free = dict(enumerate(others))
    result: list[int | None] = []
    for item in items:
        found = next((i for i, other in free.items() if counterparts(item, other)), None)
        if found is not None:
            del free[found]
        result.append(found)
    return result


def counterparts(a: Json, b: Json) -> bool:
    """Whether two list elements are the same one, changed or not."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict) and isinstance(a.get("name"), str):
        return bool(a["name"] == b.get("name"))
    return same(a, b)
