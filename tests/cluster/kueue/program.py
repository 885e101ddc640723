"""Kueue on a control plane: its own manifests and rights, as a process on loopback."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from typing import TYPE_CHECKING

import yaml

from tests.cluster import webhook
from tests.cluster.controlplane import answers_ok, established
from tests.cluster.process import ClusterError, free_ports, supervised
from tests.cluster.tools import build
from tests.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.cluster.controlplane import ControlPlane
    from tests.cluster.kubectl import Object
    from tests.cluster.process import Program

NAMESPACE = "kueue-system"
ACCOUNT = "kueue-controller-manager"
QUEUE = "kueue.x-k8s.io/queue-name"
LOCAL_QUEUE = "training"
EXAMPLE = webhook.REPOSITORY / "examples" / "kueue.yaml"

DEFINITIONS = "CustomResourceDefinition"
RIGHTS = ("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding")
WEBHOOKS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


def start(plane: ControlPlane) -> Program:
    """Installs Kueue for MPIJobs and waits until it is ready and the API server asks it.

    Raises:
        ClusterError: it is not built, or does not come up.
    """
    tools = build.KUEUE.directory()
    if lacking := build.KUEUE.missing(tools):
        raise ClusterError(f"{tools} lacks {', '.join(lacking)}: make cluster-tools builds them")
    folder = plane.folder / "kueue"
    folder.mkdir()
    webhook.development_certificates(folder)
    port, health = free_ports(2)
    parts = _manifests(plane, tools, folder, f"https://127.0.0.1:{port}")
    rights, definitions, webhooks = (
        [part for part in parts if part["kind"] in kinds] for kinds in (RIGHTS, (DEFINITIONS,), WEBHOOKS)
    )
    for part in (*rights, *definitions):
        plane.kubectl.create(part)
    for part in definitions:
        plane.kubectl.wait_for(established, "crd", part["metadata"]["name"])
    command = [
        str(tools / "kueue"),
        f"--config={_configuration(folder, port, health)}",
        # Its server for questions about queues would listen on all addresses.
        "--feature-gates=VisibilityOnDemand=false",
        "--zap-log-level=2",
    ]
    program = plane.programs.start(
        "kueue",
        # It ends where the API server does not serve its kinds yet, which established ones may be late for.
        supervised(command),
        env={
            "HOME": str(plane.folder),
            "PATH": "/usr/bin:/bin",
            "KUBECONFIG": str(plane.account(NAMESPACE, ACCOUNT)),
            "KUEUE_METRICS_CERTIFICATES": str(folder),
        },
        cwd=plane.folder,
    )
    program.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{health}/readyz"), PATIENCE)
    for part in webhooks:
        plane.kubectl.create(part)
    _wait_until_asked(plane)
    return program


def queues(plane: ControlPlane, *namespaces: str) -> None:
    """What the example has, with its queue in each of the namespaces."""
    *shared, _ = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    for part in shared:
        plane.kubectl.create(part)
    for namespace in namespaces:
        queue(plane, namespace)


def queue(plane: ControlPlane, namespace: str, name: str = LOCAL_QUEUE) -> None:
    """The example's LocalQueue, in a namespace and by a name, once Kueue takes jobs from it."""
    *_, found = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    found["metadata"] = {"name": name, "namespace": namespace}
    plane.kubectl.create(found)
    plane.kubectl.in_namespace(namespace).wait_for(_active, "localqueue", name)


def _active(queue: Object) -> bool:
    conditions = queue.get("status", {}).get("conditions") or []
    return any((item["type"], item["status"]) == ("Active", "True") for item in conditions)


def _manifests(plane: ControlPlane, tools: Path, folder: Path, url: str) -> list[Object]:
    """What an installation of Kueue applies, with its webhooks where the process is."""
    command = [str(plane.tools / "kubectl"), "kustomize", str(tools / "config" / "default")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise ClusterError(f"{' '.join(command)} failed:\n{done.stderr}")
    parts = [part for part in yaml.safe_load_all(done.stdout) if part]
    bundle = base64.b64encode((folder / "ca.crt").read_bytes()).decode()
    for part in parts:
        clients = list(part.get("webhooks", [])) if part["kind"] in WEBHOOKS else []
        if part["kind"] == DEFINITIONS and "conversion" in part["spec"]:
            clients = [part["spec"]["conversion"]["webhook"]]
        for client in clients:
            path = client["clientConfig"]["service"]["path"]
            client["clientConfig"] = {"url": url + path, "caBundle": bundle}
    return parts


def _configuration(folder: Path, port: int, health: int) -> Path:
    found = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 200, "burst": 400},
        "integrations": {"frameworks": ["kubeflow.org/mpijob"]},
    }
    path = folder / "configuration.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


def _wait_until_asked(plane: ControlPlane) -> None:
    """Waits until a dry run of a job with a queue comes back suspended."""
    job = json.dumps({**webhook.PROBE, "metadata": {"name": "probe", "labels": {QUEUE: "probe"}}})
    command = ("create", "--dry-run=server", "-o", "json", "-f", "-")
    deadline = time.monotonic() + PATIENCE
    while True:
        done = plane.kubectl.in_namespace("default").run(*command, stdin=job, check=False)
        if done.returncode == 0 and json.loads(done.stdout)["spec"]["runPolicy"].get("suspend"):
            return
        if time.monotonic() > deadline:
            raise ClusterError(f"the API server does not ask Kueue: {done.stdout}{done.stderr}")
        time.sleep(0.1)
