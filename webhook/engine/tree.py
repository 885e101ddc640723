"""JSON trees as values: read by path, change by copying the way to the change and sharing the rest.

Sharing is what makes the rest cheap: two trees can be told apart by ``is`` wherever nothing changed.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any

Json = Any
"""A value as ``json.loads`` gives it. Never changed in place by the engine."""

Path = tuple[str | int, ...]
"""Map keys, and positions in lists."""


class WrongTypeError(ValueError):
    """A value of the received object has a type that Kubernetes does not allow there.

    Attributes:
        path: JSON pointer of the value.
        wanted: what Kubernetes has there, in words.
        found: the value.
    """

    def __init__(self, path: str, wanted: str, found: Json) -> None:
        super().__init__(f"{path} must be {wanted}, not {shown(found)}")
        self.path, self.wanted, self.found = path, wanted, found


def pointer(path: Iterable[str | int]) -> str:
    """RFC 6901 pointer of a path, with ``~`` and ``/`` escaped."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def parse_pointer(text: str) -> tuple[str, ...]:
    """The path of an RFC 6901 pointer.

    Raises:
        ValueError: if the text is neither empty nor starts with ``/``.
    """
    if not text:
        return ()
    if not text.startswith("/"):
        raise ValueError(f"a JSON pointer starts with '/': {text!r}")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def get(node: Json, path: Sequence[str | int]) -> Json:
    """The value at a path; None where anything on the way is missing or has another type."""
    for part in path:
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            return None
    return node


def put(node: Json, path: Sequence[str | int], value: Json) -> Json:
    """A tree with ``value`` at ``path``; missing and null parents become maps, list elements are there.

    Raises:
        WrongTypeError: if a parent is neither a map nor null.
    """
    return _put(node, tuple(path), 0, value)


def _put(node: Json, path: Path, depth: int, value: Json) -> Json:
    if depth == len(path):
        return value
    step = path[depth]
    if isinstance(node, list) and isinstance(step, int):
        new = _put(node[step], path, depth + 1, value)
        return node if new is node[step] else [*node[:step], new, *node[step + 1 :]]
    old, key = as_map(node, path[:depth]), str(step)
    new = _put(old.get(key), path, depth + 1, value)
    return node if isinstance(node, dict) and key in node and new is node[key] else {**old, key: new}


def edit(node: Json, path: Sequence[str | int], change: Callable[[Json], Json]) -> Json:
    """A tree with ``change`` applied to the value at ``path``, where there is one.

    A part in square brackets picks a list element by its ``name``. What the change leaves empty
    (or None) goes, and so do the parents that this empties.
    """
    if not path:
        return change(node)
    key = path[0]
    if isinstance(node, list) and isinstance(key, str) and key.startswith("["):
        return [edit(item, path[1:], change) if _named(item, key[1:-1]) else item for item in node]
    if not isinstance(node, dict) or key not in node:
        return node
    new = edit(node[key], path[1:], change)
    if new is node[key]:
        return node
    if new is None or new in ({}, []):
        return {k: v for k, v in node.items() if k != key}
    return {k: new if k == key else v for k, v in node.items()}


def drop(node: Json, path: Sequence[str | int]) -> Json:
    """A tree without the map entry at ``path``, and without the parents that this empties."""
    return edit(node, path, lambda _: None)


def _named(item: Json, name: str) -> bool:
    return isinstance(item, dict) and item.get("name") == name


def as_map(node: Json, path: Iterable[str | int]) -> dict[str, Json]:
    """The node as a map, an empty one for null.

    Raises:
        WrongTypeError: if it is something else.
    """
    if node is None:
        return {}
    if not isinstance(node, dict):
        raise WrongTypeError(pointer(path), "a map", node)
    return node


def as_list(node: Json, path: Iterable[str | int]) -> list[Json]:
    """The node as a list, an empty one for null.

    Raises:
        WrongTypeError: if it is something else.
    """
    if node is None:
        return []
    if not isinstance(node, list):
        raise WrongTypeError(pointer(path), "a list", node)
    return node


def same(a: Json, b: Json) -> bool:
    """Equality as JSON has it: true is not 1, and 1 is 1.0."""
    if a is b:
        return True
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(value, b[key]) for key, value in a.items())
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(same, a, b))
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def digest(value: Json) -> str:
    """Ten hexadecimal digits that stand for a value, the order of its keys aside."""
    canonical = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:10]


def shown(value: Json, limit: int = 60) -> str:
    """A value as JSON for a message, cut to a length in characters."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True)
    return text if len(text) <= limit else text[: limit - 1] + "…"
