"""Text to documents: which parser, where one document ends, what a List holds."""

import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial

from webhook.documents.json_text import read_json
from webhook.documents.places import DocumentError, Json, Mark, Refusal, error_at
from webhook.documents.yaml_text import read_yaml

_SEPARATOR = re.compile(r"^---([^\n]*)(?:\n|\Z)", re.MULTILINE)
_NEXT = re.compile(r"[^ \t\r\n]")
# What a JSON text may be refused for, and no YAML text.
_NO_YAML = re.compile(r"\bNaN\b|-?\bInfinity\b|\\u[dD][89a-fA-F]")


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
    def lines(self) -> Mark:
        """The line of every value."""
        return self.marks()


def read_documents(text: str | bytes, source: str = "<stdin>") -> list[Document]:
    """All documents of a text; empty ones are left out, Lists are not opened (see ``expand_lists``).

    Documents are separated by lines that start with ``---`` and hold nothing else but a comment. A text that
    starts with ``{`` may be JSON objects one behind the other; kubectl reads no more documents behind these.

    Raises:
        DocumentError: if any of it cannot be read; nothing else.
    """
    (first, _), *others = _chunks(_decoded(text, source), source)
    read = _first_documents if first.lstrip().startswith("{") else partial(_yaml_documents, first_line=1)
    documents = read(first, source)
    if len(documents) > 1 and others:
        message = "'---' may not follow JSON objects without one between them: put '---' between all"
        raise DocumentError(source, others[0][1] - 1, 1, message)
    for chunk, start in others:
        documents += _yaml_documents(chunk, source, start)
    return [document for document in documents if document.value is not None]


def _decoded(text: str | bytes, source: str) -> str:
    raw = text.encode(errors="surrogatepass") if isinstance(text, str) else text
    try:
        return raw.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        message = "not UTF-8: save the file as UTF-8"
        raise error_at(raw.decode("latin-1"), error.start, source, message) from None


def _chunks(text: str, source: str) -> Iterator[tuple[str, int]]:
    """What stands between the separators, and the line on which it starts."""
    position, line = 0, 1
    for separator in _SEPARATOR.finditer(text):
        chunk = text[position : separator.start()]
        yield chunk, line
        position, line = separator.end(), line + chunk.count("\n") + 1
        if separator[1].strip() and not separator[1].lstrip().startswith("#"):
            message = "only a comment may follow '---': begin the document on the next line"
            raise DocumentError(source, line - 1, 4, message)
    # kubectl puts the line end where it is missing: it may belong to a block of text.
    yield text[position:].removesuffix("\n") + "\n", line


def _first_documents(chunk: str, source: str) -> list[Document]:
    """The JSON objects of the first chunk, or the one YAML document in braces."""
    documents: list[Document] = []
    at, end, line = 0, 0, 1
    while start := _NEXT.search(chunk, end):
        line, at = line + chunk.count("\n", at, start.start()), start.start()
        try:
            value, end = read_json(chunk, at)
        except Refusal as refusal:
            raise _placed(refusal, chunk, at, source, line) from None
        except json.JSONDecodeError as error:
            hint = "check quotes, commas and brackets here and above"
            if documents:
                hint = "behind an object stands another '{', or a line '---'"
            failure = error_at(chunk, error.pos, source, f"JSON: {error.msg}: {hint}")
            try:
                return _yaml_documents(chunk, source, 1)
            except DocumentError as other:
                # It is what it was until further on.
                raise max(other, failure, key=lambda found: (found.line, found.column)) from None
        documents.append(Document(value, source, line, partial(_json_marks, chunk[at:end], line)))
    return documents


def _json_marks(text: str, line: int) -> Mark:
    """The lines of JSON, which nearly always is YAML as well; else all of it counts as one line."""
    try:
        return read_yaml(text, "", line)[1]
    except DocumentError:
        return Mark(line)


def _placed(refusal: Refusal, chunk: str, at: int, source: str, line: int) -> DocumentError:
    """The error about the JSON at an offset: where the YAML reader refuses it too, or at what YAML lacks."""
    column = at - chunk.rfind("\n", 0, at)
    try:
        read_yaml(" " * (column - 1) + chunk[at:], source, line)
    except DocumentError as error:
        if error.message == str(refusal):
            return error
    odd = _NO_YAML.search(chunk, at)
    return error_at(chunk, odd.start() if odd else at, source, str(refusal))


def _yaml_documents(chunk: str, source: str, first_line: int) -> list[Document]:
    if not chunk.strip(" \r\n"):
        return []
    value, mark = read_yaml(chunk, source, first_line)
    return [Document(value, source, mark.line, lambda: mark)]


def expand_lists(documents: Iterable[Document]) -> list[Document]:
    """Documents with every List replaced by its items.

    As in kubectl a List is whatever has ``items`` at its root; items without kind and apiVersion take them
    from the list (``PodList`` holds ``Pod``).

    Raises:
        DocumentError: if ``items`` is no list, or anything is no object.
    """
    expanded: list[Document] = []
    for document in documents:
        if not isinstance(document.value, dict):
            message = "a Kubernetes object is a map with apiVersion and kind"
            raise DocumentError(document.source, document.line, 1, message)
        if "items" in document.value:
            expanded += expand_lists(_items(document))
        else:
            expanded.append(document)
    return expanded


def _items(document: Document) -> Iterator[Document]:
    items = document.value["items"]
    if items is not None and not isinstance(items, list):
        raise DocumentError(document.source, document.lines.at(("items",)).line, 1, "items must be a list")
    kind, version = document.value.get("kind"), document.value.get("apiVersion")
    kind = kind.removesuffix("List") if isinstance(kind, str) else kind
    for at, item in enumerate(items or []):
        mark = document.lines.at(("items", at))
        if isinstance(item, dict) and not (item.get("kind") or item.get("apiVersion")):
            item = {**item, "kind": kind, "apiVersion": version}  # noqa: PLW2901 - the same item, completed
        yield Document(item, document.source, mark.line, partial(Mark, *mark))
