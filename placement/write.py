"""What a decision says, written to the API server: pins and gates, and deletions.

Every write names the pod's uid, so that a pod of the same name that was made since is not meant. The API
server itself refuses to pin what has no gate any more, and to change a pin.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.times import stamp
from contract.keys import GATE, OPENED
from placement.read import read_pod

if TYPE_CHECKING:
    from datetime import datetime

    from kube.api import Object
    from kube.client import KubernetesApi
    from placement.model import Pod
    from placement.plan import Pin


def path_of(pod: Pod) -> str:
    """Where the API server has a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def release(api: KubernetesApi, pod: Pod, pin: Pin | None = None, now: datetime | None = None) -> Pod | None:
    """Take the gate off a pod that has it, and in the same patch pin it to its unit and note when.

    Returns:
        The pod as it is stored now; None if it has ended.

    Raises:
        ApiError: It cannot be done: it is another pod, has another pin, or its gates are others.
    """
    gate = f"/spec/schedulingGates/{pod.gates.index(GATE)}"
    operations: list[Object] = [
        {"op": "test", "path": "/metadata/uid", "value": pod.uid},
        {"op": "test", "path": f"{gate}/name", "value": GATE},
        {"op": "remove", "path": gate},
    ]
    if pin and now:
        operations += _pinned(pin, now)
    return read_pod(api.patch(path_of(pod), operations))


def delete(api: KubernetesApi, pod: Pod) -> None:
    """Delete a pod, if nothing at all has happened to it since it was seen: it may have started.

    Raises:
        ConflictError: Something has.
        ApiError: It cannot be deleted.
    """
    api.delete(path_of(pod), {"uid": pod.uid, "resourceVersion": pod.version})


def _pinned(pin: Pin, now: datetime) -> list[Object]:
    selector = pin.pod.demand.selector
    add = f"/spec/nodeSelector/{_escaped(pin.key)}" if selector else "/spec/nodeSelector"
    value = pin.value if selector else {pin.key: pin.value}
    opened = f"/metadata/annotations/{_escaped(OPENED)}"
    return [{"op": "add", "path": opened, "value": stamp(now)}, {"op": "add", "path": add, "value": value}]


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
