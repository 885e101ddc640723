"""A rule table as written: one file, or several laid over each other, with the line of every value."""

import difflib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

from webhook.documents import Document, Path
from webhook.objects.tree import pointer
from webhook.rules.problems import Problem

ROWS: Final[Mapping[str, AbstractSet[str]]] = {
    "workloads": {"kinds", "groups"},
    "shapes": {"workers", "nodeConfig"},
    "rules": {"match", "reason"},
}
"""The sections of rows, and the keys that a new one has beside its name."""

GONE: Final = {
    "together-required-by-job-label": "together-required is for every kind now",
    "together-preferred-by-job-label": "together-preferred is for every kind now",
    "group-together": "together-required is for every kind now",
    "kueue-working-ultraservers": "nodes-with-server-id is for jobs in a queue, too",
    **dict.fromkeys(
        ["blocks", "block-label", "blocks-whole-by-job-label", "pods-per-job", "pods-per-job-of-node"],
        "blocks-whole and job-label do that now",
    ),
    "hostfile-mount": "hostfile mounts it now",
    "output-directory-taken": "hostfile-for-launcher has `mountFree` now",
    "t9k-shared-memory-mount": "t9k-shared-memory mounts it now",
    "loose-pods-share": "it is part of loose-pod now, which comes with the component pods",
    "loose-pod": "it comes with the component pods",
    "block-of-missed-job": "it comes with the component missed-jobs",
    "neuron-scheduler": "it comes with the component neuron-scheduler",
    **dict.fromkeys(
        ["image-pull-secret", "gpu-instance-type", "healthy-nodes"], "it comes with the component hyperpod"
    ),
}
"""Rules of 0.1.0 that are not in the packaged table any more, and where to look."""

MAPS = ("values", "candidates", "deviceCounts")

Origin = tuple[Document, Path]
"""A file, and a path in it."""


@dataclass
class Draft:
    """A table's text as a value, and where each part of it comes from.

    Attributes:
        raw: the whole table; ``extends`` is resolved.
        origins: path in ``raw`` -> the file it comes from and its path there; the longest prefix counts.
    """

    raw: dict[str, Any]
    origins: dict[Path, Origin] = field(default_factory=dict)

    def origin(self, path: Path) -> Origin:
        """The file that the value at a path of ``raw`` comes from, and its path there."""
        end = next(end for end in range(len(path), -1, -1) if path[:end] in self.origins)
        document, start = self.origins[path[:end]]
        return document, start + path[end:]

    def problem(self, path: Path, message: str) -> Problem:
        """A problem at a path of ``raw``, placed in the file that the value comes from."""
        document, there = self.origin(path)
        return Problem(document.source, document.line_of(there), pointer(there), message)


def alone(document: Document) -> Draft:
    """A file by itself."""
    return Draft(document.value, {(): (document, ())})


def strays(base: Draft, over: Document) -> Iterator[Problem]:
    """Rows of a table that change rows which the one below does not have."""
    for section, needed in ROWS.items():
        there = {row["name"] for row in base.raw[section]}
        for at, row in enumerate(over.value.get(section, [])):
            name = row["name"]
            if name not in there and not needed & row.keys():
                close = difflib.get_close_matches(name, there, n=1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                hint = f"; {GONE[name]}" if section == "rules" and name in GONE else hint
                path = (section, at)
                told = f"no row is called {name!r}{hint}; a new one says {' and '.join(sorted(needed))}"
                yield Problem(over.source, over.line_of(path), pointer(path), told)


def laid_over(base: Draft, over: Document) -> Draft:
    """A table with another one laid over it, row by row and key by key."""
    draft = Draft({**base.raw}, {(): (over, ())})
    if "mode" in over.value:
        draft.raw["mode"] = over.value["mode"]
    elif "mode" in base.raw:
        draft.origins[("mode",)] = base.origin(("mode",))
    for section in MAPS:
        theirs, mine = base.raw.get(section, {}), over.value.get(section, {})
        draft.raw[section] = {**theirs, **mine}
        draft.origins |= {(section, *key): base.origin((section, *key)) for key in ((), *zip(theirs))}
        draft.origins |= {(section, key): (over, (section, key)) for key in mine}
    for section in ROWS:
        rows = _laid_rows(section, base, over)
        draft.raw[section] = [row.value for row in rows]
        draft.origins[(section,)] = base.origin((section,))
        for number, row in enumerate(rows):
            draft.origins |= {(section, number, *path): origin for path, origin in row.origins.items()}
    return draft


@dataclass
class _Row:
    """A row, and where it and each of its keys come from."""

    value: dict[str, Any]
    origins: dict[Path, Origin]

    def changed(self, change: "_Row") -> "_Row":
        document, start = change.origins[()]
        keys = {(key,): (document, (*start, key)) for key in change.value}
        return _Row({**self.value, **change.value}, self.origins | keys)


def _laid_rows(section: str, base: Draft, over: Document) -> list[_Row]:
    rows = [_Row(row, {(): base.origin((section, at))}) for at, row in enumerate(base.raw[section])]
    for path, origin in base.origins.items():
        if path[:1] == (section,) and len(path) > 1:
            rows[int(path[1])].origins[path[2:]] = origin
    names = {row.value["name"] for row in rows}
    changes: dict[str, list[_Row]] = defaultdict(list)
    new: list[_Row] = []
    for at, value in enumerate(over.value.get(section, [])):
        mine = _Row(value, {(): (over, (section, at))})
        (changes[value["name"]] if value["name"] in names else new).append(mine)
    # A row that is changed twice is there twice then, for lint to see.
    old = [
        row.changed(change)
        for row in rows
        for change in changes[row.value["name"]] or [_Row({}, row.origins)]
    ]
    # A new shape is tried before the packaged ones, which between them fit every count.
    return new + old if section == "shapes" else old + new
