"""A rule table as written: one file, or one laid over the packaged table, with the line of every value."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from webhook.documents import Document, Json, Path
from webhook.engine.tree import pointer
from webhook.rules.problems import Problem

ROWS = ("workloads", "shapes", "rules")
MAPS = ("values", "candidates")


@dataclass
class Draft:
    """A table's text as a value, and where each part of it comes from.

    Attributes:
        raw: the whole table; ``extends`` is resolved.
        origins: path in ``raw`` -> the file it comes from and its path there; the longest prefix counts.
    """

    raw: dict[str, Any]
    origins: dict[Path, tuple[Document, Path]] = field(default_factory=dict)

    @classmethod
    def of(cls, document: Document) -> "Draft":
        """A file by itself."""
        return cls(document.value, {(): (document, ())})

    def problem(self, path: Path, message: str) -> Problem:
        """A problem at a path of ``raw``, placed in the file that the value comes from."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.origins:
                document, start = self.origins[path[:end]]
                there = start + path[end:]
                line = document.lines.at(there).line
                return Problem(document.source, line, pointer(there), message)
        raise AssertionError("a draft has an origin for its root")

    def extended_by(self, document: Document) -> "Draft":
        """This table with another one laid over it, row by row and key by key."""
        over: dict[str, Any] = document.value
        result = Draft(dict(self.raw), {**self.origins, (): (document, ())})
        for section in (*ROWS, *MAPS):
            result.origins[(section,)] = self._section(section)
        for section in MAPS:
            mine = over.get(section, {})
            result.raw[section] = {**self.raw.get(section, {}), **mine}
            result.origins |= {(section, key): (document, (section, key)) for key in mine}
        if "mode" in over:
            result.raw["mode"] = over["mode"]
        for section in ROWS:
            result._lay_rows(self, section, over.get(section, []), document)
        return result

    def _section(self, section: str) -> tuple[Document, Path]:
        document, start = self.origins.get((section,), self.origins[()])
        return document, start or (section,)

    def _lay_rows(self, base: "Draft", section: str, rows: list[Json], document: Document) -> None:
        names = {row["name"]: row for row in base.raw.get(section, [])}
        added = [(row, i) for i, row in enumerate(rows) if row["name"] not in names]
        changed = [(row, i) for i, row in enumerate(rows) if row["name"] in names]
        kept = [(name, (*base._section(section)[1], i)) for i, name in enumerate(names)]  # noqa: SLF001
        # A new shape is tried before the packaged ones, which between them fit every count.
        first = added if section == "shapes" else []
        last = [] if section == "shapes" else added
        self.raw[section] = []
        for row, i in first:
            self._append(section, row, document, (section, i))
        for name, place in kept:
            # A row that is changed twice is there twice then, for lint to see.
            for over, j in [change for change in changed if change[0]["name"] == name] or [({}, 0)]:
                at = self._append(section, {**names[name], **over}, base.origins[()][0], place)
                self.origins |= {(*at, key): (document, (section, j, key)) for key in over}
        for row, i in last:
            self._append(section, row, document, (section, i))

    def _append(self, section: str, row: Mapping[str, Json], document: Document, place: Path) -> Path:
        at = (section, len(self.raw[section]))
        self.raw[section].append(dict(row))
        self.origins[at] = (document, place)
        return at
