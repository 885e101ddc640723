"""Helpers for tests on the control plane: objects in bulk, parts of jobs, namespaces, a second webhook."""

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
"""The label of a namespace in which controllers may no longer create Pods and Jobs."""

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
"""A policy against late operators, which create a worker after the test and its job have ended. Without
a kubelet, such a Pod never ends, and later tests lack its node."""

# The fields that the API server writes, and that a user who copies an object removes.
SERVER_FIELDS = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def list_object(*documents: Object) -> Object:
    """Returns a List, with which a single kubectl creates several objects."""
    return {"apiVersion": "v1", "kind": "List", "items": list(documents)}


def to_json(document: Object) -> str:
    """Returns an object as kubectl reads it from its standard input."""
    return json.dumps(document)


def template(job: Object, role: str) -> Object:
    """Returns the pod template of ``Launcher`` or ``Worker``."""
    result: Object = job["spec"]["mpiReplicaSpecs"][role]["template"]
    return result


def export_job(kubectl: Kubectl, name: str) -> Object:
    """Returns a stored job, without the fields that a user removes to create the job again."""
    return without_server_fields(yaml.safe_load(kubectl.run("get", "mpijob", name, "-o", "yaml").stdout))


def without_server_fields(job: Object) -> Object:
    """Returns a stored job without the fields that the API server wrote."""
    metadata = {key: value for key, value in job["metadata"].items() if key not in SERVER_FIELDS}
    return {key: value for key, value in job.items() if key != "status"} | {"metadata": metadata}


def workers_of(pods: Iterable[Object]) -> list[Object]:
    """Returns the pods that are workers."""
    return [pod for pod in pods if pod["metadata"]["labels"].get(ROLE) == "worker"]


def clear(inside: Kubectl) -> None:
    """Deletes the jobs of a namespace and their pods, so that the nodes are free."""
    for kind in ("mpijobs", "jobs", "pods"):
        delete_all(inside, kind)


def retire_namespace(inside: Kubectl) -> None:
    """Clears a namespace that is not used again. With the policy ``NOBODY_COMES_LATE`` it stays clear."""
    change = {"metadata": {"labels": {RETIRED: ""}}}
    path = f"/api/v1/namespaces/{inside.namespace}"
    inside.api.send("PATCH", path, change, "application/merge-patch+json")
    clear(inside)


def reopen_namespace(inside: Kubectl) -> None:
    """Undoes `leave`, and waits until the API server permits new Pods in the namespace."""
    path = f"/api/v1/namespaces/{inside.namespace}"
    inside.api.send("PATCH", path, {"metadata": {"labels": {RETIRED: None}}}, "application/merge-patch+json")
    pod = {
        "metadata": {"name": "any"},
        "spec": {"containers": [{"name": "any", "image": "example.invalid/any"}]},
    }
    until(
        lambda: inside.api.send("POST", f"{path}/pods?dryRun=All", pod)[0] == HTTPStatus.CREATED,
        f"Pods that may be created in {inside.namespace}",
    )


def delete_all(inside: Kubectl, kind: str, *selectors: str) -> None:
    """Deletes all objects of a kind, also new objects that controllers still create, until none is left.

    Pods are deleted at once, because there is no kubelet that would end them.
    """
    deleted: set[str] = set()

    def gone(objects: Object) -> bool:
        present = {item["metadata"]["uid"] for item in objects["items"]}
        if present - deleted:
            inside.delete(kind, *selectors, at_once=kind == "pods")
        deleted.update(present)
        return not present

    inside.wait_for(gone, kind, *selectors)


@contextlib.contextmanager
def temporary_namespace(
    control_plane: ControlPlane, name: str, labels: dict[str, str] | None = None
) -> Iterator[Kubectl]:
    """Yields kubectl for a new namespace, whose jobs are deleted at the end."""
    inside = control_plane.kubectl.create_namespace(name, labels)
    try:
        yield inside
    finally:
        retire_namespace(inside)


@contextlib.contextmanager
def second_webhook(
    control_plane: ControlPlane,
    name: str,
    table: str,
    kinds: Iterable[Object] = (),
    probe: Object = webhook.PROBE,
) -> Iterator[Kubectl]:
    """Starts a second webhook for a new namespace, which the first webhook ignores; yields kubectl for it.

    Args:
        control_plane: The control plane.
        name: The name of the registration and of the namespace.
        table: The webhook's rule table, as YAML.
        kinds: Further rows of the registration's ``rules``, for other kinds than MPIJob.
        probe: An object of a kind that the API server serves and sends to the webhook.
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
        contextlib.ExitStack() as stopping,
        temporary_namespace(control_plane, name, labels) as inside,
        webhook.register(inside, registration, probe),
    ):
        stopping.callback(control_plane.programs.stop, server.program)
        yield inside
