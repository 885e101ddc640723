"""A rule table as written: one file, or one laid over the packaged table, with the line of every value."""

from dataclasses import dataclass, field
from typing import Any

from webhook.documents import Document, Path
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

    def problem(self, path: Path, message: str) -> Problem:
        """A problem at a path of ``raw``, placed in the file that the value comes from."""
        end = next(end for end in range(len(path), -1, -1) if path[:end] in self.origins)
        document, start = self.origins[path[:end]]
        there = start + path[end:]
        return Problem(document.source, document.lines.at(there).line, pointer(there), message)


def alone(document: Document) -> Draft:
    """A file by itself."""
    return Draft(document.value, {(): (document, ())})


def laid_over(base: Document, over: Document) -> Draft:
    """A table with another one laid over it, row by row and key by key."""
    draft = Draft({**base.value}, {(): (over, ())})
    if "mode" in over.value:
        draft.raw["mode"] = over.value["mode"]
    for section in (*ROWS, *MAPS):
        draft.origins[(section,)] = (base, (section,))
    for section in MAPS:
        mine = over.value.get(section, {})
        draft.raw[section] = {**base.value[section], **mine}
        draft.origins |= {(section, key): (over, (section, key)) for key in mine}
    for section in ROWS:
        _lay_rows(draft, section, base, over)
    return draft


def _lay_rows(draft: Draft, section: str, base: Document, over: Document) -> None:
    mine = list(enumerate(over.value.get(section, [])))
    names = {row["name"] for row in base.value[section]}
    new = [(over, number, row, mine[:0]) for number, row in mine if row["name"] not in names]
    old = [
        (base, number, row, [change for change in mine if change[1]["name"] == row["name"]])
        for number, row in enumerate(base.value[section])
    ]
    # A new shape is tried before the packaged ones, which between them fit every count.
    rows: list[dict[str, Any]] = []
    draft.raw[section] = rows
    for document, place, row, changes in new + old if section == "shapes" else old + new:
        # A row that is changed twice is there twice then, for lint to see.
        for number, change in changes or [(0, {})]:
            at = (section, len(rows))
            draft.origins[at] = (document, (section, place))
            draft.origins |= {(*at, key): (over, (section, number, key)) for key in change}
            rows.append({**row, **change})
