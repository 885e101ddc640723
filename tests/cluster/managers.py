"""Other projects' controllers on a control plane: their own manifests and rights, as loopback processes."""

from __future__ import annotations

import base64
import subprocess
from typing import TYPE_CHECKING

import yaml

from tests.cluster.jobs import text, together
from tests.cluster.process import ClusterError
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from tests.cluster.controlplane import ControlPlane
    from tests.cluster.kubectl import Object

DEFINITION = "CustomResourceDefinition"
RIGHTS = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def manifests(plane: ControlPlane, folder: Path) -> list[Object]:
    """What an installation by kustomize applies.

    Raises:
        ClusterError: kustomize cannot read the folder; the message has what it said.
    """
    command = [str(plane.tools / "kubectl"), "kustomize", str(folder)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)} failed:\n{done.stderr}")
    return [part for part in yaml.safe_load_all(done.stdout) if part]


def definition(group_version: str, kind: str) -> Object:
    """A kind of which nothing but the name is known."""
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
    """The manifests with their webhooks at a URL instead of in a Service."""
    found = list(parts)
    bundle = base64.b64encode(ca.read_bytes()).decode()
    for part in found:
        clients = list(part.get("webhooks", [])) if part["kind"] in WEBHOOKS else []
        if part["kind"] == DEFINITION and "conversion" in part["spec"]:
            clients = [part["spec"]["conversion"]["webhook"]]
        for client in clients:
            path = client["clientConfig"]["service"]["path"]
            client["clientConfig"] = {"url": url + path, "caBundle": bundle}
    return found


def wait_served(plane: ControlPlane, names: list[str]) -> None:
    """Waits until the API server serves what several definitions define."""
    # They are long: kubectl reads the conditions out of them, which takes a fraction of printing them.
    where = 'jsonpath={.items[*].status.conditions[?(@.type=="Established")].status}'
    command = ("get", "customresourcedefinitions", *names, "--ignore-not-found", "-o", where)
    until(lambda: plane.kubectl.run(*command).stdout.split() == ["True"] * len(names), every=1)


def install(plane: ControlPlane, parts: Iterable[Object]) -> list[Object]:
    """Creates rights and definitions and waits until these are served.

    Returns:
        The webhook configurations, to be created once somebody answers.
    """
    found = list(parts)
    # In one call each: kubectl asks for everything that there is whenever it starts.
    namespaces = [part for part in found if part["kind"] == RIGHTS[0]]
    others = [part for part in found if part["kind"] in (*RIGHTS[1:], DEFINITION)]
    plane.kubectl.run("create", "-f", "-", stdin=text(together(*namespaces, *others)))
    wait_served(plane, [part["metadata"]["name"] for part in others if part["kind"] == DEFINITION])
    return [part for part in found if part["kind"] in WEBHOOKS]
