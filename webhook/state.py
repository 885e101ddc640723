"""The current state of a server: the rule table and the certificate in use, and problems of their files."""

from collections.abc import Callable
from dataclasses import dataclass

from webhook.rows.table import Table
from webhook.rules.source import TableSource, TableTexts, table_of
from webhook.serving.tls import TlsFiles


@dataclass(frozen=True)
class CurrentState:
    """The state that reviews, ``/readyz`` and the metrics of one process share.

    Attributes:
        tables: The rule table's files.
        tls: The certificate's files.
    """

    tables: TableSource
    tls: TlsFiles

    @property
    def table(self) -> Table:
        """The rule table in use."""
        return self.tables.table()

    def problems(self) -> dict[str, str]:
        """Returns why the files of ``table`` and ``certificate`` cannot be used; empty if they are in use."""
        return {"table": self.tables.watched.problem, "certificate": self.tls.watched.problem}

    def refresh(self, load: Callable[[TableTexts], Table] = table_of) -> None:
        """Loads changed files; for the table see `TableSource.refresh`."""
        self.tls.watched.refresh()
        self.tables.refresh(load)
