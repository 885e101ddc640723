"""Small jobs of each kind."""

import copy
from typing import Any

from contract import keys
from testbed.mpijob import mpijob
from testbed.plane.kubectl import Object

CONTAINER = {
    "name": "x",
    "image": "example.invalid/train",
    "resources": {"limits": {"aws.amazon.com/neuron": "16"}},
}
RUNTIME = "ultraservers"


def template(**fields: Any) -> Object:
    """Returns a pod template that requests all devices of a node, with more fields of the pod spec."""
    return {"spec": {"containers": [copy.deepcopy(CONTAINER)], **fields}}


def named(kind: str, spec: Object, name: str = "train") -> Object:
    """Returns an object with a name. ``kind`` is ``VERSION/KIND`` or ``GROUP/VERSION/KIND``."""
    version, _, kind = kind.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def job(pods: int, name: str = "train", **fields: Any) -> Object:
    spec = {"parallelism": pods, "completions": pods, "template": template(restartPolicy="Never"), **fields}
    return named("batch/v1/Job", spec, name)


def jobset(jobs: int, pods: int) -> Object:
    replicated = [{"name": "workers", "replicas": jobs, "template": {"spec": job(pods)["spec"]}}]
    return named("jobset.x-k8s.io/v1alpha2/JobSet", {"replicatedJobs": replicated})


def leaderworkerset(groups: int, size: int) -> Object:
    spec = {"size": size, "leaderTemplate": template(), "workerTemplate": template()}
    kind = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
    return named(kind, {"replicas": groups, "leaderWorkerTemplate": spec})


def pytorchjob(workers: int, masters: int = 1) -> Object:
    pod_template = template(containers=[{**CONTAINER, "name": "pytorch"}])
    roles: Object = {"Worker": {"replicas": workers, "template": pod_template}}
    if masters:
        roles["Master"] = {"replicas": masters, "template": copy.deepcopy(pod_template)}
    return named("kubeflow.org/v1/PyTorchJob", {"pytorchReplicaSpecs": roles})


def trainjob(nodes: int) -> Object:
    trainer = {"numNodes": nodes, "resourcesPerNode": CONTAINER["resources"]}
    spec = {"runtimeRef": {"name": RUNTIME}, "trainer": trainer}
    return named("trainer.kubeflow.org/v1alpha1/TrainJob", spec)


def labelled_set(label: str) -> Object:
    """Returns a StatefulSet without replicas, with a job label in its pod template."""
    labels = {"app": "x", keys.JOB: label}
    spec = {"serviceName": "x", "replicas": 0, "selector": {"matchLabels": {"app": "x"}}}
    return named("apps/v1/StatefulSet", {**spec, "template": {"metadata": {"labels": labels}, **template()}})


def mpijob_v1(workers: int, name: str = "train") -> Object:
    v2_job = mpijob(workers, name=name)
    return {
        **v2_job,
        "apiVersion": "kubeflow.org/v1",
        "spec": {"mpiReplicaSpecs": v2_job["spec"]["mpiReplicaSpecs"]},
    }
