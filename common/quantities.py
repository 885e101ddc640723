"""Quantities of resources and durations as Kubernetes writes them, and what a pod takes of its node."""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final

_QUANTITY: Final = re.compile(
    r"([+-]?(?:[0-9]{1,30}(?:\.[0-9]{0,30})?|\.[0-9]{1,30}))(?:([EPTGMk]|[EPTGMK]i|[num])|[eE]([+-]?[0-9]{1,2}))?"
)
"""The grammar of ``k8s.io/apimachinery/pkg/api/resource/quantity.go``, with a limit on the length."""

_SUFFIXES: Final = {
    "": Decimal(1),
    **{suffix: Decimal(10) ** (3 * power) for power, suffix in enumerate("kMGTPE", 1)},
    **{f"{suffix}i": Decimal(2) ** (10 * power) for power, suffix in enumerate("KMGTPE", 1)},
    **{suffix: Decimal(10) ** (-3 * power) for power, suffix in enumerate("mun", 1)},
}


MOST_SECONDS: Final = 10 * 365 * 86400
"""Longer than anything lasts."""

_DURATION: Final = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s)?", re.ASCII)

_LONGEST: Final = 80
"""More characters than any text of the grammar has; longer texts are not cached."""


def thousandths(text: str) -> int:
    """Returns a quantity in thousandths, rounded up; 0 for a text that is not a quantity."""
    return _thousandths(text) if len(text) <= _LONGEST else 0


@lru_cache(maxsize=4096)
def _thousandths(text: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if not match:
        return 0
    number, suffix, exponent = match.groups()
    scale = Decimal(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return int((Decimal(number) * scale * 1000).to_integral_value(ROUND_CEILING))


def seconds(text: object) -> int | None:
    """Returns the seconds of a duration such as ``30m``, ``4h``, ``1d12h`` or ``90s``; else None."""
    parts = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        return None
    length = sum(
        int(part or 0) * unit for part, unit in zip(parts.groups(), (86400, 3600, 60, 1), strict=True)
    )
    return length if 0 < length < MOST_SECONDS else None


def amounts(quantities: object) -> dict[str, int]:
    """Returns a map of quantities in thousandths; empty for a value that is not a map."""
    items = quantities.items() if isinstance(quantities, dict) else ()
    return {name: thousandths(str(text)) for name, text in items if isinstance(text, str | int | float)}


def requests(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    """Returns what a pod takes of its node, in thousandths, by resource; the spec may have any content.

    Follows ``PodRequests`` in ``k8s.io/component-helpers/resource``: containers and sidecars run together, an
    init container runs together with the sidecars before it, requests of the whole pod take precedence, and
    the overhead is added. For a resized pod the status has its actual resources: the pod takes these until
    the kubelet has made it smaller, and it does not take what the kubelet reports as infeasible.
    """
    total: dict[str, int] = {}
    actual = _actual(status) if status else {}
    for container in _maps(spec.get("containers")):
        has = actual.get(str(container.get("name")))
        _add(total, _taken(container, has) if has else _requested(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in _maps(spec["initContainers"]) if "initContainers" in spec else ():
        sidecar = container.get("restartPolicy") == "Always"
        has = actual.get(str(container.get("name"))) if sidecar else None
        taken = _taken(container, has)
        _add(taken, sidecars)
        if sidecar:
            sidecars = taken
        _raise(peak, taken)
    if peak:
        _add(total, sidecars)
        _raise(total, peak)
    if "resources" in spec or actual:
        total.update(_taken(spec, actual.get("")))
    if "overhead" in spec:
        _add(total, amounts(spec["overhead"]))
    return total


def _maps(items: object) -> list[dict[str, Any]]:
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _requested(owner: dict[str, Any]) -> dict[str, int]:
    resources = owner.get("resources")
    if not isinstance(resources, dict):
        return {}
    # A limit without a request is also the request: the API server stores it so.
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


_Actual = tuple[dict[str, int], bool]
"""The resources that a container, or a pod, has; and whether its resize is infeasible."""


def _actual(status: dict[str, Any]) -> dict[str, _Actual]:
    """Returns the resources that each container has, by name, and those of the whole pod by an empty name."""
    pending = (each for each in _maps(status.get("conditions")) if each.get("type") == "PodResizePending")
    infeasible = any(each.get("reason") == "Infeasible" for each in pending)
    kinds = ("containerStatuses", "initContainerStatuses")
    parts = [(str(item.get("name")), item) for kind in kinds for item in _maps(status.get(kind))]
    actual: dict[str, _Actual] = {}
    for name, part in [*parts, ("", status)]:
        resources = part.get("resources")
        if isinstance(resources, dict):
            has = amounts(resources.get("requests"))
            _raise(has, amounts(part.get("allocatedResources")))
            actual[name] = has, infeasible
    return actual


def _taken(owner: dict[str, Any], actual: _Actual | None) -> dict[str, int]:
    """Returns what a container, or a pod, takes: the larger of its requests and what it has."""
    has, infeasible = actual or ({}, False)
    if infeasible:
        return dict(has)
    taken = _requested(owner)
    if has:
        _raise(taken, has)
    return taken


def _add(total: dict[str, int], more: dict[str, int]) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise(total: dict[str, int], least: dict[str, int]) -> None:
    for name, amount in least.items():
        total[name] = max(total.get(name, 0), amount)
