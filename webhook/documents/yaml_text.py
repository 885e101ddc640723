"""One YAML document to its value and marks, from the events of libyaml's parser.

go-yaml v2, which kubectl reads with, is a port of libyaml: both find the same events in a text. PyYAML's
composer and constructors are left aside: they recurse without a bound (the C ones to a crash), merge in
another order than go-yaml, and forget lines. PyYAML's own parser is left aside because it takes other texts.
"""

import re
from typing import Any, cast

import yaml

from webhook.documents.places import MAX_DEPTH, TOO_DEEP, TWICE, DocumentError, Json, Mark, Refusal, error_at
from webhook.documents.words import resolve

_MAX_ALIAS_COST = 4_000_000
"""What aliases may add to one document, in characters; a value counts 40. About 100,000 values."""
_VALUE_COST = 40

# Control characters; line ends of other kinds, which would count as lines; and a byte order mark in the
# midst of a text, which is white space to one parser and a letter to the other.
_FORBIDDEN = re.compile(
    "\r(?!\n)|[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
# libyaml does away with the tag "!" and resolves the word after it; go-yaml makes it text.
_TAG = re.compile(r"(?:&\S+(?:\s|#[^\n]*\n)+)?!")
# JSON's escape, which go-yaml does not know.
_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")
_HINTS = {
    "mapping values are not allowed": "quote the text if it contains ': ', or check the indentation",
    "cannot start any token": "indent with spaces, not tabs, and quote text that starts with @, ` or %",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "expected <document start>": "separate documents by lines '---', and take out directives such as %YAML",
}
_HINT = "check indentation, quotes and brackets here and above"

Node = tuple[Json, Mark]


def read_yaml(text: str, source: str, first_line: int) -> Node:
    """The value of a text that holds one YAML document, and its marks.

    Args:
        text: what stands between two ``---``.
        source: for errors.
        first_line: the line of the file on which the text starts.

    Raises:
        DocumentError: if the text is no YAML, or is refused (see the package).
    """
    if bad := _FORBIDDEN.search(text):
        message = f"U+{ord(bad[0]):04X} is not allowed in YAML: remove it, or escape it in double quotes"
        raise error_at(text, bad.start(), source, message, first_line)
    return _Builder(text, source, first_line).document()


class _Builder:
    """Reads the events of one document, one level of the text a call."""

    def __init__(self, text: str, source: str, first_line: int) -> None:
        self._text, self._source, self._first_line = text, source, first_line
        self._parser: Any = yaml.CSafeLoader(text)  # its events carry no types
        self._anchors: dict[str, Node | None] = {}  # None while the node is still open
        self._cost = 0

    def document(self) -> Node:
        self._next()  # the stream's start
        if isinstance(self._next(), yaml.StreamEndEvent):
            return None, Mark(self._first_line)
        root = self._node(self._next(), 0)
        self._next()  # the document's end
        if not isinstance(event := self._next(), yaml.StreamEndEvent):
            raise self._refused(event, "kubectl drops what follows '...': separate documents by '---'")
        return root

    def _next(self) -> Any:  # noqa: ANN401
        try:
            return self._parser.get_event()
        except yaml.MarkedYAMLError as error:
            problem = ", ".join(part for part in (error.problem, error.context) if part)
            hint = next((hint for sign, hint in _HINTS.items() if sign in problem), _HINT)
            mark = cast("yaml.Mark", error.problem_mark or error.context_mark)
            raise self._error(mark, f"{problem}: {hint}") from None

    def _error(self, mark: yaml.Mark, message: str) -> DocumentError:
        return DocumentError(self._source, self._first_line + mark.line, mark.column + 1, message)

    def _refused(self, event: Any, message: str) -> DocumentError:  # noqa: ANN401
        return self._error(event.start_mark, message)

    def _written(self, event: Any) -> str:  # noqa: ANN401
        return self._text[event.start_mark.index : event.end_mark.index]

    def _node(self, event: Any, depth: int) -> Node:  # noqa: ANN401
        line = self._first_line + event.start_mark.line
        if isinstance(event, yaml.AliasEvent):
            value, mark = self._target(event)
            return self._copy(event, value, depth), mark._replace(line=line)
        if event.tag is not None or _TAG.match(self._text, event.start_mark.index):
            raise self._refused(
                event, "tags are not supported: take it off, and quote the value if it is text"
            )
        if event.anchor in self._anchors:
            raise self._refused(event, f"anchor &{event.anchor} twice: give it another name")
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        children: dict[str | int, Mark] = {}
        if isinstance(event, yaml.ScalarEvent):
            value = self._scalar(event)
        elif depth == MAX_DEPTH:
            raise self._refused(event, TOO_DEEP)
        elif isinstance(event, yaml.SequenceStartEvent):
            value = self._list(children, depth + 1)
        else:
            value = self._map(children, depth + 1)
        node = value, Mark(line, children)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _scalar(self, event: yaml.ScalarEvent) -> Json:
        if event.style == '"' and _SLASH.search(self._written(event)):
            raise self._refused(event, r"kubectl does not know the escape \/ in YAML: write /")
        try:
            return resolve(event.value) if event.implicit[0] else event.value
        except Refusal as refusal:
            raise self._refused(event, str(refusal)) from None

    def _list(self, children: dict[str | int, Mark], depth: int) -> Json:
        value: list[Json] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            item, children[len(value)] = self._node(event, depth)
            value.append(item)
        return value

    def _map(self, children: dict[str | int, Mark], depth: int) -> Json:
        value: dict[str, Json] = {}
        written: set[str] = set()
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            if isinstance(event, yaml.ScalarEvent) and event.value == "<<" and event.implicit[0]:
                self._merge(event, value, children, depth)
                continue
            key, line = self._key(event, written, depth)
            value[key], mark = self._node(self._next(), depth)
            children[key] = mark._replace(line=line)
        return value

    def _key(self, event: Any, written: set[str], depth: int) -> tuple[str, int]:  # noqa: ANN401
        if not isinstance(event, yaml.ScalarEvent | yaml.AliasEvent):
            raise self._refused(
                event, "a map or a list is no key: quote it if text such as '{{ name }}' is meant"
            )
        key, mark = self._node(event, depth)
        if not isinstance(key, str):
            raise self._refused(event, f"key {self._written(event)[:40]} is not text to kubectl: quote it")
        if key in written:
            raise self._refused(event, TWICE.format(key[:60]))
        written.add(key)
        return key, mark.line

    def _merge(
        self,
        event: Any,  # noqa: ANN401
        value: dict[str, Json],
        children: dict[str | int, Mark],
        depth: int,
    ) -> None:
        """Sets the keys of ``<<`` where it stands, as go-yaml does; keys written after it override them."""
        source, mark = self._node(self._next(), depth)
        if not isinstance(source, dict) or self._written(event) != "<<":
            raise self._refused(event, "'<<' takes one map or an alias of one, no list, tag or anchor")
        if early := source.keys() & value.keys():
            message = "is set before '<<', which would override it in kubectl: put '<<' first"
            raise self._refused(event, f"key {min(early)[:60]!r} {message}")
        value |= source
        children |= mark.children

    def _target(self, event: Any) -> Node:  # noqa: ANN401
        node = self._anchors.get(event.anchor)
        if node is None:
            name = event.anchor
            unknown = f"unknown anchor: write &{name} before it, in the same document"
            inside = f"*{name} would contain itself: write the part out"
            raise self._refused(event, inside if name in self._anchors else unknown)
        return node

    def _copy(self, event: yaml.AliasEvent, value: Json, depth: int) -> Json:
        """A value of its own, so that a change in one place is none in the other."""
        self._cost += _VALUE_COST + (len(value) if isinstance(value, str) else 0)
        if isinstance(value, dict):
            self._cost += sum(map(len, value))
        if self._cost > _MAX_ALIAS_COST:
            raise self._refused(
                event, "aliases expand to too much: write the repeated parts out, or split the file"
            )
        if not isinstance(value, dict | list):
            return value
        if depth == MAX_DEPTH:
            raise self._refused(event, TOO_DEEP)
        if isinstance(value, list):
            return [self._copy(event, item, depth + 1) for item in value]
        return {key: self._copy(event, item, depth + 1) for key, item in value.items()}
