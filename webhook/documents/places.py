"""Where each value was written, and the one error of reading, which names such a place."""

from typing import Any, NamedTuple

Json = Any
"""A value as ``json.loads`` gives it, without NaN and infinities."""

Path = tuple[str | int, ...]
"""Keys and indices from the root of a document, as jsonschema's ``absolute_path`` has them."""

MAX_DEPTH = 100
"""Levels of maps and lists; a MPIJob has about fifteen, the engine recurses."""

TOO_DEEP = f"nested deeper than {MAX_DEPTH} levels: no Kubernetes object is; flatten it"
LONE_SURROGATE = "half of a surrogate pair is no character: write both halves, or the character itself"
TWICE = "key {!r} twice in one map, kubectl would take the last: remove one"


class Mark(NamedTuple):
    """The line of a value (of its key, inside a map), 1-based, and the marks of what is in it.

    A tree beside the value, because a dictionary of whole paths would cost more than reading the text.
    """

    line: int
    children: "dict[str | int, Mark]" = {}  # noqa: RUF012 - never changed

    def at(self, path: Path) -> "Mark":
        """The mark of a path or, where nothing was written there, of the closest parent that was."""
        mark = self
        for part in path:
            if part not in mark.children:
                break
            mark = mark.children[part]
        return mark


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


def error_at(text: str, at: int, source: str, message: str, first_line: int = 1) -> DocumentError:
    """The error about an offset of a text, which starts on a line of its file."""
    line = first_line + text.count("\n", 0, at)
    return DocumentError(source, line, at - text.rfind("\n", 0, at), message)
