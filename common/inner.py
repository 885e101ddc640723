"""Rows within a row of a rule table: lists of a family, whose rows are laid over each other one by one."""

from typing import Any, Final

INNER: Final = {"units": "label", "shapes": "name"}
"""The lists, and the key by which a row of each is known."""


def laid_over(below: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row over another, key by key."""
    inner = {}
    for key, by in INNER.items():
        if key in row:
            rows = {each[by]: each for each in below.get(key, ())}
            rows |= {each[by]: rows.get(each[by], {}) | each for each in row[key]}
            inner[key] = [*rows.values()]
    return below | row | inner
