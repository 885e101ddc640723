"""Host ports, as what a pod takes of a node."""

from __future__ import annotations

from typing import Any, Final

PORT: Final = "host port"
"""A resource of this name stands for very many host ports, one whose name begins so for one of them."""

MOST_PORTS: Final = 16
"""Host ports of one pod that are kept."""


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
