"""Users who attack during the experiment, with the role edit in a namespace.

Their MPIJobs with devices can never start, because their volume claim does not exist. So these jobs never use
a node, and must not delay the jobs of the experiment.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from contract.keys import HOSTNAME, INJECT
from testbed.experiment.hostile import NAMESPACE, create_intruder
from testbed.experiment.stage import Stage
from testbed.mpijob import mpijob
from testbed.plane import kueue, nodes
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.process import ClusterError

ALL_PODS = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": nodes.SERVER_ID_4}
NO_VOLUME = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}
URGENT = "urgent"
"""The priority class of an attacker's launcher."""
MPIJOBS = f"/apis/kubeflow.org/v2beta1/namespaces/{NAMESPACE}/mpijobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PAUSE = 0.02
"""Seconds between two changes of the attackers' Pods."""


def anti_affinity(term: Object) -> Object:
    """Returns required anti-affinity with one term."""
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def pod(name: str, **spec: Any) -> Object:
    """Returns a Pod. It requests one core unless the spec names a node."""
    resources = {} if "nodeName" in spec else {"limits": {"aws.amazon.com/neuroncore": "1"}}
    containers = [{"name": "c", "image": "example.invalid/c", "resources": resources}]
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def idle_job(_: Stage) -> list[Object]:
    """Returns a job without devices whose workers select UltraServer nodes."""
    selector = {"nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN2U}}
    return [mpijob(24, name="idle", resource=None, worker_spec=selector)]


def core_pods(stage: Stage) -> list[Object]:
    """Returns Pods that request one core each, and a job of one node, all with anti-affinity to all Pods."""
    selectors = [{"nodeSelector": {HOSTNAME: name}} for name in sorted(stage.usable)[::8]]
    pods = [
        pod(f"core-{number}", **selector, **anti_affinity(ALL_PODS))
        for number, selector in enumerate(selectors)
    ]
    return [*pods, mpijob(1, name="core", worker_spec=anti_affinity(ALL_PODS) | NO_VOLUME)]


def pod_with_long_term(stage: Stage) -> list[Object]:
    """Returns a Pod without devices, with a long anti-affinity term about its own namespace."""
    long_selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x" * 63] * 99}]}
    term = {"labelSelector": long_selector, "topologyKey": "topology.kubernetes.io/zone"}
    return [pod("words", nodeName=min(stage.usable), **anti_affinity(term))]


def job_that_cannot_start(_: Stage) -> list[Object]:
    """Returns a job that needs one UltraServer, and that cannot start."""
    return [mpijob(4, name="vain", worker_spec=NO_VOLUME)]


def job_to_change(_: Stage) -> list[Object]:
    """Returns a job that cannot start. `attack` changes only its first worker."""
    return [mpijob(4, name="touched", worker_spec=NO_VOLUME)]


def job_with_urgent_launcher(_: Stage) -> list[Object]:
    """Returns a large job whose launcher has a high priority, and whose workers have the default priority."""
    return [mpijob(24, name="first", worker_spec=NO_VOLUME, launcher_spec={"priorityClassName": URGENT})]


def queue_jobs(_: Stage) -> list[Object]:
    """Returns jobs of one node: half of them name a queue that does not exist, and half are opted out."""
    jobs = [mpijob(1, name=f"queue-{number}", worker_spec=NO_VOLUME) for number in range(8)]
    for number, job in enumerate(jobs):
        job["metadata"] |= (
            {"annotations": {INJECT: "false"}} if number % 2 else {"labels": {kueue.QUEUE: "none"}}
        )
    return jobs


USERS: dict[str, Callable[[Stage], list[Object]]] = {
    "idle": idle_job,
    "core": core_pods,
    "words": pod_with_long_term,
    "vain": job_that_cannot_start,
    "touched": job_to_change,
    "launcher": job_with_urgent_launcher,
    "queue": queue_jobs,
}
"""The objects of each attacker, by the attacker's name."""


@contextlib.contextmanager
def attack(stage: Stage, names: list[str]) -> Iterator[list[int]]:
    """Creates the objects of these users, and changes their Pods 50 times a second until the ``with`` ends.

    Yields:
        A list with the number of refused writes and the number of accepted writes, which both increase.
    """
    admin = stage.plane.kubectl
    create_intruder(admin)
    in_namespace = admin.in_namespace(NAMESPACE)
    in_namespace.run("create", "rolebinding", "edit", "--clusterrole=edit", "--user=editor")
    in_namespace.run("create", "role", "jobs", "--verb=*", "--resource=mpijobs.kubeflow.org")
    in_namespace.run("create", "rolebinding", "jobs", "--role=jobs", "--user=editor")
    admin.run("create", "priorityclass", URGENT, "--value=1000")
    editor, stop, counts = in_namespace.acting_as("editor"), threading.Event(), [0, 0]
    documents = [document for name in names for document in USERS[name](stage)]
    for document in documents:
        _send(editor, counts, "POST", _path(document), document)
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        jobs = [document for document in documents if document["kind"] == "MPIJob"]
        future = pool.submit(_change_pods, editor, jobs, stop, counts)
        stack.callback(future.result)
        stack.callback(stop.set)
        yield counts


def _change_pods(editor: Kubectl, jobs: list[Object], stop: threading.Event, counts: list[int]) -> None:
    for turn in itertools.count(1):
        for name in [item["metadata"]["name"] for item in editor.get_json("pods")["items"]]:
            if name.startswith("touched") and not name.endswith("worker-0"):
                continue
            change = {"metadata": {"annotations": {"x": str(time.monotonic())}}}
            _send(editor, counts, "PATCH", f"{PODS}/{name}", change)
            if stop.wait(PAUSE):
                return
        if stop.wait(PAUSE):
            return
        queue_jobs = [job for job in jobs if job["metadata"]["name"].startswith("queue")]
        if queue_jobs and turn % 4 == 0:  # a job is replaced by a job with another name
            document = queue_jobs[turn // 4 % len(queue_jobs)]
            document["metadata"]["name"] += "x"
            _send(editor, counts, "DELETE", f"{MPIJOBS}/{document['metadata']['name'][:-1]}")
            _send(editor, counts, "POST", MPIJOBS, document)


def _path(document: Object) -> str:
    return PODS if document["kind"] == "Pod" else MPIJOBS


def _send(editor: Kubectl, counts: list[int], verb: str, path: str, body: object = None) -> None:
    kind = "merge-patch+json" if verb == "PATCH" else "json"
    status, answer = editor.api.send(verb, path, body, f"application/{kind}")
    if status not in {200, 201, 403, 404, 409}:
        raise ClusterError(f"{verb} {path}: {answer}")
    counts[status < 300] += 1
