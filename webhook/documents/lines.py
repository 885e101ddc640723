"""Where each value was written."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

Json = Any
"""A value as ``json.loads`` gives it, without NaN and infinities."""

Path = tuple[str | int, ...]
"""Keys and indices from the root of a document, as jsonschema's ``absolute_path`` has them."""


class Mark(NamedTuple):
    """The line of a value (of its key, inside a map) and the marks of what is in it.

    A tree beside the value, because a dictionary of whole paths would cost more than reading the text.
    """

    line: int
    children: "dict[str | int, Mark] | None" = None


class Lines(Mapping[Path, int]):
    """Path to 1-based line, as a view of a tree of marks."""

    def __init__(self, root: Mark) -> None:
        self._root = root

    def __getitem__(self, path: Path) -> int:
        """The line of a path.

        Raises:
            KeyError: if nothing was written there.
        """
        return self.mark(path).line

    def mark(self, path: Path) -> Mark:
        """The line of a path and the marks below it.

        Raises:
            KeyError: if nothing was written there.
        """
        mark = self._root
        for part in path:
            if mark.children is None:
                raise KeyError(path)
            mark = mark.children[part]
        return mark

    def nearest(self, path: Path) -> int:
        """The line of a path or, where nothing was written there, of the closest parent that was."""
        mark = self._root
        for part in path:
            child = (mark.children or {}).get(part)
            if child is None:
                break
            mark = child
        return mark.line

    def __iter__(self) -> Iterator[Path]:
        """All paths in the order of writing."""
        stack: list[tuple[Path, Mark]] = [((), self._root)]
        while stack:
            path, mark = stack.pop()
            yield path
            children = mark.children or {}
            stack.extend(((*path, part), child) for part, child in reversed(children.items()))

    def __len__(self) -> int:
        """How many values were written."""
        return sum(1 for _ in self)
