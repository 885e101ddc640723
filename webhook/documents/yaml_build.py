"""Events of a YAML parser to one value, as go-yaml v2's ``decode.go`` and sigs.k8s.io/yaml build it.

PyYAML's composer and constructors are left aside: they recurse without a bound (the C ones to a crash),
decide merges and tags differently from go-yaml, and forget lines. Events keep all of that in sight.
"""

import re
from dataclasses import dataclass, field
from typing import Any

import yaml

from webhook.documents.errors import ALIAS_BOMB, MAX_ALIAS_COST, MAX_DEPTH, TOO_DEEP, VALUE_COST, Refusal
from webhook.documents.lines import Json, Mark
from webhook.documents.scalars import as_key, as_value, check_text, resolve, resolve_tagged

_TAGS = "tag:yaml.org,2002:"
# libyaml and PyYAML do away with the tag "!" and resolve the word after it; go-yaml makes it a string.
_BARE_TAG = re.compile(r"(?:&\S+\s+)?!(?:[\s,}\]]|$)")
# JSON's escape, which go-yaml does not know.
_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")
# A tab in the blank lines before a block of text: libyaml and go-yaml refuse it, PyYAML's parser does not.
_BLOCK_TAB = re.compile(r"[^|>\n]*[|>][-+]?(?:[ \t][^\n]*)?\n(?:[ \r]*\n)* *\t")


@dataclass(slots=True)
class _Node:
    """A scalar, an alias, or a map or list that may still be open."""

    raw: Json  # of a scalar: what ``resolve`` gave, for a key narrows it otherwise than a value
    mark: Mark
    children: dict[str | int, Mark] = field(default_factory=dict)  # of a map or list: those of ``mark``
    is_alias: bool = False
    is_merge: bool = False  # a plain ``<<``
    is_open: bool = False
    key: "_Node | None" = None  # of a map: the key whose value comes next
    written: set[str] = field(default_factory=set)  # of a map: keys that stand in it, not merged ones
    has_merge: bool = False


class Builder:
    """Takes the events of one document; ``root`` is its value then."""

    def __init__(self, text: str, first_line: int) -> None:
        self.root: _Node | None = None
        self._text, self._first_line = text, first_line
        self._stack: list[_Node] = []
        self._anchors: dict[str, _Node] = {}
        self._cost = 0

    def take(self, event: Any) -> None:  # noqa: ANN401 - PyYAML's C events carry no types
        """Takes the next event.

        Raises:
            Refusal: if kubectl would refuse it, or it is refused here (see the package).
        """
        match event:
            case yaml.ScalarEvent():
                self._finish(self._scalar(event))
            case yaml.AliasEvent():
                self._finish(self._alias(event))
            case yaml.CollectionStartEvent():
                self._open(event)
            case yaml.CollectionEndEvent():
                node = self._stack.pop()
                node.is_open = False
                self._finish(node)
            case yaml.DocumentStartEvent() if self.root is not None:
                raise Refusal("kubectl drops what follows '...': separate documents by '---'")

    def _check_source(self, event: Any) -> None:  # noqa: ANN401
        """Refuses what PyYAML's event no longer shows and go-yaml reads otherwise."""
        start, end = event.start_mark.index, event.end_mark.index
        if event.style == '"' and "\\/" in self._text[start:end] and _SLASH.search(self._text, start, end):
            raise Refusal(r"kubectl does not know the escape \/ in YAML: write /")
        if event.style in ("|", ">") and _BLOCK_TAB.match(self._text, start, end):
            raise Refusal("a tab where an indentation space is expected: indent with spaces")
        if self._text[start : start + 1] in ("!", "&") and _BARE_TAG.match(self._text, start, end + 1):
            raise Refusal("tag ! is not supported: quote the text if a string is meant")

    def _mark(self, event: Any) -> int:  # noqa: ANN401
        return self._first_line + int(event.start_mark.line)

    def _scalar(self, event: Any) -> _Node:  # noqa: ANN401
        text: str = event.value
        check_text(text)
        self._check_source(event)
        plain = event.implicit[0]
        if event.tag is not None:
            if not event.tag.startswith(_TAGS):
                raise Refusal(f"tag {event.tag[:60]} is not supported: take it off, or quote the text")
            raw = resolve_tagged(event.tag.removeprefix(_TAGS), text)
        else:
            raw = resolve(text) if plain else text
        node = _Node(raw, Mark(self._mark(event)), is_merge=plain and text == "<<")
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        return node

    def _open(self, event: Any) -> None:  # noqa: ANN401
        is_map = isinstance(event, yaml.MappingStartEvent)
        if event.tag not in (None, "!", _TAGS + ("map" if is_map else "seq")):
            raise Refusal(f"tag {event.tag.replace(_TAGS, '!!')[:60]} is not supported: take it off")
        if len(self._stack) >= MAX_DEPTH:
            raise Refusal(TOO_DEEP)
        children: dict[str | int, Mark] = {}
        node = _Node({} if is_map else [], Mark(self._mark(event), children), children, is_open=True)
        if event.anchor is not None:
            # Already here, as in go-yaml: an anchor of the same name further in takes over.
            self._anchors[event.anchor] = node
        self._stack.append(node)

    def _alias(self, event: Any) -> _Node:  # noqa: ANN401
        target = self._anchors.get(event.anchor)
        if target is None:
            raise Refusal(f"unknown anchor: write &{event.anchor} before it, in the same document")
        if target.is_open:
            raise Refusal(f"*{event.anchor} would contain itself: write the part out")
        mark = Mark(self._mark(event), target.mark.children)
        return _Node(self._copy(target.raw, len(self._stack)), mark, target.children, is_alias=True)

    def _copy(self, value: Json, depth: int) -> Json:
        """A value of its own, so that a change in one place is none in the other."""
        self._cost += VALUE_COST + (len(value) if isinstance(value, str) else 0)
        if self._cost > MAX_ALIAS_COST:
            raise Refusal(ALIAS_BOMB)
        if not isinstance(value, dict | list):
            return value
        if depth >= MAX_DEPTH:
            raise Refusal(TOO_DEEP)
        if isinstance(value, list):
            return [self._copy(item, depth + 1) for item in value]
        self._cost += sum(map(len, value))
        return {key: self._copy(item, depth + 1) for key, item in value.items()}

    def _finish(self, node: _Node) -> None:
        if not self._stack:
            node.raw = as_value(node.raw)
            self.root = node
            return
        parent = self._stack[-1]
        if isinstance(parent.raw, list):
            parent.children[len(parent.raw)] = node.mark
            parent.raw.append(as_value(node.raw))
        elif parent.key is None:
            parent.key = self._key(parent, node)
        elif parent.key.is_merge:
            self._merge(parent, node)
            parent.key = None
        else:
            key = parent.key.raw
            parent.children[key] = Mark(parent.key.mark.line, node.mark.children)
            parent.raw[key] = as_value(node.raw)
            parent.key = None

    @staticmethod
    def _key(parent: _Node, node: _Node) -> _Node:
        if isinstance(node.raw, dict | list):
            raise Refusal("a map or a list is no key: quote it if text such as '{{ name }}' is meant")
        if node.is_merge:
            if parent.has_merge:
                raise Refusal("'<<' twice in one map: write one '<<: [*first, *second]'")
            parent.has_merge = True
            return node
        key = as_key(node.raw)
        if key in parent.written:
            raise Refusal(f"key {key[:60]!r} twice in one map, kubectl would take the last: remove one")
        parent.written.add(key)
        return _Node(key, node.mark)

    @staticmethod
    def _merge(parent: _Node, node: _Node) -> None:
        """Sets the keys of ``<<`` where it stands, as go-yaml does; of several maps the first one wins."""
        sources = [(node.raw, node.children)]
        if isinstance(node.raw, list) and not node.is_alias:
            sources = [(item, node.children[at].children or {}) for at, item in enumerate(node.raw)]
        for source, lines in reversed(sources):
            if not isinstance(source, dict):
                raise Refusal("'<<' takes a map, an alias of one, or a list of these")
            for key, value in source.items():
                if key in parent.written:
                    message = "is written before '<<', which would override it in kubectl: put '<<' first"
                    raise Refusal(f"key {key[:60]!r} {message}")
                parent.raw[key] = value
                parent.children[key] = lines[key]
