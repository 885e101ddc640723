"""JSON text to values: the standard library reads, and a second look finds the lines when somebody asks."""

import json
import math
import re
from bisect import bisect_right
from collections.abc import Callable, Iterator

from webhook.documents.errors import MAX_DEPTH, TOO_DEEP, DocumentError, Refusal
from webhook.documents.lines import Json, Mark
from webhook.documents.scalars import as_value, check_text

_TOKEN = re.compile(r'[ \t\r\n]*("[^"\\]*(?:\\.[^"\\]*)*"|[][{}:,]|[^][{}:," \t\r\n]+)')
_SPACE = re.compile(r"[ \t\r\n]*")

Read = tuple[Json, int, int, Callable[[], Mark]]
"""A value, its line, the offset of its end, and its marks when asked."""


class _Token(Refusal):
    """A token that is refused; its place is looked up."""

    def __init__(self, token: str, message: str) -> None:
        super().__init__(message)
        self.token = token


def read_json(text: str, start: int, source: str) -> Read:
    """The JSON object that starts at an offset.

    Raises:
        json.JSONDecodeError: if it is no JSON; it may be YAML.
        DocumentError: if it is refused (see the package).
    """
    start = skip_space(text, start)
    try:
        value, end = _DECODER.raw_decode(text, start)
        _check(value, escapes="\\u" in text)
    except RecursionError:
        raise error_at(text, start, source, TOO_DEEP) from None
    except _Token as refusal:
        raise error_at(text, _find(text, start, refusal.token), source, str(refusal)) from None
    except Refusal as refusal:
        raise error_at(text, start, source, str(refusal)) from None
    return value, text.count("\n", 0, start) + 1, end, lambda: _marks(text, start)[0]


def skip_space(text: str, start: int) -> int:
    """The offset of the next character that is not JSON's white space."""
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _pairs(pairs: list[tuple[str, Json]]) -> Json:
    value = dict(pairs)
    if len(value) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for at, key in enumerate(keys) if key in keys[:at])
        raise _Token("", f"key {twice[:60]!r} twice in one map, kubectl would take the last: remove one")
    return value


def _constant(token: str) -> Json:
    raise _Token(token, f"{token} is not JSON: quote it if a string is meant, or write a number")


def _float(token: str) -> Json:
    number = float(token)
    if math.isinf(number):
        raise _Token(token, "the number is too large for a float64: write a smaller one, or quote it")
    return as_value(number)


def _int(token: str) -> Json:
    # 19 digits and a sign are the longest int64, and Python limits the digits of int().
    return as_value(int(token)) if len(token) <= 20 else _float(token)  # noqa: PLR2004


_DECODER = json.JSONDecoder(
    object_pairs_hook=_pairs, parse_float=_float, parse_int=_int, parse_constant=_constant
)


def _check(root: Json, *, escapes: bool) -> None:
    level, depth = [root], 0
    while level:
        depth += 1
        deeper: list[Json] = []
        for value in level:
            if escapes and isinstance(value, str):
                check_text(value)
            elif isinstance(value, list):
                deeper += value
            elif isinstance(value, dict):
                deeper += value.values()
                if escapes:
                    deeper += value
        if depth > MAX_DEPTH and any(isinstance(value, dict | list) for value in level):
            raise Refusal(TOO_DEEP)
        level = deeper


def _tokens(text: str, start: int) -> Iterator[tuple[str, int]]:
    while match := _TOKEN.match(text, start):
        yield match[1], match.start(1)
        start = match.end()


def _find(text: str, start: int, wanted: str) -> int:
    """The offset of a token, or of the first key that stands twice in its object."""
    if not wanted:
        return _marks(text, start)[1]
    return next((at for token, at in _tokens(text, start) if token == wanted), start)


def _marks(text: str, start: int) -> tuple[Mark, int]:
    """The marks of a JSON value that is known to be one, or the offset of the first key that stands twice."""
    breaks = [match.start() for match in re.finditer("\n", text)]
    root: dict[str | int, Mark] = {}
    # Per open value: its children, whether it is an object, and the key or index that comes next.
    stack: list[tuple[dict[str | int, Mark], bool]] = [(root, False)]
    key: tuple[str, int] | None = None
    for word, at in _tokens(text, start):
        children, is_map = stack[-1]
        if word in ":,":
            continue
        if word in "]}":
            stack.pop()
        elif is_map and key is None:
            key = json.loads(word), at
            if key[0] in children:
                return Mark(0), at
            continue
        else:
            inner: dict[str | int, Mark] | None = {} if word in "[{" else None
            name, written = key or (len(children), at)
            children[name] = Mark(bisect_right(breaks, written) + 1, inner)
            key = None
            if inner is not None:
                stack.append((inner, word == "{"))
        if len(stack) == 1:
            break
    return root[0], start


def error_at(text: str, at: int, source: str, message: str) -> DocumentError:
    """The error about an offset of a text."""
    return DocumentError(source, text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at), message)
