"""Attacks by a user with all rights in one namespace, who tries to keep other users' jobs off their nodes.

Each attack is a generator. When its objects exist, it yields the number of workers that a job of another user
can still have. It stops when it is closed. The module `hostile` has attacks by Pods alone.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from contract.keys import HOSTNAME, JOB, LOOSE, PLACEMENT
from placement.limits import MOST_ANNOTATIONS
from testbed.experiment.hostile import (
    FOR_EVER,
    GATED,
    NAMESPACE,
    annotated_pod,
    forged_pod,
    placement_annotations,
)
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import JOB_NAME, ROLE, clear
from testbed.plane.kubectl import Kubectl, Object

RunningAttack = Generator[int, None, None]
ALL, HALF = 8, 4
"""The number of workers for which nodes are free: in both free UltraServers, or in one of them."""
PORT = 2222
"""The host port that workers of other users request."""
PRIORITIES = {"attack-huge": 10**9, "attack-low": -(10**9)}
"""Priority classes that the tests add to the cluster, with their values."""
DEVICES = {"resources": {"limits": {"aws.amazon.com/neuron": "16"}}}
MAX_ANNOTATION_BYTES = 256 << 10
"""The maximum size of all annotations of a Pod (Kubernetes)."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MERGE, STRATEGIC = "merge-patch+json", "strategic-merge-patch+json"


@dataclass
class Tenant:
    """A user who attacks.

    Attributes:
        kubectl: kubectl with the user's rights, in the user's namespace.
        pod_creator: kubectl with the rights of a user who may only create Pods in this namespace.
        plain_node: A node outside UltraServers.
        free_nodes: The nodes of the two free UltraServers. A job of four workers gets the first four.
        running_job: The job label of another user's job that runs.
        victim_job: The job label of another user's job that is created after the attack.
        statuses: The HTTP status codes of the requests that create or change forged objects.
    """

    kubectl: Kubectl
    pod_creator: Kubectl
    plain_node: str
    free_nodes: list[str]
    running_job: str
    victim_job: str = ""
    statuses: list[int] = field(default_factory=list)

    def send(self, verb: str, where: str = "", body: object = None, kind: str = "json") -> int:
        """Sends a request about the user's Pods; returns the status."""
        return self.kubectl.api.send(verb, f"{PODS}{where}", body, f"application/{kind}")[0]

    def forge(self, *pods: Object) -> None:
        """Creates Pods with forged labels or annotations, as the user who may only create Pods."""
        self.statuses += [self.pod_creator.api.send("POST", PODS, pod, "application/json")[0] for pod in pods]

    def create_job(self, name: str, workers: int, bound: int = 0, **spec: Any) -> list[Object]:
        """Creates an MPIJob. Returns its workers when all exist and ``bound`` of them have a node."""
        self.kubectl.create(mpijob(workers, name=name, worker_spec=spec))
        return self.wait_for_workers(name, workers, bound)

    def wait_for_workers(self, name: str, workers: int, bound: int | None = None) -> list[Object]:
        """Returns a job's workers when all exist and ``bound`` of them (by default all) have a node."""
        bound = workers if bound is None else bound
        have_nodes = [False] * (workers - bound) + [True] * bound
        pods = self.kubectl.wait_for(
            lambda pods: sorted("nodeName" in pod["spec"] for pod in pods["items"]) == have_nodes,
            *("pods", "-l", f"{JOB_NAME}={name},{ROLE}=worker"),
        )
        return list(pods["items"])

    def wait_for_event(self, text: str) -> None:
        """Waits until an Event contains a text. Returns immediately if the guard has denied a request."""
        if 403 in self.statuses:
            return
        self.kubectl.wait_for(
            lambda events: [event for event in events["items"] if text in event["message"]], "events"
        )

    def clear(self) -> None:
        """Deletes all objects of the user."""
        self.kubectl.delete("resourcequotas")
        for pod in self.kubectl.get_json("pods")["items"]:
            if "finalizers" in pod["metadata"]:
                self.send("PATCH", f"/{pod['metadata']['name']}", {"metadata": {"finalizers": None}}, MERGE)
        clear(self.kubectl)
        self.kubectl.delete("events")
        self.statuses.clear()


def ordinary(name: str, **spec: Any) -> Object:
    """Returns a Pod without a placement annotation and without devices."""
    pod = annotated_pod(name, {}, **spec)
    del pod["metadata"]["annotations"]
    return pod


def repelling(*terms: Object, key: str = "topology.kubernetes.io/zone") -> Object:
    """Returns required anti-affinity with terms that select the workers of all jobs."""
    selector = {"labelSelector": {"matchLabels": {ROLE: "worker"}}, "topologyKey": key}
    required = [selector | term for term in terms]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def forged_pods_of_all_sorts(tenant: Tenant) -> RunningAttack:
    """Creates four Pods of each sort of `hostile.forged_pod`. In the past, they stopped all jobs."""
    tenant.forge(*(forged_pod(tenant.plain_node, tenant.free_nodes[0], number) for number in range(40)))
    tenant.wait_for_event(f"with label '{nodes.INSTANCE_TYPE}': the rule table has none")
    yield ALL


def a_quota_that_permits_some_workers(tenant: Tenant) -> RunningAttack:
    """Creates a job of eight workers, older than other jobs. A quota permits only three of its workers."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    tenant.kubectl.create(quota | {"spec": {"hard": {"pods": "3"}}})
    tenant.kubectl.create(mpijob(ALL, name="rationed"))
    tenant.kubectl.wait_for(lambda pods: len(pods["items"]) == 3, "pods")
    yield ALL


def a_worker_with_full_annotations(tenant: Tenant) -> RunningAttack:
    """Creates the oldest job, in which the annotations of one worker have the maximum size."""
    for number in range(ALL):
        pod = annotated_pod(f"full-{number}", placement_annotations(ALL, 4, job="evil.full"), **GATED)
        pod["spec"]["containers"][0] |= DEVICES
        annotations = pod["metadata"]["annotations"]
        if number == HALF:
            used = sum(map(len, ("pad", *annotations, *annotations.values())))
            annotations["pad"] = "x" * (MAX_ANNOTATION_BYTES - 20 - used)
        tenant.forge(pod)
    tenant.wait_for_event(f"at most {MOST_ANNOTATIONS} are supported")
    yield ALL


def a_host_port(tenant: Tenant) -> RunningAttack:
    """Creates a Pod without devices on one node, with the host port that workers of other users request."""
    port_pod = ordinary("port", nodeName=tenant.free_nodes[0])
    port_pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": PORT}]
    tenant.forge(port_pod)
    yield HALF


def jobs_without_end(tenant: Tenant) -> RunningAttack:
    """Creates jobs without end. Each job takes all nodes, and is deleted while the next job waits."""
    tenant.create_job("again-0", ALL, ALL)
    stop = threading.Event()

    def create_jobs() -> None:
        for number in itertools.count(1):
            selections = [("pods", "-l", f"{JOB_NAME}=again-{number - at},{ROLE}=worker") for at in (0, 1)]
            tenant.kubectl.create(mpijob(ALL, name=f"again-{number}"))
            tenant.kubectl.wait_for(lambda pods: len(pods["items"]) == ALL, *selections[0])
            tenant.kubectl.delete("mpijob", f"again-{number - 1}")
            tenant.kubectl.delete(*selections[1], at_once=True)
            if stop.is_set():
                return

    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as stack:
        stack.callback(pool.submit(create_jobs).result)
        stack.callback(stop.set)
        yield ALL


def workers_with_different_annotations(tenant: Tenant) -> RunningAttack:
    """Changes the workers of a running job: their annotations name different units, or no unit."""
    annotations: list[dict[str, str | None]] = [
        {**placement_annotations(99_999, 4)},
        {**placement_annotations(HALF, 2, nodes.SERVER_ID_2)},
        {**placement_annotations(HALF, 2, "topology.kubernetes.io/zone")},
        {PLACEMENT: None, JOB: tenant.running_job},
    ]
    for pod, marks in zip(tenant.create_job("disagrees", HALF, HALF), annotations, strict=True):
        body = {"metadata": {"annotations": marks}}
        tenant.statuses.append(tenant.send("PATCH", f"/{pod['metadata']['name']}", body, MERGE))
    yield HALF


def labels_of_other_users_jobs(tenant: Tenant) -> RunningAttack:
    """Creates Pods with the labels of workers and launchers of other users' running and later jobs."""
    for number, job in enumerate((tenant.running_job, tenant.victim_job) * 2):
        spec = GATED if number % 2 else {"nodeName": tenant.plain_node}
        for index, role in enumerate(("worker", "worker", "launcher")):
            marks = placement_annotations(HALF, 4, job=job) if role == "worker" else {JOB: job}
            pod = annotated_pod(f"n{number}-{index}", marks, **spec)
            pod["metadata"]["labels"] = {JOB: job, LOOSE: "", ROLE: role, JOB_NAME: job.partition(".")[2]}
            tenant.forge(pod)
    yield ALL


def names_of_later_workers(tenant: Tenant) -> RunningAttack:
    """Creates two Pods with the names that a job's workers will have. One Pod has the job as its owner."""
    job = mpijob(HALF, name="taken")
    job["spec"]["runPolicy"] = {"suspend": True}
    stored_job = tenant.kubectl.create(job)
    owner = {key: stored_job[key] for key in ("apiVersion", "kind")} | {"controller": True}
    identity = {key: stored_job["metadata"][key] for key in ("name", "uid")}
    owned_pod, other_pod = (ordinary(f"taken-worker-{at}", nodeName=tenant.plain_node) for at in (1, 2))
    owned_pod["metadata"]["ownerReferences"] = [owner | identity]
    tenant.forge(owned_pod, other_pod)
    tenant.kubectl.run(
        "patch", "mpijob/taken", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": false}}}'
    )
    tenant.wait_for_event('Resource "taken-worker-2"')
    yield ALL


def every_verb(tenant: Tenant) -> RunningAttack:
    """Forges placement annotations of the user's own Pods with all verbs and subresources."""
    pods = tenant.create_job("waits", ALL + HALF)
    annotations = placement_annotations(HALF, 2, nodes.INSTANCE_TYPE) | {JOB: tenant.running_job}
    marks = {"metadata": {"annotations": annotations, "labels": {JOB: tenant.running_job}}}
    requests: list[tuple[str, object, str]] = [
        ("", marks, MERGE),
        ("", marks, STRATEGIC),
        ("", [{"op": "replace", "path": "/metadata/annotations", "value": annotations}], "json-patch+json"),
        ("?fieldManager=m&force=true", {"apiVersion": "v1", "kind": "Pod", **marks}, "apply-patch+yaml"),
        ("", None, "json"),
    ]
    for subresource in ("", "/status"):
        for query, body, kind in requests:
            pod = pods.pop()
            path = f"/{pod['metadata']['name']}{subresource}{query}"
            pod["metadata"]["annotations"] |= annotations
            tenant.statuses.append(tenant.send("PATCH" if body else "PUT", path, body or pod, kind))
    waiting_pod, deleted_pod = (pod["metadata"]["name"] for pod in pods)
    bare_pod = ordinary("bare", schedulerName="absent")
    bare_pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    tenant.send("POST", "", bare_pod)
    target = {"target": {"kind": "Node", "name": tenant.free_nodes[0]}}
    binding = target | {"metadata": marks["metadata"] | {"name": "bare"}}
    tenant.statuses.append(tenant.send("POST", "/bare/binding", binding))
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.invalid/debug"}]}}
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100"}}}]}}
    statuses = [
        tenant.send("POST", f"/{waiting_pod}/binding", target | {"metadata": {"name": waiting_pod}}),
        tenant.send("PATCH", "/bare/ephemeralcontainers", debug, STRATEGIC),
        tenant.send("PATCH", "/bare/resize", larger, STRATEGIC),
        tenant.send("POST", f"/{waiting_pod}/eviction", {"metadata": {"name": waiting_pod}}),
        tenant.send("DELETE", f"/{deleted_pod}"),
        tenant.send("DELETE", f"?labelSelector={JOB_NAME}%3Dwaits,{ROLE}%3Dworker"),
    ]
    binding_status, *other_statuses = statuses
    assert binding_status in {409, 403}, "the Pod has a gate, and the guard permits only schedulers to bind"
    assert other_statuses == [200, 200, 201, 200, 200], other_statuses
    yield ALL


def deleted_pods_that_stay(tenant: Tenant) -> RunningAttack:
    """Deletes Pods with finalizers: Pods of a running job, Pods on free nodes without devices, gated Pods."""
    pods = [ordinary(f"e-{at}", nodeName=node) for at, node in enumerate(tenant.free_nodes)]
    pods += [
        annotated_pod(f"g-{at}", placement_annotations(HALF, 4, job="evil.gone"), **GATED)
        for at in range(HALF)
    ]
    tenant.forge(*pods)
    for name in [pod["metadata"]["name"] for pod in (*tenant.create_job("ends", HALF, HALF), *pods)]:
        tenant.send("PATCH", f"/{name}", {"metadata": {"finalizers": [FOR_EVER]}}, MERGE)
        tenant.send("DELETE", f"/{name}")
    yield HALF


def ended_pods_that_stay(tenant: Tenant) -> RunningAttack:
    """Creates Pods with finalizers that use all devices of the free nodes, and marks them as ended."""
    for number, name in enumerate(tenant.free_nodes):
        pod = ordinary(f"over-{number}", nodeName=name)
        pod["metadata"]["finalizers"] = [FOR_EVER]
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
        ended = {"status": {"phase": "Failed" if number % 2 else "Succeeded"}}
        tenant.statuses.append(tenant.send("PATCH", f"/over-{number}/status", ended, MERGE))
        tenant.send("DELETE", f"/over-{number}")
    yield ALL


def a_scheduler_that_does_not_exist(tenant: Tenant) -> RunningAttack:
    """Creates a job, and Pods of the highest priority for all devices. Their scheduler does not exist."""
    tenant.create_job("waits", HALF, schedulerName="absent")
    for number, name in enumerate(tenant.free_nodes):
        first, *_ = PRIORITIES
        pod = ordinary(f"o-{number}", schedulerName="absent", priorityClassName=first)
        pod["spec"] |= {"nodeSelector": {HOSTNAME: name}}
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
    yield HALF


def extreme_priorities(tenant: Tenant) -> RunningAttack:
    """Creates jobs and Pods of the highest and lowest priority. They need more nodes than exist."""
    for number, priority in enumerate((*PRIORITIES, "system-node-critical")):
        tenant.create_job(f"odd-{number}", ALL + HALF, priorityClassName=priority)
        pod = annotated_pod(
            f"p-{number}", placement_annotations(400, 4, job="evil.p"), priorityClassName=priority, **GATED
        )
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
    yield ALL


def pods_that_nominate_free_nodes(tenant: Tenant) -> RunningAttack:
    """Creates Pods that no node can run, and nominates the free nodes in their status."""
    for number, name in enumerate(tenant.free_nodes):
        pod = ordinary(f"s-{number}", nodeSelector={"no": "such-node"})
        pod["spec"]["containers"][0] |= DEVICES
        tenant.send("POST", "", pod)
        status = {"status": {"nominatedNodeName": name}}
        tenant.statuses.append(tenant.send("PATCH", f"/s-{number}/status", status, MERGE))
    yield ALL


def anti_affinity_for_a_zone(tenant: Tenant) -> RunningAttack:
    """Creates a Pod whose anti-affinity keeps every worker off the Pod's zone."""
    affinity = repelling({"namespaceSelector": {}})
    tenant.forge(ordinary("repels", nodeName=tenant.plain_node, affinity=affinity))
    yield ALL


def anti_affinity_on_free_nodes(tenant: Tenant) -> RunningAttack:
    """Creates Pods on all free nodes. Their anti-affinity keeps workers off these nodes or UltraServers."""
    for number, name in enumerate(tenant.free_nodes):
        key = (HOSTNAME, nodes.SERVER_ID_4)[number % 2]
        pod = ordinary(f"r-{number}", nodeName=name, affinity=repelling({"namespaceSelector": {}}, key=key))
        if number % 3 == 0:  # a kubelet ignores this resource, because no device plugin offers it
            pod["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neurondevice": "1"}}
        tenant.forge(pod)
    yield ALL


def workers_without_devices(tenant: Tenant) -> RunningAttack:
    """Creates a job without devices on all free UltraServers. The job's labels must not block them."""
    selector = {"nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN2U}}
    tenant.kubectl.create(mpijob(ALL, name="idle", resource=None, worker_spec=selector))
    tenant.wait_for_workers("idle", ALL)
    yield ALL


def anti_affinity_of_a_pod_with_one_device(tenant: Tenant) -> RunningAttack:
    """Creates a Pod with one device, whose anti-affinity keeps jobs off one of the free UltraServers."""
    term = {"labelSelector": {}, "namespaceSelector": {}}
    core_pod = ordinary("core", affinity=repelling(term, key=nodes.SERVER_ID_4))
    core_pod["spec"]["nodeSelector"] = {HOSTNAME: tenant.free_nodes[0]}
    core_pod["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neuron": "1"}}
    tenant.forge(core_pod)
    if 403 not in tenant.statuses:
        tenant.kubectl.wait_for(lambda pod: "nodeName" in pod["spec"], "pod", "core")
    yield 2  # without the anti-affinity, a job of two workers could have the other pair of this UltraServer


Attack = Callable[[Tenant], RunningAttack]
ATTACKS: tuple[Attack, ...] = (
    forged_pods_of_all_sorts,
    a_quota_that_permits_some_workers,
    a_worker_with_full_annotations,
    a_host_port,
    jobs_without_end,
    workers_with_different_annotations,
    labels_of_other_users_jobs,
    names_of_later_workers,
    every_verb,
    deleted_pods_that_stay,
    ended_pods_that_stay,
    a_scheduler_that_does_not_exist,
    extreme_priorities,
    workers_without_devices,
    anti_affinity_of_a_pod_with_one_device,
)
REFUSED: tuple[Attack, ...] = (
    labels_of_other_users_jobs,
    every_verb,
    pods_that_nominate_free_nodes,
    anti_affinity_of_a_pod_with_one_device,
    anti_affinity_for_a_zone,
    anti_affinity_on_free_nodes,
)
"""Attacks that the guard denies. Without the guard, the last two and the nominating Pods stop jobs."""
