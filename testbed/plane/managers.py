"""Other projects' controllers on a control plane: their own manifests and rights, as loopback processes."""

import base64
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from testbed.plane.controlplane import ControlPlane, established
from testbed.plane.kubectl import Object
from testbed.plane.process import ClusterError

DEFINITION = "CustomResourceDefinition"
RIGHTS = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def manifests(plane: ControlPlane, folder: Path) -> list[Object]:
    """Returns what an installation by kustomize applies.

    Raises:
        ClusterError: kustomize cannot read the folder; the message has what it said.
    """
    command = [str(plane.tools / "kubectl"), "kustomize", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)} failed:\n{done.stderr}")
    # Definitions are megabytes, for which the loader in Python takes ten times as long.
    return [part for part in yaml.load_all(done.stdout, yaml.CSafeLoader) if part]


def definition(group_version: str, kind: str) -> Object:
    """Returns a kind of which nothing but the name is known."""
    group, version = group_version.split("/")
    plural = f"{kind.lower()}s"
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    served = {"name": version, "served": True, "storage": True, "schema": schema}
    names = {"plural": plural, "singular": kind.lower(), "kind": kind}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": DEFINITION,
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "scope": "Namespaced", "versions": [served]},
    }


def at(parts: Iterable[Object], url: str, ca: Path) -> list[Object]:
    """Returns the manifests with their webhooks at a URL instead of in a Service."""
    objects = list(parts)
    bundle = base64.b64encode(ca.read_bytes()).decode()
    for part in objects:
        clients = list(part.get("webhooks", [])) if part["kind"] in WEBHOOKS else []
        if part["kind"] == DEFINITION and "conversion" in part["spec"]:
            clients = [part["spec"]["conversion"]["webhook"]]
        for client in clients:
            path = client["clientConfig"]["service"]["path"]
            client["clientConfig"] = {"url": url + path, "caBundle": bundle}
    return objects


def undescribed(node: Any) -> Any:
    """Returns a definition without its descriptions: more than half of what the API server works on."""
    if isinstance(node, dict):
        return {
            key: undescribed(value)
            for key, value in node.items()
            if key != "description" or not isinstance(value, str)
        }
    return [undescribed(item) for item in node] if isinstance(node, list) else node


def install(plane: ControlPlane, parts: Iterable[Object]) -> list[Object]:
    """Creates rights and definitions and waits until these are served.

    Returns:
        The webhook configurations, to be created once the webhook answers.
    """
    objects = sorted(parts, key=lambda part: part["kind"] != "Namespace")
    for part in objects:
        if part["kind"] in {*RIGHTS, DEFINITION}:
            plane.kubectl.create(undescribed(part) if part["kind"] == DEFINITION else part)
    for part in objects:
        if part["kind"] == DEFINITION:
            plane.kubectl.wait_for(established, "crd", part["metadata"]["name"])
    return [part for part in objects if part["kind"] in WEBHOOKS]
