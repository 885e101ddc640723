"""Reads and checks cases, with their objects and snapshots."""

import json
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, AwareDatetime, Field, GetPydanticSchema, TypeAdapter, ValidationError
from pydantic_core import core_schema

from common.pointers import field_name
from common.texts import did_you_mean
from webhook.documents import Document, DocumentError, read_documents
from webhook.engine import Request
from webhook.engine.outcome import OutcomeKind, Response, RuleState
from webhook.objects.tree import Json, Path, get_map
from webhook.preview.run import UID, namespace_of
from webhook.preview.sentence import JobVerdict
from webhook.rows.written import Row
from webhook.rules.problems import Problem, TableError
from webhook.rules.schema import message_of
from webhook.ruletests import messages

SNAPSHOTS_SUFFIX: Final = ".snapshots.yaml"
"""The end of the name of a file with snapshots, which are the expected objects by the names of the cases."""


class CasesError(TableError):
    """The error for cases that are invalid. It has all problems of the cases."""


def _check_object(value: Json) -> Json:
    if not isinstance(value, dict | str) or not value:
        raise ValueError(messages.NO_OBJECT)
    return value


_Object = Annotated[Any, AfterValidator(_check_object)]


JOB_VERDICTS: Final = (JobVerdict.PLACED, JobVerdict.NOT_PLACED)
RESPONSES: Final = {"allowed": Response.ALLOWED, "warned": Response.WARNED, "denied": Response.DENIED}
"""The words for an outcome that a case can expect, in addition to `JOB_VERDICTS` and `OutcomeKind`."""

_Outcome = Annotated[
    str,
    GetPydanticSchema(
        lambda _, __: core_schema.literal_schema(
            [*map(str, JOB_VERDICTS), *RESPONSES, *map(str, OutcomeKind)]
        )
    ),
]


@dataclass(frozen=True)
class Expect(Row):
    """The expected outcome. An unset key accepts any value, but an unset outcome excludes `no-workload`."""

    outcome: _Outcome | None = None
    shadow: OutcomeKind | None = None
    rules: dict[str, RuleState] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    patch: list[dict[str, Any]] | None = None
    snapshot: Literal[True] | None = None


@dataclass(frozen=True)
class Settings(Row):
    """The namespace, operation and user in the review of an object."""

    namespace: str = ""
    operation: Literal["", "CREATE", "UPDATE"] = ""
    username: str = ""


@dataclass(frozen=True)
class CaseRow(Row):
    """A case in a file. ``object`` and ``old_object`` are each an object, or the path of an object's file."""

    name: Annotated[str, Field(min_length=1)]
    object: _Object
    expect: Expect
    old_object: _Object | None = None
    with_: Annotated[dict[str, Any], Field(alias="with")] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    now: AwareDatetime | None = None


_CASES: Final = TypeAdapter(list[CaseRow])


@dataclass(frozen=True)
class Case:
    """One object and its expected outcome.

    Attributes:
        source: The position of the case, ``file:line``.
        request: The request with the object.
        stored: The stored object that the request updates; None if the request creates the object.
        snapshot: The object that the webhook should return; None if the snapshot does not exist yet.
        snapshot_file: The file of the snapshot, relative to the folder of the cases.
    """

    name: str
    source: str
    expect: Expect
    request: Request
    stored: Json
    snapshot: Json
    snapshot_file: str


def cases_of(texts: Mapping[str, bytes], folder: str) -> Sequence[Case]:
    """Returns the cases of a folder.

    Args:
        texts: The texts of the folder's files, by relative path. A file with a list has cases.
        folder: The name of the folder, for messages.

    Raises:
        CasesError: There is no case, a case or a file is invalid, or a file has no cases and no case uses it.
    """
    reader = _CaseReader(folder)
    for name, text in texts.items():
        try:
            reader.files[name] = read_documents(text, f"{folder}/{name}")
        except DocumentError as error:
            reader.problems.append(Problem(error.source, error.line, "", error.message))
    lists = [name for name, parts in reader.files.items() if parts and isinstance(parts[0].value, list)]
    cases = [case for name in lists for case in reader.cases(name)]
    for name in reader.files.keys() - {*lists, *reader.used_files}:
        reader.add_problem(name, (), messages.UNUSED_FILE)
    if not cases and not reader.problems:
        reader.problems.append(Problem(folder, 1, "", messages.NO_CASES))
    if reader.problems:
        raise CasesError(reader.problems)
    return cases


@dataclass
class _CaseReader:
    """Reads the cases of a folder's files, and collects their problems."""

    folder: str
    files: dict[str, list[Document]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    used_files: set[str] = field(default_factory=set)
    sources: dict[str, str] = field(default_factory=dict)

    def add_problem(self, name: str, path: Path, message: str) -> None:
        line = self.files[name][0].line_of(path) if self.files[name] else 1
        self.problems.append(Problem(f"{self.folder}/{name}", line, field_name(path), message))

    def read_map(self, name: str) -> dict[str, Json]:
        """Returns the map in a file with one document, or else an empty map. Marks the file as used."""
        documents = self.files.get(name, [])
        self.used_files.add(name)
        return get_map(documents[0].value, ()) if len(documents) == 1 else {}

    def cases(self, name: str) -> Iterator[Case]:
        if len(self.files[name]) > 1:
            self.add_problem(name, (), messages.SEVERAL_DOCUMENTS)
        try:
            rows = _CASES.validate_json(json.dumps(self.files[name][0].value), strict=True)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                is_unknown = detail["type"] == "unexpected_keyword_argument"
                message = messages.UNKNOWN_KEY if is_unknown else message_of(detail, ())
                self.add_problem(name, detail["loc"], message)
            return
        for index, row in enumerate(rows):
            yield self._case(name, index, row)

    def _case(self, name: str, index: int, row: CaseRow) -> Case:
        source = f"{self.folder}/{name}:{self.files[name][0].line_of((index,))}"
        if self.sources.setdefault(row.name, source) != source:
            self.add_problem(name, (index, "name"), messages.same_name(row.name, self.sources[row.name]))
        if row.expect == Expect():
            self.add_problem(name, (index, "expect"), messages.NOTHING_EXPECTED)
        obj = apply_merge_patch(self._object(name, (index, "object"), row.object), row.with_)
        stored = row.old_object and self._object(name, (index, "oldObject"), row.old_object)
        settings, operation = row.settings, "UPDATE" if stored else "CREATE"
        if settings.operation not in {"", operation}:
            self.add_problem(name, (index, "settings", "operation"), messages.other_operation(operation))
        namespace = namespace_of(obj, settings.namespace or "default")
        if settings.namespace not in {"", namespace}:
            self.add_problem(name, (index, "settings", "namespace"), messages.other_namespace(namespace))
        now = row.now.timestamp() if row.now else inf
        request = Request(obj, namespace, UID, settings.username, now)
        snapshot_file = posixpath.splitext(name)[0] + SNAPSHOTS_SUFFIX
        snapshot = self.read_map(snapshot_file).get(row.name)
        return Case(row.name, source, row.expect, request, stored, snapshot, snapshot_file)

    def _object(self, name: str, path: Path, value: Json) -> Json:
        """Returns the value itself if it is an object, or else the object in the file that it names."""
        if isinstance(value, dict):
            return value
        file = posixpath.normpath(posixpath.join(posixpath.dirname(name), value))
        if file.startswith(("../", "/")):
            self.add_problem(name, path, messages.is_outside(value, self.folder))
        elif file not in self.files:
            message = messages.no_file(value, self.folder, did_you_mean(file, self.files))
            self.add_problem(name, path, message)
        elif not self.read_map(file):
            self.add_problem(name, path, messages.not_one_object(value))
        return self.read_map(file)


def apply_merge_patch(node: Json, change: Json) -> Json:
    """Returns a value after a JSON merge patch (RFC 7386): null removes a key, and lists are replaced."""
    if not isinstance(change, dict):
        return change
    base = node if isinstance(node, dict) else {}
    new = base | {key: apply_merge_patch(base.get(key), value) for key, value in change.items()}
    return {key: value for key, value in new.items() if key not in change or change[key] is not None}
