"""The table in use: read again when its file changes, and kept when the new one is broken."""

import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from webhook.engine.table import Table
from webhook.rules.load import load_default, load_file
from webhook.rules.problems import TableError

log = logging.getLogger("webhook.rules")


@dataclass(frozen=True)
class TableStatus:
    """What readiness and metrics need to know of the table.

    Attributes:
        revision: of the table in use.
        reloads: how often another table was taken up since the start.
        failures: how many changed files could not be used.
        problem: why the file, as it is now, cannot be used; empty when it is in use.
    """

    revision: str
    reloads: int
    failures: int
    problem: str


class TableSource:
    """The rule table of a file, or the packaged one.

    A changed file is noticed when the table is next asked for, which reviews and probes do. Its methods may
    be called from any thread.
    """

    def __init__(self, path: Path | None = None, table: Table | None = None) -> None:
        """Loads the table for the first time.

        Args:
            path: of the file; a mounted ConfigMap is swapped by a link, which counts as a change.
            table: stands for a file where there is none; the packaged table if not given.

        Raises:
            TableError: if the table is wrong; there is no last good one to keep.
            OSError: if the file cannot be read.
        """
        self._path = path
        self._lock = threading.Lock()
        self._reloads = self._failures = 0
        self._problem = ""
        self._seen = self._signature()
        self._table = load_file(path) if path else table or load_default()

    def table(self) -> Table:
        """The newest table that could be used."""
        if self._signature() != self._seen and self._lock.acquire(blocking=False):
            # One thread reads the file; the others need not wait, they have the table so far.
            try:
                self._reload()
            finally:
                self._lock.release()
        return self._table

    def status(self) -> TableStatus:
        """What is in use, after a look at the file."""
        return TableStatus(self.table().revision, self._reloads, self._failures, self._problem)

    def _signature(self) -> tuple[int, ...]:
        if self._path is None:
            return ()
        try:
            found = os.stat(self._path)  # noqa: PTH116 - asked for every review, and half the cost of Path.stat
        except OSError as error:
            return (error.errno or -1,)
        return (found.st_ino, found.st_size, found.st_mtime_ns)

    def _reload(self) -> None:
        # Taken before reading: a file that changes meanwhile differs from it, and is read again.
        self._seen = self._signature()
        try:
            table = load_file(self._path) if self._path else self._table
        except (TableError, OSError) as error:
            self._failures += 1
            self._problem = str(error)
            fields = {"table": self._table.revision, "problem": self._problem}
            # No traceback: the problem is in the file, and says where.
            log.error(  # noqa: TRY400
                "keeping rule table %(table)s: %(problem)s", fields, extra=fields
            )
        else:
            self._reloads += 1
            self._problem = ""
            self._table = table
            log.warning("took up rule table %s", table.revision, extra={"table": table.revision})
