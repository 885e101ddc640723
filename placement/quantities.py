"""Amounts of resources as Kubernetes writes them, and what a pod takes of a node."""

from __future__ import annotations

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final

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


@lru_cache(maxsize=4096)
def thousandths(text: str) -> int:
    """An amount in thousandths, rounded up; 0 for a text that is none."""
    found = _QUANTITY.fullmatch(text)
    if not found:
        return 0
    number, suffix, exponent = found.groups()
    scale = Decimal(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return int((Decimal(number) * scale * 1000).to_integral_value(ROUND_CEILING))


def amounts(quantities: dict[str, Any] | None) -> dict[str, int]:
    """A map of quantities in thousandths."""
    return {name: thousandths(str(text)) for name, text in (quantities or {}).items()}


def requests(spec: dict[str, Any]) -> dict[str, int]:
    """What a pod takes of its node, in thousandths, by resource.

    As ``PodRequests`` in ``k8s.io/component-helpers/resource``: containers and sidecars run together, an
    init container runs beside the sidecars before it, requests of the whole pod win, and the overhead
    is added.
    """
    total: dict[str, int] = {}
    for container in spec.get("containers") or ():
        _add(total, _requested(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in spec.get("initContainers") or ():
        asked = _requested(container)
        _add(asked, sidecars)
        if container.get("restartPolicy") == "Always":
            sidecars = asked
        _raise(peak, asked)
    _add(total, sidecars)
    _raise(total, peak)
    total.update(_requested(spec))
    _add(total, amounts(spec.get("overhead")))
    return total


def _requested(owner: dict[str, Any]) -> dict[str, int]:
    resources = owner.get("resources") or {}
    # The API server writes limits into requests that are not given; stored pods have both.
    return amounts(resources.get("requests"))


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
