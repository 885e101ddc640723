"""Where each value was written."""

from typing import Any, NamedTuple

Json = Any
"""A value as ``json.loads`` gives it, without NaN and infinities."""

Path = tuple[str | int, ...]
"""Keys and indices from the root of a document, as jsonschema's ``absolute_path`` has them."""


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

    def nearest(self, path: Path) -> int:
        """The line of a path, or of the closest parent that was written."""
        return self.at(path).line
