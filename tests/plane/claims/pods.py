"""Pods that claim their devices."""

from collections import defaultdict

from testbed.experiment.stage import Stage
from testbed.plane import nodes
from testbed.plane.kubectl import Object

GROUP = "leaderworkerset.sigs.k8s.io/group-index"


def claiming(template: str, name: str = "neurons") -> tuple[Object, Object]:
    """Returns what a container and a pod say to have a claim."""
    claim = {"name": name, "resourceClaimTemplateName": template}
    return {"resources": {"claims": [{"name": name}]}}, {"resourceClaims": [claim]}


def pod_with_claim(name: str, node: str) -> Object:
    """Returns a Pod without a job that claims a node."""
    container, claims = claiming(nodes.template_name(1))
    containers = [{"name": "c", "image": "example.invalid/c", **container}]
    spec = {"containers": containers, "nodeSelector": {"kubernetes.io/hostname": node}, **claims}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def vllm(size: int) -> Object:
    """Returns the LeaderWorkerSets of AWS's document on the driver: inference on four nodes, and on two."""
    container, pod = claiming(nodes.template_name(size), "one-node-from-ultraserver")
    image = {"image": "public.ecr.aws/ubuntu/ubuntu:22.04", "command": ["sh", "-c", "sleep infinity"]}

    def template(role: str) -> Object:
        containers = [{"name": f"vllm-{role}", **image, **container}]
        return {"metadata": {"labels": {"role": role}}, "spec": {"containers": containers, **pod}}

    exclusive = {"leaderworkerset.sigs.k8s.io/exclusive-topology": f"{nodes.LABEL}server-id-{size}"}
    rolling = {"type": "RollingUpdate", "rollingUpdateConfiguration": {"maxUnavailable": 1, "maxSurge": 1}}
    templates = {"leaderTemplate": template("leader"), "workerTemplate": template("worker")}
    group = {"size": size, "restartPolicy": "RecreateGroupOnPodRestart", **templates}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "vllm", "annotations": exclusive},
        "spec": {"rolloutStrategy": rolling, "replicas": 2, "leaderWorkerTemplate": group},
    }


def units(stage: Stage, pods: list[Object], by: str, key: str = nodes.SERVER_ID_4) -> list[set[str]]:
    """Returns the units of each group of pods."""
    result = defaultdict(set)
    for pod in pods:
        result[pod["metadata"]["labels"][by]].add(stage.labels[pod["spec"]["nodeName"]][key])
    return list(result.values())
