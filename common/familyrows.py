"""Merges a family's row (the lower row) with the row of a later file (the upper row).

In their lists `units` and `shapes`, the rows with the same key are merged.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

KEY_OF_LIST: Final = {"units": "label", "shapes": "name"}
"""The lists in a row of a family, and for each list the key that identifies its rows."""


def with_keys(
    lower: Iterable[dict[str, Any]], upper: Iterable[Mapping[str, Any]], key: str
) -> Sequence[dict[str, Any]]:
    """Returns the lower rows. A row with an empty key gets the next key that only upper rows have.

    For example, the unit of a packaged family that is off has an empty label, which the user's row sets.
    """
    rows = list(lower)
    existing = {row[key] for row in rows}
    new_keys = (row[key] for row in upper if row[key] not in existing)
    return [row if row[key] else {**row, key: next(new_keys, "")} for row in rows]


def merge_rows(lower: dict[str, Any], upper: dict[str, Any]) -> dict[str, Any]:
    """Returns a lower row, overridden by an upper row; the lists in the rows are merged row by row."""
    lists = {}
    for name, key in KEY_OF_LIST.items():
        if name in upper:
            rows = {row[key]: row for row in with_keys(lower.get(name, ()), upper[name], key)}
            rows |= {row[key]: rows.get(row[key], {}) | row for row in upper[name]}
            lists[name] = [*rows.values()]
    return lower | upper | lists
