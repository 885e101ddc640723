"""Places in an object: JSON pointers that may also select a list element by one of its keys.

``/spec/replicatedJobs[name=workers]/template`` is the template of the replicated job whose ``name`` is
``workers``, wherever it stands in the list. A place becomes a concrete path, with list indices, only in the
object at hand.
"""

import re
from dataclasses import dataclass

from webhook.engine.tree import Json, Path, get, parse_pointer, pointer

_SELECTING = re.compile(r"(?P<list>[^\[\]]+)\[(?P<key>[A-Za-z][A-Za-z0-9]*)=(?P<value>[^\[\]]+)\]")


@dataclass(frozen=True)
class Select:
    """The element of a list whose ``key`` is this text or truth value; of several the first."""

    key: str
    value: str


@dataclass(frozen=True)
class Place:
    """Where something is in every object of a kind.

    Attributes:
        text: as written in the table.
        parts: map keys, and after the key of a list what selects its element.
    """

    text: str
    parts: tuple[str | Select, ...]

    def find(self, obj: Json) -> Path | None:
        """The path of the place in an object; None where an element that it selects is not there."""
        path: Path = ()
        node = obj
        for part in self.parts:
            step = _index(node, part) if isinstance(part, Select) else part
            if step is None:
                return None
            path, node = (*path, step), get(node, (step,))
        return path

    def value(self, obj: Json) -> Json:
        """What is at the place in an object; None where anything on the way is missing."""
        path = self.find(obj)
        return None if path is None else get(obj, path)

    def __str__(self) -> str:
        return self.text


def parse_place(text: str) -> Place:
    """The place that a text of the table means.

    Raises:
        ValueError: if it is no JSON pointer, or selects a list element by its position.
    """
    parts: list[str | Select] = []
    written = parse_pointer(text)
    for index, part in enumerate(written):
        selecting = _SELECTING.fullmatch(part)
        if selecting:
            parts += [selecting["list"], Select(selecting["key"], selecting["value"])]
        elif part.isdigit():
            there = pointer(written[:index])
            raise ValueError(
                f"{text} can never be there: {part} is the position of a list element, and lists are not "
                f"opened by position; select by a key, as in {there}[name=workers]"
            )
        elif "[" in part or "]" in part:
            raise ValueError(
                f"{part!r} selects no list element; write LIST[KEY=VALUE], as in jobs[name=workers]"
            )
        else:
            parts.append(part)
    return Place(text, tuple(parts))


def _index(node: Json, wanted: Select) -> int | None:
    # One plain loop: a row looks for places a dozen times, and the list, of whatever length, is the user's.
    for index, item in enumerate(node if isinstance(node, list) else ()):
        if isinstance(item, dict) and wanted.key in item:
            value = item[wanted.key]
            if (str(value).lower() if isinstance(value, bool) else value) == wanted.value:
                return index
    return None
