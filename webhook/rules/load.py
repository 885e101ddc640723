"""Loads a table from files: reads and checks them, merges them with the packaged table, builds the rows.

All errors are reported at once, with file, line and path.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from common.tablefiles import MOST_BYTES, MOST_FILES, SUFFIXES, packaged, read_texts
from webhook import initscript
from webhook.documents import Document, DocumentError, read_documents
from webhook.rows.placeholders import SCRIPTS, quoting
from webhook.rows.table import Rule, Table
from webhook.rows.workloads import Workload
from webhook.rules.draft import Draft, laid_over, side_by_side, strays, with_off
from webhook.rules.lint import problems_of
from webhook.rules.problems import Problem, TableError
from webhook.rules.schema import read, violations

Text = tuple[str, str | bytes]
"""A file's name, for messages, and its content."""

DEFAULT = "default"
PLACEMENT = "packaged/placement.yaml"
PLACEMENT_SOURCE = "packaged placement"
ALONE = (
    "only the first file of a table may be without `extends: default`: this would drop rows of the others,"
    " such as whole-job admission (the chart's value placement)"
)


@cache
def load_default(*, placement: bool = False) -> Table:
    """Returns the packaged table, with or without the rows of whole-job admission."""
    return build(installed_draft(placement=placement))


def load_installed(path: FilePath | None = None, *, placement: bool = True) -> Table:
    """Returns the table of an installation, as `installed_draft` merges it.

    Raises:
        TableError: The table has problems, all of which are in the error.
        OSError: A file cannot be read.
    """
    return build(installed_draft(path, placement=placement)) if path else load_default(placement=placement)


def installed_draft(path: FilePath | None = None, *, placement: bool = True) -> Draft:
    """Returns the table of an installation as written; raises what `load_installed` does.

    Args:
        path: A file, as in the chart's value ``table``; or a directory with every file of an installation's
            ConfigMap, with or without the rows of whole-job admission. None: the default.
        placement: The chart's value ``placement``, for a file and the default.
    """
    below = packaged_draft(placement=has_placement(path, placement=placement))
    return draft_of(read_texts(path), str(path), below) if path else below


def has_placement(path: FilePath | None, *, placement: bool) -> bool:
    """Returns whether the rows of whole-job admission are below a path: a directory has its own, or none."""
    return placement and not (path and path.is_dir())


def packaged_draft(*, placement: bool) -> Draft:
    """Returns the packaged table as written, with or without the rows of whole-job admission."""
    return placement_draft() if placement else default_draft()


def load_texts(texts: Sequence[Text], where: str) -> Table:
    """Returns the table of merged texts.

    Raises:
        TableError: The table has problems, all of which are in the error.
    """
    return build(draft_of(texts, where))


@cache
def default_draft(profile: str = DEFAULT) -> Draft:
    """Returns a packaged table as written; it is read once, so callers must not change it."""
    return side_by_side([document_of(text, f"packaged {name}") for name, text in packaged(profile).items()])


@cache
def placement_draft() -> Draft:
    """Returns the packaged table with the rows of whole-job admission; callers must not change it."""
    rows = files("webhook.rules").joinpath(PLACEMENT).read_bytes()
    return draft_of([(PLACEMENT_SOURCE, rows)], PLACEMENT_SOURCE)


def draft_of(texts: Sequence[Text], where: str, below: Draft | None = None) -> Draft:
    """Returns a table as written, with ``extends`` resolved and the schema checked.

    Args:
        texts: Each is checked alone, then merged into the table below in order, so that the last one has
            precedence. The first may lack ``extends``: then it replaces the table below.
        where: The name of their folder or file, for a message.
        below: The table for `extends: default`; None: the packaged table.

    Raises:
        TableError: A text cannot be read or violates the schema. Other problems of the merged rows are found
            when the draft is built.
    """
    if reason := _unreadable(texts):
        raise TableError([Problem(where, 1, "", reason)])
    documents, problems = list[Document](), list[Problem]()
    for source, text in texts:
        try:
            document = document_of(text, source)
        except TableError as error:
            problems += error.problems
        else:
            documents.append(document)
            problems += _problems(Draft(document.value, (document,)))
    problems = problems or [
        Problem(document.source, document.line, "", ALONE)
        for document in documents[1:]
        if document.value.get("extends") != DEFAULT
    ]
    if problems:
        raise TableError(problems)
    profile = documents[0].value.get("extends")
    if profile is None:
        draft, documents = side_by_side(documents[:1]), documents[1:]
    else:
        draft = below if below and profile == DEFAULT else default_draft(profile)
    for document in documents:
        problems += strays(draft, document)
        draft = laid_over(draft, document)
    if problems:
        raise TableError(problems)
    return draft


def _unreadable(texts: Sequence[Text]) -> str | None:
    if not texts:
        return f"there is no rule table: no file whose name ends in {' or '.join(SUFFIXES)}"
    if sum(len(text) for _, text in texts) > MOST_BYTES:
        return f"a rule table has {MOST_BYTES} bytes at most, as a ConfigMap does; this is longer"
    if len(texts) > MOST_FILES:
        return f"a rule table has {MOST_FILES} files at most, and these are {len(texts)}"
    return None


def build(draft: Draft) -> Table:
    """Returns the table of a draft; only here all its rows are checked and created.

    Raises:
        TableError: The merged rows have problems, all of which are in the error.
    """
    try:
        rows = vars(read(draft.raw))
    except ValidationError:
        raise TableError(_problems(draft)) from None
    revision = _revision(draft.raw)
    table = Table(revision=revision, script=initscript.text(), origins=draft.origins(), **rows)
    problems = [draft.problem(path, message) for path, message in problems_of(table)]
    if problems:
        raise TableError(problems)
    return _with_values(table)


def _revision(raw: Mapping[str, Any]) -> str:
    """Returns a hash that changes with all that a table can add to a job, with the init script."""
    return hashlib.sha256(
        json.dumps([with_off(raw), initscript.text()], sort_keys=True).encode()
    ).hexdigest()[:12]


def document_of(text: str | bytes, source: str) -> Document:
    """Returns the document of a table's text.

    Raises:
        TableError: The text cannot be read, or is not one document.
    """
    try:
        documents = read_documents(text, source)
    except DocumentError as error:
        raise TableError([Problem(error.source, error.line, "", error.message)]) from error
    if len(documents) != 1:
        raise TableError([Problem(source, 1, "", f"a rule table is one document, found {len(documents)}")])
    return documents[0]


def _problems(draft: Draft) -> set[Problem]:
    return {draft.problem(path, message) for path, message in violations(draft.raw)}


def _with_values(table: Table) -> Table:
    """Returns the table with its own values filled in; a job's values stay open."""
    # An empty value is not set: a rule that uses it is skipped, with a reason.
    known = {f"value.{name}": text for name, text in table.values.items() if text}
    known |= dict.fromkeys(SCRIPTS, initscript.text())

    def filled(rule: Rule) -> Rule:
        quoted = {key: quoting(getattr(rule, key), known) for key in ("add", "warn", "deny", "unplaced")}
        free = rule.match.mount_free
        if free:
            path, name = (quoting(text, known) for text in (free.mount_path, free.name))
            free = replace(free, mount_path=path, name=name)
        template = rule.match.template
        match = replace(rule.match, mount_free=free, template=template and template.filled(known))
        return replace(rule, match=match, **quoted)

    def with_defaults(workload: Workload) -> Workload:
        defaults = {
            name: replace(row, default=quoting(row.default, known)) for name, row in workload.fields.items()
        }
        return replace(workload, fields=defaults)

    workloads = tuple(map(with_defaults, table.workloads))
    return replace(table, workloads=workloads, rules=tuple(map(filled, table.rules)))
