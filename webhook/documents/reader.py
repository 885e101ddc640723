"""Reads the documents of a text, refuses ambiguous texts, and expands Lists."""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import yaml

from common.texts import nearest
from webhook.documents import messages
from webhook.documents.nodes import Children, Reader, children_of
from webhook.documents.templates import describe_template
from webhook.objects.tree import Json, Path, shown

# Matches control characters, unusual line ends, which would change the line numbers, and a byte order mark
# inside a text, which some parsers read as white space and other parsers as a letter.
_REFUSED_CHARACTER = (
    "\r(?!\n)|[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_ASCII_TEXT = bytes(range(0x20, 0x7F)) + b"\t\n"
# kubectl splits a text at lines that begin with "---", and reads one document from each part.
_REFUSED_PATTERNS = {
    _REFUSED_CHARACTER: ("", messages.character_not_allowed),
    r"(?<=^---)(?![ \t]*\r?$|[ \t]+#)": ("\n---", messages.ONLY_COMMENT.format),
    r"^\.\.\.(?=\s)(?!\s*(?:^---|\Z))": ("\n...", messages.IGNORED_TEXT.format),
}
"""The patterns that are refused, each with a part of every matching text (or empty), and the message."""
_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=int)  # refuses NaN, as kubectl does
_ESCAPE = re.compile(r"\\(?:(/|u[dD][89abAB]..\\u[dD][c-fC-F]..)|(u[dD][89a-fA-F]..)|.)")
_SPACE: Any = re.compile("[ \\t\\r\\n]*")  # Any, because its matches are never None


class DocumentError(ValueError):
    """The error for a text that cannot be read, or that is ambiguous.

    Attributes:
        source: The name of the file, or ``<stdin>``.
        line: The number of the line, from 1.
        column: The number of the column, from 1.
        message: What is wrong and what to do, without the position.
    """

    def __init__(self, source: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{source}:{line}:{column}: {message}")
        self.source, self.line, self.column, self.message = source, line, column, message


@dataclass(frozen=True)
class Document:
    """One document of a file, or an item of a List in it."""

    # The value that the API server would receive. It shares no part with other documents, so it may be
    # changed.
    value: Json
    source: str  # the name of the file, or ``<stdin>``
    line: int  # the number of the line where the value begins, from 1
    path: Path = field(repr=False, compare=False)  # the path of an item in its List; otherwise empty
    _root: Any = field(repr=False, compare=False)
    _children_of: Callable[[Any], Children] = field(repr=False, compare=False)

    def line_of(self, path: Path) -> int:
        """Returns the line of a value or, in a map, of its key; without a value, of the nearest parent."""
        node, line = self._root, self._root.start_mark.line
        for part in self.path + path:
            if part not in (children := self._children_of(node)):
                break
            line, node = children[part]
        return int(line) + 1


def read_documents(text: str | bytes, source: str = "<stdin>", max_values: int = 0) -> list[Document]:
    """Returns all documents of a text that are not empty. Lists are not expanded (see ``expand_lists``).

    Args:
        text: YAML or JSON.
        source: The name of the text in messages.
        max_values: Maximum number of maps, lists, keys and words; 0 means no limit.

    Raises:
        DocumentError: A part of the text cannot be read or is ambiguous, or the text is too large.
    """
    text = _prepare(text, source)
    reader = Reader(text, max_values)
    try:
        documents = [
            Document(value, source, root.start_mark.line + 1, (), root, cache(children_of))
            for root in reader.roots()
            if (value := reader.value(root)) is not None
        ]
    except yaml.MarkedYAMLError as error:
        message = ", ".join(filter(None, (error.problem, error.context)))
        hint = next(hint for part, hint in messages.PARSER_HINTS.items() if part in message)
        mark: Any = error.problem_mark or error.context_mark
        # The cause is in the flow collection, such as `{{ name }}`, or else in this or the previous line.
        start = error.context_mark if "flow" in (error.context or "") else mark
        lines = text.split("\n")[max(0, getattr(start, "line", 1) - 1) : mark.line + 1]
        if any(line.strip() == "..." for line in lines):
            hint = messages.OMITTED_LINES
        message = describe_template("\n".join(lines)) or error.note or f"{message}: {hint}"
        raise DocumentError(source, mark.line + 1, mark.column + 1, message) from None
    return documents


def _json_as_yaml(text: str, source: str) -> str:
    """Returns JSON as YAML in which each value keeps its line, and other texts unchanged.

    kubectl's YAML has no escapes for ``/`` and surrogate pairs, and needs separators between documents. After
    one JSON object, kubectl reads YAML or JSON; after two, it reads only JSON.
    """
    gap = _SPACE.match(text)[0]
    if not text.startswith("{", len(gap)):
        return text
    start, parts, separator = len(gap), list[str](), gap.replace("\t", " ")
    try:
        while start < len(text):
            end = _JSON.raw_decode(text, start)[1]
            parts.append(separator + _ESCAPE.sub(_unescape, text[start:end]))
            gap = _SPACE.match(text, end)[0]
            start, line = end + len(gap), gap.rfind("\n") + 1
            separator = f"{gap[:line]}--- " if line else gap
    except (ValueError, RecursionError) as error:
        if len(parts) > 1 or (parts and not line):
            raise _error_at(text, getattr(error, "pos", start), source, messages.ONLY_JSON) from None
    return "".join([*parts, separator if text[start : start + 1] in {"{", "#"} else gap, text[start:]])


def _unescape(escape: re.Match[str]) -> str:
    if escape[2]:
        return "\ufffd"  # as kubectl reads half a surrogate pair
    return str(json.loads(f'"{escape[0]}"')) if escape[1] else escape[0]


def _prepare(raw: str | bytes, source: str) -> str:
    """Checks a text, and returns it for the parser: with a last line end, and with JSON converted to YAML."""
    raw = raw.encode(errors="surrogatepass") if isinstance(raw, str) else raw
    try:
        text = raw.decode().removeprefix("\ufeff").removesuffix("\n") + "\n"
    except UnicodeDecodeError as error:
        message = messages.not_utf8(raw[error.start])
        raise _error_at(raw.decode("latin-1"), error.start, source, message) from None
    special_bytes, lines = raw.translate(None, _ASCII_TEXT), "\n" + text
    for pattern, (part, describe) in _REFUSED_PATTERNS.items():  # a search takes 10 ms for each MB
        may_match = part in lines if part else special_bytes
        if may_match and (match := re.compile(pattern, re.MULTILINE).search(text)):
            raise _error_at(text, match.start(), source, describe(match[0]))
    return text if raw.startswith(BOM_UTF8) else _json_as_yaml(text, source)  # kubectl reads YAML after a BOM


def _error_at(text: str, index: int, source: str, message: str) -> DocumentError:
    return DocumentError(source, text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index), message)


def expand_lists(documents: Iterable[Document]) -> list[Document]:
    """Returns the documents with the items of each List in place of the List.

    As in kubectl, every object with ``items`` is a List. An item without kind and apiVersion gets them
    from the List: an item of a ``PodList`` is a ``Pod``.

    Raises:
        DocumentError: ``items`` is not a list, or a document is not an object with a kind.
    """
    return [item for document in documents for item in _items(document)]


def describe_missing_key(obj: dict[str, Json], key: str) -> str | None:
    """Returns a message if an object has no text under a key such as ``kind``; otherwise None."""
    if isinstance(obj.get(key), str) and obj[key]:
        return None
    similar = nearest(key, tuple(name for name in obj if name != key))
    return messages.misspelt_key(key, similar) if similar else messages.missing_key(key)


def _items(document: Document) -> Iterator[Document]:
    value = document.value
    if not isinstance(value, dict):
        raise DocumentError(document.source, document.line, 1, messages.not_an_object(shown(value, 40)))
    if "items" not in value:
        if problem := describe_missing_key(value, "kind"):
            raise DocumentError(document.source, document.line, 1, problem)
        yield document
    elif not isinstance(value["items"], list | None):
        message = messages.items_not_a_list(shown(value["items"], 40))
        raise DocumentError(document.source, document.line_of(("items",)), 1, message)
    for index, item in enumerate(value.get("items") or []):
        if isinstance(item, dict) and not (item.get("kind") or item.get("apiVersion")):
            kind, version = value.get("kind"), value.get("apiVersion")
            kind = kind.removesuffix("List") if isinstance(kind, str) else kind
            item |= {"kind": kind, "apiVersion": version}
        line, path = document.line_of(("items", index)), (*document.path, "items", index)
        yield from _items(replace(document, value=item, line=line, path=path))
