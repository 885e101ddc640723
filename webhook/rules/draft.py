"""A rule table as written: one file, or several merged ones, with the line of every value."""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from common.familyrows import KEY_OF_LIST, with_keys
from common.pointers import field_name
from common.texts import did_you_mean
from webhook.documents import Document
from webhook.objects.tree import Json, Path, get, map_at
from webhook.rows.table import Origin
from webhook.rules.problems import Problem

ROWS: Final[Mapping[str, AbstractSet[str]]] = {
    "workloads": {"kinds", "groups"},
    "families": {"instanceTypes", "wholeNode", "shapes"},
    "rules": {"match", "reason"},
}
"""The sections of rows, and the keys that a new row needs in addition to its name."""

WITHIN: Final[Mapping[str, AbstractSet[str]]] = {"units": {"nodes"}, "shapes": {"workers", "nodeConfig"}}
"""Lists of rows within a family, and the keys that a new row needs in addition to its identifying one."""

MAPS = ("values", "candidates", "deviceCounts")

FIRST: AbstractSet[str] = {"placer", "devices"}
"""Keys of rules for which the first rule that fires decides."""

NAMELESS: Final = {"policies": True, "guarantees": False}
"""Sections of rows without names: the first that applies is used. True: rows of a later file come first."""


class Row(dict[str, Any]):
    """A row as a value, and where it is written.

    Attributes:
        written: The files with the row, and its path in each: first the file that adds it, then those that
            change it.
    """

    def __init__(self, value: Mapping[str, Any], written: list[tuple[Document, Path]]) -> None:
        super().__init__(value)
        self.written = written


@dataclass
class Draft:
    """A table's text as a value, and the origin of each part.

    Attributes:
        raw: The whole table, with ``extends`` resolved. Its rows are each a `Row`, if the table is valid.
        files: The merged files; the last one has precedence.
    """

    raw: dict[str, Any]
    files: tuple[Document, ...]

    @property
    def named(self) -> list[tuple[str, Row]]:
        """The rows with names, each with the name of its list; those within families last."""
        rows = [(section, row) for section in ROWS for row in self.raw[section]]
        return rows + [("shapes", row) for family in self.raw["families"] for row in family["shapes"]]

    def problem(self, path: Path, message: str) -> Problem:
        """Returns a problem at a path of ``raw``, in the last file that has the value or changes its row."""
        document, there = self._origin(path)
        return Problem(document.source, document.line_of(there), field_name(there), message)

    def origins(self) -> dict[str, list[Origin]]:
        """Returns the places where each rule is written."""
        return {
            rule["name"]: [
                Origin(document.source, document.line_of(path), frozenset(get(document.value, path)))
                for document, path in rule.written
            ]
            for rule in self.raw["rules"]
        }

    def _origin(self, path: Path) -> tuple[Document, Path]:
        for end in range(len(path), 0, -1):  # the innermost row is meant
            row, inside = get(self.raw, path[:end]), path[end:]
            if isinstance(row, Row):
                document, start = min(reversed(row.written), key=partial(_unlikely, inside))
                return document, start + inside
        for end in range(min(len(path), 2), 0, -1):
            for document in reversed(self.files):
                if path[end - 1] in map_at(document.value, path[: end - 1]):
                    return document, path
        return self.files[-1], path


def _unlikely(inside: Path, at: tuple[Document, Path]) -> tuple[bool, bool]:
    """Returns a smaller value for a file that more probably causes a problem at a path inside a row."""
    document, keys = at[0], map_at(at[0].value, at[1]).keys()
    unchanged = document.source.startswith("packaged ") or keys <= {"name", "mode"}
    return unchanged, not inside or inside[0] not in keys


def with_off(node: Json, key: str = "") -> Json:
    """Returns a part of a table as written, with ``off`` for a mode that kubectl's YAML reads as false."""
    if isinstance(node, dict):  # `rules` is a map of modes in a policy
        return {name: with_off(value, "mode" if key == "rules" else name) for name, value in node.items()}
    if isinstance(node, list):
        return [with_off(item) for item in node]
    return "off" if node is False and key == "mode" else node


def side_by_side(files: Sequence[Document]) -> Draft:
    """Returns the table of several valid files, with their rows in this order."""
    raw = {key: value for document in files for key, value in document.value.items()}
    rows = {
        section: [row for document in files for row in _rows(document, section)]
        for section in (*ROWS, *NAMELESS)
    }
    return Draft(raw | {section: those for section, those in rows.items() if those}, tuple(files))


def _rows(document: Document, *path: str | int) -> list[Row]:
    """Returns the rows of a list in a file, with those within them."""
    rows = [Row(value, [(document, (*path, at))]) for at, value in enumerate(get(document.value, path) or ())]
    for at, row in enumerate(rows):
        row |= {key: _rows(document, *path, at, key) for key in WITHIN if key in row}
    return rows


def strays(base: Draft, over: Document) -> Iterator[Problem]:
    """Yields a problem for each row that changes a row which the table below does not have."""
    for section, needed in ROWS.items():
        yield from _strays(base.raw[section], _rows(over, section), "name", needed)
    families = {family["name"]: family for family in reversed(base.raw["families"])}
    for family in _rows(over, "families"):
        below = families.get(family["name"], {})
        for key, by in KEY_OF_LIST.items():
            rows = family.get(key, [])
            yield from _strays(with_keys(below.get(key, ()), rows, by), rows, by, WITHIN[key])


def _strays(
    base: Collection[Mapping[str, Any]], over: Collection[Row], by: str, needed: AbstractSet[str]
) -> Iterator[Problem]:
    known = {row[by] for row in base}
    for row in over:
        if row[by] in known or needed <= row.keys():
            continue
        ((document, path),) = row.written
        hint, keys = did_you_mean(row[by], known), " and ".join(sorted(needed))
        # A row that has some of the keys is a misspelt one if its name is like another one.
        if not needed & row.keys() or (hint and not path[2:]):
            message = f"no row has the name {row[by]!r}{hint}; a new row needs {keys}"
            yield Problem(document.source, document.line_of(path), field_name(path), message)


def laid_over(base: Draft, over: Document) -> Draft:
    """Returns a table merged with another one, row by row and key by key."""
    raw: dict[str, Any] = {**base.raw}
    if "mode" in over.value:
        raw["mode"] = over.value["mode"]
    for section in MAPS:
        raw[section] = {**base.raw.get(section, {}), **over.value.get(section, {})}
    for section in ROWS:
        raw[section] = _laid(base.raw[section], _rows(over, section))
    for section, newest_first in NAMELESS.items():
        new, old = _rows(over, section), base.raw.get(section, [])
        if both := new + old if newest_first else old + new:
            raw[section] = both
    return Draft(raw, (*base.files, over))


def _laid(base: list[Row], over: list[Row], by: str = "name", *, first: bool = False) -> list[Row]:
    """Returns merged rows, matched by the same key; new ones come after the others, or before them."""
    known = {row[by] for row in base}
    changes = defaultdict[str, list[Row]](list)
    new: list[Row] = []
    for row in over:
        (changes[row[by]] if row[by] in known else new).append(row)
    # A row that is changed twice is then in the list twice, which lint reports.
    old = [each for row in base for each in [_changed(row, change) for change in changes[row[by]]] or [row]]
    # The first of these rows that matches is used, so new rows come before the packaged ones.
    before = [row for row in new if first or FIRST & row.keys()]
    return before + old + [row for row in new if not (first or FIRST & row.keys())]


def _changed(row: Row, change: Row) -> Row:
    """Returns a row with the keys of another one, and the lists and claims inside merged."""
    new = Row({**row, **change}, row.written + change.written)
    for key, by in KEY_OF_LIST.items():
        if key in change:
            below = row.get(key, [])
            keyed = zip(with_keys(below, change[key], by), below, strict=True)
            new[key] = _laid([Row(value, old.written) for value, old in keyed], change[key], by, first=True)
    if "claims" in change:
        new["claims"] = {**change["claims"], **row.get("claims", {}), **change["claims"]}
    return new
