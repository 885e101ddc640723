"""What a decision says, written to the API server: pins and gates, and deletions.

Of an opening it is written in this order, so that a crash between any two writes leaves a state from
which the next leader finishes the same opening:

1. into the job's first worker its pin (a node selector: the unit's server id, or for node config 1 the
   node's host name) and, in the same patch, the annotation `OPENED` with the time and the plan: the unit of
   every other block (of so many as fit, see `placement.decide.plan.MOST_PLANNED`);
2. when that is stored, the removal of the gate from every pod of the job, and in the same patch the pin of
   the workers that have none.

Every write names the pod's uid, so that a pod of the same name that was made since is not meant. What else
has to be as it was is tested by itself: who changes something else of the pod has no say in the write. The
API server itself refuses to pin what has no gate any more, and to change a pin.
"""

from collections.abc import Mapping
from datetime import datetime

from common.pointers import pointer
from common.times import stamp
from contract.keys import GATE, OPENED
from kube.api import Object
from kube.rest import RestApi
from placement.observe.model import Pod
from placement.observe.read import read_pod


def path_of(pod: Pod) -> str:
    """Where the API server has a pod."""
    return f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"


def noted(now: datetime, plan: Mapping[int, str]) -> str:
    """What the annotation `OPENED` says: when, and the units of further blocks."""
    return " ".join([stamp(now), *(f"{block}={unit}" for block, unit in plan.items())])


def pin(pod: Pod, key: str, unit: str, note: str) -> list[Object]:
    """The operations that pin a pod to its unit, by a node label, with a note, unless it has a pin by now.

    Its node selector is tested: a leader that decided from the same pod may have pinned it.
    """
    selector = dict(pod.demand.selector)
    at, value = (("nodeSelector", key), unit) if selector else (("nodeSelector",), {key: unit})
    return [
        *([{"op": "test", "path": "/spec/nodeSelector", "value": selector}] if selector else []),
        {"op": "add", "path": pointer(("metadata", "annotations", OPENED)), "value": note},
        {"op": "add", "path": pointer(("spec", *at)), "value": value},
    ]


def release(pod: Pod) -> list[Object]:
    """The operations that take the gate off a pod; none where another leader was faster.

    And the list of who wrote which field: the API server keeps it for who applies an object, as nobody does
    with a job's pods, and computes less without (Kubernetes, "Server-Side Apply", clearing managedFields).
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
    """Change a pod.

    Returns:
        The pod as it is stored now; None if it has ended.

    Raises:
        ApiError: It cannot be done: it is another pod, has another pin, or its gates are others.
    """
    if not operations:
        return pod
    same: Object = {"op": "test", "path": "/metadata/uid", "value": pod.uid}
    return read_pod(api.patch(path_of(pod), [same, *operations]))


def delete(api: RestApi, pod: Pod) -> bool:
    """Delete a pod, unless it has started by now; says whether it was.

    Its gate goes first: the program's account may delete no pod that waits.

    Raises:
        ConflictError: It was made anew meanwhile.
        ApiError: It cannot be deleted.
    """
    now = api.get(path_of(pod))
    there = now and read_pod(now)
    if not there or there.uid != pod.uid or there.started or there.opened is None:
        return False
    patch(api, there, release(there))
    api.delete(path_of(pod), {"uid": pod.uid})
    return True
