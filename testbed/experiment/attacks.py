"""Attacks by a user with all rights in one namespace, who tries to keep other users' jobs off their nodes.

The module `hostile` has attacks by Pods alone. An attack is a generator. When the attack is complete, it
yields the number of workers that a job of another user can still have. It stops when the generator is closed.
"""

import contextlib
import itertools
import threading
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from contract.keys import HOSTNAME, JOB, LOOSE, PLACE
from placement.limits import MOST_ANNOTATIONS
from testbed.experiment.hostile import FOR_EVER, GATED, NAMESPACE, claiming, forged, place
from testbed.mpijob import mpijob
from testbed.plane import nodes
from testbed.plane.jobs import JOB_NAME, ROLE, clear
from testbed.plane.kubectl import Kubectl, Object

Running = Generator[int, None, None]
ALL, HALF = 8, 4
"""The number of workers for which nodes are free: in both free UltraServers, or in one of them."""
PORT = 2222
"""The host port that workers of other users request."""
PRIORITIES = {"attack-huge": 10**9, "attack-low": -(10**9)}
"""Priority classes that the tests add to the cluster, with their values."""
DEVICES = {"resources": {"limits": {"aws.amazon.com/neuron": "16"}}}
MOST = 256 << 10
"""Maximum bytes of a Pod's annotations."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MERGE, STRATEGIC = "merge-patch+json", "strategic-merge-patch+json"


@dataclass
class Tenant:
    """A user who attacks.

    Attributes:
        kubectl: kubectl with the user's rights, in the user's namespace.
        weak: kubectl with the rights of a user who may only create Pods there.
        plain: A node that is in no UltraServer.
        free: The nodes of the two free UltraServers. A job of four gets the first four.
        running: The job label of another user's job that runs.
        victim: The job label of another user's job that is created after the attack.
        answers: The status codes of the API server's answers to forged objects.
    """

    kubectl: Kubectl
    weak: Kubectl
    plain: str
    free: list[str]
    running: str
    victim: str = ""
    answers: list[int] = field(default_factory=list)

    def send(self, verb: str, where: str = "", body: object = None, kind: str = "json") -> int:
        """Sends a request about the user's Pods; returns the status."""
        return self.kubectl.api.send(verb, f"{PODS}{where}", body, f"application/{kind}")[0]

    def forge(self, *pods: Object) -> None:
        """Creates Pods with forged labels or annotations, as the user who may only create Pods."""
        self.answers += [self.weak.api.send("POST", PODS, pod, "application/json")[0] for pod in pods]

    def job(self, name: str, workers: int, bound: int = 0, **spec: Any) -> list[Object]:
        """Creates an MPIJob. Returns its workers when all exist and ``bound`` of them have a node."""
        self.kubectl.create(mpijob(workers, name=name, worker_spec=spec))
        return self.bound(name, workers, bound)

    def bound(self, name: str, workers: int, bound: int | None = None) -> list[Object]:
        """Returns the workers of a job when all exist and ``bound`` of them, by default all, have a node."""
        bound = workers if bound is None else bound
        have_nodes = [False] * (workers - bound) + [True] * bound
        pods = self.kubectl.wait_for(
            lambda pods: sorted("nodeName" in pod["spec"] for pod in pods["items"]) == have_nodes,
            *("pods", "-l", f"{JOB_NAME}={name},{ROLE}=worker"),
        )
        return list(pods["items"])

    def wait_for_event(self, text: str) -> None:
        """Waits until an Event contains a text. Returns at once if the guard denied an object."""
        if 403 in self.answers:
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
        self.answers.clear()


def ordinary(name: str, **spec: Any) -> Object:
    """Returns a Pod without a placement annotation and without devices."""
    pod = claiming(name, {}, **spec)
    del pod["metadata"]["annotations"]
    return pod


def repelling(*terms: Object, key: str = "topology.kubernetes.io/zone") -> Object:
    """Returns anti-affinity with terms that select the workers of all jobs."""
    selector = {"labelSelector": {"matchLabels": {ROLE: "worker"}}, "topologyKey": key}
    required = [selector | term for term in terms]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def what_once_stopped_the_fleet(tenant: Tenant) -> Running:
    """Creates some Pods of each sort that `hostile.forged` has."""
    tenant.forge(*(forged(tenant.plain, tenant.free[0], number) for number in range(40)))
    tenant.wait_for_event(f"with the label '{nodes.INSTANCE_TYPE}': the rule table has none")
    yield ALL


def a_quota_that_lets_some_workers_be(tenant: Tenant) -> Running:
    """Creates a job of eight workers, of which a quota permits only three; it is older than other jobs."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    tenant.kubectl.create(quota | {"spec": {"hard": {"pods": "3"}}})
    tenant.kubectl.create(mpijob(ALL, name="rationed"))
    tenant.kubectl.wait_for(lambda pods: len(pods["items"]) == 3, "pods")
    yield ALL


def annotations_without_room(tenant: Tenant) -> Running:
    """Creates the oldest job, with a worker that has no room for another annotation."""
    for number in range(ALL):
        pod = claiming(f"full-{number}", place(ALL, 4, job="evil.full"), **GATED)
        pod["spec"]["containers"][0] |= DEVICES
        annotations = pod["metadata"]["annotations"]
        if number == HALF:
            used = sum(map(len, ("pad", *annotations, *annotations.values())))
            annotations["pad"] = "x" * (MOST - 20 - used)
        tenant.forge(pod)
    tenant.wait_for_event(f"at most {MOST_ANNOTATIONS} are supported")
    yield ALL


def a_host_port(tenant: Tenant) -> Running:
    """Creates a Pod without devices that uses the host port of other workers on one node."""
    port_pod = ordinary("port", nodeName=tenant.free[0])
    port_pod["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": PORT}]
    tenant.forge(port_pod)
    yield HALF


def jobs_again_and_again(tenant: Tenant) -> Running:
    """Creates jobs without end. Each takes all nodes, and the next job waits when the last is deleted."""
    tenant.job("again-0", ALL, ALL)
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


def workers_that_disagree(tenant: Tenant) -> Running:
    """Changes the workers of a running job so that their annotations name other units, or none."""
    claims: list[dict[str, str | None]] = [
        {**place(99_999, 4)},
        {**place(HALF, 2, nodes.SERVER_ID_2)},
        {**place(HALF, 2, "topology.kubernetes.io/zone")},
        {PLACE: None, JOB: tenant.running},
    ]
    for pod, marks in zip(tenant.job("disagrees", HALF, HALF), claims, strict=True):
        body = {"metadata": {"annotations": marks}}
        tenant.answers.append(tenant.send("PATCH", f"/{pod['metadata']['name']}", body, MERGE))
    yield HALF


def names_of_others_jobs(tenant: Tenant) -> Running:
    """Creates Pods with the labels of workers and launchers of a running job and of a later job."""
    for number, job in enumerate((tenant.running, tenant.victim) * 2):
        spec = GATED if number % 2 else {"nodeName": tenant.plain}
        for index, role in enumerate(("worker", "worker", "launcher")):
            marks = place(HALF, 4, job=job) if role == "worker" else {JOB: job}
            pod = claiming(f"n{number}-{index}", marks, **spec)
            pod["metadata"]["labels"] = {JOB: job, LOOSE: "", ROLE: role, JOB_NAME: job.partition(".")[2]}
            tenant.forge(pod)
    yield ALL


def names_of_workers_to_come(tenant: Tenant) -> Running:
    """Creates two Pods with the names of a job's later workers. One has the job as its owner."""
    job = mpijob(HALF, name="taken")
    job["spec"]["runPolicy"] = {"suspend": True}
    stored_job = tenant.kubectl.create(job)
    owner = {key: stored_job[key] for key in ("apiVersion", "kind")} | {"controller": True}
    identity = {key: stored_job["metadata"][key] for key in ("name", "uid")}
    owned_pod, other_pod = (ordinary(f"taken-worker-{at}", nodeName=tenant.plain) for at in (1, 2))
    owned_pod["metadata"]["ownerReferences"] = [owner | identity]
    tenant.forge(owned_pod, other_pod)
    tenant.kubectl.run(
        "patch", "mpijob/taken", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": false}}}'
    )
    tenant.wait_for_event('Resource "taken-worker-2"')
    yield ALL


def every_verb(tenant: Tenant) -> Running:
    """Changes the user's own Pods by all verbs and subresources, and forges their placement annotations."""
    pods = tenant.job("waits", ALL + HALF)
    annotations = place(HALF, 2, nodes.INSTANCE_TYPE) | {JOB: tenant.running}
    marks = {"metadata": {"annotations": annotations, "labels": {JOB: tenant.running}}}
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
            tenant.answers.append(tenant.send("PATCH" if body else "PUT", path, body or pod, kind))
    waiting_pod, deleted_pod = (pod["metadata"]["name"] for pod in pods)
    bare_pod = ordinary("bare", schedulerName="absent")
    bare_pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    tenant.send("POST", "", bare_pod)
    target = {"target": {"kind": "Node", "name": tenant.free[0]}}
    binding = target | {"metadata": marks["metadata"] | {"name": "bare"}}
    tenant.answers.append(tenant.send("POST", "/bare/binding", binding))
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.invalid/debug"}]}}
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100"}}}]}}
    statuses = [
        tenant.send(
            "POST", f"/{waiting_pod}/binding", target | {"metadata": {"name": waiting_pod}}
        ),  # it has a gate
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


def pods_that_end_for_ever(tenant: Tenant) -> Running:
    """Deletes Pods that have finalizers: of a job that runs, without devices on free nodes, and gated."""
    pods = [ordinary(f"e-{at}", nodeName=node) for at, node in enumerate(tenant.free)]
    pods += [claiming(f"g-{at}", place(HALF, 4, job="evil.gone"), **GATED) for at in range(HALF)]
    tenant.forge(*pods)
    for name in [pod["metadata"]["name"] for pod in (*tenant.job("ends", HALF, HALF), *pods)]:
        tenant.send("PATCH", f"/{name}", {"metadata": {"finalizers": [FOR_EVER]}}, MERGE)
        tenant.send("DELETE", f"/{name}")
    yield HALF


def ended_pods_that_stay(tenant: Tenant) -> Running:
    """Creates Pods that have ended, with all devices of the free nodes and with finalizers."""
    for number, name in enumerate(tenant.free):
        pod = ordinary(f"over-{number}", nodeName=name)
        pod["metadata"]["finalizers"] = [FOR_EVER]
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
        ended = {"status": {"phase": "Failed" if number % 2 else "Succeeded"}}
        tenant.answers.append(tenant.send("PATCH", f"/over-{number}/status", ended, MERGE))
        tenant.send("DELETE", f"/over-{number}")
    yield ALL


def another_scheduler(tenant: Tenant) -> Running:
    """Creates a job and Pods for all devices, with the highest priority; their scheduler does not exist."""
    tenant.job("waits", HALF, schedulerName="absent")
    for number, name in enumerate(tenant.free):
        first, *_ = PRIORITIES
        pod = ordinary(f"o-{number}", schedulerName="absent", priorityClassName=first)
        pod["spec"] |= {"nodeSelector": {HOSTNAME: name}}
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
    yield HALF


def odd_priorities(tenant: Tenant) -> Running:
    """Creates jobs and Pods of the highest and lowest priority, which wait for nodes that do not exist."""
    for number, priority in enumerate((*PRIORITIES, "system-node-critical")):
        tenant.job(f"odd-{number}", ALL + HALF, priorityClassName=priority)
        pod = claiming(f"p-{number}", place(400, 4, job="evil.p"), priorityClassName=priority, **GATED)
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
    yield ALL


def a_place_that_is_kept(tenant: Tenant) -> Running:
    """Creates Pods that suit no node, and whose status nominates the free nodes."""
    for number, name in enumerate(tenant.free):
        pod = ordinary(f"s-{number}", nodeSelector={"no": "such-node"})
        pod["spec"]["containers"][0] |= DEVICES
        tenant.send("POST", "", pod)
        status = {"status": {"nominatedNodeName": name}}
        tenant.answers.append(tenant.send("PATCH", f"/s-{number}/status", status, MERGE))
    yield ALL


def a_zone_that_repels(tenant: Tenant) -> Running:
    """Creates a Pod whose anti-affinity keeps every worker off the zone."""
    affinity = repelling({"namespaceSelector": {}})
    tenant.forge(ordinary("repels", nodeName=tenant.plain, affinity=affinity))
    yield ALL


def nodes_that_repel(tenant: Tenant) -> Running:
    """Creates Pods on all free nodes. Their anti-affinity keeps workers off the nodes or UltraServers."""
    for number, name in enumerate(tenant.free):
        key = (HOSTNAME, nodes.SERVER_ID_4)[number % 2]
        pod = ordinary(f"r-{number}", nodeName=name, affinity=repelling({"namespaceSelector": {}}, key=key))
        if number % 3 == 0:  # no device plugin offers this resource, so a kubelet starts the Pod
            pod["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neurondevice": "1"}}
        tenant.forge(pod)
    yield ALL


def workers_without_devices(tenant: Tenant) -> Running:
    """Creates a job without devices on all free UltraServers: its labels must not block these."""
    selector = {"nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN2U}}
    tenant.kubectl.create(mpijob(ALL, name="idle", resource=None, worker_spec=selector))
    tenant.bound("idle", ALL)
    yield ALL


def one_core_that_repels(tenant: Tenant) -> Running:
    """Creates a Pod with one device, whose anti-affinity keeps jobs off one of the free UltraServers."""
    term = {"labelSelector": {}, "namespaceSelector": {}}
    core_pod = ordinary("core", affinity=repelling(term, key=nodes.SERVER_ID_4))
    core_pod["spec"]["nodeSelector"] = {HOSTNAME: tenant.free[0]}
    core_pod["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neuron": "1"}}
    tenant.forge(core_pod)
    if 403 not in tenant.answers:
        tenant.kubectl.wait_for(lambda pod: "nodeName" in pod["spec"], "pod", "core")
    yield 2


Attack = Callable[[Tenant], Running]
ATTACKS: tuple[Attack, ...] = (
    what_once_stopped_the_fleet,
    a_quota_that_lets_some_workers_be,
    annotations_without_room,
    a_host_port,
    jobs_again_and_again,
    workers_that_disagree,
    names_of_others_jobs,
    names_of_workers_to_come,
    every_verb,
    pods_that_end_for_ever,
    ended_pods_that_stay,
    another_scheduler,
    odd_priorities,
    workers_without_devices,
    one_core_that_repels,
)
REFUSED: tuple[Attack, ...] = (
    names_of_others_jobs,
    every_verb,
    a_place_that_is_kept,
    one_core_that_repels,
    a_zone_that_repels,
    nodes_that_repel,
)
"""Attacks that the guard denies. The program alone does not stop the last two and `a_place_that_is_kept`."""
