"""A rule table as written: one file, or several merged ones, with the line of every value."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from common.familyrows import KEY_OF_LIST, with_keys
from common.pointers import field_name
from common.texts import did_you_mean
from webhook.documents import Document
from webhook.objects.tree import Path, get, map_at
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
"""Keys of rules for which the first rule that fires counts."""

NAMELESS: Final = {"policies": True, "guarantees": False}
"""The sections of rows without names: the first that applies counts. Whether a later file's come first."""

Written = list[tuple[Document, Path]]
"""The files with a row, and its path in each: first the file that adds it, then those that change it."""

Rows = list[tuple[dict[str, Any], Written]]


@dataclass
class Draft:
    """A table's text as a value, and the origin of each part.

    Attributes:
        raw: The whole table, with ``extends`` resolved.
        files: The merged files; the last one counts.
        rows: The files of each row, by the path of its list; empty for a single file.
    """

    raw: dict[str, Any]
    files: tuple[Document, ...]
    rows: Mapping[Path, list[Written]] = field(default_factory=dict)

    def written(self, *path: str | int) -> list[Written]:
        """Returns the files of each row of a list."""
        alone = [[(self.files[0], (*path, at))] for at in range(len(get(self.raw, path) or ()))]
        return self.rows.get(path, alone)

    @property
    def named(self) -> list[Path]:
        """The paths of lists of rows with names, those within families last."""
        inner = [("families", at, "shapes") for at in range(len(self.raw["families"]))]
        return [*((section,) for section in ROWS), *inner]

    def problem(self, path: Path, message: str) -> Problem:
        """Returns a problem at a path of ``raw``, in the last file that has the value or its parent."""
        document, there = self._origin(path) if len(self.files) > 1 else (self.files[0], path)
        return Problem(document.source, document.line_of(there), field_name(there), message)

    def origins(self) -> dict[str, list[Origin]]:
        """Returns the places where each rule is written."""
        return {
            rule["name"]: [
                Origin(document.source, document.line_of(path), frozenset(get(document.value, path)))
                for document, path in written
            ]
            for rule, written in zip(self.raw["rules"], self.written("rules"), strict=True)
        }

    def _origin(self, path: Path) -> tuple[Document, Path]:
        for end in range(len(path) - 1, 0, -1):  # the innermost row counts
            if path[:end] in self.rows:
                row, inside = self.rows[path[:end]][int(path[end])], path[end + 1 :]
                changed = (at for at in reversed(row) if inside and inside[0] in map_at(at[0].value, at[1]))
                document, start = next(changed, row[0])
                return document, start + inside
        for end in range(min(len(path), 2), 0, -1):
            for document in reversed(self.files):
                if path[end - 1] in map_at(document.value, path[: end - 1]):
                    return document, path
        return self.files[-1], path


def side_by_side(files: Sequence[Document]) -> Draft:
    """Returns the table of several files, each with other sections, and with their rules in this order."""
    raw = {key: value for document in files for key, value in document.value.items()}
    raw["rules"] = [rule for document in files for rule in document.value.get("rules", ())]
    rows = defaultdict[Path, list[Written]](list)
    for document in files:
        for path in _lists(document):
            rows[path] += [[(document, (*path, at))] for at in range(len(get(document.value, path)))]
    return Draft(raw, tuple(files), dict(rows))


def _lists(document: Document) -> Iterator[Path]:
    """Yields the paths of a file's lists of rows."""
    yield from ((section,) for section in ROWS if section in document.value)
    for at, family in enumerate(document.value.get("families", [])):
        yield from (("families", at, key) for key in WITHIN if key in family)


def strays(base: Draft, over: Document) -> Iterator[Problem]:
    """Yields a problem for each row that changes a row which the table below does not have."""
    for path in _lists(over):
        kind = str(path[-1])
        by, needed = (KEY_OF_LIST[kind], WITHIN[kind]) if path[1:] else ("name", ROWS[kind])
        below = get(base.raw, path)
        if path[1:]:
            own = get(over.value, path[:2])["name"]
            there = [family for family in base.raw["families"] if family["name"] == own]
            below = with_keys(there[0].get(path[-1], []) if there else (), get(over.value, path), by)
        known = {row[by] for row in below}
        for at, row in enumerate(get(over.value, path)):
            name, where = row[by], (*path, at)
            if name not in known and not needed & row.keys():
                hint = did_you_mean(name, known)
                keys = " and ".join(sorted(needed))
                message = f"no row has the name {name!r}{hint}; a new row needs {keys}"
                yield Problem(over.source, over.line_of(where), field_name(where), message)


def laid_over(base: Draft, over: Document) -> Draft:
    """Returns a table merged with another one, row by row and key by key."""
    raw: dict[str, Any] = {**base.raw}
    laid: dict[Path, Rows] = {}
    if "mode" in over.value:
        raw["mode"] = over.value["mode"]
    for section in MAPS:
        raw[section] = {**base.raw.get(section, {}), **over.value.get(section, {})}
    for section in ROWS:
        laid[section,] = _laid(_rows(base, section), _rows(Draft(over.value, (over,)), section))
    laid |= {
        path: rows for at, row in enumerate(laid["families",]) for path, rows in _inner(base, over, at, *row)
    }
    raw |= {section: [value for value, _ in laid[section,]] for section in ROWS}
    rows = {path: [written for _, written in merged] for path, merged in laid.items()}
    for section, newest_first in NAMELESS.items():
        new, old = _rows(Draft(over.value, (over,)), section), _rows(base, section)
        if both := new + old if newest_first else old + new:
            raw[section], rows[section,] = [value for value, _ in both], [written for _, written in both]
    return Draft(raw, (*base.files, over), rows)


def _rows(draft: Draft, *path: str | int) -> Rows:
    return list(zip(get(draft.raw, path) or (), draft.written(*path), strict=True))


def _inner(
    base: Draft, over: Document, at: int, family: dict[str, Any], written: Written
) -> Iterator[tuple[Path, Rows]]:
    """Yields the merged rows within a family, and its claims."""
    below = next((n for n, row in enumerate(base.raw["families"]) if row["name"] == family["name"]), None)
    old = {} if below is None else base.raw["families"][below]
    changed = [where for document, where in written if document is over]
    for key, by in KEY_OF_LIST.items():
        there = _rows(base, "families", below, key) if below is not None else []
        new = [row for where in changed for row in _rows(Draft(over.value, (over,)), *where, key)]
        keyed = with_keys([row for row, _ in there], [row for row, _ in new], by)
        known = [(row, written) for row, (_, written) in zip(keyed, there, strict=True)]
        if rows := _laid(known, new, by, first=True):
            family[key] = [value for value, _ in rows]
            yield ("families", at, key), rows
    if "claims" in family:
        family["claims"] = {**family["claims"], **old.get("claims", {}), **family["claims"]}


def _laid(base: Rows, over: Rows, by: str = "name", *, first: bool = False) -> Rows:
    """Returns merged rows, matched by the same key; new ones come after the others, or before them."""
    known = {row[by] for row, _ in base}
    changes: dict[str, Rows] = defaultdict(list)
    new: Rows = []
    for value, where in over:
        (changes[value[by]] if value[by] in known else new).append(({**value}, where))
    # A row that is changed twice is then in the list twice, which lint reports.
    old = [
        ({**row, **value}, written + where)
        for row, written in base
        for value, where in changes[row[by]] or [({}, [])]
    ]
    # Rows of which the first match counts: new rows come before the packaged ones.
    before = [row for row in new if first or FIRST & row[0].keys()]
    return before + old + [row for row in new if not (first or FIRST & row[0].keys())]
