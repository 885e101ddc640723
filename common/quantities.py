"""Amounts of resources as Kubernetes writes them."""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Final

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:([EPTGMk]|[EPTGMK]i|[num])|[eE]([+-]?[0-9]{1,2}))?"
)
"""The grammar in ``k8s.io/apimachinery/pkg/api/resource/quantity.go``, with bounds on its length."""

_SUFFIXES: Final = {
    "": Decimal(1),
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", 1)},
    **{suffix: Decimal(10) ** (-3 * power) for power, suffix in enumerate("mun", 1)},
}


_LONGEST: Final = 80
"""Characters of the longest text that the grammar takes, and more: longer ones are never kept in memory."""


def thousandths(text: str) -> int:
    """An amount in thousandths, rounded up; 0 for a text that is none."""
    return _thousandths(text) if len(text) <= _LONGEST else 0


@lru_cache(maxsize=4096)
def _thousandths(text: str) -> int:
    found = _QUANTITY.fullmatch(text)
    if not found:
        return 0
    number, suffix, exponent = found.groups()
    scale = Decimal(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return int((Decimal(number) * scale * 1000).to_integral_value(ROUND_CEILING))
