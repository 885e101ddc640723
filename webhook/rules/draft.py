"""A rule table as written: one file, or several laid over each other, with the line of every value."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from common.pointers import pointer
from common.texts import did_you_mean
from webhook.documents import Document
from webhook.objects.tree import Path, get, map_at
from webhook.rows.table import Origin
from webhook.rules.problems import Problem

ROWS: Final[Mapping[str, AbstractSet[str]]] = {
    "workloads": {"kinds", "groups"},
    "shapes": {"workers", "nodeConfig"},
    "rules": {"match", "reason"},
}
"""The sections of rows, and the keys that a new one has beside its name."""

MAPS = ("values", "candidates", "deviceCounts")

FIRST: AbstractSet[str] = {"placer", "devices"}
"""Keys of rules of which the first that fires counts."""

POLICIES: Final = "policies"

Written = list[tuple[Document, Path]]
"""The files that a row stands in, and where: the one that has it first, then those that change it."""


@dataclass
class Draft:
    """A table's text as a value, and where each part of it comes from.

    Attributes:
        raw: the whole table; ``extends`` is resolved.
        files: those that are laid over each other; the last counts.
        rows: by section what is known of each row of ``raw``; of a single file nothing has to be.
    """

    raw: dict[str, Any]
    files: tuple[Document, ...]
    rows: Mapping[str, list[Written]] = field(default_factory=dict)

    def written(self, section: str) -> list[Written]:
        """For each row of a section the files that it stands in."""
        first: Path = (section,)
        alone = [[(self.files[0], (*first, at))] for at in range(len(self.raw.get(section, ())))]
        return self.rows.get(section, alone)

    def problem(self, path: Path, message: str) -> Problem:
        """A problem at a path of ``raw``, placed in the last file that has the value, or else its parent."""
        document, there = self._origin(path) if len(self.files) > 1 else (self.files[0], path)
        return Problem(document.source, document.line_of(there), pointer(there), message)

    def origins(self) -> dict[str, list[Origin]]:
        """The places that each rule is written in."""
        return {
            rule["name"]: [
                Origin(document.source, document.line_of(path), frozenset(get(document.value, path)))
                for document, path in written
            ]
            for rule, written in zip(self.raw["rules"], self.written("rules"), strict=True)
        }

    def _origin(self, path: Path) -> tuple[Document, Path]:
        if path and path[0] in self.rows and len(path) > 1:
            row, inside = self.rows[str(path[0])][int(path[1])], path[2:]
            changed = (at for at in reversed(row) if inside and inside[0] in map_at(at[0].value, at[1]))
            document, start = next(changed, row[0])
            return document, start + inside
        for end in range(min(len(path), 2), 0, -1):
            for document in reversed(self.files):
                if path[end - 1] in map_at(document.value, path[: end - 1]):
                    return document, path
        return self.files[-1], path


def side_by_side(files: Sequence[Document]) -> Draft:
    """Returns the table of files of which each has sections of its own."""
    raw = {key: value for document in files for key, value in document.value.items()}
    rows: dict[str, list[Written]] = {
        section: [[(document, (section, at))] for at in range(len(document.value[section]))]
        for document in files
        for section in ROWS
        if section in document.value
    }
    return Draft(raw, tuple(files), rows)


def strays(base: Draft, over: Document) -> Iterator[Problem]:
    """Rows of a table that change rows which the one below does not have."""
    for section, needed in ROWS.items():
        there = {row["name"] for row in base.raw[section]}
        for at, row in enumerate(over.value.get(section, [])):
            name = row["name"]
            if name not in there and not needed & row.keys():
                hint = did_you_mean(name, there)
                path = (section, at)
                told = f"no row is called {name!r}{hint}; a new one says {' and '.join(sorted(needed))}"
                yield Problem(over.source, over.line_of(path), pointer(path), told)


def laid_over(base: Draft, over: Document) -> Draft:
    """A table with another one laid over it, row by row and key by key."""
    raw: dict[str, Any] = {**base.raw}
    rows: dict[str, list[Written]] = {}
    if "mode" in over.value:
        raw["mode"] = over.value["mode"]
    for section in MAPS:
        raw[section] = {**base.raw.get(section, {}), **over.value.get(section, {})}
    claims = [map_at(value, ("candidates", "claims")) for value in (over.value, base.raw)]
    if all(claims):  # the first that fits counts
        raw["candidates"]["claims"] = claims[0] | {k: v for k, v in claims[1].items() if k not in claims[0]}
    for section in ROWS:
        laid = _laid(section, base, over)
        raw[section], rows[section] = [value for value, _ in laid], [written for _, written in laid]
    # They have no names to be changed by; the first that is for an object counts.
    new: list[Written] = [[(over, (POLICIES, at))] for at in range(len(over.value.get(POLICIES, ())))]
    if policies := [*over.value.get(POLICIES, ()), *base.raw.get(POLICIES, ())]:
        raw[POLICIES], rows[POLICIES] = policies, new + base.written(POLICIES)
    return Draft(raw, (*base.files, over), rows)


def _laid(section: str, base: Draft, over: Document) -> list[tuple[dict[str, Any], Written]]:
    names = {row["name"] for row in base.raw[section]}
    changes: dict[str, list[tuple[dict[str, Any], Written]]] = defaultdict(list)
    new: list[tuple[dict[str, Any], Written]] = []
    for at, value in enumerate(over.value.get(section, [])):
        (changes[value["name"]] if value["name"] in names else new).append((value, [(over, (section, at))]))
    # A row that is changed twice is there twice then, for lint to see.
    old = [
        ({**row, **value}, written + where)
        for row, written in zip(base.raw[section], base.written(section), strict=True)
        for value, where in changes[row["name"]] or [({}, [])]
    ]
    # Where the first counts, new rows are tried before the packaged ones.
    first = [row for row in new if section == "shapes" or FIRST & row[0].keys()]
    return first + old + [row for row in new if section != "shapes" and not FIRST & row[0].keys()]
