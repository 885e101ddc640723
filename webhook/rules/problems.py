"""Problems of a rule table, and where they are."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from common.texts import printable
from webhook.objects.tree import Path

Found = Iterator[tuple[Path, str]]
"""Paths in a table, each with its problem."""


@dataclass(frozen=True, order=True)
class Problem:
    """One problem of a rule table.

    Attributes:
        source: The file.
        line: The line, from 1; 0 for a file that cannot be read.
        path: The field in that file, as the API server names fields: ``rules[3].match.role``.
    """

    source: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return printable(": ".join(filter(None, (place, self.path, self.message))))


class TableError(ValueError):
    """A rule table that cannot be used, with every problem in the order of the file."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))
