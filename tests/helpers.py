"""What tests of several packages share: requests, and how many examples of a property are enough."""

import random
import re
from typing import Any

from hypothesis import settings

from webhook.engine import Request
from webhook.rows.table import Table
from webhook.rules.load import load_texts
from webhook.rules.source import TableSource


def requested(
    obj: dict[str, Any],
    namespace: str = "default",
    uid: str = "705ab4f5-6393-11e8-b7cc-42010a800002",
    username: str = "ada",
) -> Request:
    """Returns the creation of an object, as an endpoint hands it to the engine."""
    return Request(obj, namespace=namespace, uid=uid, username=username)


def load_text(text: str | bytes, source: str) -> Table:
    """Returns the table of one text."""
    return load_texts([(source, text)], source)


def unfolded(text: str) -> str:
    """Returns what a preview says of warnings, Pods, notes and errors, its folded lines whole again."""
    return re.sub(r"\n( {11}| {7})(?=\S)", " ", text)


def noise(size: int, seed: int = 17) -> bytes:
    """Bytes that mean nothing, the same in every run."""
    return random.Random(seed).randbytes(size)  # noqa: S311 - no secret


def examples(count: int) -> settings:
    """Tries a property with this many examples; the soak tries as many as its profile says."""
    return settings(max_examples=count) if settings.get_current_profile_name() == "fixed" else settings()


def applied(stored: Any, file: Any) -> Any:
    """Returns kubectl's merge of a custom resource: a JSON merge patch; a list is one value."""
    if not isinstance(file, dict):
        return file
    result = dict(stored) if isinstance(stored, dict) else {}
    return result | {key: applied(result.get(key), value) for key, value in file.items()}


class TableOf(TableSource):
    """A source of one table, which no file has."""

    def __init__(self, table: Table) -> None:
        super().__init__()
        self._table = table

    def table(self) -> Table:
        """Returns that table."""
        return self._table
