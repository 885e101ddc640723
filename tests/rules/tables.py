"""Small tables laid over the packaged one, and a look at what comes of them."""

from typing import Any

import pytest

from tests.helpers import requested
from webhook.documents import read_documents
from webhook.engine import Outcome, evaluate, keys
from webhook.engine.record import ANNOTATIONS
from webhook.engine.table import Table
from webhook.engine.tree import drop
from webhook.preview.run import verify
from webhook.rules.load import load_text
from webhook.rules.problems import TableError

HEAD = "apiVersion: ultraserver-webhook.io/v1alpha1\nkind: RuleTable\n"
"""Two lines."""

EXTENDS = HEAD + "extends: default\n"
"""Three lines, so that what a test writes starts on the fourth."""

SOURCE = "mine.yaml"


def extended(text: str) -> Table:
    """The packaged table with a text laid over it."""
    return load_text(EXTENDS + text, SOURCE)


def outcome(table: Table, obj: dict[str, Any], **request: str) -> Outcome:
    """What a table does to an object; its patch has been applied by jsonpatch and compared."""
    found = evaluate(table, requested(obj, **request))
    verify(obj, found)
    return found


def after(table: Table, obj: dict[str, Any], **request: str) -> Any:
    """The object as it would be stored; a test that uses it expects no denial."""
    found = outcome(table, obj, **request)
    assert not found.denials
    return found.after


def unrecorded(obj: Any) -> Any:
    """An MPIJob without the records of what was added to its templates."""
    for role in ("Launcher", "Worker"):
        template = ("spec", "mpiReplicaSpecs", role, "template")
        obj = drop(obj, (*template, *ANNOTATIONS, keys.ADDED))
    return obj


def parsed(text: str) -> Any:
    """The value of one YAML document."""
    (document,) = read_documents(text)
    return document.value


PACKAGED = "packaged default"

RULE = "rules:\n  - name: x\n    reason: r\n    match: {role: worker}\n"
"""Lines 4 to 7 of a table that extends; what is behind it starts on line 8."""

Expected = list[tuple[int, str, str]]
"""Line, JSON pointer and the beginning of the message of each problem."""


def problems(text: str) -> list[tuple[str, int, str, str]]:
    """File, line, pointer and message of everything that is wrong with a table."""
    with pytest.raises(TableError) as refused:
        load_text(text, SOURCE)
    return [(found.source, found.line, found.path, found.message) for found in refused.value.problems]


def same_problems(text: str, expected: Expected) -> None:
    """Asserts that a table has exactly these problems, all in its own file."""
    found = problems(text)
    assert [row[:3] for row in found] == [(SOURCE, line, path) for line, path, _ in expected]
    for row, (_, _, message) in zip(found, expected, strict=True):
        assert row[3].startswith(message)
