"""Text to documents: what is refused before it is parsed, and what a List holds."""

import json
import re
from codecs import BOM_UTF8
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import yaml

from common.texts import nearest
from webhook.documents.nodes import Lines, Reader
from webhook.documents.templates import unrendered
from webhook.objects.tree import Json, Path, shown

# Control characters; line ends of other kinds, which would count as lines; and a byte order mark in the midst
# of a text, which is white space to one parser and a letter to the other.
_CHARACTER = (
    "\r(?!\n)|[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_PLAIN = bytes(range(0x20, 0x7F)) + b"\t\n"
# kubectl cuts a text at lines that begin with "---", whatever follows, and reads one document of each part.
_REFUSED = {
    _CHARACTER: ("", "{!a} is not allowed in YAML: remove it, or escape it in double quotes"),
    r"(?<=^---)(?![ \t]*\r?$|[ \t]+#)": ("\n---", "only a comment may follow '---': begin on the next line"),
    r"^\.\.\.(?=\s)(?!\s*(?:^---|\Z))": (
        "\n...",
        "kubectl drops what follows '...': write '---' between documents",
    ),
}
"""Pattern -> what is in a text with it, apart from characters that are not plain; and why it is refused."""
_JSON = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=int)  # which refuses NaN, as kubectl
_ESCAPE = re.compile(r"\\(?:(/|u[dD][89abAB]..\\u[dD][c-fC-F]..)|.)")
_SPACE: Any = re.compile("[ \\t\\r\\n]*")  # finds something in every text
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
    """A text that cannot be read, or that must not be guessed at.

    Attributes:
        source: file name, or ``<stdin>``.
        line: 1-based.
        column: 1-based.
        message: what is wrong and the way out, without the place.
    """

    def __init__(self, source: str, line: int, column: int, message: str) -> None:
        super().__init__(f"{source}:{line}:{column}: {message}")
        self.source, self.line, self.column, self.message = source, line, column, message


@dataclass(frozen=True)
class Document:
    """One document of a file, or an item of a List in it.

    Attributes:
        value: as the API server would get it; free to be changed, nothing in it is shared.
        source: file name, or ``<stdin>``.
        line: 1-based line of its first value.
        path: in its text, from the number of the document.
    """

    value: Json
    source: str
    line: int
    path: Path = field(repr=False, compare=False)
    _lines: Callable[[], Lines] = field(repr=False, compare=False)

    def line_of(self, path: Path) -> int:
        """The line of a value (of its key, inside a map) or, where none is, of the closest parent that is."""
        return self._lines().of(self.path + path)


def read_documents(text: str | bytes, source: str = "<stdin>", most: int = 0) -> list[Document]:
    """All documents of a text; empty ones are left out, Lists are not opened (see ``expand_lists``).

    Args:
        text: YAML or JSON.
        source: what messages call it.
        most: maps, lists, keys and words that are read; 0: any number.

    Raises:
        DocumentError: if any of it cannot be read, or it holds too much; nothing else.
    """
    text = _checked(text, source)
    reader, lines = Reader(text, most), cache(lambda: Lines(text))
    try:
        documents = [
            Document(value, source, root.start_mark.line + 1, (number,), lines)
            for number, root in enumerate(reader.roots())
            if (value := reader.value(root)) is not None
        ]
    except yaml.MarkedYAMLError as error:
        message = ", ".join(filter(None, (error.problem, error.context)))
        hint = next(hint for sign, hint in _HINTS.items() if sign in message)
        mark: Any = error.problem_mark or error.context_mark
        # Of a flow, such as `{{ name }}`, all of it; else the line before may be meant.
        first = error.context_mark if "flow" in (error.context or "") else mark
        near = text.split("\n")[max(0, getattr(first, "line", 1) - 1) : mark.line + 1]
        if any(line.strip() == "..." for line in near):
            hint = "'...' stands for lines that were left out: write them, or take it out"
        message = unrendered("\n".join(near)) or error.note or f"{message}: {hint}"
        raise DocumentError(source, mark.line + 1, mark.column + 1, message) from None
    return documents


def _json_as_yaml(text: str, source: str) -> str:
    """JSON as YAML, with each value in its line; a text that begins otherwise as it is.

    YAML, as kubectl reads it, has no escapes of ``/`` and surrogate pairs, and wants documents apart. What
    follows one object is YAML to kubectl if it is not JSON; what follows two is JSON.
    """
    gap = _SPACE.match(text)[0]
    if not text.startswith("{", len(gap)):
        return text
    at, found, before = len(gap), list[str](), gap.replace("\t", " ")
    try:
        while at < len(text):
            end = _JSON.raw_decode(text, at)[1]
            found.append(before + _ESCAPE.sub(_character, text[at:end]))
            gap = _SPACE.match(text, end)[0]
            at, line = end + len(gap), gap.rfind("\n") + 1
            before = f"{gap[:line]}--- " if line else gap
    except (ValueError, RecursionError) as error:
        if len(found) > 1 or (found and not line):
            message = "kubectl reads only JSON here: correct it, or write a line '---' between all documents"
            raise _error_at(text, getattr(error, "pos", at), source, message) from None
    return "".join([*found, before if text[at : at + 1] in {"{", "#"} else gap, text[at:]])


def _character(escape: re.Match[str]) -> str:
    return str(json.loads(f'"{escape[0]}"')) if escape[1] else escape[0]


def _checked(raw: str | bytes, source: str) -> str:
    """The text for the parser; kubectl, too, ends the last line, which may belong to a block of text."""
    raw = raw.encode(errors="surrogatepass") if isinstance(raw, str) else raw
    try:
        text = raw.decode().removeprefix("\ufeff").removesuffix("\n") + "\n"
    except UnicodeDecodeError as error:
        message = f"the byte {raw[error.start]:#x} is not UTF-8: save the file as UTF-8"
        raise _error_at(raw.decode("latin-1"), error.start, source, message) from None
    odd, lines = raw.translate(None, _PLAIN), "\n" + text
    for pattern, (sign, message) in _REFUSED.items():  # a search takes 10 ms a MB
        if (sign in lines if sign else odd) and (found := re.compile(pattern, re.MULTILINE).search(text)):
            raise _error_at(text, found.start(), source, message.format(found[0]))
    return text if raw.startswith(BOM_UTF8) else _json_as_yaml(text, source)  # as in kubectl


def _error_at(text: str, at: int, source: str, message: str) -> DocumentError:
    return DocumentError(source, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), message)


def expand_lists(documents: Iterable[Document]) -> list[Document]:
    """Documents with every List replaced by its items.

    As in kubectl a List is whatever has ``items`` at its root; items without kind and apiVersion take them
    from the list (``PodList`` holds ``Pod``).

    Raises:
        DocumentError: if ``items`` is not a list, or anything is not an object.
    """
    return [opened for document in documents for opened in _opened(document)]


def lacks(obj: dict[str, Json], key: str) -> str | None:
    """A message if a map lacks a text without which it is no object; None where it has it."""
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
