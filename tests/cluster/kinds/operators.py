"""The Pods that an operator makes of a stored job: names, labels and templates as its source has them.

It stands in for operators that do not run here. What places the Pods is in their templates, which are the API
server's; the labels are what the sources named below put on top.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cluster.jobs import text, together
from tests.t9k import worker_of

if TYPE_CHECKING:
    from tests.cluster.kubectl import Kubectl, Object

LABEL = "training.kubeflow.org/"


def pod(name: str, template: Object, labels: dict[str, str]) -> Object:
    """A Pod of a template; the operator's own labels win."""
    metadata = {**template.get("metadata", {}), "name": name}
    metadata["labels"] = {**metadata.get("labels", {}), **labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def of_mpijob_v1(job: Object) -> list[Object]:
    """The workers; training-operator 1.9.3, pkg/controller.v1/mpi/mpijob_controller.go, newWorker."""
    name, worker = job["metadata"]["name"], job["spec"]["mpiReplicaSpecs"]["Worker"]
    own = {f"{LABEL}operator-name": "mpijob-controller", f"{LABEL}job-name": name}
    own[f"{LABEL}replica-type"] = "worker"
    return [
        pod(f"{name}-worker-{index}", worker["template"], {**own, f"{LABEL}replica-index": str(index)})
        for index in range(worker["replicas"])
    ]


def of_t9k(job: Object) -> list[Object]:
    """The workers; their labels are not public, so they have those of the template only."""
    name, worker = job["metadata"]["name"], worker_of(job)
    return [pod(f"{name}-worker-{index}", worker["template"], {}) for index in range(worker["replicas"])]


def bound(inside: Kubectl, pods: list[Object]) -> dict[str, str]:
    """Creates Pods, waits until the scheduler has bound all of them, and says on which nodes they are."""
    inside.run("create", "-f", "-", stdin=text(together(*pods)))
    return wait_bound(inside, [pod["metadata"]["name"] for pod in pods])


def wait_bound(inside: Kubectl, names: list[str]) -> dict[str, str]:
    """Waits until all these Pods are bound, and says on which nodes they are."""

    def nodes(found: Object) -> dict[str, str]:
        on = {item["metadata"]["name"]: item["spec"].get("nodeName", "") for item in found["items"]}
        return {name: on.get(name, "") for name in names}

    return nodes(inside.wait_for(lambda found: all(nodes(found).values()), "pods"))
