"""The current state of a server: the rule table and the certificate in use, and problems of their files."""

from dataclasses import dataclass
from datetime import datetime

from webhook.rows.table import Table
from webhook.rules.source import TableSource
from webhook.serving.tls import TlsFiles
from webhook.work import Work


@dataclass(frozen=True)
class CurrentState:
    """What reviews, ``/readyz`` and the metrics of one process share.

    Attributes:
        tables: the rule table's file.
        tls: the certificate's files; None where somebody else does TLS.
    """

    tables: TableSource
    tls: TlsFiles | None = None

    @property
    def table(self) -> Table:
        """The rule table in use."""
        return self.tables.table()

    @property
    def certificate_ends(self) -> datetime | None:
        """When the certificate in use ends, UTC; None without TLS."""
        return self.tls.expires if self.tls else None

    def problems(self) -> dict[str, str]:
        """Why the files of ``table`` and ``certificate`` cannot be used now; empty when in use."""
        found = {"table": self.tables.watched.problem}
        return found | ({"certificate": self.tls.watched.problem} if self.tls else {})

    def refresh(self, work: Work) -> None:
        """Reads changed files.

        Args:
            work: where a rule table is checked.

        Raises:
            BusyError: as ``work`` does.
        """
        if self.tls:
            self.tls.watched.refresh()
        self.tables.refresh(work)
