"""Creates jobs, pods and other objects for tests of the plugin, as the API server returns them."""

import copy
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import click
from click.testing import CliRunner

from common.output import ESCAPE
from common.times import time_of
from contract import keys
from contract.keys import GATE, JOB, PLACEMENT
from kube.api import Object
from kubectl_ultraserver import __main__ as cli
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.names import JobReference, job_of
from placement.decide.topology import Topology
from placement.observe.model import Node
from placement.observe.read import read_ended, read_pod
from testbed.mpijob import mpijob
from testbed.plane.nodes import TRN2U
from tests.kubectl_ultraserver.api import table_of
from tests.placement.world import KEYS, NOW, servers
from webhook.documents import read_documents
from webhook.preview.formats import as_json
from webhook.preview.run import preview

NAMESPACE = "team"
LABELS = {"training.kubeflow.org/operator-name": "mpi-operator"}
CREATED = "2026-11-21T11:50:00Z"
NODES = servers(3)
"""The nodes of three UltraServers, by name."""

INDEX = "training.kubeflow.org/replica-index"


def pod(name: str, job: str, role: str, **spec: Any) -> Object:
    """Returns a pod as mpi-operator creates it, ten minutes old."""
    return {
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "uid": f"{NAMESPACE}/{name}",
            "creationTimestamp": CREATED,
            "labels": LABELS
            | {"training.kubeflow.org/job-name": job, "training.kubeflow.org/job-role": role},
            "annotations": {},
        },
        "spec": {"schedulerName": "default-scheduler", "containers": [{"name": "mpitest"}], **spec},
        "status": {"phase": "Pending"},
    }


def placement_annotation(
    workers: int, size: int = 4, placer: str = "affinity", index: str = f" index=labels/{INDEX}"
) -> str:
    """Returns a placement annotation, which the webhook writes."""
    return f"placer={placer} workers={workers} size={size} unit={KEYS[size]}{index}"


def workers(job: str, count: int, on: Iterable[str] = (), size: int = 4, **spec: Any) -> list[Object]:
    """Returns the workers of a job that affinity places. The first workers are Ready, on the nodes ``on``."""
    nodes = [*on, *[""] * count][:count]
    pods = []
    for index, node in enumerate(nodes):
        worker = pod(f"{job}-worker-{index}", job, "worker", **copy.deepcopy(spec))
        worker["metadata"]["labels"] |= {INDEX: str(index), JOB: f"{NAMESPACE}.{job}"}
        worker["metadata"]["annotations"] = {PLACEMENT: placement_annotation(count, size)}
        worker["spec"]["nodeSelector"] = {"node.kubernetes.io/instance-type": TRN2U}
        worker["spec"]["containers"][0]["resources"] = {"requests": {"aws.amazon.com/neuron": "16"}}
        if size > 1:
            term = {"topologyKey": f"neuron.amazonaws.com/ultraserver-server-id-{size}"}
            worker["spec"]["affinity"] = {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            }
        if node:
            worker["spec"]["nodeName"] = node
            worker["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        pods.append(worker)
    return pods


def with_claims(pods: Iterable[Object], template: str) -> list[Object]:
    """Returns copies of pods that get their devices by claims of a ResourceClaimTemplate."""
    claimants = copy.deepcopy(list(pods))
    for pod in claimants:
        pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "neurons"}]}
        pod["spec"]["resourceClaims"] = [{"name": "neurons", "resourceClaimTemplateName": template}]
        claim = {"name": "neurons", "resourceClaimName": f"{pod['metadata']['name']}-neurons"}
        pod["status"] = {**pod.get("status", {}), "resourceClaimStatuses": [claim]}
    return claimants


def unscheduled(pods: Iterable[Object], message: str) -> list[Object]:
    """Returns copies of pods for which the scheduler found no node."""
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return [pod | {"status": {"phase": "Pending", "conditions": [condition]}} for pod in pods]


def gated(pods: Iterable[Object], count: int) -> list[Object]:
    """Returns copies of pods that wait for whole-job admission."""
    gated_pods = []
    for pod in copy.deepcopy(list(pods)):
        pod["spec"]["schedulingGates"] = [{"name": GATE}]
        pod["metadata"]["annotations"] |= {PLACEMENT: placement_annotation(count, placer="gate")}
        gated_pods.append(pod)
    return gated_pods


def launcher(job: str, *statuses: Object, node: str = "n1-0") -> Object:
    """Returns the launcher of a job, bound to a node, with the statuses of its init containers."""
    created_pod = pod(f"{job}-launcher-x7f2p", job, "launcher", nodeName=node)
    created_pod["status"]["initContainerStatuses"] = list(statuses)
    return created_pod


def stored_job(job: str = "train", count: int = 4, *, mutated: bool = True, **spec: Any) -> Object:
    """Returns an MPIJob on which the operator has acted, and which the webhook has changed if ``mutated``."""
    obj = mpijob(count, name=job, namespace=NAMESPACE)
    obj["metadata"] |= {"uid": f"uid-of-{job}", "creationTimestamp": CREATED}
    if mutated:
        template = obj["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
        template["metadata"] = {"annotations": {keys.ADDED: "{}"}}
        if count:
            template["metadata"]["annotations"][PLACEMENT] = placement_annotation(count)
    obj["spec"] |= spec
    obj["status"] = {"conditions": [{"type": "Created", "status": "True"}]}
    return obj


def fleet(nodes: Iterable[Node] = NODES.values(), pods: Iterable[Object] = (), **attributes: Any) -> Fleet:
    """Returns a fleet of these nodes and pods at noon."""
    pods = list(pods)
    read = [result for raw in pods if (result := read_pod(raw))]
    owners = {raw["metadata"]["uid"]: owner for raw in pods if (owner := job_of(raw))}
    return Fleet(Topology(nodes), tuple(read), owners, **{"now": NOW, **attributes})


def job_case(
    pods: Iterable[Object],
    nodes: Iterable[Node] = NODES.values(),
    others: Iterable[Object] = (),
    job: Object | None = None,
    reference: JobReference = JobReference("", "train"),  # noqa: B008 - frozen
    **attributes: Any,
) -> Case:
    """Returns the case of a job with its pods, in a cluster with other pods."""
    pods = list(pods)
    cluster = fleet(nodes, [*pods, *others], **attributes)
    ended_workers = tuple(ended for raw in pods if (ended := read_ended(raw)))
    return Case(reference, NAMESPACE, job or {}, tuple(pods), cluster, ended_workers=ended_workers)


def with_installation(known_case: Case, **attributes: Any) -> Case:
    """Returns a case with a webhook configuration, a rule table and a current Lease of the program."""
    lease = {"spec": {"renewTime": "2026-11-21T11:59:55.000000Z", "holderIdentity": "placement-1"}}
    registration = {
        "metadata": {"name": "ultraserver-webhook", "creationTimestamp": "2026-11-21T09:00:00Z"},
        "webhooks": [{"failurePolicy": "Ignore"}],
    }
    fields = {"lease": lease, "registration": registration, "rules": rules(), **attributes}
    if "answer" not in fields and known_case.job and not known_case.is_changed and fields["rules"]:
        fields["answer"] = preview_answer(known_case.job, fields["rules"])
    return replace(known_case, **fields)


def preview_answer(job: Object, rules: Object) -> Object:
    """Returns the preview service's answer for a job at its creation time, by a ConfigMap's rule table."""
    created_at = time_of(job["metadata"].get("creationTimestamp")) or NOW
    documents = read_documents(json.dumps(job), "request")
    result = preview(table_of(rules), documents, NAMESPACE, created_at.timestamp())
    (document,) = json.loads(as_json(result))["items"]
    return document


def rules(line: str = "", **metadata: Any) -> Object:
    """Returns the ConfigMap of a rule table that extends the packaged table by a line."""
    head = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\nextends: default\n"
    return {"metadata": metadata, "data": {"rules.yaml": head + line}}


def event(kind: str, name: str, reason: str, message: str, component: str = "", **more: Any) -> Object:
    """Returns a Warning Event about an object."""
    return {
        "involvedObject": {"kind": kind, "name": name},
        "type": "Warning",
        "reason": reason,
        "message": message,
        "source": {"component": component},
        "metadata": {"creationTimestamp": "2026-11-21T11:59:00Z"},
        **more,
    }


def plain(line: str) -> str:
    """Returns a line without its colours."""
    return click.unstyle(line.replace(ESCAPE, "\x1b"))


def run_plugin(*words: str, **options: Any) -> tuple[int, str, str]:
    """Runs a command; returns its exit code, its standard output and its standard error."""
    result = CliRunner().invoke(cli.main, words, **options)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr
