"""Installs controllers of other projects on a control plane, with their own manifests and roles."""

import base64
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

from testbed.plane.controlplane import ControlPlane, is_established
from testbed.plane.kubectl import Object
from testbed.plane.process import ClusterError

DEFINITION = "CustomResourceDefinition"
RIGHTS = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def manifests(plane: ControlPlane, folder: Path) -> list[Object]:
    """Returns the objects that kustomize builds from a folder.

    Raises:
        ClusterError: kustomize cannot read the folder; the message has its error.
    """
    command = [str(plane.tools / "kubectl"), "kustomize", str(folder)]
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        raise ClusterError(f"{' '.join(command)} failed:\n{result.stderr}")
    # CustomResourceDefinitions have megabytes. PyYAML's loader in Python would take ten times as long.
    return [part for part in yaml.load_all(result.stdout, yaml.CSafeLoader) if part]


def definition(group_version: str, kind: str) -> Object:
    """Returns the CustomResourceDefinition of a kind whose objects may have any fields."""
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


def with_loopback_webhooks(parts: Iterable[Object], url: str, ca: Path) -> list[Object]:
    """Returns manifests whose webhooks have a URL in place of a Service."""
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


def without_descriptions(node: Any) -> Any:
    """Returns a definition without its descriptions, which are over half of the API server's work."""
    if isinstance(node, dict):
        return {
            key: without_descriptions(value)
            for key, value in node.items()
            if key != "description" or not isinstance(value, str)
        }
    return [without_descriptions(item) for item in node] if isinstance(node, list) else node


def install(plane: ControlPlane, parts: Iterable[Object]) -> list[Object]:
    """Creates roles, accounts and CustomResourceDefinitions, and waits until the API server serves the kinds.

    Returns:
        The webhook configurations, which the caller creates when the webhook is ready.
    """
    objects = sorted(parts, key=lambda part: part["kind"] != "Namespace")
    for part in objects:
        if part["kind"] in {*RIGHTS, DEFINITION}:
            plane.kubectl.create(without_descriptions(part) if part["kind"] == DEFINITION else part)
    for part in objects:
        if part["kind"] == DEFINITION:
            plane.kubectl.wait_for(is_established, "crd", part["metadata"]["name"])
    return [part for part in objects if part["kind"] in WEBHOOKS]
