"""Reads the value of each document from PyYAML's nodes, and the line of every value.

kubectl uses go-yaml v2, a port of libyaml, so go-yaml and libyaml find the same nodes in a text. PyYAML's own
parser accepts other texts, and its constructors merge in another order, so this module uses neither.
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
"""Maximum depth of maps and lists, because the code that reads an object is recursive. An MPIJob has 15."""
_TOO_DEEP = f"nested deeper than {_MAX_DEPTH} levels, or an alias within its own anchor: flatten it"
_MAX_ALIAS_COST = 4_000_000
"""Maximum number of characters that aliases may add to a text. A value costs 40 more than its characters."""

# libyaml ignores the tag "!" and resolves the word after it, which is a text for go-yaml.
_TAG = re.compile(r"(?:&\S+(?:\s|#[^\n]*\n)+)?!")
_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")

_Node = Any  # PyYAML's types have neither the marks nor the values of nodes
_Children = dict[str | int, tuple[int, _Node]]


def _refusal(node: _Node, message: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem_mark=node.start_mark, note=message)


class Reader(yaml.CSafeLoader):
    """Reads nodes and values within limits. The note of a MarkedYAMLError is the reason of a refusal."""

    _depth = _count = 0

    def __init__(self, text: str, most_nodes: int = 0) -> None:
        self._text, self._most_nodes = text, most_nodes
        super().__init__(text)
        self._budget = min(_MAX_ALIAS_COST, 40 * most_nodes or _MAX_ALIAS_COST)

    def roots(self) -> Iterator[_Node]:
        """Yields the node of each document, one at a time."""
        while self.check_node():
            yield self.get_node()

    def descend_resolver(self, current_node: _Node, _: object) -> None:
        """Checks the limits; libyaml calls this before each node."""
        self._count += 1
        if current_node and 0 < self._most_nodes < self._count:  # a document's first node has no position yet
            message = f"more than {self._most_nodes:,} maps, lists, keys and words: split the file"
            raise _refusal(current_node, message)
        self._depth += 1
        if self._depth > _MAX_DEPTH + 1:
            raise _refusal(current_node, _TOO_DEEP)

    def ascend_resolver(self) -> None:
        """Leaves a level; libyaml calls this after each node."""
        self._depth -= 1

    def resolve(self, _: object, value: Any, __: object) -> str:  # noqa: ANN401
        """Returns an empty tag for a node without a tag, and adds the cost of the node to the budget."""
        self._budget += 41 + len(value or "")
        return ""

    def value(self, node: _Node, depth: int = 0) -> Json:
        """Returns the value of a node. Each alias has its own copy, so that a change affects one position."""
        self._budget -= 40 + len(node.value)
        if self._budget < 0:
            raise _refusal(
                node, "the aliases expand to a text that is too long: use fewer aliases, or split the file"
            )
        if node.tag or (node.tag == "" and _TAG.match(self._text, node.start_mark.index)):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")[:40] or "!"
            raise _refusal(
                node, f"the tag {tag} is not supported: remove it, and quote the value if it is text"
            )
        node.tag = None  # an alias to this node is not checked again
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if depth == _MAX_DEPTH:
            raise _refusal(node, _TOO_DEEP)
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        return self._map(node, depth + 1)

    def _source_text(self, node: _Node) -> str:
        return self._text[node.start_mark.index : node.end_mark.index]

    def _scalar(self, node: _Node) -> Json:
        if len(node.value) > limits.TEXT:
            message = f"the text has {len(node.value)} characters, {limits.TEXT} is the maximum: shorten it"
            raise _refusal(node, message)
        if node.style == '"' and _SLASH.search(self._source_text(node)):
            raise _refusal(node, r"kubectl reads the escape \/ in JSON only, and this is YAML: write /")
        try:
            return node.value if node.style else resolve(node.value)
        except ValueError as error:
            raise _refusal(node, str(error)) from None

    def _map(self, node: _Node, depth: int) -> Json:
        value: dict[str, Json] = {}
        keys: set[str] = set()
        for key_node, item_node in node.value:
            key, item = self._key(key_node, depth), self.value(item_node, depth)
            if _is_merge_key(key_node):
                if keys or not isinstance(item, dict) or self._source_text(key_node) != "<<":
                    message = "kubectl merges '<<' here in its own way: put it first, with one map or alias"
                    raise _refusal(key_node, message)
                value = item
            elif key in keys:
                raise _refusal(key_node, f"key {key[:60]!r} is twice in one map: remove one")
            else:
                value[key] = item
            keys.add(key)
        return value

    def _key(self, node: _Node, depth: int) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise _refusal(node, "a map or a list cannot be a key: quote it if it is text")
        if not isinstance(key := self.value(node, depth), str):
            word = self._source_text(node)[:40]
            raise _refusal(node, f'kubectl does not read the key {word} as text: write "{word}"')
        return key


class LineFinder:
    """Finds the lines of a document's values in its nodes, because the values have no lines."""

    def __init__(self, root: _Node) -> None:
        self._root, self._children = root, cache(_children)

    def line_of(self, path: Path) -> int:
        """Returns the line of a value; in a map, that of its key. A missing value has its parent's line."""
        node, line = self._root, self._root.start_mark.line
        for part in path:
            if part not in (children := self._children(node)):
                break
            line, node = children[part]
        return int(line) + 1


def _children(node: _Node) -> _Children:
    children: _Children = {}
    if isinstance(node, yaml.SequenceNode):
        children = {index: (item.start_mark.line, item) for index, item in enumerate(node.value)}
    elif isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            children |= _children(item) if _is_merge_key(key) else {key.value: (key.start_mark.line, item)}
    return children


def _is_merge_key(key: _Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style
