"""The current state of a server: the rule table and the certificate in use, and problems of their files."""

from collections.abc import Callable
from dataclasses import dataclass

from webhook.rows.table import Table
from webhook.rules.source import TableSource, Written, table_of
from webhook.serving.tls import TlsFiles


@dataclass(frozen=True)
class CurrentState:
    """What reviews, ``/readyz`` and the metrics of one process share.

    Attributes:
        tables: the rule table's file.
        tls: the certificate's files.
    """

    tables: TableSource
    tls: TlsFiles

    @property
    def table(self) -> Table:
        """The rule table in use."""
        return self.tables.table()

    def problems(self) -> dict[str, str]:
        """Why the files of ``table`` and ``certificate`` cannot be used now; empty when in use."""
        return {"table": self.tables.watched.problem, "certificate": self.tls.watched.problem}

    def refresh(self, load: Callable[[Written], Table] = table_of) -> None:
        """Takes changed files into use; a table as `TableSource.refresh` does."""
        self.tls.watched.refresh()
        self.tables.refresh(load)
