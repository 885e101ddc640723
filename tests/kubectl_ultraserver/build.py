"""Jobs and their pods as the API server has them, in a few words."""

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
from contract.keys import GATE, JOB, PLACE
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
THREE = servers(3)
INDEX = "training.kubeflow.org/replica-index"


def pod(name: str, job: str, role: str, **spec: Any) -> Object:
    """Returns a pod as mpi-operator makes it, ten minutes old."""
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


def place(
    workers: int, size: int = 4, placer: str = "affinity", index: str = f" index=labels/{INDEX}"
) -> str:
    """Returns the annotation that the webhook writes."""
    return f"placer={placer} workers={workers} size={size} unit={KEYS[size]}{index}"


def workers(job: str, count: int, on: Iterable[str] = (), size: int = 4, **spec: Any) -> list[Object]:
    """Returns the workers that the webhook placed by affinity; the first ones are bound and Ready."""
    nodes = [*on, *[""] * count][:count]
    pods = []
    for index, node in enumerate(nodes):
        made = pod(f"{job}-worker-{index}", job, "worker", **copy.deepcopy(spec))
        made["metadata"]["labels"] |= {INDEX: str(index), JOB: f"{NAMESPACE}.{job}"}
        made["metadata"]["annotations"] = {PLACE: place(count, size)}
        made["spec"]["nodeSelector"] = {"node.kubernetes.io/instance-type": TRN2U}
        made["spec"]["containers"][0]["resources"] = {"requests": {"aws.amazon.com/neuron": "16"}}
        if size > 1:
            term = {"topologyKey": f"neuron.amazonaws.com/ultraserver-server-id-{size}"}
            made["spec"]["affinity"] = {
                "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            }
        if node:
            made["spec"]["nodeName"] = node
            made["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        pods.append(made)
    return pods


def claiming(pods: Iterable[Object], template: str) -> list[Object]:
    """Returns pods that claim by a template what they would request."""
    claimants = copy.deepcopy(list(pods))
    for made in claimants:
        made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "neurons"}]}
        made["spec"]["resourceClaims"] = [{"name": "neurons", "resourceClaimTemplateName": template}]
        claim = {"name": "neurons", "resourceClaimName": f"{made['metadata']['name']}-neurons"}
        made["status"] = {**made.get("status", {}), "resourceClaimStatuses": [claim]}
    return claimants


def unscheduled(pods: Iterable[Object], message: str) -> list[Object]:
    """Returns pods that the scheduler found no node for."""
    expected = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return [made | {"status": {"phase": "Pending", "conditions": [expected]}} for made in pods]


def gated(pods: Iterable[Object], count: int) -> list[Object]:
    """Returns pods that wait for the placement program."""
    gated_pods = []
    for made in copy.deepcopy(list(pods)):
        made["spec"]["schedulingGates"] = [{"name": GATE}]
        made["metadata"]["annotations"] |= {PLACE: place(count, placer="gate")}
        gated_pods.append(made)
    return gated_pods


def launcher(job: str, *statuses: Object, node: str = "n1-0") -> Object:
    """Its launcher, bound, with the states of its init containers."""
    made = pod(f"{job}-launcher-x7f2p", job, "launcher", nodeName=node)
    made["status"]["initContainerStatuses"] = list(statuses)
    return made


def stored(job: str = "train", count: int = 4, *, mutated: bool = True, **spec: Any) -> Object:
    """Returns an MPIJob that the operator has acted on."""
    obj = mpijob(count, name=job, namespace=NAMESPACE)
    obj["metadata"] |= {"uid": f"uid-of-{job}", "creationTimestamp": CREATED}
    if mutated:
        template = obj["spec"]["mpiReplicaSpecs"]["Worker"]["template"]
        template["metadata"] = {"annotations": {keys.ADDED: "{}"}}
        if count:
            template["metadata"]["annotations"][PLACE] = place(count)
    obj["spec"] |= spec
    obj["status"] = {"conditions": [{"type": "Created", "status": "True"}]}
    return obj


def fleet(nodes: Iterable[Node] = THREE.values(), pods: Iterable[Object] = (), **known: Any) -> Fleet:
    """Returns the cluster."""
    pods = list(pods)
    read = [result for raw in pods if (result := read_pod(raw))]
    owners = {raw["metadata"]["uid"]: owner for raw in pods if (owner := job_of(raw))}
    return Fleet(Topology(nodes), tuple(read), owners, **{"now": NOW, **known})


def work(
    pods: Iterable[Object],
    nodes: Iterable[Node] = THREE.values(),
    others: Iterable[Object] = (),
    job: Object | None = None,
    reference: JobReference = JobReference("", "train"),  # noqa: B008 - frozen
    **known: Any,
) -> Case:
    """Returns a job with its pods, and other pods in the cluster."""
    pods = list(pods)
    cluster = fleet(nodes, [*pods, *others], **known)
    ended_workers = tuple(ended for raw in pods if (ended := read_ended(raw)))
    return Case(reference, NAMESPACE, job or {}, tuple(pods), cluster, ended_workers=ended_workers)


def case(known_case: Case, **known: Any) -> Case:
    """Returns a job's case at noon, with a fresh Lease of the program and a registered webhook."""
    lease = {"spec": {"renewTime": "2026-11-21T11:59:55.000000Z", "holderIdentity": "placement-1"}}
    registration = {
        "metadata": {"name": "ultraserver-webhook", "creationTimestamp": "2026-11-21T09:00:00Z"},
        "webhooks": [{"failurePolicy": "Ignore"}],
    }
    given = {"lease": lease, "registration": registration, "rules": rules(), **known}
    if "answer" not in given and known_case.job and not known_case.is_changed and given["rules"]:
        given["answer"] = answer(known_case.job, given["rules"])
    return replace(known_case, **given)


def answer(job: Object, rules: Object) -> Object:
    """Returns what the preview service says of a job at its creation, by the table of a ConfigMap."""
    made = time_of(job["metadata"].get("creationTimestamp")) or NOW
    documents = read_documents(json.dumps(job), "request")
    shown = preview(table_of(rules), documents, NAMESPACE, made.timestamp())
    (document,) = json.loads(as_json(shown))["items"]
    return document


def rules(line: str = "", **metadata: Any) -> Object:
    """Returns the ConfigMap of an installation whose rule table is the packaged one, except for a line."""
    head = "apiVersion: ultraserver-webhook.io/v1alpha2\nkind: RuleTable\nextends: default\n"
    return {"metadata": metadata, "data": {"rules.yaml": head + line}}


def event(kind: str, name: str, reason: str, message: str, component: str = "", **more: Any) -> Object:
    """Returns a warning about an object."""
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
    """Returns a line as those see it who see no colours."""
    return click.unstyle(line.replace(ESCAPE, "\x1b"))


def run(*words: str, **options: Any) -> tuple[int, str, str]:
    """Returns what a command exits with and prints, on standard output and on standard error."""
    done = CliRunner().invoke(cli.main, words, **options)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout, done.stderr
