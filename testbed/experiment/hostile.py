"""Attacks by a user who may only create Pods in one namespace."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from contract.keys import GATE, HOSTNAME, JOB, LOOSE, PLACE
from contract.place import Index, Place, Placer, Summand
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
ENDLESS = 3
"""One in this number of Pods is deleted, but stays because of a finalizer."""
FULL = 300
"""Pods with higher numbers are on no UltraServer node: a node accepts only 110 Pods."""
LARGE = 8_000
"""The number of node affinity terms of a Pod that is nearly as large as the API server permits."""


def intruder(admin: Kubectl) -> Kubectl:
    """Returns kubectl with the rights of a user who may only create Pods in a new namespace."""
    in_namespace = admin.create_namespace(NAMESPACE)
    in_namespace.run("create", "role", "theirs", "--verb=create", "--resource=pods")
    in_namespace.run("create", "rolebinding", "theirs", "--role=theirs", f"--user={USER}")
    return in_namespace.acting_as(USER)


def claiming(name: str, annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    """Returns a Pod with these annotations and without devices."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"containers": [{"name": "c", "image": "example.invalid/c"}], **spec},
    }


def place(
    workers: int, size: int, key: str = nodes.SERVER_ID_4, job: str = "", index: str = "name"
) -> dict[str, str]:
    """Returns a worker's placement annotation and job annotation."""
    annotations = {PLACE: str(Place(Placer.WHOLE_JOB, workers, size, key, Index((Summand(index),))))}
    return annotations | ({JOB: job} if job else {})


def affinity(terms: int) -> dict[str, Any]:
    """Returns a required node affinity with this number of terms."""
    expressions = [
        {"matchExpressions": [{"key": f"key-{number}", "operator": "In", "values": ["v" * 60]}]}
        for number in range(terms)
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": expressions}}
    return {"affinity": {"nodeAffinity": required}}


def forged(plain: str, server_node: str, number: int) -> dict[str, Any]:
    """Returns the Pod with this number. Pods of such sorts once stopped all jobs; the sorts alternate.

    Args:
        plain: The name of a node that is in no UltraServer.
        server_node: The name of a node that is in an UltraServer.
        number: The number of the Pod, from 0.
    """
    name = f"p-{number}"
    victim = f"team-a.job-{number % 100}"
    unit = server_node if number < FULL else plain
    sorts: list[Callable[[], dict[str, Any]]] = [
        lambda: claiming(name, place(4, 2, nodes.INSTANCE_TYPE), nodeName=plain),
        lambda: claiming(name, place(2, 4, job=f"evil.odd-{number % 7}"), nodeName=unit),
        lambda: claiming(name, place(2, 1, job=f"evil.odd-{number % 7}"), nodeName=unit),
        lambda: claiming(name, place(400, 4, job="evil.queue"), **GATED),
        lambda: claiming(name, place(400, 4, job="evil.queue"), nodeName=plain),
        lambda: claiming(name, place(4, 4, job=victim), **GATED),
        lambda: claiming(name, place(4, 4, job=victim), nodeName=unit),
        lambda: claiming(name, place(4, 4, job=f"evil.heavy-{number}"), **GATED, **affinity(66)),
        lambda: claiming(name, place(99_999, 1, job=f"evil.many-{number}"), **GATED),
        lambda: claiming(name, {}, nodeName=plain, **affinity(LARGE if number < FULL * 5 else 60)),
    ]
    pod = sorts[number % len(sorts)]()
    if number % ENDLESS == 0:
        pod["metadata"]["finalizers"] = [FOR_EVER]
    if number % 7 == 0 and pod["spec"].get("nodeName") != server_node:
        # On an UltraServer node, Pods with these labels keep jobs off, which only the guard prevents.
        pod["metadata"]["labels"] = {JOB: victim, LOOSE: ""}
    return pod


def gated(_plain: str, _server_node: str, number: int) -> dict[str, Any]:
    """Returns a gated Pod that is a job and requests devices. Such Pods have twenty different demands."""
    annotations = place(1, 1, HOSTNAME, f"evil.g{number}", "labels/i")
    pod = claiming(f"p-{number}", annotations, **GATED, **affinity(number % 20 + 1))
    pod["metadata"]["labels"] = {"i": "0"}
    pod["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neuron": "16"}}
    if number % ENDLESS == 0:
        pod["metadata"]["finalizers"] = [FOR_EVER]
    return pod


Sort = Callable[[str, str, int], dict[str, Any]]


def fill(stage: Stage, count: int, sort: Sort = forged) -> int:
    """Creates Pods of a sort as the intruder, and deletes some; returns how many were created."""
    user = intruder(stage.plane.kubectl)
    plain = next(name for name, labels in stage.labels.items() if nodes.SERVER_ID_4 not in labels)
    server_node = next(name for name, labels in stage.labels.items() if nodes.SERVER_ID_4 in labels)

    def create(begin: int) -> int:
        pods = [sort(plain, server_node, number) for number in range(begin, min(begin + BATCH, count))]
        document = {"apiVersion": "v1", "kind": "List", "items": pods}
        return len(user.run("create", "-f", "-", stdin=json.dumps(document), check=False).stdout.splitlines())

    with ThreadPoolExecutor(2) as pool:
        created = sum(pool.map(create, range(0, count, BATCH)))
    for number in range(0, count, ENDLESS):
        stage.end(NAMESPACE, f"p-{number}")
    return created


@dataclass(frozen=True)
class Outcome:
    """The result of an attack by Pods.

    Attributes:
        created: The number of Pods that the API server accepted.
        deleted: The number of these Pods that another client deleted.
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


def outcome(stage: Stage, created: int, program: Program | None) -> Outcome:
    """Returns the result of an attack, with the memory of the program that ran during the attack."""
    pods = stage.plane.kubectl.in_namespace(NAMESPACE).get_json("pods")["items"]
    remaining = [
        pod for pod in pods if "finalizers" in pod["metadata"] or "deletionTimestamp" not in pod["metadata"]
    ]
    return Outcome(created, created - len(remaining), peak(program) if program else 0)


def peak(program: Program) -> int:
    """Returns the maximum memory that a program has used, in bytes."""
    status = Path(f"/proc/{program.pid}/status").read_text(encoding="ascii")
    return 1024 * next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
