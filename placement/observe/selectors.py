"""Reads CEL selectors of devices: comparisons of attributes with values, joined by ``&&``.

All templates of AWS's document "AWS Neuron Dynamic Resource Allocation" have selectors of this form. Other
selectors are not supported.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from contract.keys import DRIVER
from kube.api import Object
from placement.limits import MOST_COMPARED
from placement.observe.model import Conditions, Fault

NEURON_DRIVER: Final = frozenset({("driver", DRIVER)})
"""The condition that devices of the Neuron driver meet."""

# The lengths are the API's limits for the domain, the name and the value of an attribute
# (k8s.io/api/resource/v1/types.go).
_COMPARISON: Final = re.compile(
    r"""device\.(?:
        (?P<driver>driver)
        | attributes\[(?P<q>['"])(?P<domain>[\w.-]{1,63})(?P=q)\]
          (?:\.(?P<name>\w{1,32}) | \[(?P<r>['"])(?P<key>[\w.-]{1,32})(?P=r)\])
    )\s*==\s*
    (?:(?P<s>['"])(?P<text>[^'"\\]{0,64})(?P=s) | (?P<number>-?[0-9]{1,18}) | (?P<truth>true|false))""",
    re.VERBOSE | re.ASCII,
)


def parse_selectors(selectors: Iterable[Object]) -> tuple[Conditions, Fault | None]:
    """Returns the conditions of all selectors, and None.

    If a selector is not supported, returns the fault of the first such selector. Then the conditions are
    `NEURON_DRIVER` if a selector names this driver, and otherwise empty.
    """
    texts = [(selector.get("cel") or {}).get("expression") or "" for selector in selectors]
    conditions = [_parse_comparisons(text) for text in texts]
    if None in conditions:
        known_conditions = NEURON_DRIVER if any(DRIVER in text for text in texts) else frozenset()
        return known_conditions, ("selector", texts[conditions.index(None)][:120])
    return frozenset[tuple[str, str | int | bool]]().union(*filter(None, conditions)), None


def condition(key: str, value: str | int | bool) -> tuple[str, str | int | bool]:  # noqa: FBT001 - a value
    """Returns a condition. The key of a boolean ends in ``?``, because in Python, ``True`` equals 1."""
    return (f"{key}?" if isinstance(value, bool) else key), value


@lru_cache(maxsize=256)
def _parse_comparisons(expression: str) -> Conditions | None:
    """Returns the comparisons of a CEL conjunction; None for other expressions and for too many parts."""
    conditions: set[tuple[str, str | int | bool]] = set()
    for part in expression.split("&&", MOST_COMPARED):
        match = _COMPARISON.fullmatch(part.strip(" \n\t()"))
        if match is None:
            return None
        key = "driver" if match["driver"] else f"{match['domain']}/{match['name'] or match['key']}"
        number, truth = match["number"], match["truth"]
        value = int(number) if number else truth == "true" if truth else match["text"] or ""
        conditions.add(condition(key, value))
    return frozenset(conditions)
