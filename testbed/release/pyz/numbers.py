"""What the plugin needs of orjson, in Python alone: in its one file it is the module orjson."""

from __future__ import annotations

import json

OPT_SORT_KEYS = 1
_MOST = 2**64


class JSONEncodeError(TypeError):
    """What orjson does not write."""


def dumps(value: object, option: int = 0) -> bytes:
    """JSON without white space, as orjson writes it.

    Raises:
        JSONEncodeError: Half of a surrogate pair, or a number of more than 64 bits, which orjson refuses too.
    """
    _look(value)
    text = json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), sort_keys=bool(option & OPT_SORT_KEYS)
    )
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise JSONEncodeError(str(error)) from error


def _look(value: object) -> None:
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        for item in value:
            _look(item)
    elif isinstance(value, int) and not -_MOST // 2 <= value < _MOST:
        raise JSONEncodeError(f"{value} has more than 64 bits")
