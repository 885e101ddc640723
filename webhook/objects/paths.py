"""Paths in objects of a kind: JSON pointers that may also select one list element by a key, or all of them.

``/spec/replicatedJobs[name=workers]/template`` is the template of the replicated job with the ``name``
``workers``, at any position in the list; ``/spec/replicatedJobs[*]/template`` are those of all. In a key of a
map, ``*`` is a wildcard. They become concrete paths, with list indices, in an object.
"""

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from common.pointers import field_name, parse_pointer, pointer
from webhook.objects.tree import Json, Path, get

_SELECTING = re.compile(r"([^\[\]]+)\[(?:\*|([A-Za-z][A-Za-z0-9]*)=([^\[\]]+))\]")
"""A list, and the key and value of one of its elements, or neither for all of them."""


@dataclass(frozen=True)
class Select:
    """The first element of a list whose ``key`` is this text or truth value."""

    key: str
    value: str


_EVERY = Select("*", "")
"""Every element of a list."""


@dataclass(frozen=True)
class ObjectPath:
    """A path in every object of a kind.

    Attributes:
        text: The path as written in the table.
        parts: Map keys, and after the key of a list the selection of its elements.
    """

    text: str
    parts: tuple[str | Select, ...]

    @cached_property
    def list(self) -> "ObjectPath | None":
        """The list of which this path selects every element; None if it selects one position."""
        if _EVERY not in self.parts:
            return None
        return ObjectPath(self.text.partition("[*]")[0], self.parts[: self.parts.index(_EVERY)])

    @cached_property
    def _plain(self) -> Path | None:
        """The one path in all objects; None if it selects an element of a list, or keys of a map."""
        steps = tuple(part for part in self.parts if not isinstance(part, Select) and "*" not in part)
        return steps if len(steps) == len(self.parts) else None

    def find_all(self, obj: Json) -> Iterator[Path]:
        """Yields every path in an object; none if a selected element does not exist."""
        return iter((self._plain,)) if self._plain is not None else _paths(obj, self.parts, ())

    def value(self, obj: Json, within: Path = ()) -> Json:
        """Returns the value; for every element of a list, the first value that is not missing.

        Args:
            obj: The object.
            within: A path into the same list, which selects only the element in it.
        """
        if self._plain is not None:
            return get(obj, self._plain)
        paths = self.find_all(obj)
        if within and self.list:
            index = len(self.list.parts)
            paths = _paths(obj, (*self.parts[:index], within[index], *self.parts[index + 1 :]), ())
        values = (get(obj, path) for path in paths)
        return next((value for value in values if value is not None), None)

    def values(self, obj: Json) -> Sequence[Json]:
        """Returns the values of all the places in an object."""
        if self._plain is not None:
            return (get(obj, self._plain),)
        return [get(obj, path) for path in _paths(obj, self.parts, ())]

    @cached_property
    def name(self) -> str:
        """As the API server names fields: ``spec.replicatedJobs[name=workers].template``."""
        return field_name(parse_pointer(self.text.replace("[", "/[")))

    def __str__(self) -> str:
        return self.text


def object_path(text: str) -> ObjectPath:
    """Returns the path of a text in the table.

    Raises:
        ValueError: The text is not a JSON pointer, or selects a list element by its position.
    """
    parts: list[str | Select] = []
    written = parse_pointer(text)
    for index, part in enumerate(written):
        selecting = _SELECTING.fullmatch(part)
        if selecting:
            listed, key, value = selecting.groups()
            parts += [listed, Select(key, value) if key else _EVERY]
        elif part.isdigit():
            there = pointer(written[:index])
            raise ValueError(
                f"{text} can never be there: {part} is the position of a list element, and a path cannot "
                f"select by position; select by a key, as in {there}[name=workers]"
            )
        elif "[" in part or "]" in part:
            raise ValueError(
                f"{part!r} selects no list element; write LIST[KEY=VALUE], as in jobs[name=workers], "
                "with ~1 for each / in VALUE, or LIST[*] for all of them"
            )
        else:
            parts.append(part)
    return ObjectPath(text, tuple(parts))


def _paths(node: Json, parts: tuple[str | int | Select, ...], path: Path) -> Iterator[Path]:
    for index, part in enumerate(parts):
        if isinstance(part, Select):
            rest = parts[index + 1 :]
            for place in _selected(node, part, rest):
                yield from _paths(node[place], rest, (*path, place))
            return
        if isinstance(part, str) and "*" in part:
            for key in fnmatch.filter(node if isinstance(node, dict) else (), part):
                yield from _paths(node[key], parts[index + 1 :], (*path, key))
            return
        path, node = (*path, part), get(node, (part,))
    yield path


def _selected(node: Json, wanted: Select, rest: tuple[str | int | Select, ...]) -> Sequence[int]:
    """Returns the positions of the selected list elements that have the rest of the path."""
    # Plain loops: a row reads a dozen positions, and the list, of any length, is the user's.
    items = node if isinstance(node, list) else ()
    if wanted == _EVERY:  # not `is`: a table from another process has its own
        return [
            index
            for index, item in enumerate(items)
            if isinstance(item, dict) and (not rest or rest[0] in item)
        ]
    for index, item in enumerate(items):
        if isinstance(item, dict) and wanted.key in item:
            value = item[wanted.key]
            if (str(value).lower() if isinstance(value, bool) else value) == wanted.value:
                return [index]
    return []
