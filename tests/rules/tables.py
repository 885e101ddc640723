"""Helpers that extend the packaged rule table by short texts, and evaluate tables for objects."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from contract import keys
from tests.docs.blocks import REPOSITORY
from tests.helpers import load_text, request_for
from webhook.documents import read_documents
from webhook.engine import Outcome, evaluate
from webhook.objects.record import ANNOTATIONS
from webhook.objects.tree import drop
from webhook.preview.run import check_patch
from webhook.rows import messages as row_messages
from webhook.rows.table import Table
from webhook.rules.load import load_texts
from webhook.rules.problems import TableError
from webhook.rules.schema import published_schema, violations

HEAD = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\n"
"""The first two lines of each table."""

EXTENDS = HEAD + "extends: default\n"
"""The first three lines of a table that extends the packaged table. The text of a test begins on line 4."""

STANDALONE = (
    HEAD
    + """
candidates: {instanceTypeLabels: [example.com/type]}
workloads:
  - name: gang
    kinds: [example.com/v1/Gang]
    groups: [{role: worker, template: /spec/pods, replicas: /spec/size, takesNodes: true}]
families:
  - name: chips
    instanceTypes: [big]
    wholeNode: {example.com/chip: 0}
    shapes: [{name: any, workers: multiple of 1, nodeConfig: 1}]
rules:
  - {name: label, reason: A label., match: {role: worker}, add: {metadata: {labels: {size: $(job.workers)}}}}
"""
)
"""A table that does not extend the packaged table, and that has only the required sections."""

SOURCE = "mine.yaml"


@cache
def extend_table(text: str) -> Table:
    """Returns the packaged table, extended by a text."""
    return load_text(EXTENDS + text, SOURCE)


@cache
def table_with_component(name: str, text: str = "") -> Table:
    """Returns the packaged table, extended by a file of the chart, and then by a text."""
    (rows,) = (REPOSITORY / "manifests" / "chart" / "rules").glob(f"[0-9]*-{name}.yaml")
    return load_texts([(rows.name, rows.read_bytes()), (SOURCE, EXTENDS + text)], name)


def outcome(table: Table, obj: dict[str, Any], **request: str) -> Outcome:
    """Returns the outcome of a table for an object. Checks that the patch gives the mutated object."""
    result = evaluate(table, request_for(obj, **request))
    check_patch(obj, result)
    return result


def mutate(table: Table, obj: dict[str, Any], **request: str) -> Any:
    """Returns an object as a table mutates it. Fails if the table denies the object."""
    result = outcome(table, obj, **request)
    assert not result.denials
    return result.after


def remove_records(obj: Any) -> Any:
    """Returns an MPIJob without the record annotations of its pod templates."""
    for role in ("Launcher", "Worker"):
        template = ("spec", "mpiReplicaSpecs", role, "template")
        obj = drop(obj, (*template, *ANNOTATIONS, keys.ADDED))
    return obj


def mount_config_map(folder: Path, version: str, **files: str) -> Path:
    """Writes a version of a ConfigMap as the kubelet does, with symbolic links. Returns the folder."""
    (folder / version).mkdir()
    for name, text in files.items():
        (folder / version / f"{name}.yaml").write_text(EXTENDS + text)
    (folder / "..data_tmp").symlink_to(version)
    (folder / "..data_tmp").rename(folder / "..data")
    for name in files:
        if not (link := folder / f"{name}.yaml").is_symlink():
            link.symlink_to(f"..data/{name}.yaml")
    for link in folder.glob("*.yaml"):
        if link.stem not in files:
            link.unlink()
    return folder


def parse_yaml(text: str) -> Any:
    """Returns the value of one YAML document."""
    (document,) = read_documents(text)
    return document.value


AWS_DOCUMENT = HEAD + "extends: aws-document\nvalues: {initImage: 'init:1'}\n"
"""A table that has only the rules of the AWS document."""

RULE = "rules:\n  - name: x\n    reason: r\n    match: {role: worker}\n"
"""Lines 4 to 7 of a table that begins with EXTENDS. The text behind these lines begins on line 8."""

Expected = list[tuple[int, str, str]]
"""The line, the path and the beginning of the message of each problem."""


def problems(text: str) -> list[tuple[str, int, str, str]]:
    """Returns the file, line, path and message of each problem of a table. Fails if the table loads."""
    with pytest.raises(TableError) as refused:
        load_text(text, SOURCE)
    return [
        (problem.source, problem.line, problem.path, problem.message) for problem in refused.value.problems
    ]


def assert_problems(text: str, expected: Expected) -> None:
    """Asserts that a table has exactly these problems, and that the published schema agrees."""
    messages = problems(text)
    assert_schema_agrees(parse_yaml(text))
    assert [row[:3] for row in messages] == [(SOURCE, line, path) for line, path, _ in expected]
    for row, (_, _, message) in zip(messages, expected, strict=True):
        assert row[3].startswith(message)


TYPE_CHECKER = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
"""Refuses 4.0 as an integer, unlike JSON Schema. The reader of documents returns 4 for 4.0."""
PUBLISHED_VALIDATOR = extend(Draft202012Validator, type_checker=TYPE_CHECKER)(published_schema())
NOT_IN_JSON_SCHEMA = (
    "the second number must be",
    "selects nothing",
    "selects no list element",
    "cannot be read",
    "cannot contain the placeholder of another value",
    row_messages.NO_SINGLE_DEVICE,
    "it must be $(job.name)",
)
"""Parts of the messages about violations that JSON Schema cannot express."""


def assert_schema_agrees(raw: Any) -> None:
    """Asserts that the published schema and loading agree, except about violations that it cannot express."""
    messages = [message for _, message in violations(raw)]
    expressible = [message for message in messages if not any(part in message for part in NOT_IN_JSON_SCHEMA)]
    if PUBLISHED_VALIDATOR.is_valid(raw):
        assert expressible == []
    else:
        assert messages != []
