"""The real controllers of JobSets, LeaderWorkerSets, training-operator's jobs and TrainJobs, on loopback."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.kits import build
from testbed.plane import managers, webhook
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.kubectl import Object
from testbed.plane.process import ClusterError, free_ports, supervised
from testbed.waiting import PATIENCE

_POD = {"spec": {"containers": [{"name": "pytorch", "image": "example.invalid/probe"}]}}
_JOB = {"spec": {"template": {"spec": {**_POD["spec"], "restartPolicy": "Never"}}}}


@dataclass(frozen=True)
class Controller:
    """A program, and how it is installed.

    Attributes:
        name: of the program.
        manifests: what an installation applies, in the folder of the programs.
        namespace: where it runs.
        account: it runs as.
        probe: an object that its webhooks are asked about and accept.
    """

    name: str
    manifests: tuple[str, ...]
    namespace: str
    account: str
    probe: Object


def _probe(api: str, kind: str, spec: Object) -> Object:
    return {"apiVersion": api, "kind": kind, "metadata": {"name": "probe"}, "spec": spec}


CONTROLLERS = (
    Controller(
        "jobset",
        ("jobset-manifests/default",),
        "jobset-system",
        "jobset-controller-manager",
        _probe("jobset.x-k8s.io/v1alpha2", "JobSet", {"replicatedJobs": [{"name": "a", "template": _JOB}]}),
    ),
    Controller(
        "lws",
        ("lws-manifests/default",),
        "lws-system",
        "lws-controller-manager",
        _probe(
            "leaderworkerset.x-k8s.io/v1",
            "LeaderWorkerSet",
            {"leaderWorkerTemplate": {"workerTemplate": _POD}},
        ),
    ),
    Controller(
        "training-operator",
        ("manifests/overlays/standalone",),
        "kubeflow",
        "training-operator",
        _probe("kubeflow.org/v1", "PyTorchJob", {"pytorchReplicaSpecs": {"Worker": {"template": _POD}}}),
    ),
    # Its overlay would fetch JobSet's manifests from a host.
    Controller(
        "trainer",
        tuple(f"trainer-manifests/base/{part}" for part in ("crds", "rbac", "webhook")),
        "kubeflow-system",
        "kubeflow-trainer-controller-manager",
        _probe(
            "trainer.kubeflow.org/v1alpha1",
            "ClusterTrainingRuntime",
            {"template": {"spec": {"replicatedJobs": [{"name": "node", "template": _JOB}]}}},
        )
        | {
            "metadata": {"name": "probe", "labels": {"trainer.kubeflow.org/framework": "torch"}},
        },
    ),
)


UNUSED = {f"{kind}jobs.kubeflow.org" for kind in ("tf", "xgboost", "paddle", "jax")}
"""Definitions of training-operator's that are not used here; each costs the API server seconds."""


class Controllers:
    """All of them, or those that are named: first what they need is created, then they are started."""

    def __init__(self, plane: ControlPlane, *names: str) -> None:
        self._plane = plane
        self._chosen = [controller for controller in CONTROLLERS if not names or controller.name in names]
        self._tools = build.CONTROLLERS.directory()
        self._folder = plane.folder / "controllers"
        # The default place of a webhook's certificates, below TMPDIR.
        self._certificates = self._folder / "k8s-webhook-server" / "serving-certs"
        ports = iter(free_ports(2 * len(self._chosen)))
        self._ports = {controller.name: (next(ports), next(ports)) for controller in self._chosen}
        self._webhooks: dict[str, list[Object]] = {}

    def define(self) -> None:
        """Creates their definitions, accounts and rights.

        Raises:
            ClusterError: they are not built.
        """
        if lacking := build.CONTROLLERS.missing(self._tools):
            raise ClusterError(f"{self._tools} lacks {', '.join(lacking)}: make cluster-tools builds them")
        self._certificates.mkdir(parents=True)
        webhook.development_certificates(self._certificates)
        every: list[Object] = []
        for controller in self._chosen:
            port, _ = self._ports[controller.name]
            parts = [part for part in self._namespaced(controller) if part["metadata"]["name"] not in UNUSED]
            at = managers.at(parts, f"https://127.0.0.1:{port}", self._certificates / "ca.crt")
            self._webhooks[controller.name] = [part for part in at if part["kind"] in managers.WEBHOOKS]
            every += at
        managers.install(self._plane, every)

    def start(self) -> None:
        """Starts them, and waits until all are ready and the API server asks their webhooks."""
        started = [(controller, self._start(controller)) for controller in self._chosen]
        for controller, program in started:
            url = f"http://127.0.0.1:{self._ports[controller.name][1]}/readyz"
            program.wait_ready(lambda url=url: answers_ok(url), PATIENCE)  # type: ignore[misc]
            for part in self._webhooks[controller.name]:
                self._plane.kubectl.create(part)
        for controller, _ in started:
            names = [hook["name"] for part in self._webhooks[controller.name] for hook in part["webhooks"]]
            webhook.asked(self._plane.kubectl.in_namespace("default"), names, controller.probe)

    def _namespaced(self, controller: Controller) -> list[Object]:
        folder = self._folder / controller.name
        folder.mkdir()
        # kustomize takes folders by their relative paths only.
        resources = [os.path.relpath(self._tools / part, folder.resolve()) for part in controller.manifests]
        text = json.dumps({"namespace": controller.namespace, "resources": resources})
        (folder / "kustomization.yaml").write_text(text, encoding="utf-8")
        parts = managers.manifests(self._plane, folder)
        if not any(part["kind"] == "Namespace" for part in parts):
            name = {"name": controller.namespace}
            parts.insert(0, {"apiVersion": "v1", "kind": "Namespace", "metadata": name})
        return parts

    def _start(self, controller: Controller) -> Any:
        port, health = self._ports[controller.name]
        command = [str(self._tools / controller.name), *self._arguments(controller, port, health)]
        env = {
            "HOME": str(self._plane.folder),
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(self._folder),
            "KUBECONFIG": str(self._plane.account(controller.namespace, controller.account)),
        }
        return self._plane.programs.start(
            controller.name, supervised(command), env=env, cwd=Path(self._plane.folder)
        )

    def _arguments(self, controller: Controller, port: int, health: int) -> list[str]:
        if controller.name == "training-operator":
            return [
                "--metrics-bind-address=0",
                f"--health-probe-bind-address=127.0.0.1:{health}",
                f"--webhook-server-port={port}",
                "--enable-scheme=mpijob",
                "--enable-scheme=pytorchjob",
                "--kube-api-qps=200",
                "--kube-api-burst=400",
            ]
        management = "certManagement" if controller.name == "trainer" else "internalCertManagement"
        group = {"jobset": "jobset.x-k8s.io", "lws": "lws.x-k8s.io", "trainer": "trainer.kubeflow.org"}
        webhook_at: dict[str, object] = {"host": "127.0.0.1", "port": port}
        if controller.name == "lws":
            # By default it looks in a folder that the whole machine shares.
            webhook_at["certDir"] = str(self._certificates)
        arguments = {
            "apiVersion": f"config.{group[controller.name]}/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
            "metrics": {"bindAddress": "0"},
            "webhook": webhook_at,
            "leaderElection": {"leaderElect": False},
            management: {"enable": False},
            "clientConnection": {"qps": 200, "burst": 400},
        }
        path = self._folder / controller.name / "configuration.json"
        path.write_text(json.dumps(arguments), encoding="utf-8")
        return [f"--config={path}"]
