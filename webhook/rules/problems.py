"""What is wrong with a rule table, and where."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from common.texts import printable
from webhook.objects.tree import Path

Found = Iterator[tuple[Path, str]]
"""Paths in a table, each with what is wrong there."""


@dataclass(frozen=True, order=True)
class Problem:
    """One mistake in a rule table.

    Attributes:
        source: the file.
        line: 1-based line in it; 0 for the file as a whole, which cannot be read.
        path: JSON pointer of the place, as it stands in that file.
    """

    source: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return printable(": ".join(filter(None, (place, self.path, self.message))))


class TableError(ValueError):
    """A rule table that cannot be used; carries every problem found, in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))
