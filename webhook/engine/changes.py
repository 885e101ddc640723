"""Finds the fields that an evaluation changed, and the rule that set each field."""

from collections.abc import Iterator, Mapping

from common.pointers import pointer
from webhook.engine.outcome import Change
from webhook.objects.lists import ListKind, find_old_indices, list_kind, path_part
from webhook.objects.tree import Json, Path, same

LONGEST_PATH = 500
"""Maximum number of characters in a path. Differences below a longer path are one change, to limit work."""


def find_changes(received: Json, new: Json, rules_by_path: Mapping[Path, str] | None) -> tuple[Change, ...]:
    """Returns the fields that differ from the received object; empty if ``rules_by_path`` is None."""
    if rules_by_path is None:
        return ()
    parents = {path[:end] for path in rules_by_path for end in range(len(path))}
    return tuple(_Comparison(rules_by_path, parents).compare(received, new, (), (), None))


class _Comparison:
    """Compares two objects. Most of their equal parts are the same Python objects."""

    def __init__(self, rules_by_path: Mapping[Path, str], parents: set[Path]) -> None:
        self._rules_by_path, self._parents = rules_by_path, parents

    def compare(self, old: Json, new: Json, path: Path, key_path: Path, rule: str | None) -> Iterator[Change]:
        """Yields the changes at and below a path.

        ``key_path`` is the path in the form of `Progress.rules_by_path`. ``rule`` is the rule that set the
        parent, if any.
        """
        if old is new:
            return
        rule = self._rules_by_path.get(key_path, rule)
        if not self._is_one_change(old, new, path, key_path, rule):
            if isinstance(new, dict):
                yield from self._compare_maps(old or {}, new, path, key_path, rule)
            elif list_kind(path) is ListKind.VALUE:
                for index, (old_item, item) in enumerate(zip(old, new, strict=True)):
                    yield from self.compare(old_item, item, (*path, index), (*key_path, index), rule)
            else:
                yield from self._compare_lists(old or [], new, path, key_path, rule)
        elif not same(old, new):
            yield Change(pointer(path), old, new, rule)

    def _is_one_change(self, old: Json, new: Json, path: Path, key_path: Path, rule: str | None) -> bool:
        """Returns whether a difference at a path is one change, and not several changes below the path."""
        if not new or not isinstance(new, dict | list) or (old is not None and type(old) is not type(new)):
            return True
        if sum(len(str(part)) for part in path) > LONGEST_PATH:
            return True
        if isinstance(new, list) and list_kind(path) is ListKind.VALUE:
            # If a rule wrote below an element, the list has pod templates, like `replicatedJobs` of a JobSet.
            return key_path not in self._parents or not isinstance(old, list) or len(old) != len(new)
        if key_path in self._parents:
            return False
        return key_path in self._rules_by_path or (
            old is None and (rule is not None or isinstance(new, list))
        )

    def _compare_maps(
        self, old: dict[str, Json], new: dict[str, Json], path: Path, key_path: Path, rule: str | None
    ) -> Iterator[Change]:
        for key, value in old.items():
            if key not in new:
                yield Change(pointer((*path, key)), value, None, None)
        for key, value in new.items():
            yield from self.compare(old.get(key), value, (*path, key), (*key_path, key), rule)

    def _compare_lists(
        self, old: list[Json], new: list[Json], path: Path, key_path: Path, rule: str | None
    ) -> Iterator[Change]:
        old_indices = find_old_indices(new, old, path)
        removed_indices = sorted(set(range(len(old))).difference(old_indices))
        list_changes = [Change(pointer((*path, index)), old[index], None, None) for index in removed_indices]
        for index, (item, old_index) in enumerate(zip(new, old_indices, strict=True)):
            old_item = None if old_index is None else old[old_index]
            inner_path = (*key_path, "" if list_kind(path) is ListKind.TERMS else path_part(item, path))
            list_changes += self.compare(old_item, item, (*path, index), inner_path, rule)
        # If elements only moved, the list as a whole is a change, because their order may matter.
        if not list_changes and old_indices != [*range(len(old))]:
            list_changes = [Change(pointer(path), old, new, rule)]
        yield from list_changes
