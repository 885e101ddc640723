"""Small tables laid over the packaged one, and a look at what comes of them."""

from typing import Any

from tests.helpers import requested
from webhook.documents import read_documents
from webhook.engine import Outcome, evaluate, keys
from webhook.engine.record import ANNOTATIONS
from webhook.engine.table import Table
from webhook.engine.tree import drop
from webhook.preview.run import verify
from webhook.rules.load import load_text

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


def after(table: Table, obj: dict[str, Any], **request: str) -> Any:  # noqa: ANN401 - a JSON value
    """The object as it would be stored; a test that uses it expects no denial."""
    found = outcome(table, obj, **request)
    assert not found.denials
    return found.after


def unrecorded(obj: Any) -> Any:  # noqa: ANN401
    """An MPIJob without the records of what was added to its templates."""
    for role in ("Launcher", "Worker"):
        template = ("spec", "mpiReplicaSpecs", role, "template")
        obj = drop(obj, (*template, *ANNOTATIONS, keys.ADDED))
    return obj


def parsed(text: str) -> Any:  # noqa: ANN401
    """The value of one YAML document."""
    (document,) = read_documents(text)
    return document.value
