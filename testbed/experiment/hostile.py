"""Creates Pods as a user who attacks, and who may only create Pods in one namespace."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.keys import GATE, HOSTNAME, JOB, LOOSE, PLACEMENT
from contract.placement import Index, Placement, Placer, Summand
from testbed.experiment.stage import Stage
from testbed.plane import nodes
from testbed.plane.kubectl import Kubectl
from testbed.plane.process import Program

MEMORY = 256 << 20
"""Maximum memory of the program during the attack, in bytes: half of the limit in the manifests."""
NAMESPACE, USER = "evil", "mallory"
GATED: dict[str, Any] = {"schedulingGates": [{"name": GATE}]}
BATCH = 50
FOR_EVER = "example.com/for-ever"
EVERY_WITH_FINALIZER = 3
"""Every third Pod is deleted, but stays because of a finalizer."""
FIRST_ON_PLAIN_NODE = 300
"""From this number on, no Pod is on the UltraServer node, because a node accepts only 110 Pods."""
MANY_TERMS = 8_000
"""The number of node affinity terms with which a Pod nearly has the maximum size that can be stored."""


def create_intruder(admin: Kubectl) -> Kubectl:
    """Returns kubectl with the rights of a user who may only create Pods in a new namespace."""
    in_namespace = admin.create_namespace(NAMESPACE)
    in_namespace.run("create", "role", "theirs", "--verb=create", "--resource=pods")
    in_namespace.run("create", "rolebinding", "theirs", "--role=theirs", f"--user={USER}")
    return in_namespace.acting_as(USER)


def annotated_pod(name: str, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Returns a Pod with these annotations and without devices."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "example.invalid/c"}], **spec},
    }


def placement_annotations(
    workers: int, size: int, key: str = nodes.SERVER_ID_4, job: str = "", index: str = "name"
) -> dict[str, str]:
    """Returns a worker's placement annotation and job annotation."""
    annotations = {PLACEMENT: str(Placement(Placer.WHOLE_JOB, workers, size, key, Index((Summand(index),))))}
    return annotations | ({JOB: job} if job else {})


def node_affinity(terms: int) -> dict[str, Any]:
    """Returns a required node affinity with this number of terms."""
    expressions = [
        {"matchExpressions": [{"key": f"key-{number}", "operator": "In", "values": ["v" * 60]}]}
        for number in range(terms)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": expressions}}
    return {"affinity": {"nodeAffinity": required}}


def forged_pod(plain: str, server_node: str, number: int) -> dict[str, Any]:
    """Returns a Pod of one of ten sorts, which alternate by number. In the past, each sort stopped all jobs.

    Args:
        plain: The name of a node outside UltraServers.
        server_node: The name of a node of an UltraServer.
        number: The number of the Pod, from 0.
    """
    name = f"p-{number}"
    victim = f"team-a.job-{number % 100}"
    node = server_node if number < FIRST_ON_PLAIN_NODE else plain
    sorts: list[Callable[[], dict[str, Any]]] = [
        lambda: annotated_pod(name, placement_annotations(4, 2, nodes.INSTANCE_TYPE), nodeName=plain),
        lambda: annotated_pod(name, placement_annotations(2, 4, job=f"evil.odd-{number % 7}"), nodeName=node),
        lambda: annotated_pod(name, placement_annotations(2, 1, job=f"evil.odd-{number % 7}"), nodeName=node),
        lambda: annotated_pod(name, placement_annotations(400, 4, job="evil.queue"), **GATED),
        lambda: annotated_pod(name, placement_annotations(400, 4, job="evil.queue"), nodeName=plain),
        lambda: annotated_pod(name, placement_annotations(4, 4, job=victim), **GATED),
        lambda: annotated_pod(name, placement_annotations(4, 4, job=victim), nodeName=node),
        lambda: annotated_pod(
            name, placement_annotations(4, 4, job=f"evil.heavy-{number}"), **GATED, **node_affinity(66)
        ),
        lambda: annotated_pod(name, placement_annotations(99_999, 1, job=f"evil.many-{number}"), **GATED),
        lambda: annotated_pod(
            name, {}, nodeName=plain, **node_affinity(MANY_TERMS if number < FIRST_ON_PLAIN_NODE * 5 else 60)
        ),
    ]
    pod = sorts[number % len(sorts)]()
    if number % EVERY_WITH_FINALIZER == 0:
        pod["metadata"]["finalizers"] = [FOR_EVER]
    if number % 7 == 0 and pod["spec"].get("nodeName") != server_node:
        # A Pod with these labels would keep jobs off its UltraServer. Only the guard prevents this.
        pod["metadata"]["labels"] = {JOB: victim, LOOSE: ""}
    return pod


def gated_pod(_plain: str, _server_node: str, number: int) -> dict[str, Any]:
    """Returns a gated Pod that requests devices and is a job of one worker. Node affinity varies."""
    annotations = placement_annotations(1, 1, HOSTNAME, f"evil.g{number}", "labels/i")
    pod = annotated_pod(f"p-{number}", annotations, **GATED, **node_affinity(number % 20 + 1))
    pod["metadata"]["labels"] = {"i": "0"}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neuron": "16"}}
    if number % EVERY_WITH_FINALIZER == 0:
        pod["metadata"]["finalizers"] = [FOR_EVER]
    return pod


PodFactory = Callable[[str, str, int], dict[str, Any]]


def create_pods(stage: Stage, count: int, factory: PodFactory = forged_pod) -> int:
    """Creates Pods as the intruder, and deletes every third; returns the number of created Pods."""
    user = create_intruder(stage.plane.kubectl)
    plain = next(name for name, labels in stage.labels.items() if nodes.SERVER_ID_4 not in labels)
    server_node = next(name for name, labels in stage.labels.items() if nodes.SERVER_ID_4 in labels)

    def create(begin: int) -> int:
        pods = [factory(plain, server_node, number) for number in range(begin, min(begin + BATCH, count))]
        document = {"apiVersion": "v1", "kind": "List", "items": pods}
        return len(user.run("create", "-f", "-", stdin=json.dumps(document), check=False).stdout.splitlines())

    with ThreadPoolExecutor(2) as pool:
        created = sum(pool.map(create, range(0, count, BATCH)))
    for number in range(0, count, EVERY_WITH_FINALIZER):
        stage.end(NAMESPACE, f"p-{number}")
    return created


@dataclass(frozen=True)
class Outcome:
    """The result of an attack by Pods.

    Attributes:
        created: The number of Pods that the API server accepted.
        deleted: The number of these Pods that another client has deleted.
        peak: The maximum memory of the program, in bytes; 0 without a program.
    """

    created: int
    deleted: int
    peak: int

    def lines(self) -> list[str]:
        """Returns the result as lines for people."""
        return [
            f"hostile Pods: {self.created} created, {self.deleted} of them deleted by another client",
            f"memory of the program: {self.peak >> 20} MiB at most",
        ]


def read_outcome(stage: Stage, created: int, program: Program | None) -> Outcome:
    """Returns the result of an attack, with the memory of the program that ran during the attack."""
    pods = stage.plane.kubectl.in_namespace(NAMESPACE).get_json("pods")["items"]
    remaining = [
        pod for pod in pods if "finalizers" in pod["metadata"] or "deletionTimestamp" not in pod["metadata"]
    ]
    return Outcome(created, created - len(remaining), peak_memory(program) if program else 0)


def peak_memory(program: Program) -> int:
    """Returns the maximum memory that a program has used, in bytes."""
    status = Path(f"/proc/{program.pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
