"""Users who attack next to the experiment's jobs, as editors of a namespace, without using a device.

Each requests nodes and could never start, because their jobs lack a volume. So any node that the experiment's
jobs do not get, they do not get because of these users.
"""

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from contract.keys import HOSTNAME, INJECT
from testbed.experiment.hostile import NAMESPACE, intruder
from testbed.experiment.stage import Stage
from testbed.mpijob import mpijob
from testbed.plane import kueue, nodes
from testbed.plane.kubectl import Kubectl, Object
from testbed.plane.process import ClusterError

EVERYBODY = {"labelSelector": {}, "namespaceSelector": {}, "topologyKey": nodes.SERVER_ID_4}
NO_VOLUME = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]}
URGENT = "urgent"
"""A class that the cluster has."""
MPIJOBS = f"/apis/kubeflow.org/v2beta1/namespaces/{NAMESPACE}/mpijobs"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
PAUSE = 0.02
"""Seconds between two writes to their Pods."""


def repelling(term: Object) -> Object:
    """Returns affinity that keeps Pods off by a term."""
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def pod(name: str, **spec: Any) -> Object:
    """Returns a Pod with one core, if it names no node."""
    resources = {} if "nodeName" in spec else {"limits": {"aws.amazon.com/neuroncore": "1"}}
    containers = [{"name": "c", "image": "example.invalid/c", "resources": resources}]
    metadata = {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": containers, **spec},
    }


def idle(_: Stage) -> list[Object]:
    """Returns a job without devices on all UltraServers."""
    chosen = {"nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN2U}}
    return [mpijob(24, name="idle", resource=None, worker_spec=chosen)]


def core(stage: Stage) -> list[Object]:
    """Returns pods with one core, and a job of one node, that keep others off their UltraServers."""
    here = [{"nodeSelector": {HOSTNAME: name}} for name in sorted(stage.usable)[::8]]
    pods = [pod(f"core-{at}", **where, **repelling(EVERYBODY)) for at, where in enumerate(here)]
    return [*pods, mpijob(1, name="core", worker_spec=repelling(EVERYBODY) | NO_VOLUME)]


def words(stage: Stage) -> list[Object]:
    """Returns a Pod without devices and with long terms about its own namespace, in the zone of all nodes."""
    long = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x" * 63] * 99}]}
    term = {"labelSelector": long, "topologyKey": "topology.kubernetes.io/zone"}
    return [pod("words", nodeName=min(stage.usable), **repelling(term))]


def vain(_: Stage) -> list[Object]:
    """Returns a job of an UltraServer that cannot start."""
    return [mpijob(4, name="vain", worker_spec=NO_VOLUME)]


def touched(_: Stage) -> list[Object]:
    """Returns a job that cannot start, and of which only the first worker is changed all the time."""
    return [mpijob(4, name="touched", worker_spec=NO_VOLUME)]


def launcher(_: Stage) -> list[Object]:
    """Returns a large job of which only the launcher has a priority."""
    return [mpijob(24, name="first", worker_spec=NO_VOLUME, launcher_spec={"priorityClassName": URGENT})]


def queue(_: Stage) -> list[Object]:
    """Returns jobs of a node that name a queue which is not there, and others that are opted out."""
    made = [mpijob(1, name=f"queue-{at}", worker_spec=NO_VOLUME) for at in range(8)]
    for at, job in enumerate(made):
        job["metadata"] |= {"annotations": {INJECT: "false"}} if at % 2 else {"labels": {kueue.QUEUE: "none"}}
    return made


USERS: dict[str, Callable[[Stage], list[Object]]] = {
    user.__name__: user for user in (idle, core, words, vain, touched, launcher, queue)
}


@contextlib.contextmanager
def attack(stage: Stage, names: list[str]) -> Iterator[list[int]]:
    """Lets these users attack until the end, and changes their Pods fifty times a second.

    Yields:
        Their writes, so far refused and done.
    """
    admin = stage.plane.kubectl
    intruder(admin)
    inside = admin.in_namespace(NAMESPACE)
    inside.run("create", "rolebinding", "edit", "--clusterrole=edit", "--user=editor")
    inside.run("create", "role", "jobs", "--verb=*", "--resource=mpijobs.kubeflow.org")
    inside.run("create", "rolebinding", "jobs", "--role=jobs", "--user=editor")
    admin.run("create", "priorityclass", URGENT, "--value=1000")
    editor, ended, counted = inside.acting_as("editor"), threading.Event(), [0, 0]
    made = [document for name in names for document in USERS[name](stage)]
    for document in made:
        _send(editor, counted, "POST", _path(document), document)
    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as ending:
        going = pool.submit(
            _goes_on, editor, [document for document in made if document["kind"] == "MPIJob"], ended, counted
        )
        ending.callback(going.result)
        ending.callback(ended.set)
        yield counted


def _goes_on(editor: Kubectl, jobs: list[Object], ended: threading.Event, counted: list[int]) -> None:
    for turn in itertools.count(1):
        for name in [item["metadata"]["name"] for item in editor.get_json("pods")["items"]]:
            if name.startswith("touched") and not name.endswith("worker-0"):
                continue
            change = {"metadata": {"annotations": {"x": str(time.monotonic())}}}
            _send(editor, counted, "PATCH", f"{PODS}/{name}", change)
            if ended.wait(PAUSE):
                return
        if ended.wait(PAUSE):
            return
        small = [job for job in jobs if job["metadata"]["name"].startswith("queue")]
        if small and turn % 4 == 0:  # these come and go
            document = small[turn // 4 % len(small)]
            document["metadata"]["name"] += "x"
            _send(editor, counted, "DELETE", f"{MPIJOBS}/{document['metadata']['name'][:-1]}")
            _send(editor, counted, "POST", MPIJOBS, document)


def _path(document: Object) -> str:
    return PODS if document["kind"] == "Pod" else MPIJOBS


def _send(editor: Kubectl, counted: list[int], verb: str, path: str, body: object = None) -> None:
    kind = "merge-patch+json" if verb == "PATCH" else "json"
    status, answer = editor.api.send(verb, path, body, f"application/{kind}")
    if status not in {200, 201, 403, 404, 409}:
        raise ClusterError(f"{verb} {path}: {answer}")
    counted[status < 300] += 1
