"""Describes a problem of a rule table by its file, line and field."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from common.texts import printable
from webhook.objects.tree import Path

PathMessages = Iterator[tuple[Path, str]]
"""The paths of values in a table, each with the message about the value."""


@dataclass(frozen=True, order=True)
class Problem:
    """One problem of a rule table.

    Attributes:
        source: The file.
        line: The number of the line, from 1; 0 if the file cannot be read.
        path: The field in the file, as the API server names fields: ``rules[3].match.role``.
    """

    source: str
    line: int
    path: str
    message: str

    def __str__(self) -> str:
        place = f"{self.source}:{self.line}" if self.line else self.source
        return printable(": ".join(filter(None, (place, self.path, self.message))))


class TableError(ValueError):
    """The error for a rule table that cannot be used; it has all problems, by file and line."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(sorted(problems))
        super().__init__("\n".join(map(str, self.problems)))
