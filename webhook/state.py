"""Provides the current state of a server: the rule table, the certificate, and problems of their files."""

from collections.abc import Callable
from dataclasses import dataclass

from webhook.rows.table import Table
from webhook.rules.source import TableSource, TableTexts
from webhook.serving.tls import TlsFiles


@dataclass(frozen=True)
class CurrentState:
    """The state that reviews, ``/readyz`` and the metrics of one process share."""

    tables: TableSource  # the source of the rule table
    tls: TlsFiles  # the files of the certificate

    @property
    def table(self) -> Table:
        """Returns the rule table in use."""
        return self.tables.table()

    def problems(self) -> dict[str, str]:
        """Returns why the files of ``table`` and ``certificate`` cannot be used; empty texts if they can."""
        return {"table": self.tables.watched.problem, "certificate": self.tls.watched.problem}

    def refresh(self, load: Callable[[TableTexts], Table]) -> None:
        """Loads changed files (see `TableSource.refresh`)."""
        self.tls.watched.refresh()
        self.tables.refresh(load)
