"""Paths in objects of a kind: JSON pointers that may also select list elements, by a key or all of them.

``/spec/replicatedJobs[name=workers]/template`` is the template of the replicated job whose ``name`` is
``workers``, wherever it stands in the list; ``/spec/replicatedJobs[*]/template`` are those of all. They
become concrete paths, with list indices, only in the object at hand.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from webhook.objects.tree import Json, Path, get, parse_pointer, pointer

_SELECTING = re.compile(r"(?P<list>[^\[\]]+)\[(?P<key>[A-Za-z][A-Za-z0-9]*)=(?P<value>[^\[\]]+)\]")


@dataclass(frozen=True)
class Select:
    """The element of a list whose ``key`` is this text or truth value; of several the first."""

    key: str
    value: str


_EVERY = Select("*", "")
"""Every element of a list."""


@dataclass(frozen=True)
class ObjectPath:
    """Where something is in every object of a kind.

    Attributes:
        text: as written in the table.
        parts: map keys, and after the key of a list what selects its element.
    """

    text: str
    parts: tuple[str | Select, ...]

    @cached_property
    def list(self) -> "ObjectPath | None":
        """The list of which it means every element; None where it means one place only."""
        if _EVERY not in self.parts:
            return None
        return ObjectPath(self.text.partition("[*]")[0], self.parts[: self.parts.index(_EVERY)])

    def find(self, obj: Json, element: int = 0) -> Path | None:
        """The path in an object; None where an element that it selects is not there.

        Args:
            obj: the object.
            element: which one is meant where it is for every element of a list.
        """
        return self._plain or _found(obj, self.parts, element)

    @cached_property
    def _plain(self) -> Path | None:
        """The one path that it is in every object; None where it selects an element of a list."""
        return None if any(isinstance(part, Select) for part in self.parts) else tuple(map(str, self.parts))

    def element(self, path: Path) -> int:
        """Which element of its list one of its paths goes through; 0 where there is no list."""
        return int(path[len(self.list.parts)]) if self.list else 0

    def find_all(self, obj: Json) -> Iterator[Path]:
        """Every path that there is in an object."""
        start = self.list.find(obj) if self.list else None
        found, rest = (get(obj, start), self.parts[len(start) + 1 :]) if start is not None else (None, ())
        if not self.list:
            path = self.find(obj)
            yield from () if path is None else (path,)
        for index, item in enumerate(found if isinstance(found, list) else ()):
            if not isinstance(item, dict) or (rest and rest[0] not in item):
                continue  # the list is the user's, and looked through for every row
            inner = _found(item, rest, 0)
            if inner is not None and start is not None:
                yield (*start, index, *inner)

    def value(self, obj: Json, element: int = 0) -> Json:
        """What is there in an object; None where anything on the way is missing."""
        path = self.find(obj, element)
        return None if path is None else get(obj, path)

    def first(self, obj: Json) -> Json:
        """What is there; where it means every element of a list, what the first says that says it."""
        if not self.list:
            return self.value(obj)
        return next((found for path in self.find_all(obj) if (found := get(obj, path)) is not None), None)

    def __str__(self) -> str:
        return self.text


def object_path(text: str) -> ObjectPath:
    """The path that a text of the table means.

    Raises:
        ValueError: if it is not a JSON pointer, or selects a list element by its position.
    """
    parts: list[str | Select] = []
    written = parse_pointer(text)
    for index, part in enumerate(written):
        selecting = _SELECTING.fullmatch(part)
        if part.endswith("[*]") and part.count("[") == 1:
            parts += [part.removesuffix("[*]"), _EVERY]
        elif selecting:
            parts += [selecting["list"], Select(selecting["key"], selecting["value"])]
        elif part.isdigit():
            there = pointer(written[:index])
            raise ValueError(
                f"{text} can never be there: {part} is the position of a list element, and lists are not "
                f"opened by position; select by a key, as in {there}[name=workers]"
            )
        elif "[" in part or "]" in part:
            raise ValueError(
                f"{part!r} selects no list element; write LIST[KEY=VALUE], as in jobs[name=workers], "
                "or LIST[*] for all of them"
            )
        else:
            parts.append(part)
    return ObjectPath(text, tuple(parts))


def _found(node: Json, parts: Iterable[str | Select], element: int) -> Path | None:
    path: Path = ()
    for part in parts:
        step = _index(node, part, element) if isinstance(part, Select) else part
        if step is None:
            return None
        path, node = (*path, step), get(node, (step,))
    return path


def _index(node: Json, wanted: Select, element: int) -> int | None:
    if wanted is _EVERY:
        return element if isinstance(node, list) and element < len(node) else None
    # One plain loop: a row looks for places a dozen times, and the list, of whatever length, is the user's.
    for index, item in enumerate(node if isinstance(node, list) else ()):
        if isinstance(item, dict) and wanted.key in item:
            value = item[wanted.key]
            if (str(value).lower() if isinstance(value, bool) else value) == wanted.value:
                return index
    return None
