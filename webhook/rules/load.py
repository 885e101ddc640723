"""Loads a table: reads and checks its files, merges them with the packaged table, and builds the rows.

An error lists all problems of the files at once, each with its file, line and path.
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

from common.tablefiles import MOST_BYTES, MOST_FILES, SUFFIXES, packaged_texts, read_texts
from webhook import initscript
from webhook.documents import Document, DocumentError, read_documents
from webhook.rows.placeholders import SCRIPTS, substitute
from webhook.rows.table import Rule, Table
from webhook.rows.workloads import Workload
from webhook.rules import messages
from webhook.rules.draft import Draft, concatenate_files, merge_file, unknown_row_problems, with_off_text
from webhook.rules.lint import problems_of
from webhook.rules.problems import Problem, TableError
from webhook.rules.schema import read, violations

NamedText = tuple[str, str | bytes]
"""The name of a file, for messages, and the content of the file."""

DEFAULT = "default"
PLACEMENT = "packaged/placement.yaml"
PLACEMENT_SOURCE = "packaged placement"


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
    """Returns the draft of an installation's table; raises the same errors as `load_installed`.

    Args:
        path: A file, as in the chart's value ``table``, which needs no rows of whole-job admission; or a
            directory with the files of an installation's ConfigMap. None means the packaged table.
        placement: The chart's value ``placement``. It has no effect if ``path`` is a directory.
    """
    base = packaged_draft(placement=has_placement(path, placement=placement))
    return draft_of(read_texts(path), str(path), base) if path else base


def has_placement(path: FilePath | None, *, placement: bool) -> bool:
    """Returns whether the base of a table has the rows of whole-job admission; false for a directory."""
    return placement and not (path and path.is_dir())


def packaged_draft(*, placement: bool) -> Draft:
    """Returns the draft of the packaged table, with or without the rows of whole-job admission."""
    return placement_draft() if placement else default_draft()


def load_texts(texts: Sequence[NamedText], source: str) -> Table:
    """Returns the table that results from merging the texts.

    Raises:
        TableError: The table has problems, all of which are in the error.
    """
    return build(draft_of(texts, source))


@cache
def default_draft(profile: str = DEFAULT) -> Draft:
    """Returns the draft of a packaged table; it is cached, so callers must not change it."""
    texts = packaged_texts(profile).items()
    return concatenate_files([document_of(text, f"packaged {name}") for name, text in texts])


@cache
def placement_draft() -> Draft:
    """Returns the draft of the packaged table with whole-job admission; callers must not change it."""
    rows = files("webhook.rules").joinpath(PLACEMENT).read_bytes()
    return draft_of([(PLACEMENT_SOURCE, rows)], PLACEMENT_SOURCE)


def draft_of(texts: Sequence[NamedText], source: str, base: Draft | None = None) -> Draft:
    """Returns the draft of a table's texts, merged into the table that ``extends`` names. Checks the schema.

    Args:
        texts: Each text is checked alone. The texts are then merged in order into the base, so that the last
            text has precedence. If the first text lacks ``extends``, it replaces the base.
        source: The name of the folder or file of the texts, for a message.
        base: The table for `extends: default`. None stands for the packaged table.

    Raises:
        TableError: A text cannot be read, violates the schema, changes an unknown row, or follows another
            text and lacks `extends: default`. Or the texts are missing, too many or too long. `build`
            finds the problems of the merged rows.
    """
    if reason := _explain_unreadable(texts):
        raise TableError([Problem(source, 1, "", reason)])
    documents, problems = list[Document](), list[Problem]()
    for name, text in texts:
        try:
            document = document_of(text, name)
        except TableError as error:
            problems += error.problems
        else:
            documents.append(document)
            problems += _problems(Draft(document.value, (document,)))
    problems = problems or [
        Problem(document.source, document.line, "", messages.EXTENDS_MISSING)
        for document in documents[1:]
        if document.value.get("extends") != DEFAULT
    ]
    if problems:
        raise TableError(problems)
    profile = documents[0].value.get("extends")
    if profile is None:
        draft, documents = concatenate_files(documents[:1]), documents[1:]
    else:
        draft = base if base and profile == DEFAULT else default_draft(profile)
    for document in documents:
        problems += unknown_row_problems(draft, document)
        draft = merge_file(draft, document)
    if problems:
        raise TableError(problems)
    return draft


def _explain_unreadable(texts: Sequence[NamedText]) -> str | None:
    if not texts:
        return messages.no_files(" or ".join(SUFFIXES))
    if sum(len(text) for _, text in texts) > MOST_BYTES:
        return messages.too_long(MOST_BYTES)
    return messages.too_many_files(len(texts), MOST_FILES) if len(texts) > MOST_FILES else None


def build(draft: Draft) -> Table:
    """Checks the merged rows of a draft, and returns the table of these rows.

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
    """Returns a hash of everything that a table can add to a job: its rows and the init script."""
    content = json.dumps([with_off_text(raw), initscript.text()], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:12]


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
        raise TableError([Problem(source, 1, "", messages.not_one_document(len(documents)))])
    return documents[0]


def _problems(draft: Draft) -> set[Problem]:
    return {draft.problem(path, message) for path, message in violations(draft.raw)}


def _with_values(table: Table) -> Table:
    """Returns the table with its values and the init script in place of their placeholders."""
    # The placeholder of an empty value remains, so a rule that uses the value is skipped with a reason.
    texts = {f"value.{name}": text for name, text in table.values.items() if text}
    texts |= dict.fromkeys(SCRIPTS, initscript.text())

    def fill_rule(rule: Rule) -> Rule:
        parts = {key: substitute(getattr(rule, key), texts) for key in ("add", "warn", "deny", "unplaced")}
        mount = rule.match.mount_free
        if mount:
            path, name = (substitute(text, texts) for text in (mount.mount_path, mount.name))
            mount = replace(mount, mount_path=path, name=name)
        template = rule.match.template
        match = replace(rule.match, mount_free=mount, template=template and template.fill(texts))
        return replace(rule, match=match, **parts)

    def fill_workload(workload: Workload) -> Workload:
        rows = workload.fields.items()
        fields = {name: replace(row, default=substitute(row.default, texts)) for name, row in rows}
        return replace(workload, fields=fields)

    workloads = tuple(map(fill_workload, table.workloads))
    return replace(table, workloads=workloads, rules=tuple(map(fill_rule, table.rules)))
