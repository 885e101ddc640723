"""Helpers for tests on the control plane: Lists, parts of jobs, namespaces, a second webhook."""

import contextlib
import json
from collections.abc import Iterable, Iterator
from http import HTTPStatus

import yaml

from testbed.plane import webhook
from testbed.plane.controlplane import ControlPlane
from testbed.plane.kubectl import Kubectl, Object
from testbed.waiting import until

ROLE = "training.kubeflow.org/job-role"
JOB_NAME = "training.kubeflow.org/job-name"
RETIRED = "testbed.example/left"
"""The label of a namespace in which no user or controller may create Pods and Jobs."""

NO_LATE_PODS_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata:
  name: left-namespaces
spec:
  matchConstraints:
    namespaceSelector: {matchLabels: {testbed.example/left: ""}}
    resourceRules:
      - {apiGroups: ["", batch], apiVersions: [v1], operations: [CREATE], resources: [pods, jobs]}
  validations:
    - {expression: "false", message: the test of this namespace is over}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata:
  name: left-namespaces
spec: {policyName: left-namespaces, validationActions: [Deny]}
"""
"""A policy against slow operators, which create a worker after the test has deleted the job. Without a
kubelet, this worker never ends, and later tests cannot use its node."""

# The metadata that the API server writes. A user who copies an object removes these fields.
SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def list_object(*documents: Object) -> Object:
    """Returns a List of the objects, so that one command creates all of them."""
    return {"apiVersion": "v1", "kind": "List", "items": list(documents)}


def to_json(document: Object) -> str:
    """Returns an object as JSON, for the standard input of kubectl."""
    return json.dumps(document)


def template(job: Object, role: str) -> Object:
    """Returns the pod template of an MPIJob's role, ``Launcher`` or ``Worker``."""
    result: Object = job["spec"]["mpiReplicaSpecs"][role]["template"]
    return result


def export_job(kubectl: Kubectl, name: str) -> Object:
    """Returns a stored job by its name, without its status and the metadata that the API server wrote."""
    return without_server_fields(yaml.safe_load(kubectl.run("get", "mpijob", name, "-o", "yaml").stdout))


def without_server_fields(job: Object) -> Object:
    """Returns a job without its status and the metadata that the API server wrote."""
    metadata = {key: value for key, value in job["metadata"].items() if key not in SERVER_FIELDS}
    return {key: value for key, value in job.items() if key != "status"} | {"metadata": metadata}


def workers_of(pods: Iterable[Object]) -> list[Object]:
    """Returns the pods that are workers of an MPIJob."""
    return [pod for pod in pods if pod["metadata"]["labels"].get(ROLE) == "worker"]


def clear(kubectl: Kubectl) -> None:
    """Deletes all MPIJobs, Jobs and Pods of a namespace, so that their nodes are free."""
    for kind in ("mpijobs", "jobs", "pods"):
        delete_all(kubectl, kind)


def retire_namespace(kubectl: Kubectl) -> None:
    """Clears a namespace at the end of its tests. With ``NO_LATE_PODS_POLICY``, it stays without Pods."""
    change = {"metadata": {"labels": {RETIRED: ""}}}
    path = f"/api/v1/namespaces/{kubectl.namespace}"
    kubectl.api.send("PATCH", path, change, "application/merge-patch+json")
    clear(kubectl)


def reopen_namespace(kubectl: Kubectl) -> None:
    """Undoes `retire_namespace`, and waits until the API server permits new Pods in the namespace."""
    path = f"/api/v1/namespaces/{kubectl.namespace}"
    kubectl.api.send("PATCH", path, {"metadata": {"labels": {RETIRED: None}}}, "application/merge-patch+json")
    pod = {
        "metadata": {"name": "any"},
        "spec": {"containers": [{"name": "any", "image": "example.invalid/any"}]},
    }
    until(
        lambda: kubectl.api.send("POST", f"{path}/pods?dryRun=All", pod)[0] == HTTPStatus.CREATED,
        f"permission to create Pods in {kubectl.namespace}",
    )


def delete_all(kubectl: Kubectl, kind: str, *selectors: str) -> None:
    """Deletes all objects of a kind, including objects that controllers create meanwhile.

    Pods are deleted without a grace period, because there is no kubelet that would end them.
    """
    deleted: set[str] = set()

    def none_left(objects: Object) -> bool:
        present = {item["metadata"]["uid"] for item in objects["items"]}
        if present - deleted:
            kubectl.delete(kind, *selectors, at_once=kind == "pods")
        deleted.update(present)
        return not present

    kubectl.wait_for(none_left, kind, *selectors)


@contextlib.contextmanager
def temporary_namespace(
    control_plane: ControlPlane, name: str, labels: dict[str, str] | None = None
) -> Iterator[Kubectl]:
    """Yields kubectl for a new namespace, which is retired at the end (`retire_namespace`)."""
    kubectl = control_plane.kubectl.create_namespace(name, labels)
    try:
        yield kubectl
    finally:
        retire_namespace(kubectl)


@contextlib.contextmanager
def second_webhook(
    control_plane: ControlPlane,
    name: str,
    table: str,
    kinds: Iterable[Object] = (),
    probe: Object = webhook.PROBE,
) -> Iterator[Kubectl]:
    """Runs a second webhook for a new namespace that the first webhook ignores; yields its kubectl.

    Args:
        control_plane: The control plane.
        name: The name of the webhook configuration and of the namespace.
        table: The webhook's rule table, as YAML.
        kinds: Additional ``rules`` of the webhook configuration, for other kinds than MPIJob.
        probe: An object that the API server sends to the webhook.
    """
    folder = control_plane.folder / name
    folder.mkdir()
    rules = folder / "rules.yaml"
    rules.write_text(table, encoding="utf-8")
    server = webhook.start(control_plane.programs, folder, rules, name)
    labels = {webhook.INJECT: "disabled", "asked": name}
    registration = webhook.configuration(server, name, {"matchLabels": {"asked": name}})
    registration["webhooks"][0]["rules"] += kinds
    with (
        contextlib.ExitStack() as stack,
        temporary_namespace(control_plane, name, labels) as kubectl,
        webhook.register(kubectl, registration, probe),
    ):
        stack.callback(control_plane.programs.stop, server.program)
        yield kubectl
