"""Reads and changes JSON trees. A change returns a new tree that shares all unchanged parts with the old one.

Sharing makes comparison cheap: the unchanged parts of two trees are the same objects (``is``).
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import is_
from typing import Any, Final

import orjson

from common.pointers import field_name
from common.pointers import get as get  # noqa: PLC0414 - re-exported for users of this module
from common.pointers import get_map as get_map  # noqa: PLC0414 - as above
from common.pointers import get_maps as get_maps  # noqa: PLC0414 - as above
from common.texts import printable
from webhook.objects import messages

Json = Any
"""A value as ``json.loads`` returns it. The engine never changes it in place."""

Path = tuple[str | int, ...]
"""The keys of maps and the indices of lists that lead to a value."""

SHORTEST_UNCACHED: Final = 2048
"""Digests of values with at least this many bytes are not cached."""

_CANONICAL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_SHOWN: Final = json.JSONEncoder(sort_keys=True, ensure_ascii=False)


class WrongTypeError(ValueError):
    """A value of the received object has a type that Kubernetes does not allow there."""

    def __init__(self, path: str, type_name: str, value: Json) -> None:
        super().__init__(messages.wrong_type(path, type_name, shown(value)))


def walk(node: Json, path: Path = ()) -> Iterator[tuple[Path, Json]]:
    """Yields every value in a tree with its path, parents first."""
    yield path, node
    if isinstance(node, dict | list):
        for key, value in node.items() if isinstance(node, dict) else enumerate(node):
            yield from walk(value, (*path, key))


def put(node: Json, path: Sequence[str | int], value: Json) -> Json:
    """Returns a tree with ``value`` at ``path``. Missing parents become maps. List elements must exist.

    Raises:
        WrongTypeError: A parent has the wrong type: a key needs a map or null, an index needs a list.
    """
    parents: list[Json] = []
    for depth, key in enumerate(path):
        if isinstance(node, list) and isinstance(key, int):
            parents.append(node)
            node = node[key]
        else:
            parents.append(node if isinstance(node, dict) else as_map(node, tuple(path[:depth])))
            node = parents[-1].get(str(key))
    for parent, key in zip(reversed(parents), reversed(path), strict=True):
        if isinstance(parent, list) and isinstance(key, int):
            value = parent if value is parent[key] else [*parent[:key], value, *parent[key + 1 :]]
        elif str(key) not in parent or value is not parent[str(key)]:
            value = {**parent, str(key): value}
        else:
            value = parent
    return value


def drop(node: Json, path: Sequence[str]) -> Json:
    """Returns a tree without the map entry at ``path``, and without parents that become empty."""
    if not isinstance(node, dict) or not path or path[0] not in node:
        return node
    if len(path) == 1:
        return with_entry(node, path[0], None)
    new = drop(node[path[0]], path[1:])
    return node if new is node[path[0]] else with_entry(node, path[0], new)


def with_entry(node: dict[str, Json], key: str, value: Json) -> dict[str, Json]:
    """Returns a map with another value for a key that it has; without the key if the value is empty."""
    if is_empty(value):
        return {name: item for name, item in node.items() if name != key}
    return {name: value if name == key else item for name, item in node.items()}


def is_empty(value: Json) -> bool:
    """Returns whether a value is null, an empty map or an empty list."""
    return value is None or value in ({}, [])


def as_map(node: Json, path: Path) -> dict[str, Json]:
    """Returns the node as a map; an empty map for null.

    Raises:
        WrongTypeError: The node has another type.
    """
    if node is None:
        return {}
    if not isinstance(node, dict):
        raise WrongTypeError(field_name(path), "a map", node)
    return node


def as_list(node: Json, path: Path) -> list[Json]:
    """Returns the node as a list; an empty list for null.

    Raises:
        WrongTypeError: The node has another type.
    """
    if node is None:
        return []
    if not isinstance(node, list):
        raise WrongTypeError(field_name(path), "a list", node)
    return node


def share(old: list[Json], new: list[Json]) -> list[Json]:
    """Returns the new list, or the old list if the elements of both are the same objects."""
    return old if len(new) == len(old) and all(map(is_, new, old)) else new


def same(left: Json, right: Json) -> bool:
    """Returns whether two values are equal in JSON: true is not 1, and 1 is 1.0."""
    if left is right:
        return True
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(item, right[key]) for key, item in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return isinstance(left, bool) == isinstance(right, bool) and bool(left == right)


def canonical(value: Json) -> str:
    """Returns a value as JSON with sorted keys, so that the order of keys does not matter."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode("utf-8", "surrogatepass")
    except orjson.JSONEncodeError:  # half a surrogate pair, a number beyond 64 bits, or deep nesting
        return _CANONICAL.encode(value)


def digest(value: Json) -> str:
    """Returns ten hexadecimal digits of a value's hash, independent of the order of its keys."""
    try:
        data = orjson.dumps(value, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:
        data = canonical(value).encode("utf-8", "surrogatepass")
    return _cached_hash(data) if len(data) < SHORTEST_UNCACHED else _hash(data)


def digest_of_text(text: str) -> str:
    """Returns the digest of the value that has this canonical text."""
    return _hash(text.encode("utf-8", "surrogatepass"))


def _hash(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:10]


_cached_hash: Final = lru_cache(maxsize=1024)(_hash)  # rules add the same values to many jobs


def text_of(value: Json) -> str:
    """Returns a text unchanged, and any other value as `shown` does."""
    return value if isinstance(value, str) else shown(value)


def shown(value: Json, limit: int = 60) -> str:
    """Returns a value as JSON for a message: printable, and cut after a number of characters."""
    return printable(_SHOWN.encode(value), limit)
