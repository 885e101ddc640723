"""The table in use: it is read again when its files change, and kept when the new one is invalid."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from common.tablefiles import read_texts, table_files
from common.watched import UnusableError, Watched
from webhook.rows.table import Table
from webhook.rules.load import Text, build, draft_of, has_placement, load_default, packaged_draft
from webhook.rules.problems import TableError
from webhook.work import Work

log = logging.getLogger("webhook.rules")


@dataclass(frozen=True, slots=True)
class Written:
    """A table as written: every process builds the same table from the same texts.

    Attributes:
        path: The file or directory, for messages; None: the packaged table.
        placement: Whether the rows of whole-job admission are below the texts.
        texts: The texts of the files.
    """

    path: Path | None
    placement: bool
    texts: tuple[Text, ...] = ()


@lru_cache(maxsize=2)  # the one in use, and its successor
def table_of(written: Written) -> Table:
    """Returns the table of these texts.

    Raises:
        TableError: The table is invalid.
    """
    if written.path is None:
        return load_default(placement=written.placement)
    return build(draft_of(written.texts, str(written.path), packaged_draft(placement=written.placement)))


def problem_of(_: Table, written: Written) -> str:
    """Returns why a table cannot be used, or an empty text; long work of `TableSource`."""
    try:
        table_of(written)
    except TableError as error:
        return str(error)
    return ""


class TableSource:
    """The rule table of a file or a directory, or the packaged one.

    `refresh`, which a thread calls periodically, reads changed files; reviews never wait for it.

    Attributes:
        work: Does long work with the table; in this process, unless a server sets one that does not wait.
    """

    work: Work

    def __init__(self, path: Path | None = None, *, placement: bool = False) -> None:
        """Loads the table for the first time.

        Args:
            path: The file, or the directory of its files, such as a mounted ConfigMap.
            placement: Whether the rows of whole-job admission are below a file, or the packaged table.

        Raises:
            TableError: The table is invalid, and there is no earlier one.
            OSError: A file cannot be read.
        """
        self._path, self._placement = path, has_placement(path, placement=placement)
        self.work = lambda _, function, *arguments: function(self.table(), *arguments)
        what = f"rule table {path or 'of the package'}"

        # `Watched` reads after its first look at the files, so that later changes differ from that look.
        self.watched = Watched(
            what, lambda: table_files(path) if path else (), lambda: self._read(table_of), log
        )

    def table(self) -> Table:
        """The newest valid table."""
        return self.watched.value[1]

    def written(self) -> Written:
        """The newest valid table as written."""
        return self.watched.value[0]

    def refresh(self, load: Callable[[Written], Table] = table_of) -> None:
        """Loads changed files.

        Args:
            load: Builds and checks the table. Errors other than `UnusableError` go to the caller, and the
                files are read again the next time.
        """
        self.watched.refresh(lambda: self._changed(load))

    def _changed(self, load: Callable[[Written], Table]) -> tuple[Written, Table]:
        try:
            return self._read(load)
        except TableError as error:
            raise UnusableError(str(error)) from error

    def _read(self, load: Callable[[Written], Table]) -> tuple[Written, Table]:
        texts = tuple(read_texts(self._path)) if self._path else ()
        written = Written(self._path, self._placement, texts)
        return written, load(written)
