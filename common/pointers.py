"""Reads and writes paths of map keys and list positions, as JSON pointers (RFC 6901) or ``spec.list[0]``."""

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

from common import messages

_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*")
_STEP: Final = re.compile(r"\.?([^.\[\]]+)|\[([^\]]*)\]")


def get(node: Any, path: Sequence[str | int]) -> Any:  # noqa: ANN401 - JSON of any shape
    """Returns the value at a path; None if a part of the path is missing or has another type."""
    for part in path:
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            return None
    return node


def get_map(node: Any, path: Sequence[str | int]) -> dict[str, Any]:  # noqa: ANN401 - as above
    """Returns the map at a path; an empty map for any other value."""
    # Calls `get` only for lists: a review calls this function often (tests/engine/test_cost.py).
    for part in path:
        node = node.get(part) if isinstance(node, dict) else node and get(node, (part,))
    return node if isinstance(node, dict) else {}


def get_maps(node: Any, path: Sequence[str | int] = ()) -> list[dict[str, Any]]:  # noqa: ANN401 - as above
    """Returns the maps in the list at a path; an empty list for any other value."""
    # Calls `get` only for lists, as `get_map` does.
    for part in path:
        node = node.get(part) if isinstance(node, dict) else node and get(node, (part,))
    return [item for item in node if isinstance(item, dict)] if isinstance(node, list) else []


@lru_cache(maxsize=256)
def pointer(path: tuple[str | int, ...]) -> str:
    """Returns the RFC 6901 pointer of a path, with ``~`` and ``/`` escaped.

    The cache is small, because a table uses some fifty paths, and paths with a user's keys may be long.
    """
    return "".join([f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path])


def with_positions(parts: Iterable[str]) -> tuple[str | int, ...]:
    """Returns the parts of a pointer as a path. A part that is a number becomes a list position."""
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def parse_pointer(text: str) -> tuple[str, ...]:
    """Returns the path of an RFC 6901 pointer.

    Raises:
        ValueError: The text is not empty and does not start with ``/``.
    """
    if not text:
        return ()
    if not text.startswith("/"):
        raise ValueError(messages.not_a_pointer(text))
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in text[1:].split("/"))


def field_name(path: Iterable[str | int]) -> str:
    """Returns a path in the API server's form: ``spec.containers[0].image``, ``metadata.labels[a.b/c]``."""
    keys = [
        key if key.startswith("[") else f".{key}" if _KEY.fullmatch(key) else f"[{key}]"
        for key in map(str, path)
    ]
    return "".join(keys).removeprefix(".")


def path_of(name: str) -> tuple[str | int, ...]:
    """Returns the path that a result of `field_name` describes."""
    return with_positions(key or inner for key, inner in _STEP.findall(name))
