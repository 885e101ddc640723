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


def of_pytorchjob(job: Object) -> list[Object]:
    """Master and workers; training-operator 1.9.3, pkg/controller.v1/pytorch and common (labels, names)."""
    name, found = job["metadata"]["name"], []
    for role, spec in job["spec"]["pytorchReplicaSpecs"].items():
        kind = role.lower()
        own = {f"{LABEL}operator-name": "pytorchjob-controller", f"{LABEL}job-name": name}
        own[f"{LABEL}replica-type"] = kind
        found += [
            pod(f"{name}-{kind}-{index}", spec["template"], {**own, f"{LABEL}replica-index": str(index)})
            for index in range(spec.get("replicas", 1))
        ]
    return found


def of_leaderworkerset(job: Object) -> list[Object]:
    """Leaders and workers; lws 0.7.0, pkg/controllers and pkg/webhooks/pod_webhook.go."""
    name, spec = job["metadata"]["name"], job["spec"]["leaderWorkerTemplate"]
    prefix, found = "leaderworkerset.sigs.k8s.io/", []
    for group in range(job["spec"]["replicas"]):
        for index in range(spec["size"]):
            template = spec["workerTemplate"] if index else spec.get("leaderTemplate", spec["workerTemplate"])
            labels = {f"{prefix}name": name, f"{prefix}group-index": str(group)}
            # The key is a hash of namespace and name of the leader; here it only has to be unique.
            labels |= {f"{prefix}worker-index": str(index), f"{prefix}group-key": f"{name}-{group}"}
            found.append(pod(f"{name}-{group}-{index}", template, labels))
    return found


def jobs_of_jobset(job: Object) -> list[Object]:
    """Its Jobs, whose Pods the real Job controller makes; jobset 0.10.1, pkg/controllers, constructJob."""
    meta, found = job["metadata"], []
    owner = {key: job[key] for key in ("apiVersion", "kind")} | {key: meta[key] for key in ("name", "uid")}
    for replicated in job["spec"]["replicatedJobs"]:
        for index in range(replicated.get("replicas", 1)):
            own = {"name": f"{meta['name']}-{replicated['name']}-{index}"}
            own |= {"ownerReferences": [{**owner, "controller": True}]}
            spec = replicated["template"]["spec"]
            found.append({"apiVersion": "batch/v1", "kind": "Job", "metadata": own, "spec": spec})
    return found


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


def wait_count(inside: Kubectl, count: int, *select: str) -> list[str]:
    """Waits until so many Pods are bound, and says on which nodes they are."""

    def on(found: Object) -> list[str]:
        return [item["spec"]["nodeName"] for item in found["items"] if item["spec"].get("nodeName")]

    return on(inside.wait_for(lambda found: len(on(found)) == count, "pods", *select))
