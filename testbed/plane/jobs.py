"""What tests of the webhook on the control plane share: jobs in bulk, their parts, a second webhook."""

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
LEFT = "testbed.example/left"
"""The label of a namespace in which no controller may create anything any more."""

NOBODY_COMES_LATE = """
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
"""An operator that is late creates a worker when its job is gone and the test is over. Without a kubelet such
a Pod never ends, and its nodes are missing in a later test."""

# The fields that the API server writes, and that a user who copies an object removes.
SERVERS_OWN = ("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields")


def together(*documents: Object) -> Object:
    """Returns a List: kubectl sends what is in it one by one, and is started once."""
    return {"apiVersion": "v1", "kind": "List", "items": list(documents)}


def text(document: Object) -> str:
    """Returns an object as kubectl reads it from its standard input."""
    return json.dumps(document)


def template(job: Object, role: str) -> Object:
    """Returns the pod template of ``Launcher`` or ``Worker``."""
    result: Object = job["spec"]["mpiReplicaSpecs"][role]["template"]
    return result


def exported(kubectl: Kubectl, name: str) -> Object:
    """Returns ``kubectl get -o yaml``, without what a user has to remove to create the object again."""
    return own_part(yaml.safe_load(kubectl.run("get", "mpijob", name, "-o", "yaml").stdout))


def own_part(job: Object) -> Object:
    """Returns a stored job without what the API server wrote into it."""
    metadata = {key: value for key, value in job["metadata"].items() if key not in SERVERS_OWN}
    return {key: value for key, value in job.items() if key != "status"} | {"metadata": metadata}


def workers_of(pods: Iterable[Object]) -> list[Object]:
    """Returns the pods that are workers."""
    return [pod for pod in pods if pod["metadata"]["labels"].get(ROLE) == "worker"]


def clear(inside: Kubectl) -> None:
    """Deletes the jobs of a namespace and their pods, so that the nodes are free."""
    for kind in ("mpijobs", "jobs", "pods"):
        end(inside, kind)


def leave(inside: Kubectl) -> None:
    """Clears a namespace that is not used again. On a plane with ``NOBODY_COMES_LATE`` it stays clear."""
    change = {"metadata": {"labels": {LEFT: ""}}}
    path = f"/api/v1/namespaces/{inside.namespace}"
    inside.api.send("PATCH", path, change, "application/merge-patch+json")
    clear(inside)


def come_back(inside: Kubectl) -> None:
    """Takes back that a namespace was left, and waits until the API server lets Pods be created there."""
    path = f"/api/v1/namespaces/{inside.namespace}"
    inside.api.send("PATCH", path, {"metadata": {"labels": {LEFT: None}}}, "application/merge-patch+json")
    pod = {
        "metadata": {"name": "any"},
        "spec": {"containers": [{"name": "any", "image": "example.invalid/any"}]},
    }
    until(
        lambda: inside.api.send("POST", f"{path}/pods?dryRun=All", pod)[0] == HTTPStatus.CREATED,
        f"Pods that may be created in {inside.namespace}",
    )


def end(inside: Kubectl, kind: str, *select: str) -> None:
    """Deletes all objects of a kind, and those that controllers still create for them, until none is left.

    Pods at once: there is no kubelet that would end them.
    """
    ended: set[str] = set()

    def gone(objects: Object) -> bool:
        there = {item["metadata"]["uid"] for item in objects["items"]}
        if there - ended:
            inside.delete(kind, *select, at_once=kind == "pods")
        ended.update(there)
        return not there

    inside.wait_for(gone, kind, *select)


@contextlib.contextmanager
def borrowed_namespace(
    control_plane: ControlPlane, name: str, labels: dict[str, str] | None = None
) -> Iterator[Kubectl]:
    """Yields a namespace for several tests; its jobs are deleted afterwards."""
    inside = control_plane.kubectl.create_namespace(name, labels)
    try:
        yield inside
    finally:
        leave(inside)


@contextlib.contextmanager
def second_webhook(
    control_plane: ControlPlane,
    name: str,
    table: str,
    kinds: Iterable[Object] = (),
    probe: Object = webhook.PROBE,
) -> Iterator[Kubectl]:
    """Yields a webhook with a table of its own for one namespace, which is left alone by the packaged one.

    Args:
        control_plane: that asks it.
        name: of the registration and of the namespace.
        table: the rules, as YAML.
        kinds: further rows of the registration's ``rules``: kinds other than MPIJob that it is asked about.
        probe: an object of a kind that the control plane has and sends to the webhook.
    """
    folder = control_plane.folder / name
    folder.mkdir()
    rules = folder / "rules.yaml"
    rules.write_text(table, encoding="utf-8")
    running = webhook.start(control_plane.programs, folder, rules, name)
    labels = {webhook.INJECT: "disabled", "asked": name}
    registration = webhook.configuration(running, name, {"matchLabels": {"asked": name}})
    registration["webhooks"][0]["rules"] += kinds
    with (
        contextlib.ExitStack() as stopping,
        borrowed_namespace(control_plane, name, labels) as inside,
        webhook.registered(inside, registration, probe),
    ):
        stopping.callback(control_plane.programs.stop, running.program)
        yield inside
