"""Text to documents: which parser, where one document ends, what a List holds."""

import json
import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

from webhook.documents.errors import LONE_SURROGATE, DocumentError
from webhook.documents.json_text import error_at, read_json, skip_space
from webhook.documents.lines import Json, Lines, Mark, Path
from webhook.documents.yaml_text import read_yaml

_AFTER_OBJECT = ("{", "---", "#")
_SEPARATOR = re.compile(r"^---([^\n]*)(?:\n|\Z)", re.MULTILINE)


@dataclass(frozen=True)
class Document:
    """One document of a file.

    Attributes:
        value: as the API server would get it; free to be changed, nothing in it is shared.
        source: file name, or ``<stdin>``.
        line: 1-based line of its first value.
    """

    value: Json
    source: str
    line: int
    marks: Callable[[], Mark] = field(repr=False, compare=False)

    @cached_property
    def lines(self) -> Lines:
        """Path to line, for every value."""
        return Lines(self.marks())

    def where(self, path: Iterable[str | int] = ()) -> str:
        """``file:line: /pointer`` of a path; of a missing value the closest parent's line."""
        parts: Path = tuple(path)
        pointer = "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
        return f"{self.source}:{self.lines.nearest(parts)}: {pointer}".removesuffix(" ").removesuffix(":")


def read_documents(text: str | bytes, source: str = "<stdin>") -> list[Document]:
    """All documents of a text; empty ones are left out, Lists are not opened (see ``expand_lists``).

    Text that starts with ``{`` is read as JSON objects one behind the other and, where that fails before
    the second object ended, as YAML from there on: what ``YAMLOrJSONDecoder`` does. YAML documents are
    separated by lines that start with ``---`` and hold nothing else but a comment.

    Raises:
        DocumentError: if any of it cannot be read; nothing else.
    """
    content = _decoded(text, source)
    documents: list[Document] = []
    rest, json_error = 0, None
    if content.lstrip().startswith("{"):
        documents, rest, json_error = _json_documents(content, source)
    try:
        documents += _yaml_documents(content, rest, source)
    except DocumentError as error:
        if json_error is not None and (json_error.line, json_error.column) > (error.line, error.column):
            # It was JSON until further on than it was YAML.
            raise json_error from None
        raise
    return [document for document in documents if document.value is not None]


def _decoded(text: str | bytes, source: str) -> str:
    if isinstance(text, bytes):
        raw = text
        try:
            text = raw.decode()
        except UnicodeDecodeError as error:
            message = "not UTF-8: save the file as UTF-8"
            raise error_at(raw.decode("latin-1"), error.start, source, message) from None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise error_at(text, error.start, source, LONE_SURROGATE) from None
    return text.removeprefix("\ufeff")


def _json_documents(text: str, source: str) -> tuple[list[Document], int, DocumentError | None]:
    """The JSON objects at the start, where YAML may go on, and why JSON ended there."""
    documents: list[Document] = []
    end = 0
    while (start := skip_space(text, end)) < len(text):
        if documents and not text.startswith(_AFTER_OBJECT, start):
            raise error_at(text, start, source, "JSON: only '{' or a line '---' may follow an object")
        try:
            value, line, end, marks = read_json(text, start, source)
        except json.JSONDecodeError as error:
            hint = "check quotes, commas and brackets here and above"
            failure = error_at(text, error.pos, source, f"JSON: {error.msg}: {hint}")
            if len(documents) > 1:
                raise failure from None
            rest = _yaml_start(text, end)
            if rest is None:
                raise failure from None
            return documents, rest, failure
        documents.append(Document(value, source, line, marks))
    return documents, len(text), None


def _yaml_start(text: str, end: int) -> int | None:
    """Where kubectl goes on with YAML: behind blanks, up to the next line, if four bytes are left there."""
    while end < len(text) and text[end].isspace() and text[end] != "\n":
        end += 1
    if len(text[end : end + 4].encode()) < 4:  # noqa: PLR2004
        return None
    return end + 1 if text[end] == "\n" else end


def _yaml_documents(text: str, start: int, source: str) -> Iterator[Document]:
    line = text.count("\n", 0, start) + 1
    for chunk in _chunks(text[start:], line, source):
        if chunk.strip(" \r\n"):
            value, mark = read_yaml(chunk, source, line)
            yield Document(value, source, mark.line, partial(Mark, *mark))
        line += chunk.count("\n") + 1


def _chunks(text: str, first_line: int, source: str) -> Iterator[str]:
    """What stands between the separators; each separator is one line."""
    position = 0
    for separator in _SEPARATOR.finditer(text):
        if separator[1].strip() and not separator[1].lstrip().startswith("#"):
            line = first_line + text.count("\n", 0, separator.start())
            message = "only a comment may follow '---': begin the document on the next line"
            raise DocumentError(source, line, 4, message)
        yield text[position : separator.start()]
        position = separator.end()
    # kubectl puts the line end where it is missing: it may belong to a block of text.
    yield text[position:].removesuffix("\n") + "\n"


def expand_lists(documents: Iterable[Document]) -> list[Document]:
    """Documents with every List replaced by its items.

    As in kubectl a List is whatever has ``items`` at its root; items without kind and apiVersion take them
    from the list (``PodList`` holds ``Pod``); a List inside a List is opened as well, behind its neighbours.

    Raises:
        DocumentError: if ``items`` is no list, or holds anything but objects.
    """
    expanded: list[Document] = []
    for document in documents:
        queue = deque([document])
        while queue:
            current = queue.popleft()
            if not isinstance(current.value, dict) or "items" not in current.value:
                expanded.append(current)
                continue
            items = current.value["items"]
            if items is not None and not isinstance(items, list):
                raise _wrong(current, ("items",), "must be a list")
            queue.extend(_item(current, at, item) for at, item in enumerate(items or []))
    return expanded


def _item(parent: Document, at: int, item: Json) -> Document:
    path: Path = ("items", at)
    if not isinstance(item, dict):
        raise _wrong(parent, path, "must be an object")
    if not item.get("kind") and not item.get("apiVersion"):
        kind = parent.value.get("kind")
        item = {
            **item,
            "kind": kind.removesuffix("List") if isinstance(kind, str) else kind,
            "apiVersion": parent.value.get("apiVersion"),
        }
    return Document(item, parent.source, parent.lines[path], lambda: parent.lines.mark(path))


def _wrong(document: Document, path: Path, message: str) -> DocumentError:
    pointer = "/" + "/".join(map(str, path))
    return DocumentError(document.source, document.lines.nearest(path), 1, f"{pointer}: {message}")
