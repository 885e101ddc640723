"""What a pod takes of a node."""

from __future__ import annotations

from typing import Any

from common.quantities import thousandths


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
