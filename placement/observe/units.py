"""Which nodes make units: the shapes of the rule table, whose files the webhook reads, too."""

import logging
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from common.tablefiles import merged, read_texts
from placement.observe.model import UNITS, Units, units_of

_log = logging.getLogger("placement")


class Followed:
    """The units of a table, read again when its files change.

    A unit that was known stays known, for pods stand in it: the kill switch may take its row away.
    Without a table that can be read there are those of the package.

    Args:
        path: Of a file, or of a directory such as a mounted ConfigMap; None for the packaged table alone.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._units = UNITS
        self._said = ""

    def __call__(self) -> Units:
        """Those of now, and those of before."""
        said = ""
        try:
            self._units |= _units(_texts(self._path))
        except (OSError, ValueError) as error:
            said = str(error)
        if said and said != self._said:
            _log.error("the units of the table stay as they were: %s", said)
        self._said = said
        return self._units


def _texts(path: Path | None) -> tuple[bytes, ...]:
    """Of the packaged table, and of the files that are laid over it."""
    packaged = files("webhook.rules").joinpath("default.yaml")
    return packaged.read_bytes(), *(text for _, text in (read_texts(path) if path else ()))


@lru_cache(maxsize=2)
def _units(texts: tuple[bytes, ...]) -> Units:
    """Those of all rows."""
    return units_of(merged(texts, "shapes")["shapes"].values())
