"""The table in use: read again when its files change, and kept when the new one is broken."""

import logging
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from common.tablefiles import table_files
from webhook.rows.table import Table
from webhook.rules.load import load_default, load_file
from webhook.rules.problems import TableError
from webhook.watched import UnusableError, Watched
from webhook.work import FailedError, Work, inline

RETRY_SECONDS: Final = 5.0
"""After which a table is looked at again that could not be checked, when there was no time, or no process."""

Loader = Callable[[Path | None], Table]

log = logging.getLogger("webhook.rules")


def load_served(path: Path | None) -> Table:
    """Returns the table that reviews are answered by; None: the packaged one. Errors as `load_file`."""
    return load_file(path) if path else load_default()


class TableSource:
    """The rule table of a file or a directory, or the packaged one.

    Changed files are read by `refresh`, which somebody calls now and then; reviews never wait for it.
    """

    def __init__(self, path: Path | None = None, load: Loader = load_served) -> None:
        """Loads the table for the first time.

        Args:
            path: of the file, or of the directory of its files, as of a mounted ConfigMap.
            load: the table of the path.

        Raises:
            TableError: if the table is wrong; there is no last good one to keep.
            OSError: if a file cannot be read.
        """
        self._path, self._load = path, load
        what = f"rule table {path or 'of the package'}"

        # `Watched` reads after its first look at the files: what changes in between differs from that look.
        self.watched = Watched(what, lambda: table_files(path) if path else (), partial(load, path), log)

    def table(self) -> Table:
        """The newest table that could be used."""
        return self.watched.value

    def refresh(self, work: Work = inline) -> None:
        """Takes changed files into use.

        Args:
            work: where the table is read and checked.

        Raises:
            BusyError: as ``work`` does; the files are read the next time, then.
        """
        self.watched.refresh(lambda: self._read(work))

    def _read(self, work: Work) -> Table:
        try:
            found: Table | str = work(0, read, self._load, self._path)
        except FailedError as error:
            raise UnusableError(
                f"{self._path} cannot be checked: {error}", time.time() + RETRY_SECONDS
            ) from error
        if isinstance(found, str):
            raise UnusableError(found)
        return found


def read(load: Loader, path: Path | None) -> Table | str:
    """The table of a path, or why there is none; for another process, as it raises nothing."""
    try:
        return load(path)
    except (TableError, OSError) as error:
        return str(error)
