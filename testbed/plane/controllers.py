"""Runs the controllers of JobSets, LeaderWorkerSets, training-operator's jobs and TrainJobs on loopback."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from testbed.kits import build
from testbed.plane import managers, webhook
from testbed.plane.controlplane import ControlPlane, answers_ok
from testbed.plane.kubectl import Object
from testbed.plane.process import ClusterError, free_ports, with_restarts
from testbed.waiting import PATIENCE

_POD = {"spec": {"containers": [{"name": "pytorch", "image": "example.invalid/probe"}]}}
_JOB = {"spec": {"template": {"spec": {**_POD["spec"], "restartPolicy": "Never"}}}}


@dataclass(frozen=True)
class Controller:
    """A controller, and how it is installed.

    Attributes:
        name: The name of the program.
        manifests: The folders of its manifests, in the folder of the programs.
        namespace: The namespace in which it runs.
        account: The service account of the program.
        probe: An object that its webhooks receive and accept.
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
    # Trainer's overlay would fetch JobSet's manifests from the network.
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
"""Kinds of training-operator that no test uses. The API server needs seconds to define a kind."""


class Controllers:
    """Runs the named controllers, or all. Call `define`, which creates their objects, and then `start`."""

    def __init__(self, plane: ControlPlane, *names: str) -> None:
        self._plane = plane
        self._chosen = [controller for controller in CONTROLLERS if not names or controller.name in names]
        self._tools = build.CONTROLLERS.directory()
        self._folder = plane.folder / "controllers"
        # A webhook looks for its certificates in this folder below TMPDIR.
        self._certificates = self._folder / "k8s-webhook-server" / "serving-certs"
        ports = iter(free_ports(2 * len(self._chosen)))
        self._ports = {controller.name: (next(ports), next(ports)) for controller in self._chosen}
        self._webhooks: dict[str, list[Object]] = {}

    def define(self) -> None:
        """Creates the CustomResourceDefinitions, service accounts and roles of the controllers.

        Raises:
            ClusterError: A controller is not built.
        """
        if missing := build.CONTROLLERS.missing(self._tools):
            raise ClusterError(f"{self._tools} lacks {', '.join(missing)}: make cluster-tools builds them")
        self._certificates.mkdir(parents=True)
        webhook.development_certificates(self._certificates)
        objects: list[Object] = []
        for controller in self._chosen:
            port, _ = self._ports[controller.name]
            parts = [part for part in self._manifests(controller) if part["metadata"]["name"] not in UNUSED]
            local_parts = managers.with_loopback_webhooks(
                parts, f"https://127.0.0.1:{port}", self._certificates / "ca.crt"
            )
            self._webhooks[controller.name] = [
                part for part in local_parts if part["kind"] in managers.WEBHOOKS
            ]
            objects += local_parts
        managers.install(self._plane, objects)

    def start(self) -> None:
        """Starts the controllers, and waits until all are ready and the API server calls their webhooks."""
        started = [(controller, self._start(controller)) for controller in self._chosen]
        for controller, program in started:
            url = f"http://127.0.0.1:{self._ports[controller.name][1]}/readyz"
            program.wait_ready(lambda url=url: answers_ok(url), PATIENCE)  # type: ignore[misc]
            for part in self._webhooks[controller.name]:
                self._plane.kubectl.create(part)
        for controller, _ in started:
            names = [hook["name"] for part in self._webhooks[controller.name] for hook in part["webhooks"]]
            webhook.wait_until_called(self._plane.kubectl.in_namespace("default"), names, controller.probe)

    def _manifests(self, controller: Controller) -> list[Object]:
        folder = self._folder / controller.name
        folder.mkdir()
        # kustomize accepts only relative paths.
        resources = [os.path.relpath(self._tools / part, folder.resolve()) for part in controller.manifests]
        text = json.dumps({"namespace": controller.namespace, "resources": resources})
        (folder / "kustomization.yaml").write_text(text, encoding="utf-8")
        parts = managers.manifests(self._plane, folder)
        if not any(part["kind"] == "Namespace" for part in parts):
            name = {"name": controller.namespace}
            parts.insert(0, {"apiVersion": "v1", "kind": "Namespace", "metadata": name})
        return parts

    def _start(self, controller: Controller) -> Any:
        port, health_port = self._ports[controller.name]
        command = [str(self._tools / controller.name), *self._arguments(controller, port, health_port)]
        env = {
            "HOME": str(self._plane.folder),
            "PATH": "/usr/bin:/bin",
            "TMPDIR": str(self._folder),
            "KUBECONFIG": str(self._plane.account(controller.namespace, controller.account)),
        }
        return self._plane.programs.start(
            controller.name, with_restarts(command), env=env, cwd=Path(self._plane.folder)
        )

    def _arguments(self, controller: Controller, port: int, health_port: int) -> list[str]:
        if controller.name == "training-operator":
            return [
                "--metrics-bind-address=0",
                f"--health-probe-bind-address=127.0.0.1:{health_port}",
                f"--webhook-server-port={port}",
                "--enable-scheme=mpijob",
                "--enable-scheme=pytorchjob",
                "--kube-api-qps=200",
                "--kube-api-burst=400",
            ]
        management = "certManagement" if controller.name == "trainer" else "internalCertManagement"
        group = {"jobset": "jobset.x-k8s.io", "lws": "lws.x-k8s.io", "trainer": "trainer.kubeflow.org"}
        webhook_options: dict[str, object] = {"host": "127.0.0.1", "port": port}
        if controller.name == "lws":
            # All processes of this machine share the default folder.
            webhook_options["certDir"] = str(self._certificates)
        arguments = {
            "apiVersion": f"config.{group[controller.name]}/v1alpha1",
            "kind": "Configuration",
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health_port}"},
            "metrics": {"bindAddress": "0"},
            "webhook": webhook_options,
            "leaderElection": {"leaderElect": False},
            management: {"enable": False},
            "clientConnection": {"qps": 200, "burst": 400},
        }
        path = self._folder / controller.name / "configuration.json"
        path.write_text(json.dumps(arguments), encoding="utf-8")
        return [f"--config={path}"]
