"""The certificate program on a real control plane: its namespace, account, rights and kubeconfig."""

import base64
import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from certs import objects
from certs.inputs import Inputs, Wanted, why_refused
from certs.rotate import Rotator, Target
from kube.client import KubernetesApi, connect
from testbed import chart
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl

REPOSITORY = Path(__file__).resolve().parents[2]
NAMES = "ultraserver-webhook"


def rights(name: str) -> list[dict[str, Any]]:
    """Returns the program's rights, and what bounds them, for an installation that is called ``name``."""
    granted = [
        obj
        for obj in chart.objects()
        if obj["metadata"]["name"] == f"{NAMES}-certs"
        and obj["kind"].startswith(("Role", "ClusterRole", "ValidatingAdmissionPolicy"))
    ]
    return [*yaml.safe_load_all(yaml.safe_dump_all(granted).replace(NAMES, name))]


@dataclass(frozen=True)
class Installation:
    """One certificate program's surroundings; everything is called by its name."""

    name: str
    kubectl: Kubectl
    kubeconfig: Path
    admin: KubernetesApi

    def options(self, **more: object) -> list[str]:
        """Returns command line options: the names, and ``more`` (``ca_days=1`` is ``--ca-days=1``)."""
        own = {
            "kubeconfig": self.kubeconfig,
            "namespace": self.name,
            "service": self.name,
            "secret": f"{self.name}-tls",
            "ca_secret": f"{self.name}-ca",
            "provided_secret": f"{self.name}-provided",
            "mutating": self.name,
            "validating": self.name,
            "name": "127.0.0.1",
        }
        return [f"--{key.replace('_', '-')}={value}" for key, value in {**own, **more}.items()]

    def command(self, *words: str, **more: object) -> list[str]:
        """Returns a whole command line of ``python -m certs``."""
        return [sys.executable, "-m", "certs", *words, *self.options(**more)]

    def certs(self, *words: str, **more: object) -> subprocess.CompletedProcess[str]:
        """Runs ``python -m certs``."""
        return subprocess.run(
            self.command(*words, **more), cwd=REPOSITORY, check=False, capture_output=True, text=True
        )

    def secret(self, kind: str = "tls") -> dict[str, Any] | None:
        """Returns the serving Secret, the authority's (``ca``) or the ``provided`` one."""
        return self.admin.get(f"{objects.secrets_path(self.name)}/{self.name}-{kind}")

    def stored(self) -> Inputs:
        """Returns everything, as the administrator sees it."""
        hooks = (("mutating", self.name), ("validating", self.name))
        tls, ca, provided = (f"{self.name}-{kind}" for kind in ("tls", "ca", "provided"))
        target = Target(self.name, self.name, tls, ca, provided, hooks)
        return Rotator(self.admin, target, Wanted((self.name,)), lambda: datetime.now(UTC)).read()

    def problems(self, now: datetime) -> list[str]:
        """Returns what is wrong with what is stored; nothing, when every caBundle verifies the leaf."""
        stored = self.stored()
        serving = stored.serving
        bundles = [serving.bundle, *(held for hook in stored.hooks for held in hook.bundles)]
        result = [why_refused(serving, bundle, now) for bundle in bundles]
        return [problem for problem in result if problem]


def install(plane: ControlPlane, name: str, folder: Path) -> Installation:
    """Returns a namespace with the program's account, and webhook configurations without matches."""
    inside = plane.kubectl.create_namespace(name)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"{name}-certs"}}
    inside.create(account)
    inside.create({"apiVersion": "v1", "kind": "List", "items": rights(name)})
    for kind in ("Mutating", "Validating"):
        inside.create(configuration(kind, name, "https://127.0.0.1:9/", {"matchLabels": {"no": "such"}}))
    token = inside.api.token(name, f"{name}-certs")
    config = json.loads(plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] = {"token": token}
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.kubeconfig"
    path.write_text(json.dumps(config), encoding="utf-8")
    return Installation(name, inside, path, connect(plane.kubeconfig))


def configuration(kind: str, name: str, url: str, namespaces: dict[str, Any]) -> dict[str, Any]:
    """Returns a webhook configuration for new MPIJobs, without a caBundle; it fails closed."""
    entry = {
        "name": f"mpijobs.{name}.io",
        "clientConfig": {"url": url},
        "namespaceSelector": namespaces,
        "rules": [
            {
                "apiGroups": ["kubeflow.org"],
                "apiVersions": ["v2beta1"],
                "resources": ["mpijobs"],
                "operations": ["CREATE"],
            }
        ],
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "timeoutSeconds": 5,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": name},
        "webhooks": [entry],
    }


def data(secret: dict[str, Any]) -> dict[str, bytes]:
    """Returns a Secret's files."""
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}
