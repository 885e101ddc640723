"""From two trees to RFC 6902 operations: small, deterministic, built against the received object."""

from typing import Any, Final

from webhook.engine.lists import Kind, kind, paired
from webhook.engine.tree import Json, Path, pointer, same

Operation = dict[str, Any]
"""One RFC 6902 operation: ``op``, ``path`` and, for add and replace, ``value``."""

FEW: Final = 16
"""Operations on the elements of one list that are taken to be shorter than the list, without looking."""

FRAME: Final = 30
"""Characters of an operation beside its path and value."""


def operations(before: Json, after: Json, at: Path = ()) -> list[Operation]:
    """The operations that turn ``before`` into ``after``, to be applied in their order.

    Shared subtrees cost nothing, so the price is that of the change and not of the object. A list that
    changes in so many places that the operations would be longer than the list is replaced as a whole.

    Args:
        before: what is at ``at`` in the received object.
        after: what is to be there.
        at: path of both in the object.
    """
    comparison = _Comparison()
    comparison.values(before, after, at)
    return comparison.operations


class _Comparison:
    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._lengths: dict[int, int] = {}

    def values(self, before: Json, after: Json, path: Path) -> None:
        if before is after:
            return
        if isinstance(before, dict) and isinstance(after, dict):
            self._maps(before, after, path)
        elif isinstance(before, list) and isinstance(after, list) and kind(path) is not Kind.VALUE:
            self._lists(before, after, path)
        elif not same(before, after):
            self._say("replace", path, after)

    def _maps(self, before: dict[str, Json], after: dict[str, Json], path: Path) -> None:
        self.operations += (
            {"op": "remove", "path": pointer((*path, key))} for key in before if key not in after
        )
        for key, value in after.items():
            if key in before:
                self.values(before[key], value, (*path, key))
            else:
                self._say("add", (*path, key), value)

    def _lists(self, before: list[Json], after: list[Json], path: Path) -> None:
        alike = len(before) == len(after)
        if kind(path) is Kind.TERMS:
            partners: list[int | None] = [index if alike else None for index in range(len(before))]
        else:
            partners = paired(before, after, path)
        kept = [partner for partner in partners if partner is not None]
        rest = [item for item, partner in zip(before, partners, strict=True) if partner is not None]
        changes = len(before) - len(kept) + len(after) - len(kept)
        changes += sum(old is not new for old, new in zip(rest, after, strict=False))
        # Elements in another order, or new ones among the old, are no matter of a few operations.
        if kept != list(range(len(kept))) or self._is_shorter_as_a_whole(after, changes, path):
            if not same(before, after):
                self._say("replace", path, after)
            return
        # What has no counterpart goes first, from the end, so that the indices before it stay true.
        gone = [index for index in reversed(range(len(before))) if partners[index] is None]
        self.operations += ({"op": "remove", "path": pointer((*path, index))} for index in gone)
        for index, (old, new) in enumerate(zip(rest, after, strict=False)):
            self.values(old, new, (*path, index))
        for item in after[len(rest) :]:
            self._say("add", (*path, "-"), item)

    def _is_shorter_as_a_whole(self, after: list[Json], changes: int, path: Path) -> bool:
        return changes > FEW and changes * (FRAME + len(pointer(path))) > self._length(after)

    def _length(self, node: Json) -> int:
        """About how long a value is as JSON; remembered, for lists are within lists."""
        if isinstance(node, str):
            return len(node) + 3
        if not isinstance(node, dict | list):
            return 5
        if id(node) not in self._lengths:
            parts = node.values() if isinstance(node, dict) else node
            keys = sum(len(key) + 4 for key in node) if isinstance(node, dict) else 0
            self._lengths[id(node)] = 2 + keys + sum(map(self._length, parts))
        return self._lengths[id(node)]

    def _say(self, op: str, path: Path, value: Json) -> None:
        self.operations.append({"op": op, "path": pointer(path), "value": value})
