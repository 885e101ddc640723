"""Reads YAML with PyYAML's nodes: the value of each document, and the line of every value in it.

go-yaml v2, which kubectl reads with, is a port of libyaml, so both find the same nodes in a text. PyYAML's
own parser accepts other texts, and its constructors merge in another order, so neither is used.
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import yaml

from webhook import limits
from webhook.documents.scalars import resolve
from webhook.objects.tree import Json, Path

_MAX_DEPTH = 100
"""Maximum depth of maps and lists; an MPIJob has fifteen, and all code that reads an object recurses."""
_TOO_DEEP = f"nested deeper than {_MAX_DEPTH} levels, or an alias within its own anchor: flatten it"
_MAX_ALIAS_COST = 4_000_000
"""Maximum number of characters that aliases may add to a text; a value counts 40. About 100,000 values."""

# libyaml drops the tag "!" and resolves the word after it; go-yaml makes it text.
_TAG = re.compile(r"(?:&\S+(?:\s|#[^\n]*\n)+)?!")
_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")

_Node = Any  # PyYAML's types have neither the marks nor the values of nodes
_Children = dict[str | int, tuple[int, _Node]]


def _refused(node: _Node, message: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem_mark=node.start_mark, note=message)


class Reader(yaml.CSafeLoader):
    """Limits the depth of nodes, beyond which PyYAML crashes; a MarkedYAMLError with a note is a refusal."""

    _depth = _count = 0

    def __init__(self, text: str, most: int = 0) -> None:
        self._text, self._most = text, most
        super().__init__(text)
        self._budget = min(_MAX_ALIAS_COST, 40 * most or _MAX_ALIAS_COST)

    def roots(self) -> Iterator[_Node]:
        """Yields the node of each document, one at a time."""
        while self.check_node():
            yield self.get_node()

    def descend_resolver(self, current_node: _Node, _: object) -> None:
        """Checks the limits; libyaml calls this before each node."""
        self._count += 1
        if current_node and 0 < self._most < self._count:  # the first node of a document has no position yet
            message = f"more than {self._most:,} maps, lists, keys and words: split the file"
            raise _refused(current_node, message)
        self._depth += 1
        if self._depth > _MAX_DEPTH + 1:
            raise _refused(current_node, _TOO_DEEP)

    def ascend_resolver(self) -> None:
        """Counts levels; libyaml calls this after each node."""
        self._depth -= 1

    def resolve(self, _: object, value: Any, __: object) -> str:  # noqa: ANN401
        """Returns the tag of a node without one, and adds the cost of its value."""
        self._budget += 41 + len(value or "")
        return ""

    def value(self, node: _Node, depth: int = 0) -> Json:
        """Returns the value of a node, with a copy for each alias, so that a change affects one position."""
        self._budget -= 40 + len(node.value)
        if self._budget < 0:
            raise _refused(node, "aliases expand to too much: write the parts out, or split the file")
        if node.tag or (node.tag == "" and _TAG.match(self._text, node.start_mark.index)):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")[:40] or "!"
            raise _refused(
                node, f"the tag {tag} is not supported: remove it, and quote the value if it is text"
            )
        node.tag = None  # resolved once, with any number of aliases
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if depth == _MAX_DEPTH:
            raise _refused(node, _TOO_DEEP)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        return self._map(node, depth + 1)

    def _written(self, node: _Node) -> str:
        return self._text[node.start_mark.index : node.end_mark.index]

    def _scalar(self, node: _Node) -> Json:
        if len(node.value) > limits.TEXT:
            message = f"a text of {len(node.value)} characters, at most {limits.TEXT} are read: shorten it"
            raise _refused(node, message)
        if node.style == '"' and _SLASH.search(self._written(node)):
            raise _refused(node, r"kubectl reads the escape \/ in JSON only, and this is YAML: write /")
        try:
            return node.value if node.style else resolve(node.value)
        except ValueError as error:
            raise _refused(node, str(error)) from None

    def _map(self, node: _Node, depth: int) -> Json:
        value: dict[str, Json] = {}
        written: set[str] = set()
        for key_node, item in node.value:
            key, inner = self._key(key_node, depth), self.value(item, depth)
            if _merges(key_node):
                if written or not isinstance(inner, dict) or self._written(key_node) != "<<":
                    message = "kubectl merges '<<' here in its own way: put it first, with one map or alias"
                    raise _refused(key_node, message)
                value = inner
            elif key in written:
                message = f"key {key[:60]!r} is twice in one map, kubectl takes the last: remove one"
                raise _refused(key_node, message)
            else:
                value[key] = inner
            written.add(key)
        return value

    def _key(self, node: _Node, depth: int) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise _refused(node, "a map or a list cannot be a key: quote it if it is text")
        if not isinstance(key := self.value(node, depth), str):
            word = self._written(node)[:40]
            raise _refused(node, f'kubectl does not read the key {word} as text: write "{word}"')
        return key


class Lines:
    """The lines of the values of a document, from its node: values themselves have none."""

    def __init__(self, root: _Node) -> None:
        self._root, self._children = root, cache(_children)

    def of(self, path: Path) -> int:
        """Returns the line of a value (of its key, inside a map), or of its closest parent that has one."""
        node, line = self._root, self._root.start_mark.line
        for part in path:
            if part not in (children := self._children(node)):
                break
            line, node = children[part]
        return int(line) + 1


def _children(node: _Node) -> _Children:
    children: _Children = {}
    if isinstance(node, yaml.SequenceNode):
        children = {at: (item.start_mark.line, item) for at, item in enumerate(node.value)}
    elif isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            children |= _children(item) if _merges(key) else {key.value: (key.start_mark.line, item)}
    return children


def _merges(key: _Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style
