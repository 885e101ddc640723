"""Merges the lists inside a row of a family: a row of `units` or `shapes` changes the one with its key."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

KEY_OF_LIST: Final = {"units": "label", "shapes": "name"}
"""The lists inside a family, each with the key that identifies its rows."""


def with_keys(
    lower: Iterable[dict[str, Any]], upper: Iterable[Mapping[str, Any]], key: str
) -> Sequence[dict[str, Any]]:
    """Returns the lower rows. A row whose key is empty gets that of the next upper row that is new.

    The unit of a packaged family that is off has an empty label: the user's row sets it.
    """
    rows = list(lower)
    existing = {row[key] for row in rows}
    new = (row[key] for row in upper if row[key] not in existing)
    return [row if row[key] else {**row, key: next(new, "")} for row in rows]


def merged_row(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """Returns a lower row with the keys of an upper one, and the lists inside merged row by row."""
    lists = {}
    for name, key in KEY_OF_LIST.items():
        if name in upper:
            rows = {row[key]: row for row in with_keys(lower.get(name, ()), upper[name], key)}
            rows |= {row[key]: rows.get(row[key], {}) | row for row in upper[name]}
            lists[name] = [*rows.values()]
    return lower | upper | lists
