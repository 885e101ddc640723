"""A dry run: the function the cluster calls, and its answer as people and tools want to read it."""

import difflib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import jsonpatch

from webhook.documents import Document, Json, dump_yaml, expand_lists
from webhook.engine import Outcome, Request, evaluate
from webhook.objects.tree import digest, get
from webhook.preview.report import document
from webhook.preview.why import as_why
from webhook.rows.table import Table

LINES = 20
"""A text with more lines than this is cut short in a diff."""

AFTER = "after ultraserver-webhook"

UID = "preview"
"""Stands for the review's uid, by which a job without a name is told from others."""


class PatchError(AssertionError):
    """The operations do not lead to the object they should: an internal error."""


@dataclass(frozen=True)
class Preview:
    """One document and what the webhook would do to it.

    Attributes:
        source: where it was read, ``file:line``.
        table: by which it was looked at.
        all_rules: whether rules for other objects are to be told as well.
    """

    source: str
    object: Json
    namespace: str
    outcome: Outcome
    table: Table
    all_rules: bool = False

    @property
    def title(self) -> str:
        """Kind, namespace and name."""
        name, beginning = (get(self.object, ("metadata", key)) for key in ("name", "generateName"))
        name = name or f"{beginning or ''}*"
        return f"{self.object.get('kind', 'Unknown')} {self.namespace}/{name}"

    @property
    def changed(self) -> bool:
        """Whether the webhook would change it."""
        return bool(self.outcome.operations)


def preview(
    table: Table,
    documents: Iterable[Document],
    namespace: str = "default",
    now: float = inf,
    *,
    all_rules: bool = False,
) -> list[Preview]:
    """What the webhook would do to each document, Lists opened.

    Every patch is applied by ``jsonpatch``, which knows nothing of the code that made it.

    Args:
        table: the rules.
        documents: as read from a file.
        namespace: for documents that name none.
        now: when the objects would be created, Unix time. Default: after the end of every policy.
        all_rules: whether rules for other objects are to be told as well.

    Raises:
        DocumentError: if a document is no Kubernetes object.
        PatchError: if a patch does not give what it should.
    """
    return [_one(table, document, namespace, now, all_rules) for document in expand_lists(documents)]


def _one(table: Table, document: Document, namespace: str, now: float, all_rules: bool) -> Preview:  # noqa: FBT001
    obj = document.value
    found = get(obj, ("metadata", "namespace"))
    there = found if isinstance(found, str) and found else namespace
    outcome = evaluate(table, Request(obj, there, UID, now=now, explain=True))
    verify(obj, outcome)
    if outcome.would:
        verify(obj, outcome.would)
    return Preview(f"{document.source}:{document.line}", obj, there, outcome, table, all_rules)


def verify(received: Json, outcome: Outcome) -> None:
    """Applies the operations and compares.

    Raises:
        PatchError: if they do not apply, or give something else.
    """
    try:
        applied = jsonpatch.apply_patch(received, list(outcome.operations))
    except jsonpatch.JsonPatchException as error:
        raise PatchError(f"the patch does not apply: {error}") from error
    if applied != outcome.after:
        raise PatchError("the patch gives another object than the engine")


def as_diff(previews: Iterable[Preview]) -> str:
    """A unified diff of the YAML of every document that would change; then one of what is in shadow."""
    return "".join(text for item in previews for text in _diffs(item))


def _diffs(item: Preview) -> Iterator[str]:
    after, title = item.outcome.after, f"{item.source} ({item.title})"
    yield unified(item.object, after, title, AFTER)
    if item.outcome.would:
        yield unified(
            after, item.outcome.would.after, f"{title} {AFTER}", "if what is in shadow were enforced"
        )


def unified(before: Json, after: Json, source: str, target: str) -> str:
    """A unified diff of two objects as YAML, long texts abridged; empty where they are the same."""
    old, new = (dump_yaml(abridged(obj)).splitlines(keepends=True) for obj in (before, after))
    return "".join(difflib.unified_diff(old, new, source, target))


def abridged(value: Json) -> Json:
    """A value with every text of many lines cut short; the digest tells two such texts apart.

    A script of 300 lines is no answer to "what would be changed"; ``-o yaml`` has all of it.
    """
    if isinstance(value, dict):
        return {key: abridged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [abridged(item) for item in value]
    if not isinstance(value, str) or value.count("\n") <= LINES:
        return value
    first, _, rest = value.partition("\n")
    return f"{first}\n... {rest.count(chr(10))} more lines ({digest(value)}), -o yaml shows them\n"


def as_yaml(previews: Iterable[Preview]) -> str:
    """Every document as it would be stored, in one stream."""
    return "---\n".join(dump_yaml(item.outcome.after) for item in previews)


def as_json(previews: Iterable[Preview]) -> str:
    """Everything about every document, as `report.schema` describes it."""
    return json.dumps(document(previews), indent=2, ensure_ascii=False) + "\n"


def as_old_json(previews: Iterable[Preview]) -> str:
    """The same as it was printed by 0.1.0; deprecated."""
    return json.dumps([explained(item) for item in previews], indent=2, ensure_ascii=False) + "\n"


def as_patch(previews: Iterable[Preview]) -> str:
    """The RFC 6902 patch of each document, one JSON list a line."""
    return "".join(json.dumps(list(item.outcome.operations), ensure_ascii=False) + "\n" for item in previews)


def explained(item: Preview) -> Mapping[str, Any]:
    """One preview as a value."""
    outcome = item.outcome
    return {
        "source": item.source,
        "object": item.title,
        "verdict": outcome.verdict,
        "reason": outcome.reason,
        "table": outcome.revision,
        "facts": dict(outcome.facts),
        "rules": [{"name": rule.name, "state": rule.state, "why": rule.why} for rule in outcome.rules],
        "warnings": list(outcome.warnings),
        "denials": list(outcome.denials),
        "patch": list(outcome.operations),
    }


FORMATS: Mapping[str, Callable[[Iterable[Preview]], str]] = {
    "diff": as_diff,
    "yaml": as_yaml,
    "json": as_json,
    "json-old": as_old_json,
    "why": as_why,
    "patch": as_patch,
}
"""What ``-o`` takes."""
