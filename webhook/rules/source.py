"""Provides the rule table: reads changed files again, and keeps the old table if the new one is invalid."""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from common.tablefiles import read_texts, table_files
from common.watched import Watched
from webhook.rows.table import Table
from webhook.rules.load import NamedText, build, draft_of, has_placement, load_default, packaged_draft
from webhook.rules.problems import TableError
from webhook.work import Work

log = logging.getLogger("webhook.rules")


@dataclass(frozen=True, slots=True)
class TableTexts:
    """The texts of a table; every process builds the same table from them.

    Attributes:
        path: The file or directory that has the texts. None stands for the packaged table.
        placement: Whether the table that the texts extend has the rows of whole-job admission.
        files: The names and the texts of the files.
    """

    path: Path | None
    placement: bool
    files: tuple[NamedText, ...] = ()


@lru_cache(maxsize=2)  # the table in use, and the table that replaces it
def table_of(texts: TableTexts) -> Table:
    """Returns the table that these texts define.

    Raises:
        TableError: The table is invalid.
    """
    if texts.path is None:
        return load_default(placement=texts.placement)
    return build(draft_of(texts.files, str(texts.path), packaged_draft(placement=texts.placement)))


def explain_table_error(_: Table, texts: TableTexts) -> str:
    """Returns why the texts define no valid table; empty if they define one. `TableSource.work` calls it."""
    try:
        table_of(texts)
    except TableError as error:
        return str(error)
    return ""


class TableSource:
    """Provides the rule table of a file or a directory, or the packaged table.

    A server calls `refresh` periodically to read changed files. Reviews never wait for `refresh`.

    Attributes:
        work: Calls a function with the table. By default, the function runs in this process; a server sets a
            `Work` that uses another process, because the function may take long.
    """

    work: Work

    def __init__(self, path: Path | None = None, *, placement: bool = False) -> None:
        """Loads the table for the first time.

        Args:
            path: The file of the table, or the directory with the table's files, such as a mounted ConfigMap.
            placement: The chart's value ``placement``. It has no effect if ``path`` is a directory, which has
                its own rows of whole-job admission.

        Raises:
            TableError: The table is invalid.
            OSError: A file cannot be read.
        """
        self._path, self._placement = path, has_placement(path, placement=placement)
        self.work = lambda _, function, *arguments: function(self.table(), *arguments)
        name = f"rule table {path or 'of the package'}"

        # `Watched` lists the files before it reads them, so that it notices a change during the first read.
        self.watched = Watched(
            name, lambda: table_files(path) if path else (), lambda: self._read(table_of), log
        )

    def table(self) -> Table:
        """Returns the newest valid table."""
        return self.watched.value[1]

    def texts(self) -> TableTexts:
        """Returns the texts of the newest valid table."""
        return self.watched.value[0]

    def refresh(self, load: Callable[[TableTexts], Table]) -> None:
        """Loads the files again if they changed.

        Args:
            load: Builds and checks the table. If it raises `UnusableError` or `OSError`, the old table stays
                in use. `refresh` raises every other error, and the next call reads the files again.
        """
        self.watched.refresh(lambda: self._read(load))

    def _read(self, load: Callable[[TableTexts], Table]) -> tuple[TableTexts, Table]:
        files = tuple(read_texts(self._path)) if self._path else ()
        texts = TableTexts(self._path, self._placement, files)
        return texts, load(texts)
