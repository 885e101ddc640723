"""One job of every kind, as small as it can be."""

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


def template(**more: Any) -> Object:
    return {"spec": {"containers": [copy.deepcopy(CONTAINER)], **more}}


def named(kind: str, spec: Object, name: str = "train") -> Object:
    version, _, kind = kind.rpartition("/")
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, "spec": spec}


def job(pods: int, name: str = "train", **more: Any) -> Object:
    spec = {"parallelism": pods, "completions": pods, "template": template(restartPolicy="Never"), **more}
    return named("batch/v1/Job", spec, name)


def jobset(jobs: int, pods: int) -> Object:
    replicated = [{"name": "workers", "replicas": jobs, "template": {"spec": job(pods)["spec"]}}]
    return named("jobset.x-k8s.io/v1alpha2/JobSet", {"replicatedJobs": replicated})


def leaderworkerset(groups: int, size: int) -> Object:
    spec = {"size": size, "leaderTemplate": template(), "workerTemplate": template()}
    kind = "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet"
    return named(kind, {"replicas": groups, "leaderWorkerTemplate": spec})


def pytorchjob(workers: int, masters: int = 1) -> Object:
    of = template(containers=[{**CONTAINER, "name": "pytorch"}])
    roles: Object = {"Worker": {"replicas": workers, "template": of}}
    if masters:
        roles["Master"] = {"replicas": masters, "template": copy.deepcopy(of)}
    return named("kubeflow.org/v1/PyTorchJob", {"pytorchReplicaSpecs": roles})


def trainjob(nodes: int) -> Object:
    requests = {"numNodes": nodes, "resourcesPerNode": CONTAINER["resources"]}
    spec = {"runtimeRef": {"name": RUNTIME}, "trainer": requests}
    return named("trainer.kubeflow.org/v1alpha1/TrainJob", spec)


def labelled_set(label: str) -> Object:
    """Returns a StatefulSet whose Pods would have a job label; it makes none by itself."""
    labels = {"app": "x", keys.JOB: label}
    spec = {"serviceName": "x", "replicas": 0, "selector": {"matchLabels": {"app": "x"}}}
    return named("apps/v1/StatefulSet", {**spec, "template": {"metadata": {"labels": labels}, **template()}})


def mpijob_v1(workers: int, name: str = "train") -> Object:
    made = mpijob(workers, name=name)
    return {
        **made,
        "apiVersion": "kubeflow.org/v1",
        "spec": {"mpiReplicaSpecs": made["spec"]["mpiReplicaSpecs"]},
    }
