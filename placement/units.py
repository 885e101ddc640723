"""The rule table's files, as far as the program needs them: which nodes make units."""

from __future__ import annotations

import logging
from importlib.resources import files
from typing import TYPE_CHECKING

import yaml

from placement.topology import UNITS, Units

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_log = logging.getLogger("placement")


class Followed:
    """The units of a table, read again when its files change.

    Args:
        path: Of a file, or of a directory such as a mounted ConfigMap; None for the packaged table alone.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no table.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._texts = _texts(path)
        self._units = _units(self._texts)

    def __call__(self) -> Units:
        """Those of now; of what the files were before, while they cannot be read."""
        try:
            texts = _texts(self._path)
            if texts != self._texts:
                self._texts = texts  # what is wrong is said once
                self._units = _units(texts)
        except (OSError, ValueError) as error:
            _log.error("the units of the table stay as they were: %s", error)
        return self._units


def _texts(path: Path | None) -> Mapping[str, bytes]:
    found = () if path is None else path.glob("[!.]*.y*ml") if path.is_dir() else (path,)
    return {str(file): file.read_bytes() for file in sorted(found)}


def _units(texts: Mapping[str, bytes]) -> Units:
    """Those of a table: its shapes, each row as it is when the files are laid over the packaged ones.

    Whether the files make a table is the webhook's to say: what it refuses, it admits no job by. What the
    packaged table says counts in any case.

    Args:
        texts: Its files in their order, by name.

    Raises:
        ValueError: One is no table.
    """
    rows: dict[str, dict[str, object]] = {}
    packaged = files("webhook.rules").joinpath("default.yaml").read_bytes()
    for name, text in {"the packaged table": packaged, **texts}.items():
        try:
            for row in (yaml.load(text, yaml.CSafeLoader) or {}).get("shapes") or ():
                rows[row["name"]] = rows.get(row["name"], {}) | row
        except (yaml.YAMLError, AttributeError, KeyError, TypeError) as error:
            raise ValueError(f"{name} is no rule table: {error!r}") from error
    said = ((row.get("topologyKey"), row.get("nodeConfig")) for row in rows.values())
    return UNITS | {(key, size) for key, size in said if isinstance(key, str) and isinstance(size, int)}
