"""Small tables laid over the packaged one, and a look at what comes of them."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from contract import keys
from tests.docs.blocks import REPOSITORY
from tests.helpers import load_text, requested
from webhook.documents import read_documents
from webhook.engine import Outcome, evaluate
from webhook.objects.record import ANNOTATIONS
from webhook.objects.tree import drop
from webhook.preview.run import check_patch
from webhook.rows.table import Table
from webhook.rules.load import load_texts
from webhook.rules.problems import TableError
from webhook.rules.schema import published_schema, violations

HEAD = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\n"
"""Two lines."""

EXTENDS = HEAD + "extends: default\n"
"""Three lines, so that what a test writes starts on the fourth."""

WHOLE = (
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
"""A table that has nothing of the packaged one, nor the sections that a table may lack."""

SOURCE = "mine.yaml"


@cache
def extended(text: str) -> Table:
    """Returns the packaged table with a text laid over it."""
    return load_text(EXTENDS + text, SOURCE)


@cache
def with_component(name: str, text: str = "") -> Table:
    """Returns the same with the rows that a value of the chart brings below the text."""
    (rows,) = (REPOSITORY / "manifests" / "chart" / "rules").glob(f"[0-9]*-{name}.yaml")
    return load_texts([(rows.name, rows.read_bytes()), (SOURCE, EXTENDS + text)], name)


def outcome(table: Table, obj: dict[str, Any], **request: str) -> Outcome:
    """Returns what a table does to an object; its patch has been applied by jsonpatch and compared."""
    result = evaluate(table, requested(obj, **request))
    check_patch(obj, result)
    return result


def after(table: Table, obj: dict[str, Any], **request: str) -> Any:
    """Returns the object as it would be stored; a test that uses it expects no denial."""
    result = outcome(table, obj, **request)
    assert not result.denials
    return result.after


def unrecorded(obj: Any) -> Any:
    """Returns an MPIJob without the records of what was added to its templates."""
    for role in ("Launcher", "Worker"):
        template = ("spec", "mpiReplicaSpecs", role, "template")
        obj = drop(obj, (*template, *ANNOTATIONS, keys.ADDED))
    return obj


def mounted(folder: Path, version: str, **files: str) -> Path:
    """Returns a ConfigMap as the kubelet mounts and changes it: files behind links that are swapped."""
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


def parsed(text: str) -> Any:
    """Returns the value of one YAML document."""
    (document,) = read_documents(text)
    return document.value


DOCUMENT = HEAD + "extends: aws-document\nvalues: {initImage: 'init:1'}\n"
"""A table that has the rules of the UltraServer document and no others."""

PACKAGED = "packaged rules"

RULE = "rules:\n  - name: x\n    reason: r\n    match: {role: worker}\n"
"""Lines 4 to 7 of a table that extends; what is behind it starts on line 8."""

Expected = list[tuple[int, str, str]]
"""Line, JSON pointer and the beginning of the message of each problem."""


def problems(text: str) -> list[tuple[str, int, str, str]]:
    """Returns file, line, pointer and message of everything that is wrong with a table."""
    with pytest.raises(TableError) as refused:
        load_text(text, SOURCE)
    return [
        (problem.source, problem.line, problem.path, problem.message) for problem in refused.value.problems
    ]


def same_problems(text: str, expected: Expected) -> None:
    """Asserts that a table has exactly these problems, all in its own file."""
    messages = problems(text)
    agree(parsed(text))
    assert [row[:3] for row in messages] == [(SOURCE, line, path) for line, path, _ in expected]
    for row, (_, _, message) in zip(messages, expected, strict=True):
        assert row[3].startswith(message)


WHOLE_NUMBERS = Draft202012Validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
"""Documents have no 4.0: it is read as 4."""
PUBLISHED = extend(Draft202012Validator, type_checker=WHOLE_NUMBERS)(published_schema())
UNSAYABLE = (
    "the second number must be",
    "can never exist",
    "selects no list element",
    "cannot be read",
    "cannot contain the placeholder of another value",
    "one device is valid",
    "it must be $(job.name)",
)
"""From the messages about what a JSON Schema has no words for."""


def agree(raw: Any) -> None:
    """Asserts that the published schema takes what loading takes, and refuses what it refuses if it can."""
    messages = [message for _, message in violations(raw)]
    sayable = [message for message in messages if not any(part in message for part in UNSAYABLE)]
    if PUBLISHED.is_valid(raw):
        assert sayable == []
    else:
        assert messages != []
