"""What a pod takes of a node."""

from __future__ import annotations

from typing import Any, Final

from common.quantities import thousandths

PORT: Final = "host port"
"""A resource of this name stands for very many host ports, one whose name begins so for one of them."""

MOST_PORTS: Final = 16
"""Host ports of one pod that are kept."""


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


def ports(spec: dict[str, Any]) -> dict[str, int]:
    """The host ports that a pod takes, as resources of which a node has one each; addresses do not count."""
    sidecars = [each for each in spec.get("initContainers") or () if each.get("restartPolicy") == "Always"]
    found = {
        f"{PORT} {port['hostPort']}/{port.get('protocol') or 'TCP'}": 1000
        for container in (*(spec.get("containers") or ()), *sidecars)
        for port in container.get("ports") or ()
        if port.get("hostPort")
    }
    return found if len(found) <= MOST_PORTS else {PORT: 1000}


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
