"""Pods that claim their devices."""

from collections import defaultdict

from testbed.experiment.stage import Stage
from testbed.plane import nodes
from testbed.plane.kubectl import Object

GROUP_INDEX = "leaderworkerset.sigs.k8s.io/group-index"


def claim_fields(template: str, name: str = "neurons") -> tuple[Object, Object]:
    """Returns the fields by which a container and its Pod get a claim from a template."""
    claim = {"name": name, "resourceClaimTemplateName": template}
    return {"resources": {"claims": [{"name": name}]}}, {"resourceClaims": [claim]}


def pod_with_claim(name: str, node: str) -> Object:
    """Returns a Pod that belongs to no job and claims a whole node."""
    container, claims = claim_fields(nodes.template_name(1))
    containers = [{"name": "c", "image": "example.invalid/c", **container}]
    spec = {"containers": containers, "nodeSelector": {"kubernetes.io/hostname": node}, **claims}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def vllm_set(size: int) -> Object:
    """Returns a LeaderWorkerSet of AWS's document about the driver. A group runs on ``size`` nodes."""
    container_claim, pod_claims = claim_fields(nodes.template_name(size), "one-node-from-ultraserver")
    image = {"image": "public.ecr.aws/ubuntu/ubuntu:22.04", "command": ["sh", "-c", "sleep infinity"]}

    def template(role: str) -> Object:
        containers = [{"name": f"vllm-{role}", **image, **container_claim}]
        return {"metadata": {"labels": {"role": role}}, "spec": {"containers": containers, **pod_claims}}

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


def units(
    stage: Stage, pods: list[Object], group_label: str, unit_label: str = nodes.SERVER_ID_4
) -> list[set[str]]:
    """Returns the units on which each group of pods runs. Pods of a group have the same ``group_label``."""
    result = defaultdict(set)
    for pod in pods:
        result[pod["metadata"]["labels"][group_label]].add(stage.labels[pod["spec"]["nodeName"]][unit_label])
    return list(result.values())
