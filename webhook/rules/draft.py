"""Defines the draft of a rule table: the merged content of its files, with the line of every part."""

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
from webhook.objects.tree import Json, Path, get, get_map
from webhook.rows.table import Origin
from webhook.rules import messages
from webhook.rules.problems import Problem

NAMED_SECTIONS: Final[Mapping[str, AbstractSet[str]]] = {
    "workloads": {"kinds", "groups"},
    "families": {"instanceTypes", "wholeNode", "shapes"},
    "rules": {"match", "reason"},
}
"""The sections with named rows; for each section, the keys that a new row needs in addition to its name."""

FAMILY_LISTS: Final[Mapping[str, AbstractSet[str]]] = {
    "units": {"nodes"},
    "shapes": {"workers", "nodeConfig"},
}
"""The lists in a family, each with the keys that a new row needs in addition to the key of `KEY_OF_LIST`."""

MAP_SECTIONS = ("values", "candidates", "deviceCounts")

FIRST_MATCH_KEYS: AbstractSet[str] = {"placer", "devices"}
"""Keys of rules. A job gets the value of the first rule that matches and has the key."""

NAMELESS_SECTIONS: Final = {"policies": True, "guarantees": False}
"""Sections with rows that have no names; the value is true if rows of a later file come first."""


class DraftRow(dict[str, Any]):
    """The value of a row, and the places in files where the row is written.

    Attributes:
        places: The files that add and change the row, in order, each with the row's path in the file.
    """

    def __init__(self, value: Mapping[str, Any], places: list[tuple[Document, Path]]) -> None:
        super().__init__(value)
        self.places = places


@dataclass
class Draft:
    """The content of a table, and the places of its parts in files.

    Attributes:
        raw: The table, merged into the table of ``extends``. After `concatenate_files` or `merge_file`, each
            row is a `DraftRow`.
        files: The merged files; the last file has precedence.
    """

    raw: dict[str, Any]
    files: tuple[Document, ...]

    @property
    def named_rows(self) -> list[tuple[str, DraftRow]]:
        """The rows with names, each with the name of its list. Shapes come last."""
        rows = [(section, row) for section in NAMED_SECTIONS for row in self.raw[section]]
        return rows + [("shapes", row) for family in self.raw["families"] for row in family["shapes"]]

    def problem(self, path: Path, message: str) -> Problem:
        """Returns the problem at a path of ``raw``, with the file that most probably causes the problem."""
        document, file_path = self._origin(path)
        return Problem(document.source, document.line_of(file_path), field_name(file_path), message)

    def origins(self) -> dict[str, list[Origin]]:
        """Returns the places of each rule in the files."""
        return {
            rule["name"]: [
                Origin(document.source, document.line_of(path), frozenset(get(document.value, path)))
                for document, path in rule.places
            ]
            for rule in self.raw["rules"]
        }

    def _origin(self, path: Path) -> tuple[Document, Path]:
        """Returns the file that most probably causes a problem at a path, and the path in this file."""
        for end in range(len(path), 0, -1):  # the innermost row has the problem
            row, row_path = get(self.raw, path[:end]), path[end:]
            if isinstance(row, DraftRow):
                document, start = min(reversed(row.places), key=partial(_rank_place, row_path))
                return document, start + row_path
        for end in range(min(len(path), 2), 0, -1):
            for document in reversed(self.files):
                if path[end - 1] in get_map(document.value, path[: end - 1]):
                    return document, path
        return self.files[-1], path


def _rank_place(row_path: Path, place: tuple[Document, Path]) -> tuple[bool, bool]:
    """Returns the rank of a place: the place of the smallest rank probably causes a problem at the path."""
    document, keys = place[0], get_map(place[0].value, place[1]).keys()
    is_unchanged = document.source.startswith("packaged ") or keys <= {"name", "mode"}
    return is_unchanged, not row_path or row_path[0] not in keys


def with_off_text(node: Json, key: str = "") -> Json:
    """Returns a part of a draft with ``off`` for false modes: kubectl's YAML reads ``off`` as false."""
    if isinstance(node, dict):  # in a policy, `rules` is a map of modes
        return {name: with_off_text(item, "mode" if key == "rules" else name) for name, item in node.items()}
    if isinstance(node, list):
        return [with_off_text(item) for item in node]
    return "off" if node is False and key == "mode" else node


def concatenate_files(files: Sequence[Document]) -> Draft:
    """Returns the draft with the rows of several valid files, in the order of the files."""
    raw = {key: value for document in files for key, value in document.value.items()}
    rows = {
        section: [row for document in files for row in _rows(document, section)]
        for section in (*NAMED_SECTIONS, *NAMELESS_SECTIONS)
    }
    return Draft(raw | {section: items for section, items in rows.items() if items}, tuple(files))


def _rows(document: Document, *path: str | int) -> list[DraftRow]:
    """Returns the rows of a list in a file. The lists in a family consist of rows, too."""
    values = get(document.value, path) or ()
    rows = [DraftRow(row, [(document, (*path, index))]) for index, row in enumerate(values)]
    for index, row in enumerate(rows):
        row |= {key: _rows(document, *path, index, key) for key in FAMILY_LISTS if key in row}
    return rows


def unknown_row_problems(base: Draft, file: Document) -> Iterator[Problem]:
    """Yields a problem for each row of a file that seems to change a row which the base does not have."""
    for section, new_keys in NAMED_SECTIONS.items():
        yield from _unknown_rows(base.raw[section], _rows(file, section), "name", new_keys)
    families_by_name = {family["name"]: family for family in reversed(base.raw["families"])}
    for family in _rows(file, "families"):
        base_family = families_by_name.get(family["name"], {})
        for section, key in KEY_OF_LIST.items():
            rows = family.get(section, [])
            base_rows = with_keys(base_family.get(section, ()), rows, key)
            yield from _unknown_rows(base_rows, rows, key, FAMILY_LISTS[section])


def _unknown_rows(
    base: Collection[Mapping[str, Any]], rows: Collection[DraftRow], key: str, new_keys: AbstractSet[str]
) -> Iterator[Problem]:
    names = {row[key] for row in base}
    for row in rows:
        if row[key] in names or new_keys <= row.keys():
            continue
        ((document, path),) = row.places
        hint, keys = did_you_mean(row[key], names), " and ".join(sorted(new_keys))
        # A row with some of `new_keys` may be new. If its name resembles a known name, the name is misspelt.
        if not new_keys & row.keys() or (hint and not path[2:]):
            message = messages.unknown_row(row[key], hint, keys)
            yield Problem(document.source, document.line_of(path), field_name(path), message)


def merge_file(base: Draft, file: Document) -> Draft:
    """Returns a draft merged with a file, row by row and key by key."""
    raw: dict[str, Any] = {**base.raw}
    if "mode" in file.value:
        raw["mode"] = file.value["mode"]
    for section in MAP_SECTIONS:
        raw[section] = {**base.raw.get(section, {}), **file.value.get(section, {})}
    for section in NAMED_SECTIONS:
        raw[section] = _merge_rows(base.raw[section], _rows(file, section))
    for section, newest_first in NAMELESS_SECTIONS.items():
        new, old = _rows(file, section), base.raw.get(section, [])
        if rows := new + old if newest_first else old + new:
            raw[section] = rows
    return Draft(raw, (*base.files, file))


def _merge_rows(
    base: list[DraftRow], rows: list[DraftRow], key: str = "name", *, new_first: bool = False
) -> list[DraftRow]:
    """Returns the base rows, changed by the rows with the same key, and the new rows.

    A new row comes first if ``new_first`` is true or it has one of `FIRST_MATCH_KEYS`, or else last.
    """
    names = {row[key] for row in base}
    changes_by_key = defaultdict[str, list[DraftRow]](list)
    new_rows: list[DraftRow] = []
    for row in rows:
        (changes_by_key[row[key]] if row[key] in names else new_rows).append(row)
    # A row with two changes becomes two rows with the same name, which lint reports.
    kept_rows = [
        new for row in base for new in [_change_row(row, item) for item in changes_by_key[row[key]]] or [row]
    ]
    first_rows = [row for row in new_rows if new_first or FIRST_MATCH_KEYS & row.keys()]
    return first_rows + kept_rows + [row for row in new_rows if row not in first_rows]


def _change_row(row: DraftRow, change: DraftRow) -> DraftRow:
    """Returns a row with the keys of its change. The lists and the claims of a family are merged."""
    new = DraftRow({**row, **change}, row.places + change.places)
    for section, key in KEY_OF_LIST.items():
        if section in change:
            old_rows = row.get(section, [])
            pairs = zip(with_keys(old_rows, change[section], key), old_rows, strict=True)
            base = [DraftRow(value, old.places) for value, old in pairs]
            new[section] = _merge_rows(base, change[section], key, new_first=True)
    if "claims" in change:  # the first glob that matches is used, so the claims of the change come first
        new["claims"] = {**change["claims"], **row.get("claims", {}), **change["claims"]}
    return new
