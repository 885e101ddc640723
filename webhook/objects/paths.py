"""Defines the paths of a rule table: JSON pointers that can also select one or all elements of a list.

``/spec/replicatedJobs[name=workers]/template`` is the template of the replicated job with the ``name``
``workers``, at any position in the list. ``/spec/replicatedJobs[*]/template`` selects the templates of all
replicated jobs. In a key of a map, ``*`` is a wildcard. In an object, a path of the table stands for
concrete paths, which have list indices.
"""

import fnmatch
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from common.pointers import field_name, parse_pointer, pointer
from webhook.objects import messages
from webhook.objects.tree import Json, Path, get

_SELECTION = re.compile(r"([^\[\]]+)\[(?:\*|([A-Za-z][A-Za-z0-9]*)=([^\[\]]+))\]")
"""Matches ``LIST[KEY=VALUE]`` and ``LIST[*]``."""


@dataclass(frozen=True)
class ElementSelector:
    """Selects the first list element whose ``key`` has this value: a text, ``true`` or ``false``."""

    key: str
    value: str


_Part = str | int | ElementSelector
_ALL = ElementSelector("*", "")
"""Selects all elements of a list."""


@dataclass(frozen=True)
class ObjectPath:
    """A path in the objects of one kind.

    Attributes:
        text: The path as written in the table.
        parts: The keys of maps. After the key of a list, an `ElementSelector` selects its elements.
    """

    text: str
    parts: tuple[str | ElementSelector, ...]

    @cached_property
    def list_path(self) -> "ObjectPath | None":
        """The path of the first list from which this path selects all elements; None without such a list."""
        if _ALL not in self.parts:
            return None
        return ObjectPath(self.text.partition("[*]")[0], self.parts[: self.parts.index(_ALL)])

    @cached_property
    def _fixed_path(self) -> Path | None:
        """The concrete path; None if the path depends on the object, by a selection or a wildcard."""
        keys = tuple(part for part in self.parts if not isinstance(part, ElementSelector) and "*" not in part)
        return keys if len(keys) == len(self.parts) else None

    def find_all(self, obj: Json) -> Iterator[Path]:
        """Yields the concrete paths in an object. Selected elements exist; keys of maps can be missing."""
        return iter((self._fixed_path,)) if self._fixed_path is not None else _find_paths(obj, self.parts, ())

    def value(self, obj: Json, branch: Path = ()) -> Json:
        """Returns the value in an object, or None; if the path selects several, the first that is not null.

        Args:
            obj: The object.
            branch: A concrete path through the list of the first ``[*]``. If given, only the list element on
                the branch is read, instead of all elements.
        """
        if self._fixed_path is not None:
            return get(obj, self._fixed_path)
        paths = self.find_all(obj)
        if branch and self.list_path:
            index = len(self.list_path.parts)
            paths = _find_paths(obj, (*self.parts[:index], branch[index], *self.parts[index + 1 :]), ())
        values = (get(obj, path) for path in paths)
        return next((value for value in values if value is not None), None)

    @cached_property
    def name(self) -> str:
        """The path as the API server names fields: ``spec.replicatedJobs[name=workers].template``."""
        return field_name(parse_pointer(self.text.replace("[", "/[")))

    def __str__(self) -> str:
        return self.text


def parse_path(text: str) -> ObjectPath:
    """Parses a path of the rule table.

    Raises:
        ValueError: The text is not a JSON pointer, has an invalid selection, or selects by position.
    """
    parts: list[str | ElementSelector] = []
    parts_of_text = parse_pointer(text)
    for index, part in enumerate(parts_of_text):
        selection = _SELECTION.fullmatch(part)
        if selection:
            list_key, key, value = selection.groups()
            parts += [list_key, ElementSelector(key, value) if key else _ALL]
        elif part.isdigit():
            list_pointer = pointer(parts_of_text[:index])
            raise ValueError(messages.by_position(text, part, list_pointer))
        elif "[" in part or "]" in part:
            raise ValueError(messages.no_selection(part))
        else:
            parts.append(part)
    return ObjectPath(text, tuple(parts))


def _find_paths(node: Json, parts: tuple[_Part, ...], path: Path) -> Iterator[Path]:
    for index, part in enumerate(parts):
        if isinstance(part, ElementSelector):
            later_parts = parts[index + 1 :]
            for item_index in _find_indices(node, part, later_parts):
                yield from _find_paths(node[item_index], later_parts, (*path, item_index))
            return
        if isinstance(part, str) and "*" in part:
            for key in fnmatch.filter(node if isinstance(node, dict) else (), part):
                yield from _find_paths(node[key], parts[index + 1 :], (*path, key))
            return
        path, node = (*path, part), get(node, (part,))
    yield path


def _find_indices(node: Json, selection: ElementSelector, parts: tuple[_Part, ...]) -> Sequence[int]:
    """Returns the indices of the selected elements; ``[*]`` selects elements that have the next key."""
    # Plain loops are fast: a row reads a dozen paths, and the user's list may be long.
    items = node if isinstance(node, list) else ()
    if selection == _ALL:  # not `is`: a table from another process has a copy
        return [
            index
            for index, item in enumerate(items)
            if isinstance(item, dict) and (not parts or parts[0] in item)
        ]
    for index, item in enumerate(items):
        if isinstance(item, dict) and selection.key in item:
            value = item[selection.key]
            if (str(value).lower() if isinstance(value, bool) else value) == selection.value:
                return [index]
    return []
