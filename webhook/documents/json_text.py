"""JSON text to values: the standard library reads, a second look finds lines when somebody asks.

Not orjson: it reads no objects one behind the other, takes a key twice, and has no hook for numbers.
"""

import json
import re

from webhook.documents.errors import (
    LONE_SURROGATE,
    MAX_DEPTH,
    TOO_DEEP,
    TWICE,
    DocumentError,
    Refusal,
    error_at,
)
from webhook.documents.lines import Json, Mark
from webhook.documents.words import number

# Commas, colons and white space are left out.
_TOKEN = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[][{}]|[^][{}:," \t\r\n]+')

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _unique(pairs: list[tuple[str, Json]]) -> Json:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise Refusal
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_int=number, parse_float=number, parse_constant=number
)


def read_json(text: str, start: int, source: str, line: int) -> tuple[Json, int]:
    """The JSON value that starts at an offset and on a line, and the offset of its end.

    Raises:
        json.JSONDecodeError: if it is no JSON; it may be YAML.
        DocumentError: if it is refused (see the package).
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except (Refusal, RecursionError):
        mark_json(text, start, source, line)  # knows the place, and raises
        raise
    if _is_deep(value) or _SURROGATE.search(text, start, end):
        mark_json(text, start, source, line)
    return value, end


def _is_deep(root: Json) -> bool:
    level = [root]
    for _ in range(MAX_DEPTH + 1):
        inner = [value for value in level if isinstance(value, dict | list)]
        if not inner:
            return False
        level = [item for value in inner for item in (value.values() if isinstance(value, dict) else value)]
    return True


def mark_json(text: str, start: int, source: str, line: int) -> Mark:
    """The marks of the JSON value at an offset and on a line.

    Raises:
        DocumentError: at the first thing in it that is refused.
    """
    walk = _Walk(text, start, source, line)
    return walk.mark(next(walk.tokens), 0)


class _Walk:
    """Goes over the tokens of a text that is JSON at least up to what is refused in it."""

    def __init__(self, text: str, start: int, source: str, line: int) -> None:
        self._text, self._source, self._at, self._on = text, source, start, line
        self.tokens = _TOKEN.finditer(text, start)

    def mark(self, token: re.Match[str], depth: int) -> Mark:
        line = self._line(token)
        children: dict[str | int, Mark] = {}
        if token[0] not in ("{", "["):
            self._plain(token)
        elif depth == MAX_DEPTH:
            raise self._refused(token, TOO_DEEP)
        else:
            for inner in self.tokens:
                if inner[0] in ("}", "]"):
                    break
                beside = self._line(inner)
                key = self._plain(inner) if token[0] == "{" else len(children)
                if key in children:
                    raise self._refused(inner, TWICE.format(str(key)[:60]))
                value = next(self.tokens) if token[0] == "{" else inner
                children[key] = self.mark(value, depth + 1)._replace(line=beside)
        return Mark(line, children)

    def _line(self, token: re.Match[str]) -> int:
        """The line of a token that does not stand before the last one asked for."""
        self._on += self._text.count("\n", self._at, token.start())
        self._at = token.start()
        return self._on

    def _plain(self, token: re.Match[str]) -> Json:
        try:
            value = _DECODER.decode(token[0])
            str(value).encode()
        except Refusal as refusal:
            raise self._refused(token, str(refusal)) from None
        except UnicodeEncodeError:
            raise self._refused(token, LONE_SURROGATE) from None
        return value

    def _refused(self, token: re.Match[str], message: str) -> DocumentError:
        return error_at(self._text, token.start(), self._source, message)
