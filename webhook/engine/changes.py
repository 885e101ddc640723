"""Finds the fields that an evaluation changed, and the rule that set each field."""

from collections.abc import Iterator, Mapping

from common.pointers import pointer
from webhook.engine.outcome import Change
from webhook.objects.lists import ListKind, list_kind, pair, step
from webhook.objects.tree import Json, Path, same

LONGEST_PATH = 500
"""Length of a path from which all differences below it are one change, so that long keys cost little."""


def changes(received: Json, new_object: Json, setters: Mapping[Path, str] | None) -> tuple[Change, ...]:
    """Returns the fields in which an object differs from the received one. `Progress` describes setters."""
    if setters is None:
        return ()
    parents = {path[:end] for path in setters for end in range(len(path))}
    return tuple(_Comparison(setters, parents).compare(received, new_object, (), (), None))


class _Comparison:
    """Compares two objects that share their equal parts."""

    def __init__(self, setters: Mapping[Path, str], parents: set[Path]) -> None:
        self._setters, self._parents = setters, parents

    def compare(self, old: Json, new: Json, path: Path, set_path: Path, rule: str | None) -> Iterator[Change]:
        """Yields the changes at and below a path.

        ``set_path`` is this path in the form of `Merge.set_paths`. ``rule`` is the rule that set the parent.
        """
        if old is new:
            return
        rule = self._setters.get(set_path, rule)
        if not self._is_one_change(old, new, path, set_path, rule):
            if isinstance(new, dict):
                yield from self._compare_maps(old or {}, new, path, set_path, rule)
            else:
                yield from self._compare_lists(old or [], new, path, set_path, rule)
        elif not same(old, new):
            yield Change(pointer(path), old, new, rule)

    def _is_one_change(self, old: Json, new: Json, path: Path, set_path: Path, rule: str | None) -> bool:
        """Returns whether a difference at a path is one change, and not several changes below the path."""
        if not new or not isinstance(new, dict | list) or (old is not None and type(old) is not type(new)):
            return True
        if sum(len(str(part)) for part in path) > LONGEST_PATH:
            return True
        if isinstance(new, list) and list_kind(path) is ListKind.VALUE:
            return True
        if set_path in self._parents:
            return False
        return set_path in self._setters or (old is None and (rule is not None or isinstance(new, list)))

    def _compare_maps(
        self, old: dict[str, Json], new: dict[str, Json], path: Path, set_path: Path, rule: str | None
    ) -> Iterator[Change]:
        for key, value in old.items():
            if key not in new:
                yield Change(pointer((*path, key)), value, None, None)
        for key, value in new.items():
            yield from self.compare(old.get(key), value, (*path, key), (*set_path, key), rule)

    def _compare_lists(
        self, old: list[Json], new: list[Json], path: Path, set_path: Path, rule: str | None
    ) -> Iterator[Change]:
        old_indices = pair(new, old, path)
        removed_indices = sorted(set(range(len(old))).difference(old_indices))
        list_changes = [Change(pointer((*path, index)), old[index], None, None) for index in removed_indices]
        for index, (item, old_index) in enumerate(zip(new, old_indices, strict=True)):
            old_item = None if old_index is None else old[old_index]
            inner_path = (*set_path, "" if list_kind(path) is ListKind.TERMS else step(item, path))
            list_changes += self.compare(old_item, item, (*path, index), inner_path, rule)
        # If elements only moved, the list as a whole is a change, because their order may matter.
        if not list_changes and old_indices != [*range(len(old))]:
            list_changes = [Change(pointer(path), old, new, rule)]
        yield from list_changes
