"""Writes a decision to the API server: pins, removals of gates, and deletions.

An admission is written in this order, so that after a crash between any two writes the next leader completes
the same admission:

1. into the job's first worker its pin (a node selector: the unit's server id, or for node config 1 the
   node's host name) and, in the same patch, the annotation `OPENED` with the time and the plan: the unit of
   every other block (of as many as fit, see `placement.decide.plan.MOST_PLANNED`);
2. when that is stored, the removal of the gate from every pod of the job, and in the same patch the pin of
   the workers that have none.

Every write names the pod's uid, so that it cannot change a newer pod of the same name. Other fields are
tested only if the write depends on them, so that unrelated changes of the pod do not make it fail. The API
server itself refuses to pin a pod without a gate, and to change a pin.
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


def path_of(pod: Pod) -> str:
    """Returns the path of a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def noted(now: datetime, plan: Mapping[int, str]) -> str:
    """Returns the annotation `OPENED`: the time, and the units of further blocks."""
    return " ".join([stamp(now), *(f"{block}={unit}" for block, unit in plan.items())])


def pin(pod: Pod, key: str, unit: str, note: str) -> list[Object]:
    """Returns the operations that pin a pod to its unit, by a node label, with a note, unless it has a pin.

    They test its node selector, because a leader that decided from the same pod may have pinned it.
    """
    selector = dict(pod.demand.selector)
    at, value = (("nodeSelector", key), unit) if selector else (("nodeSelector",), {key: unit})
    return [
        *([{"op": "test", "path": "/spec/nodeSelector", "value": selector}] if selector else []),
        {"op": "add", "path": pointer(("metadata", "annotations", OPENED)), "value": note},
        {"op": "add", "path": pointer(("spec", *at)), "value": value},
    ]


def release(pod: Pod) -> list[Object]:
    """Returns the operations that remove the gate of a pod; none if another leader was faster.

    They also clear managedFields: the API server keeps these for server-side apply, which is not used for a
    job's pods, and computes less without them (Kubernetes, "Server-Side Apply", clearing managedFields).
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
    """Changes a pod.

    Returns:
        The pod as it is stored; None if it has ended.

    Raises:
        ApiError: The pod is another one, or has another pin or other gates.
    """
    if not operations:
        return pod
    same: Object = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    return read_pod(api.patch(path_of(pod), [same, *operations]))


def unchanged(api: RestApi, pod: Pod) -> bool:
    """Returns whether the API server has a pod as it was seen, which the copy of a watch may no longer be."""
    now = api.get(path_of(pod))
    there = read_pod(now) if now else None
    facts = attrgetter("uid", "node", "opened", "on_failure", "priority")
    return there is not None and facts(there) == facts(pod)


def evict(api: RestApi, pod: Pod, *, at_once: bool) -> None:
    """Deletes a pod that a failed node keeps from running, or whose job ends, with or without grace period.

    Raises:
        ConflictError: It was created again meanwhile.
        ApiError: It cannot be deleted.
    """
    api.delete(path_of(pod), {"uid": pod.uid}, grace_seconds=0 if at_once else None)


def delete(api: RestApi, pod: Pod) -> bool:
    """Deletes a pod, unless it has started; returns whether it was deleted.

    Removes its gate first, because the program's account may not delete a pod with the gate.

    Raises:
        ConflictError: It was created again meanwhile.
        ApiError: It cannot be deleted.
    """
    now = api.get(path_of(pod))
    there = now and read_pod(now)
    if not there or there.uid != pod.uid or there.started or there.opened is None:
        return False
    patch(api, there, release(there))
    api.delete(path_of(pod), {"uid": pod.uid})
    return True
