"""The nodes that make units: the families of the rule table, whose files the webhook reads, too."""

import logging
from pathlib import Path

from common.tablefiles import merge_texts, packaged_texts, read_texts, table_files
from common.watched import UnusableError, Watched
from placement import messages
from placement.observe.model import UNITS, Units, units_of


def followed(path: Path | None) -> Watched[Units]:
    """Returns the units of a file or directory, merged with the packaged table; None: only of that table.

    Known units stay known, because pods may be on them: the kill switch may remove their rows.
    """
    known = UNITS

    def load() -> Units:
        nonlocal known
        texts = (*packaged_texts().values(), *(text for _, text in (read_texts(path) if path else ())))
        try:
            # Not `|=`: what is there stays where this fails.
            rows = merge_texts(texts, "families", "guarantees")
            known = known | units_of(rows["families"].values(), rows["guarantees"].values())
        except ValueError as error:
            raise UnusableError(str(error)) from error
        return known

    log = logging.getLogger("placement")
    return Watched(messages.UNITS_OF_TABLE, lambda: table_files(path) if path else (), load, log, first=UNITS)
