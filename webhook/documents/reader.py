"""Reads documents from a text, refuses ambiguous ones before parsing, and expands Lists."""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import yaml

from common.texts import nearest
from webhook.documents.nodes import Lines, Reader
from webhook.documents.templates import unrendered
from webhook.objects.tree import Json, Path, shown

# Control characters; line ends of other kinds, which would count as lines; and a byte order mark within a
# text, which one parser reads as white space and another as a letter.
_CHARACTER = (
    "\r(?!\n)|[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"
# kubectl splits a text at lines that begin with "---", and reads one document from each part.
_REFUSED = {
    _CHARACTER: ("", "{!a} is not allowed in YAML: remove it, or escape it in double quotes"),
    r"(?<=^---)(?![ \t]*\r?$|[ \t]+#)": ("\n---", "only a comment may follow '---': begin on the next line"),
    r"^\.\.\.(?=\s)(?!\s*(?:^---|\Z))": (
        "\n...",
        "kubectl drops what follows '...': write '---' between documents",
    ),
}
"""By pattern: a character of every matching text (empty if there is none), and why it is refused."""
_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=int)  # refuses NaN, as kubectl does
_ESCAPE = re.compile(r"\\(?:(/|u[dD][89abAB]..\\u[dD][c-fC-F]..)|(u[dD][89a-fA-F]..)|.)")
_SPACE: Any = re.compile("[ \\t\\r\\n]*")  # matches in every text
_HINTS = {
    "mapping values are not allowed": "quote the text if it contains ': ', or check the indentation",
    "cannot start any token": "indent with spaces, not tabs, and quote text that starts with @, ` or %",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "expected <document start>": "write a line '---' between documents; put each JSON object on its own line",
    "invalid Unicode character": "write the character itself; pairs such as \\ud83d\\ude00 are for JSON only",
    "undefined alias": "write its anchor before it, in the same document",
    "duplicate anchor": "give it another name",
    "": "check indentation, quotes and brackets here and above",
}


class DocumentError(ValueError):
    """A text that cannot be read, or that is ambiguous.

    Attributes:
        source: File name, or ``<stdin>``.
        line: Line, from 1.
        column: Column, from 1.
        message: What is wrong and what to do, without the position.
    """

    def __init__(self, source: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{source}:{line}:{column}: {message}")
        self.source, self.line, self.column, self.message = source, line, column, message


@dataclass(frozen=True)
class Document:
    """One document of a file, or an item of a List in it.

    Attributes:
        value: The value that the API server would receive; may be changed, because it shares no part with
            others.
        source: File name, or ``<stdin>``.
        line: Line of its first value, from 1.
        path: Its path in the document of the text.
    """

    value: Json
    source: str
    line: int
    path: Path = field(repr=False, compare=False)
    _lines: Lines = field(repr=False, compare=False)

    def line_of(self, path: Path) -> int:
        """Returns the line of a value (of its key, inside a map), or of its closest parent that has one."""
        return self._lines.of(self.path + path)


def read_documents(text: str | bytes, source: str = "<stdin>", most: int = 0) -> list[Document]:
    """Returns all documents of a text, without empty ones; Lists stay (see ``expand_lists``).

    Args:
        text: YAML or JSON.
        source: The name of the text in messages.
        most: Maximum number of maps, lists, keys and words; 0 means no limit.

    Raises:
        DocumentError: A part of the text cannot be read, or it is too large.
    """
    text = _checked(text, source)
    reader = Reader(text, most)
    try:
        documents = [
            Document(value, source, root.start_mark.line + 1, (), Lines(root))
            for root in reader.roots()
            if (value := reader.value(root)) is not None
        ]
    except yaml.MarkedYAMLError as error:
        message = ", ".join(filter(None, (error.problem, error.context)))
        hint = next(hint for sign, hint in _HINTS.items() if sign in message)
        mark: Any = error.problem_mark or error.context_mark
        # For a flow, such as `{{ name }}`, the whole line; otherwise the line before may be the cause.
        first = error.context_mark if "flow" in (error.context or "") else mark
        near = text.split("\n")[max(0, getattr(first, "line", 1) - 1) : mark.line + 1]
        if any(line.strip() == "..." for line in near):
            hint = "'...' stands for lines that were left out: write them, or take it out"
        message = unrendered("\n".join(near)) or error.note or f"{message}: {hint}"
        raise DocumentError(source, mark.line + 1, mark.column + 1, message) from None
    return documents


def _json_as_yaml(text: str, source: str) -> str:
    """Returns JSON as YAML, with each value on its line; other texts are returned unchanged.

    YAML, as kubectl reads it, has no escapes for ``/`` and surrogate pairs, and needs separators between
    documents. For kubectl, text after one JSON object is YAML unless it is JSON; after two it is JSON.
    """
    gap = _SPACE.match(text)[0]
    if not text.startswith("{", len(gap)):
        return text
    at, parts, before = len(gap), list[str](), gap.replace("\t", " ")
    try:
        while at < len(text):
            end = _JSON.raw_decode(text, at)[1]
            parts.append(before + _ESCAPE.sub(_character, text[at:end]))
            gap = _SPACE.match(text, end)[0]
            at, line = end + len(gap), gap.rfind("\n") + 1
            before = f"{gap[:line]}--- " if line else gap
    except (ValueError, RecursionError) as error:
        if len(parts) > 1 or (parts and not line):
            message = "kubectl reads only JSON here: correct it, or write a line '---' between all documents"
            raise _error_at(text, getattr(error, "pos", at), source, message) from None
    return "".join([*parts, before if text[at : at + 1] in {"{", "#"} else gap, text[at:]])


def _character(escape: re.Match[str]) -> str:
    if escape[2]:
        return "\ufffd"  # half a surrogate pair, as in kubectl
    return str(json.loads(f'"{escape[0]}"')) if escape[1] else escape[0]


def _checked(raw: str | bytes, source: str) -> str:
    """Returns the text for the parser, and ends its last line, as kubectl does, for a block of text."""
    raw = raw.encode(errors="surrogatepass") if isinstance(raw, str) else raw
    try:
        text = raw.decode().removeprefix("\ufeff").removesuffix("\n") + "\n"
    except UnicodeDecodeError as error:
        message = f"the byte {raw[error.start]:#x} is not UTF-8: save the file as UTF-8"
        raise _error_at(raw.decode("latin-1"), error.start, source, message) from None
    odd, lines = raw.translate(None, _PLAIN), "\n" + text
    for pattern, (sign, message) in _REFUSED.items():  # a search takes 10 ms a MB
        if (sign in lines if sign else odd) and (match := re.compile(pattern, re.MULTILINE).search(text)):
            raise _error_at(text, match.start(), source, message.format(match[0]))
    return text if raw.startswith(BOM_UTF8) else _json_as_yaml(text, source)  # as in kubectl


def _error_at(text: str, at: int, source: str, message: str) -> DocumentError:
    return DocumentError(source, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), message)


def expand_lists(documents: Iterable[Document]) -> list[Document]:
    """Returns the documents with every List replaced by its items.

    As in kubectl, every object with ``items`` at its root is a List; items without kind and apiVersion get
    those of the list (``PodList`` has ``Pod``).

    Raises:
        DocumentError: ``items`` is not a list, or a document is not an object.
    """
    return [opened for document in documents for opened in _opened(document)]


def lacks(obj: dict[str, Json], key: str) -> str | None:
    """Returns a message if a map lacks a text that every object needs; None if it has the text."""
    if isinstance(obj.get(key), str) and obj[key]:
        return None
    near = nearest(key, tuple(name for name in obj if name != key))
    way = f"did you mean {key!r} for {near!r}?" if near else "add it, or leave the file out"
    return f"this is not a Kubernetes object: it has no {key}; {way}"


def _opened(document: Document) -> Iterator[Document]:
    value = document.value
    if not isinstance(value, dict):
        message = f"a Kubernetes object is a map with apiVersion and kind, and this is {shown(value, 40)}"
        raise DocumentError(document.source, document.line, 1, message)
    if "items" not in value:
        if missing := lacks(value, "kind"):
            raise DocumentError(document.source, document.line, 1, missing)
        yield document
    elif not isinstance(value["items"], list | None):
        message = f"items is {shown(value['items'], 40)}, not a list: write a list of objects"
        raise DocumentError(document.source, document.line_of(("items",)), 1, message)
    for at, item in enumerate(value.get("items") or []):
        if isinstance(item, dict) and not (item.get("kind") or item.get("apiVersion")):
            kind, version = value.get("kind"), value.get("apiVersion")
            kind = kind.removesuffix("List") if isinstance(kind, str) else kind
            item |= {"kind": kind, "apiVersion": version}
        line, path = document.line_of(("items", at)), (*document.path, "items", at)
        yield from _opened(replace(document, value=item, line=line, path=path))
