"""Runs Kueue as a process next to a control plane, with its own manifests and roles."""

import json
from pathlib import Path

import yaml

from testbed import chart
from testbed.kits import build
from testbed.plane import managers, webhook
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.kubectl import Object
from testbed.plane.process import ClusterError, Program, free_ports, with_restarts
from testbed.waiting import PATIENCE, until

NAMESPACE = "kueue-system"
ACCOUNT = "kueue-controller-manager"
QUEUE = "kueue.x-k8s.io/queue-name"
WORKLOADS = "workloads.kueue.x-k8s.io"
LOCAL_QUEUE = "training"
ROWS = chart.RULES / "15-kueue.yaml"
"""The rows of the rule table for jobs that name a queue of Kueue."""
EXAMPLE = webhook.REPOSITORY / "examples" / "kueue.yaml"


def start(plane: ControlPlane) -> Program:
    """Installs Kueue for MPIJobs, and waits until it is ready and the API server calls its webhooks.

    Raises:
        ClusterError: Kueue is not built, or does not start.
    """
    tools = build.KUEUE.directory()
    if missing := build.KUEUE.missing(tools):
        raise ClusterError(f"{tools} lacks {', '.join(missing)}: make cluster-tools builds them")
    folder = plane.folder / "kueue"
    folder.mkdir()
    webhook.development_certificates(folder)
    port, health_port = free_ports(2)
    parts = managers.manifests(plane, tools / "config" / "default")
    local_parts = managers.with_loopback_webhooks(parts, f"https://127.0.0.1:{port}", folder / "ca.crt")
    webhooks = managers.install(plane, local_parts)
    command = [
        str(tools / "kueue"),
        f"--config={_configuration(folder, port, health_port)}",
        # Kueue's visibility server would listen on all addresses.
        "--feature-gates=VisibilityOnDemand=false",
        "--zap-log-level=2",
    ]
    program = plane.programs.start(
        "kueue",
        # Kueue ends if the API server does not serve its kinds yet. Even established kinds can be late.
        with_restarts(command),
        env={
            "HOME": str(plane.folder),
            "PATH": "/usr/bin:/bin",
            "KUBECONFIG": str(plane.account(NAMESPACE, ACCOUNT)),
            "KUEUE_METRICS_CERTIFICATES": str(folder),
        },
        cwd=plane.folder,
    )
    program.wait_ready(lambda: answers_ok(f"http://127.0.0.1:{health_port}/readyz"), PATIENCE)
    for part in webhooks:
        plane.kubectl.create(part)
    _wait_until_called(plane)
    return program


def queues(plane: ControlPlane, *namespaces: str) -> None:
    """Creates the cluster-wide objects of the Kueue example, and its LocalQueue in each namespace."""
    *shared, _ = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    for part in shared:
        plane.kubectl.create(part)
    for namespace in namespaces:
        queue(plane, namespace)


def queue(plane: ControlPlane, namespace: str, name: str = LOCAL_QUEUE) -> None:
    """Creates the example's LocalQueue in a namespace, and waits until Kueue accepts its jobs."""
    *_, document = yaml.safe_load_all(EXAMPLE.read_text(encoding="utf-8"))
    document["metadata"] = {"name": name, "namespace": namespace}
    plane.kubectl.create(document)
    plane.kubectl.in_namespace(namespace).wait_for(_is_active, "localqueue", name)


def _is_active(queue: Object) -> bool:
    conditions = queue.get("status", {}).get("conditions") or []
    return any((item["type"], item["status"]) == ("Active", "True") for item in conditions)


def _configuration(folder: Path, port: int, health_port: int) -> Path:
    configuration = {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": port, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 200, "burst": 400},
        "integrations": {"frameworks": ["kubeflow.org/mpijob"]},
    }
    path = folder / "configuration.json"
    path.write_text(json.dumps(configuration), encoding="utf-8")
    return path


def _wait_until_called(plane: ControlPlane) -> None:
    """Waits until the API server calls Kueue's webhook, which suspends a job that names a queue."""
    job = {**webhook.PROBE, "metadata": {"name": "probe", "labels": {QUEUE: "probe"}}}
    namespace = plane.kubectl.in_namespace("default")

    def suspended() -> bool:
        stored = namespace.create(job, "--dry-run=server")
        # Without a call of Kueue's webhook, the job has no runPolicy.
        return bool(stored["spec"].get("runPolicy", {}).get("suspend"))

    until(suspended, "a call of Kueue's webhook")
