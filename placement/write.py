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
    from collections.abc import Sequence
    from datetime import datetime

    from kube.api import Object
    from kube.client import KubernetesApi
    from placement.model import Pod
    from placement.plan import Pin


def path_of(pod: Pod) -> str:
    """Where the API server has a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def pin(api: KubernetesApi, wanted: Pin, now: datetime) -> Pod | None:
    """Pin a pod to its unit, and note when.

    Returns:
        The pod as it is stored now; None if it has ended.

    Raises:
        ApiError: It cannot be done: it is another pod, has no gate any more or has another pin.
    """
    return _patched(api, wanted.pod, pinned(wanted, now))


def release(api: KubernetesApi, pod: Pod, also: Sequence[Object] = ()) -> Pod | None:
    """Take the gate off a pod that has it; ``also`` are operations of the same patch, as of `pinned`.

    Returns:
        The pod as it is stored now; None if it has ended.

    Raises:
        ApiError: It cannot be done: it is another pod, has another pin, or its gates are others.
    """
    if not pod.gated:  # another leader was faster
        return pod
    gate = f"/spec/schedulingGates/{pod.gates.index(GATE)}"
    operations: list[Object] = [
        {"op": "test", "path": f"{gate}/name", "value": GATE},
        {"op": "remove", "path": gate},
    ]
    return _patched(api, pod, [*operations, *also])


def delete(api: KubernetesApi, pod: Pod) -> None:
    """Delete a pod, if nothing at all has happened to it since it was seen: it may have started.

    Raises:
        ConflictError: Something has.
        ApiError: It cannot be deleted.
    """
    api.delete(path_of(pod), {"uid": pod.uid, "resourceVersion": pod.version})


def pinned(wanted: Pin, now: datetime) -> list[Object]:
    """The operations of a patch that pins a pod to its unit and notes when."""
    selector = wanted.pod.demand.selector
    add = f"/spec/nodeSelector/{_escaped(wanted.key)}" if selector else "/spec/nodeSelector"
    value = wanted.value if selector else {wanted.key: wanted.value}
    opened = f"/metadata/annotations/{_escaped(OPENED)}"
    return [{"op": "add", "path": opened, "value": stamp(now)}, {"op": "add", "path": add, "value": value}]


def _patched(api: KubernetesApi, pod: Pod, operations: list[Object]) -> Pod | None:
    same: Object = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    return read_pod(api.patch(path_of(pod), [same, *operations]))


def _escaped(key: str) -> str:
    """A key as a part of a JSON pointer (RFC 6901)."""
    return key.replace("~", "~0").replace("/", "~1")
