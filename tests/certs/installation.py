"""Installs the certificate program on a real control plane: its namespace, account, rights and kubeconfig."""

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
CHART_NAME = "ultraserver-webhook"


def rights(name: str) -> list[dict[str, Any]]:
    """Returns the roles, role bindings and admission policies of an installation called ``name``."""
    granted_objects = [
        obj
        for obj in chart.objects()
        if obj["metadata"]["name"] == f"{CHART_NAME}-certs"
        and obj["kind"].startswith(("Role", "ClusterRole", "ValidatingAdmissionPolicy"))
    ]
    return [*yaml.safe_load_all(yaml.safe_dump_all(granted_objects).replace(CHART_NAME, name))]


@dataclass(frozen=True)
class Installation:
    """An installation of the certificate program. Its name is the prefix of the names of its objects."""

    name: str
    kubectl: Kubectl
    kubeconfig: Path
    admin: KubernetesApi

    def options(self, **extra: object) -> list[str]:
        """Returns the options: the object names, and ``extra`` (``ca_days=1`` is ``--ca-days=1``)."""
        names = {
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
        return [f"--{key.replace('_', '-')}={value}" for key, value in {**names, **extra}.items()]

    def command(self, *words: str, **extra: object) -> list[str]:
        """Returns the command line of ``python -m certs`` with these words and options."""
        return [sys.executable, "-m", "certs", *words, *self.options(**extra)]

    def certs(self, *words: str, **extra: object) -> subprocess.CompletedProcess[str]:
        """Runs ``python -m certs`` and returns its result."""
        return subprocess.run(
            self.command(*words, **extra), cwd=REPOSITORY, check=False, capture_output=True, text=True
        )

    def secret(self, kind: str = "tls") -> dict[str, Any] | None:
        """Returns the serving Secret (``tls``), the authority's Secret (``ca``) or the provided Secret."""
        return self.admin.get(f"{objects.secrets_path(self.name)}/{self.name}-{kind}")

    def stored(self) -> Inputs:
        """Returns the stored Secrets and webhook configurations, read with the administrator's rights."""
        hooks = (("mutating", self.name), ("validating", self.name))
        tls, ca, provided = (f"{self.name}-{kind}" for kind in ("tls", "ca", "provided"))
        target = Target(self.name, self.name, tls, ca, provided, hooks)
        return Rotator(self.admin, target, Wanted((self.name,)), lambda: datetime.now(UTC)).read()

    def problems(self, now: datetime) -> list[str]:
        """Returns why the Secret's bundle or a caBundle refuses the stored leaf; empty if all verify it."""
        stored = self.stored()
        serving = stored.serving
        bundles = [serving.bundle, *(bundle for hook in stored.hooks for bundle in hook.bundles)]
        reasons = [why_refused(serving, bundle, now) for bundle in bundles]
        return [reason for reason in reasons if reason]


def install(plane: ControlPlane, name: str, folder: Path) -> Installation:
    """Creates a namespace with the program's account, and webhook configurations that match no namespace."""
    kubectl = plane.kubectl.create_namespace(name)
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": f"{name}-certs"}}
    kubectl.create(account)
    kubectl.create({"apiVersion": "v1", "kind": "List", "items": rights(name)})
    for kind in ("Mutating", "Validating"):
        kubectl.create(configuration(kind, name, "https://127.0.0.1:9/", {"matchLabels": {"no": "such"}}))
    token = kubectl.api.token(name, f"{name}-certs")
    kubeconfig = json.loads(plane.kubeconfig.read_text(encoding="utf-8"))
    kubeconfig["users"][0]["user"] = {"token": token}
    folder.mkdir(exist_ok=True)
    kubeconfig_path = folder / f"{name}.kubeconfig"
    kubeconfig_path.write_text(json.dumps(kubeconfig), encoding="utf-8")
    return Installation(name, kubectl, kubeconfig_path, connect(plane.kubeconfig))


def configuration(kind: str, name: str, url: str, namespaces: dict[str, Any]) -> dict[str, Any]:
    """Returns a webhook configuration for new MPIJobs, without a caBundle and with failurePolicy Fail."""
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
    """Returns the decoded files of a Secret."""
    return {key: base64.b64decode(value) for key, value in secret["data"].items()}
