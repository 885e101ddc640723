"""JSON pointers (RFC 6901) of paths: map keys, and positions in lists."""

from collections.abc import Iterable
from functools import lru_cache


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
