"""Finds the fields that an evaluation changed, and the rule that set each, as the merge recorded it."""

from collections.abc import Iterator, Mapping

from common.pointers import pointer
from webhook.engine.outcome import Change
from webhook.objects.lists import ListKind, list_kind, pair, step
from webhook.objects.tree import Json, Path, same

LONGEST_PATH = 500
"""Maximum length of a path; a difference further down is one change, so that a user's keys cost little."""


def changes(received: Json, after: Json, setters: Mapping[Path, str] | None) -> tuple[Change, ...]:
    """Returns the fields in which an object differs from the received one; setters as in `Progress`."""
    if setters is None:
        return ()
    parents = {place[:end] for place in setters for end in range(len(place))}
    return tuple(_Comparison(setters, parents).of(received, after, (), (), None))


class _Comparison:
    """A walk through two objects that share what is equal."""

    def __init__(self, setters: Mapping[Path, str], parents: set[Path]) -> None:
        self._setters, self._parents = setters, parents

    def of(self, old: Json, new: Json, at: Path, place: Path, rule: str | None) -> Iterator[Change]:
        """Yields the changes at a path; ``place`` is it as in `Merge.set_paths`, ``rule`` set its parent."""
        if old is new:
            return
        rule = self._setters.get(place, rule)
        if not self._is_one(old, new, at, place, rule):
            if isinstance(new, dict):
                yield from self._map(old or {}, new, at, place, rule)
            else:
                yield from self._list(old or [], new, at, place, rule)
        elif not same(old, new):
            yield Change(pointer(at), old, new, rule)

    def _is_one(self, old: Json, new: Json, at: Path, place: Path, rule: str | None) -> bool:
        """Returns whether the change here is one field, and not several inside of it."""
        if not new or not isinstance(new, dict | list) or (old is not None and type(old) is not type(new)):
            return True
        if sum(len(str(part)) for part in at) > LONGEST_PATH:
            return True
        if isinstance(new, list) and list_kind(at) is ListKind.VALUE:
            return True
        if place in self._parents:
            return False
        return place in self._setters or (old is None and (rule is not None or isinstance(new, list)))

    def _map(
        self, old: dict[str, Json], new: dict[str, Json], at: Path, place: Path, rule: str | None
    ) -> Iterator[Change]:
        for key, value in old.items():
            if key not in new:
                yield Change(pointer((*at, key)), value, None, None)
        for key, value in new.items():
            yield from self.of(old.get(key), value, (*at, key), (*place, key), rule)

    def _list(
        self, old: list[Json], new: list[Json], at: Path, place: Path, rule: str | None
    ) -> Iterator[Change]:
        pairs = pair(new, old, at)
        gone = sorted(set(range(len(old))).difference(pairs))
        differences = [Change(pointer((*at, index)), old[index], None, None) for index in gone]
        for index, (item, counterpart) in enumerate(zip(new, pairs, strict=True)):
            before = None if counterpart is None else old[counterpart]
            inner = (*place, "" if list_kind(at) is ListKind.TERMS else step(item, at))
            differences += self.of(before, item, (*at, index), inner, rule)
        # Elements that only moved are a change of the list, because their order may matter.
        if not differences and pairs != [*range(len(old))]:
            differences = [Change(pointer(at), old, new, rule)]
        yield from differences
