"""Amounts of resources as Kubernetes writes them, and what a pod takes of its node."""

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


def amounts(quantities: object) -> dict[str, int]:
    """A map of quantities in thousandths; empty for what is not a map."""
    found = quantities.items() if isinstance(quantities, dict) else ()
    return {name: thousandths(str(text)) for name, text in found if isinstance(text, str | int | float)}


def requests(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    """What a pod takes of its node, in thousandths, by resource; of a spec of whatever content.

    As ``PodRequests`` in ``k8s.io/component-helpers/resource``: containers and sidecars run together, an
    init container runs beside the sidecars before it, requests of the whole pod win, and the overhead
    is added. Of a pod that was resized the status says what it has: until a kubelet has made it smaller it
    takes that, and what a kubelet found infeasible it does not take.
    """
    total: dict[str, int] = {}
    having = _having(status) if status else {}
    for container in _maps(spec.get("containers")):
        has = having.get(str(container.get("name")))
        _add(total, _standing(container, has) if has else _requested(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in _maps(spec["initContainers"]) if "initContainers" in spec else ():
        sidecar = container.get("restartPolicy") == "Always"
        has = having.get(str(container.get("name"))) if sidecar else None
        asked = _standing(container, has)
        _add(asked, sidecars)
        if sidecar:
            sidecars = asked
        _raise(peak, asked)
    _add(total, sidecars)
    if peak:
        _raise(total, peak)
    if "resources" in spec or having:
        total.update(_standing(spec, having.get("")))
    if "overhead" in spec:
        _add(total, amounts(spec["overhead"]))
    return total


def _maps(items: object) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _requested(owner: dict[str, Any]) -> dict[str, int]:
    resources = owner.get("resources")
    if not isinstance(resources, dict):
        return {}
    # What is limited only is requested: the API server writes that into stored pods.
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


_Having = tuple[dict[str, int], bool]
"""What a container, or a pod, has; and whether it gets no more."""


def _having(status: dict[str, Any]) -> dict[str, _Having]:
    """What containers have by their name, and the whole pod by none."""
    pending = (each for each in _maps(status.get("conditions")) if each.get("type") == "PodResizePending")
    infeasible = any(each.get("reason") == "Infeasible" for each in pending)
    kinds = ("containerStatuses", "initContainerStatuses")
    parts = [(str(item.get("name")), item) for kind in kinds for item in _maps(status.get(kind))]
    found: dict[str, _Having] = {}
    for name, part in [*parts, ("", status)]:
        resources = part.get("resources")
        if isinstance(resources, dict):
            has = amounts(resources.get("requests"))
            _raise(has, amounts(part.get("allocatedResources")))
            found[name] = has, infeasible
    return found


def _standing(owner: dict[str, Any], having: _Having | None) -> dict[str, int]:
    """What a container, or a pod, takes: the more of what it asks for and has."""
    has, infeasible = having or ({}, False)
    if infeasible:
        return dict(has)
    asked = _requested(owner)
    if has:
        _raise(asked, has)
    return asked


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
