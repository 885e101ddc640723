"""Rows within a row of a rule table: lists of a family, whose rows are laid over each other one by one."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

INNER: Final = {"units": "label", "shapes": "name"}
"""The lists, and the key by which a row of each is known; empty: it is that of the row laid over it."""


def known_rows(
    below: Iterable[dict[str, Any]], over: Iterable[Mapping[str, Any]], by: str
) -> Sequence[dict[str, Any]]:
    """Returns the rows below; one whose key is empty has that of the next new row over it."""
    rows = list(below)
    known = {row[by] for row in rows}
    new = (row[by] for row in over if row[by] not in known)
    return [row if row[by] else {**row, by: next(new, "")} for row in rows]


def laid_over(below: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row over another, key by key."""
    inner = {}
    for key, by in INNER.items():
        if key in row:
            rows = {each[by]: each for each in known_rows(below.get(key, ()), row[key], by)}
            rows |= {each[by]: rows.get(each[by], {}) | each for each in row[key]}
            inner[key] = [*rows.values()]
    return below | row | inner
