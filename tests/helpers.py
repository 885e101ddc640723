"""Functions that tests of several packages use."""

import random
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import settings
from prometheus_client import CollectorRegistry

import certs.metrics
import placement.act.metrics
import webhook.metrics
from certs import development
from webhook.engine import Request
from webhook.rows.table import Table
from webhook.rules.load import load_texts
from webhook.rules.source import TableSource
from webhook.serving.tls import TlsFiles
from webhook.state import CurrentState


def request_for(
    obj: dict[str, Any],
    namespace: str = "default",
    uid: str = "705ab4f5-6393-11e8-b7cc-42010a800002",
    username: str = "ada",
) -> Request:
    """Returns the engine's request for the creation of an object."""
    return Request(obj, namespace=namespace, uid=uid, username=username)


def load_text(text: str | bytes, source: str) -> Table:
    """Returns the rule table that is loaded from one text."""
    return load_texts([(source, text)], source)


def metric_registries(folder: Path) -> tuple[CollectorRegistry, ...]:
    """Returns the registries of the programs that serve metrics. Writes certificates into the folder."""
    development.make(folder, ["localhost"], datetime.now(UTC))
    state = CurrentState(TableSource(), TlsFiles(folder / "tls.crt", folder / "tls.key"))
    programs = (webhook.metrics.Metrics(state), placement.act.metrics.Metrics(), certs.metrics.Metrics())
    return tuple(metrics.registry for metrics in programs)


def unfold(text: str) -> str:
    """Returns the text of a preview with its folded lines joined again."""
    return re.sub(r"\n( {11}| {7})(?=\S)", " ", text)


def random_bytes(size: int, seed: int = 17) -> bytes:
    """Returns random bytes, which are the same in every run."""
    return random.Random(seed).randbytes(size)  # noqa: S311 - no secret


def examples(count: int) -> settings:
    """Returns settings with this number of examples. In the soak, the profile sets the number."""
    return settings(max_examples=count) if settings.get_current_profile_name() == "fixed" else settings()


def kubectl_apply(stored: Any, file: Any) -> Any:
    """Returns the result of ``kubectl apply`` of a custom resource: maps are merged, lists are replaced."""
    if not isinstance(file, dict):
        return file
    result = dict(stored) if isinstance(stored, dict) else {}
    return result | {key: kubectl_apply(result.get(key), value) for key, value in file.items()}


class FixedTableSource(TableSource):
    """A source of a fixed table, which is not in a file."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    def table(self) -> Table:
        """Returns the fixed table."""
        return self._table
