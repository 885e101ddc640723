"""Writes a decision to the API server: pins, removals of gates, and deletions.

An admission has two steps. If the program crashes between any two writes, the next leader completes the same
admission.

1. The first worker of the job gets its pin, and in the same patch the annotation `OPENED`. The pin is a node
   selector on the unit's label. The annotation has the time and the plan: the unit of each other block. If
   there are more than `placement.decide.plan.MOST_PLANNED` blocks, more workers get parts of the plan.
2. After that, the gate of every pod of the job is removed, and in the same patch the other workers get their
   pins.

Every write tests the pod's uid, so that it cannot change a newer pod of the same name. A write tests only
fields on which it depends, so that it does not fail because of other changes. The API server itself refuses
to pin a pod without a gate, and to change a pin.
"""

from collections.abc import Mapping
from datetime import datetime
from operator import attrgetter

from common.pointers import pointer
from common.times import stamp
from contract.keys import GATE, OPENED
from kube.api import Object
from kube.rest import RestApi
from placement.observe.model import Pod
from placement.observe.read import read_pod


def pod_path(pod: Pod) -> str:
    """Returns the path of a pod in the API."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def opened_value(now: datetime, plan: Mapping[int, str]) -> str:
    """Returns the value of the annotation `OPENED`: the time, and the planned units of other blocks."""
    return " ".join([stamp(now), *(f"{block}={unit}" for block, unit in plan.items())])


def pin_operations(pod: Pod, key: str, unit: str, annotation: str) -> list[Object]:
    """Returns the operations that pin a pod to its unit by a node label, and add the annotation `OPENED`.

    They fail if the pod's node selector has changed: another leader may have pinned the pod. Without a
    selector, no test is needed, because the API server refuses to change a pin.
    """
    selector = dict(pod.demand.selector)
    path, value = (("nodeSelector", key), unit) if selector else (("nodeSelector",), {key: unit})
    return [
        *([{"op": "test", "path": "/spec/nodeSelector", "value": selector}] if selector else []),
        {"op": "add", "path": pointer(("metadata", "annotations", OPENED)), "value": annotation},
        {"op": "add", "path": pointer(("spec", *path)), "value": value},
    ]


def gate_removal(pod: Pod) -> list[Object]:
    """Returns the operations that remove the gate of a pod; an empty list if the pod has no gate.

    They also clear managedFields, which saves the API server work: server-side apply needs this field, but is
    not used for a job's pods (Kubernetes, "Server-Side Apply", clearing managedFields).
    """
    if not pod.gated:
        return []
    gate = f"/spec/schedulingGates/{pod.gates.index(GATE)}"
    return [
        {"op": "test", "path": f"{gate}/name", "value": GATE},
        {"op": "remove", "path": gate},
        {"op": "add", "path": "/metadata/managedFields", "value": [{}]},
    ]


def patch(api: RestApi, pod: Pod, operations: list[Object]) -> Pod | None:
    """Changes a pod; with no operations, does nothing.

    Returns:
        The pod as it is stored; None if it has ended.

    Raises:
        ApiError: The pod was replaced, its pin or gates have changed, or the API server refuses.
    """
    if not operations:
        return pod
    uid_test: Object = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    return read_pod(api.patch(pod_path(pod), [uid_test, *operations]))


def is_unchanged(api: RestApi, pod: Pod) -> bool:
    """Returns whether the fields on which a pod's deletion depends are unchanged on the API server."""
    raw = api.get(pod_path(pod))
    current = read_pod(raw) if raw else None
    fields = attrgetter("uid", "node", "admitted_at", "on_failure", "priority")
    return current is not None and fields(current) == fields(pod)


def delete(api: RestApi, pod: Pod) -> bool:
    """Deletes a pod that is pinned and has neither started nor ended; returns whether it was deleted.

    The gate is removed first, because the program's account may not delete a pod that has the gate.

    Raises:
        ApiError: The pod cannot be deleted, or was replaced just now.
    """
    raw = api.get(pod_path(pod))
    current = raw and read_pod(raw)
    if not current or current.uid != pod.uid or current.started or current.admitted_at is None:
        return False
    patch(api, current, gate_removal(current))
    api.delete(pod_path(pod), {"uid": pod.uid})
    return True
