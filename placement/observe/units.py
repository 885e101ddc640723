"""Reads the units and guarantees of the rule table. The webhook reads the same files."""

import logging
from pathlib import Path

from common.tablefiles import merge_texts, packaged_texts, read_texts, table_files
from common.watched import UnusableError, Watched
from placement import messages
from placement.observe.model import UNITS, UnitSettings, units_of


def watch_units(path: Path | None) -> Watched[UnitSettings]:
    """Returns the watched units of the packaged table and, with a path, of the table at this path.

    If a family is removed, for example by the kill switch, its units remain until the program ends, because
    pods may be on them. A removed guarantee ends at once.
    """
    all_units = UNITS

    def load() -> UnitSettings:
        nonlocal all_units
        texts = (*packaged_texts().values(), *(text for _, text in (read_texts(path) if path else ())))
        try:
            rows = merge_texts(texts, "families", "guarantees")
            all_units |= units_of(rows["families"].values(), rows["guarantees"].values())
        except ValueError as error:
            raise UnusableError(str(error)) from error
        return all_units

    log = logging.getLogger("placement")
    return Watched(messages.UNITS_OF_TABLE, lambda: table_files(path) if path else (), load, log, first=UNITS)
