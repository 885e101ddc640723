"""Reads the value of each document from PyYAML's nodes, and the line of every value.

kubectl uses go-yaml v2, a port of libyaml, so go-yaml and libyaml find the same nodes in a text. PyYAML's own
parser accepts other texts, and its constructors merge maps in another order, so this module uses neither.
"""

import re
from collections.abc import Iterator
from typing import Any

import yaml

from webhook import limits
from webhook.documents import messages
from webhook.documents.scalars import read_word
from webhook.objects.tree import Json

_MAX_DEPTH = 100
"""Maximum depth of maps and lists, because the code that reads an object is recursive. An MPIJob has 15."""
_MAX_ALIAS_COST = 4_000_000
"""Maximum cost of the values that aliases add to a text. The cost of a value is its length plus 40."""

# For go-yaml, a word after the tag "!" is a text. libyaml drops this tag, so `_TAG` finds it in the source.
_TAG = re.compile(r"(?:&\S+(?:\s|#[^\n]*\n)+)?!")
_ESCAPED_SLASH = re.compile(r"(?<!\\)(?:\\\\)*\\/")

_Node = Any  # PyYAML's types have neither the marks nor the values of nodes
Children = dict[str | int, tuple[int, _Node]]


def _refusal(node: _Node, message: str) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(problem_mark=node.start_mark, note=message)


class Reader(yaml.CSafeLoader):
    """Reads nodes and values within limits. The note of a MarkedYAMLError is the reason of a refusal."""

    _depth = _count = 0

    def __init__(self, text: str, max_values: int = 0) -> None:
        self._text, self._max_values = text, max_values
        super().__init__(text)
        self._budget = min(_MAX_ALIAS_COST, 40 * max_values or _MAX_ALIAS_COST)

    def roots(self) -> Iterator[_Node]:
        """Yields the node of each document, one at a time."""
        while self.check_node():
            yield self.get_node()

    def descend_resolver(self, current_node: _Node, _: object) -> None:
        """Checks the limits; libyaml calls this before each node."""
        self._count += 1
        if current_node and 0 < self._max_values < self._count:  # a document's first node has no position yet
            raise _refusal(current_node, messages.many_values(self._max_values))
        self._depth += 1
        if self._depth > _MAX_DEPTH + 1:
            raise _refusal(current_node, messages.too_deep(_MAX_DEPTH))

    def ascend_resolver(self) -> None:
        """Leaves a level; libyaml calls this after each node."""
        self._depth -= 1

    def resolve(self, _: object, value: Any, __: object) -> str:  # noqa: ANN401
        """Adds a node's cost to the budget; returns an empty tag. libyaml calls this for untagged nodes."""
        self._budget += 41 + len(value or "")
        return ""

    def value(self, node: _Node, depth: int = 0) -> Json:
        """Returns the value of a node, with a copy for each alias, so that a caller can change the copies."""
        self._budget -= 40 + len(node.value)
        if self._budget < 0:
            raise _refusal(node, messages.LONG_ALIASES)
        if node.tag or (node.tag == "" and _TAG.match(self._text, node.start_mark.index)):
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")[:40] or "!"
            raise _refusal(node, messages.tag_not_supported(tag))
        node.tag = None  # an alias to this node is not checked again
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        if depth == _MAX_DEPTH:
            raise _refusal(node, messages.too_deep(_MAX_DEPTH))
        if isinstance(node, yaml.SequenceNode):
            return [self.value(item, depth + 1) for item in node.value]
        return self._map(node, depth + 1)

    def _source_text(self, node: _Node) -> str:
        return self._text[node.start_mark.index : node.end_mark.index]

    def _scalar(self, node: _Node) -> Json:
        if len(node.value) > limits.TEXT:
            raise _refusal(node, messages.long_text(len(node.value), limits.TEXT))
        if node.style == '"' and _ESCAPED_SLASH.search(self._source_text(node)):
            raise _refusal(node, messages.ESCAPED_SLASH)
        try:
            return node.value if node.style else read_word(node.value)
        except ValueError as error:
            raise _refusal(node, str(error)) from None

    def _map(self, node: _Node, depth: int) -> Json:
        value: dict[str, Json] = {}
        keys: set[str] = set()
        for key_node, item_node in node.value:
            key, item = self._key(key_node, depth), self.value(item_node, depth)
            if _is_merge_key(key_node):
                if keys or not isinstance(item, dict) or self._source_text(key_node) != "<<":
                    raise _refusal(key_node, messages.MERGE_KEY)
                value = item
            elif key in keys:
                raise _refusal(key_node, messages.repeated_key(key[:60]))
            else:
                value[key] = item
            keys.add(key)
        return value

    def _key(self, node: _Node, depth: int) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise _refusal(node, messages.KEY_NOT_TEXT)
        if not isinstance(key := self.value(node, depth), str):
            raise _refusal(node, messages.word_as_key(self._source_text(node)[:40]))
        return key


def children_of(node: _Node) -> Children:
    """Returns the nodes in a map or a list by key or position, each with its line, from 0."""
    children: Children = {}
    if isinstance(node, yaml.SequenceNode):
        children = {index: (item.start_mark.line, item) for index, item in enumerate(node.value)}
    elif isinstance(node, yaml.MappingNode):
        for key, item in node.value:
            children |= children_of(item) if _is_merge_key(key) else {key.value: (key.start_mark.line, item)}
    return children


def _is_merge_key(key: _Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.value == "<<" and not key.style
