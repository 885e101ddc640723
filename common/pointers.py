"""Paths in JSON, of map keys and positions in lists, and their pointers (RFC 6901)."""

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any


def get(node: Any, path: Sequence[str | int]) -> Any:  # noqa: ANN401 - JSON of any shape
    """The value at a path; None where anything on the way is missing or has another type."""
    for part in path:
        if isinstance(node, dict):
            node = node.get(part)
        elif isinstance(node, list) and isinstance(part, int) and part < len(node):
            node = node[part]
        else:
            return None
    return node


@lru_cache(maxsize=256)
def pointer(path: tuple[str | int, ...]) -> str:
    """RFC 6901 pointer of a path, with ``~`` and ``/`` escaped.

    A table names some fifty places, again and again. Few more are kept: keys may be an author's, and long.
    """
    return "".join([f"/{str(part).replace('~', '~0').replace('/', '~1')}" for part in path])


def numbered(parts: Iterable[str]) -> tuple[str | int, ...]:
    """The parts of a pointer as a path, those of digits as positions in lists."""
    return tuple(int(part) if part.isdecimal() else part for part in parts)


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
