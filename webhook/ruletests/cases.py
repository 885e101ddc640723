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
from webhook.engine.outcome import OutcomeKind, State, Verdict
from webhook.objects.tree import Json, Path, map_at
from webhook.preview.run import UID, namespace_of
from webhook.preview.sentence import PlacementVerdict
from webhook.rows.written import Row
from webhook.rules.problems import Problem, TableError
from webhook.rules.schema import message_of

SNAPSHOTS: Final = ".snapshots.yaml"
"""The name of the file with the snapshots of the cases in its folder: objects, by name of the case."""


class CasesError(TableError):
    """Cases that are invalid, with every problem in them."""


def _an_object(value: Json) -> Json:
    if not isinstance(value, dict | str) or not value:
        raise ValueError("must be an object, or the path of its file")
    return value


_Object = Annotated[Any, AfterValidator(_an_object)]


JUDGEMENTS: Final = (PlacementVerdict.PLACED, PlacementVerdict.NOT_PLACED)
VERDICTS: Final = {"allowed": Verdict.ALLOWED, "warned": Verdict.WARNED, "denied": Verdict.DENIED}
"""Outcomes that a case may expect, in addition to the kinds of outcome, which include ``refused``."""

_Outcome = Annotated[
    str,
    GetPydanticSchema(
        lambda _, __: core_schema.literal_schema([*map(str, JUDGEMENTS), *VERDICTS, *map(str, OutcomeKind)])
    ),
]


@dataclass(frozen=True)
class Expect(Row):
    """The expected outcome; keys that are not set may have any value."""

    outcome: _Outcome | None = None
    shadow: OutcomeKind | None = None
    rules: dict[str, State] = field(default_factory=dict)
    messages: tuple[str, ...] = ()
    patch: list[dict[str, Any]] | None = None
    snapshot: Literal[True] | None = None


@dataclass(frozen=True)
class Settings(Row):
    """The way in which an object is sent."""

    namespace: str = ""
    operation: Literal["", "CREATE", "UPDATE"] = ""
    username: str = ""


@dataclass(frozen=True)
class Written(Row):
    """A case as it is written. An object is written in place, or as the path of its file."""

    name: Annotated[str, Field(min_length=1)]
    object: _Object
    expect: Expect
    old_object: _Object | None = None
    with_: Annotated[dict[str, Any], Field(alias="with")] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)
    now: AwareDatetime | None = None


_CASES: Final = TypeAdapter(list[Written])


@dataclass(frozen=True)
class Case:
    """One object and its expected outcome.

    Attributes:
        source: The position of the case, ``file:line``.
        request: The object as it is sent.
        stored: The object before an update; None for a creation.
        snapshot: The object to be stored; None if the snapshot does not exist yet.
        snapshots: The file of the snapshot, relative to the folder of the cases.
    """

    name: str
    source: str
    expect: Expect
    request: Request
    stored: Json
    snapshot: Json
    snapshots: str


def cases_of(texts: Mapping[str, bytes], folder: str) -> Sequence[Case]:
    """Returns the cases of a folder.

    Args:
        texts: The texts of its files, by relative path. A file with a list has cases.
        folder: Its name, for messages.

    Raises:
        CasesError: There is no case, or a case is invalid.
    """
    reading = _Reading(folder)
    for name, text in texts.items():
        try:
            reading.files[name] = read_documents(text, f"{folder}/{name}")
        except DocumentError as error:
            reading.problems.append(Problem(error.source, error.line, "", error.message))
    lists = [name for name, parts in reading.files.items() if parts and isinstance(parts[0].value, list)]
    cases = [case for name in lists for case in reading.cases(name)]
    for name in reading.files.keys() - {*lists, *reading.used}:
        reading.say(name, (), "is not a list of cases, and no case refers to it")
    if not cases and not reading.problems:
        reading.problems.append(Problem(folder, 1, "", "no cases: there is no YAML file with a list of them"))
    if reading.problems:
        raise CasesError(reading.problems)
    return cases


@dataclass
class _Reading:
    folder: str
    files: dict[str, list[Document]] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    used: set[str] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)

    def say(self, name: str, path: Path, message: str) -> None:
        line = self.files[name][0].line_of(path) if self.files[name] else 1
        self.problems.append(Problem(f"{self.folder}/{name}", line, field_name(path), message))

    def value(self, name: str) -> dict[str, Json]:
        """Returns the single map of a file; an empty one if it has none."""
        documents = self.files.get(name, [])
        self.used.add(name)
        return map_at(documents[0].value, ()) if len(documents) == 1 else {}

    def cases(self, name: str) -> Iterator[Case]:
        if len(self.files[name]) > 1:
            self.say(name, (), "a file of cases is one document, a list")
        try:
            rows = _CASES.validate_json(json.dumps(self.files[name][0].value), strict=True)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                unknown = detail["type"] == "unexpected_keyword_argument"
                self.say(name, detail["loc"], "unknown key" if unknown else message_of(detail, ()))
            return
        for at, row in enumerate(rows):
            yield self._case(name, at, row)

    def _case(self, name: str, at: int, row: Written) -> Case:
        source = f"{self.folder}/{name}:{self.files[name][0].line_of((at,))}"
        if self.names.setdefault(row.name, source) != source:
            self.say(name, (at, "name"), f"{row.name!r} is the name of {self.names[row.name]} too")
        if row.expect == Expect():
            self.say(name, (at, "expect"), "nothing is expected")
        obj = merged(self._object(name, (at, "object"), row.object), row.with_)
        stored = row.old_object and self._object(name, (at, "oldObject"), row.old_object)
        settings, operation = row.settings, "UPDATE" if stored else "CREATE"
        if settings.operation not in {"", operation}:
            self.say(name, (at, "settings", "operation"), "an UPDATE has an oldObject, and a CREATE has none")
        namespace = namespace_of(obj, settings.namespace or "default")
        if settings.namespace not in {"", namespace}:
            self.say(name, (at, "settings", "namespace"), f"the object has another one, {namespace!r}")
        now = row.now.timestamp() if row.now else inf
        request = Request(obj, namespace, UID, settings.username, now)
        snapshots = posixpath.splitext(name)[0] + SNAPSHOTS
        kept = self.value(snapshots).get(row.name)
        return Case(row.name, source, row.expect, request, stored, kept, snapshots)

    def _object(self, name: str, path: Path, given: Json) -> Json:
        if isinstance(given, dict):
            return given
        there = posixpath.normpath(posixpath.join(posixpath.dirname(name), given))
        if there.startswith(("../", "/")):
            self.say(name, path, f"{given} is outside of {self.folder}")
        elif there not in self.files:
            self.say(
                name, path, f"there is no file {given} in {self.folder}{did_you_mean(there, self.files)}"
            )
        elif not self.value(there):
            self.say(name, path, f"{given} is not a file with one object")
        return self.value(there)


def merged(node: Json, change: Json) -> Json:
    """Returns a value with a JSON merge patch (RFC 7386) applied: null removes a key, a list is one value."""
    if not isinstance(change, dict):
        return change
    base = node if isinstance(node, dict) else {}
    new = base | {key: merged(base.get(key), value) for key, value in change.items()}
    return {key: value for key, value in new.items() if key not in change or change[key] is not None}
