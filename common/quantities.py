"""Reads quantities and durations, and computes the resources that a pod uses."""

import re
from decimal import ROUND_CEILING, Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple

from common.pointers import get_maps

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


MAX_SECONDS: Final = 10 * 365 * 86400
"""Ten years: a duration must be shorter."""

_DURATION: Final = re.compile(r"(?:(\d{1,4})d)?(?:(\d{1,5})h)?(?:(\d{1,7})m)?(?:(\d{1,9})s)?", re.ASCII)

_MAX_LENGTH: Final = 80
"""The maximum length of a quantity; a longer text is not read as a quantity."""


def thousandths(text: str) -> int:
    """Returns a quantity in thousandths, rounded up; 0 for a text that is not a quantity."""
    return _thousandths(text) if len(text) <= _MAX_LENGTH else 0


@lru_cache(maxsize=4096)
def _thousandths(text: str) -> int:
    match = _QUANTITY.fullmatch(text)
    if not match:
        return 0
    number, suffix, exponent = match.groups()
    scale = Decimal(10) ** int(exponent) if exponent else _SUFFIXES[suffix or ""]
    return int((Decimal(number) * scale * 1000).to_integral_value(ROUND_CEILING))


def seconds(text: object) -> int | None:
    """Returns the seconds of a duration such as ``4h`` or ``1d12h``; None if invalid, zero or too long."""
    parts = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if parts is None:
        return None
    length = sum(
        int(part or 0) * unit for part, unit in zip(parts.groups(), (86400, 3600, 60, 1), strict=True)
    )
    return length if 0 < length < MAX_SECONDS else None


def amounts(quantities: object) -> dict[str, int]:
    """Returns a map of quantities in thousandths; empty for a value that is not a map."""
    items = quantities.items() if isinstance(quantities, dict) else ()
    return {name: thousandths(str(text)) for name, text in items if isinstance(text, str | int | float)}


def requests(spec: dict[str, Any], status: dict[str, Any] | None = None) -> dict[str, int]:
    """Returns the amount of each resource that a pod takes from its node, in thousandths.

    Follows ``PodRequests`` in ``k8s.io/component-helpers/resource``: containers and sidecars run together, an
    init container runs together with the sidecars before it, requests of the whole pod take precedence, and
    the overhead is added. The status of a resized pod has its actual resources. The pod takes the larger of
    the actual and the requested amount. An infeasible resize is ignored. An invalid spec raises no error.
    """
    total: dict[str, int] = {}
    actual_by_name = _read_actual(status) if status else {}
    for container in get_maps(spec.get("containers")):
        actual = actual_by_name.get(str(container.get("name")))
        _add(total, _usage(container, actual) if actual else _requested(container))
    sidecars: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in get_maps(spec["initContainers"]) if "initContainers" in spec else ():
        is_sidecar = container.get("restartPolicy") == "Always"
        usage = _usage(container, actual_by_name.get(str(container.get("name"))) if is_sidecar else None)
        _add(usage, sidecars)
        if is_sidecar:
            sidecars = usage
        _raise_to(peak, usage)
    if peak:
        _add(total, sidecars)
        _raise_to(total, peak)
    if "resources" in spec or actual_by_name:
        total.update(_usage(spec, actual_by_name.get("")))
    if "overhead" in spec:
        _add(total, amounts(spec["overhead"]))
    return total


def _requested(part: dict[str, Any]) -> dict[str, int]:
    resources = part.get("resources")
    if not isinstance(resources, dict):
        return {}
    # If there is only a limit, the API server stores it as the request, too.
    return amounts(resources.get("limits")) | amounts(resources.get("requests"))


class _Actual(NamedTuple):
    """The actual resources of a container or pod, and whether the pod's resize is infeasible."""

    requests: dict[str, int]
    is_infeasible: bool


def _read_actual(status: dict[str, Any]) -> dict[str, _Actual]:
    """Returns the actual resources of each container by name, and of the whole pod by an empty name."""
    pending_resizes = (
        condition
        for condition in get_maps(status.get("conditions"))
        if condition.get("type") == "PodResizePending"
    )
    is_infeasible = any(condition.get("reason") == "Infeasible" for condition in pending_resizes)
    keys = ("containerStatuses", "initContainerStatuses")
    statuses = [(str(item.get("name")), item) for kind in keys for item in get_maps(status.get(kind))]
    actual: dict[str, _Actual] = {}
    for name, item in [*statuses, ("", status)]:
        resources = item.get("resources")
        if isinstance(resources, dict):
            actual_requests = amounts(resources.get("requests"))
            _raise_to(actual_requests, amounts(item.get("allocatedResources")))
            actual[name] = _Actual(actual_requests, is_infeasible)
    return actual


def _usage(part: dict[str, Any], actual: _Actual | None) -> dict[str, int]:
    """Returns the usage of a container or pod: for each resource, the larger of request and actual amount."""
    actual_requests, is_infeasible = actual or ({}, False)
    if is_infeasible:
        return dict(actual_requests)
    usage = _requested(part)
    if actual_requests:
        _raise_to(usage, actual_requests)
    return usage


def _add(total: dict[str, int], amounts: dict[str, int]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: dict[str, int], minimums: dict[str, int]) -> None:
    for name, amount in minimums.items():
        total[name] = max(total.get(name, 0), amount)
