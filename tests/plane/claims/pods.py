"""Pods that claim their devices."""

from __future__ import annotations

from testbed.plane import nodes
from testbed.plane.kubectl import Object


def claiming(template: str, name: str = "neurons") -> tuple[Object, Object]:
    """What a container and a pod say to have a claim."""
    claim = {"name": name, "resourceClaimTemplateName": template}
    return {"resources": {"claims": [{"name": name}]}}, {"resourceClaims": [claim]}


def pod_with_claim(name: str, node: str) -> Object:
    """A Pod without a job that claims a node."""
    container, claims = claiming(nodes.template_name(1))
    containers = [{"name": "c", "image": "example.invalid/c", **container}]
    spec = {"containers": containers, "nodeSelector": {"kubernetes.io/hostname": node}, **claims}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
