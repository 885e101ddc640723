"""The one error of reading, and the bounds that keep a small text from becoming a large value."""

from collections.abc import Container

MAX_DEPTH = 100
"""Levels of maps and lists; a MPIJob has about fifteen, the engine recurses."""

MAX_ALIAS_COST = 4_000_000
"""What aliases may add to one document, in characters; a value counts 40. About 100,000 values."""

VALUE_COST = 40


class DocumentError(ValueError):
    """A text that cannot be read, or that must not be guessed at.

    Attributes:
        source: file name, or ``<stdin>``.
        line: 1-based.
        column: 1-based.
        message: what is wrong and the way out, without the place.
    """

    def __init__(self, source: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{source}:{line}:{column}: {message}")
        self.source, self.line, self.column, self.message = source, line, column, message


class Refusal(Exception):  # noqa: N818 - never leaves this package
    """Something to refuse, raised where the place is not known; becomes a ``DocumentError`` where it is."""


def error_at(text: str, at: int, source: str, message: str) -> DocumentError:
    """The error about an offset of a text."""
    return DocumentError(source, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), message)


TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels: no Kubernetes object is; flatten it"
ALIAS_BOMB = "aliases expand to too much: write the repeated parts out, or split the file"
LONE_SURROGATE = "half of a surrogate pair is no character: write both halves, or the character itself"


def unique(key: str, known: Container[str]) -> str:
    """The key of a map, which may not be known yet.

    Raises:
        Refusal: if it is.
    """
    if key in known:
        raise Refusal(f"key {key[:60]!r} twice in one map, kubectl would take the last: remove one")
    return key
