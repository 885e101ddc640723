"""JSON text to values, by the standard library.

Not orjson: it reads no objects one behind the other, takes a key twice, and has no hook for numbers.
"""

import json
import re

from webhook.documents.places import LONE_SURROGATE, MAX_DEPTH, TOO_DEEP, TWICE, Json, Refusal
from webhook.documents.words import number

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def _map(pairs: list[tuple[str, Json]]) -> Json:
    value: dict[str, Json] = {}
    for key, item in pairs:
        if key in value:
            raise Refusal(TWICE.format(key[:60]))
        value[key] = item
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_map, parse_int=number, parse_float=number, parse_constant=number
)


def read_json(text: str, start: int) -> tuple[Json, int]:
    """The JSON value that starts at an offset, and the offset of its end.

    Raises:
        json.JSONDecodeError: if it is no JSON; it may be YAML.
        Refusal: if it is refused (see the package).
    """
    try:
        value, end = _DECODER.raw_decode(text, start)
    except RecursionError:
        raise Refusal(TOO_DEEP) from None
    if _is_deep(value):
        raise Refusal(TOO_DEEP)
    if _SURROGATE.search(text, start, end):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise Refusal(LONE_SURROGATE) from None
    return value, end


def _is_deep(root: Json) -> bool:
    level = [root]
    for _ in range(MAX_DEPTH + 1):
        inner = [value for value in level if isinstance(value, dict | list)]
        if not inner:
            return False
        level = [item for value in inner for item in (value.values() if isinstance(value, dict) else value)]
    return True
