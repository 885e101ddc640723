"""Attacks by a user with all rights in one namespace, which keep other users' jobs off their nodes.

They come in addition to the Pods of `hostile`. An attack is a generator: it yields when it is complete, and
yields how many workers another user's job can still have; what it does meanwhile ends when it is closed.
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

Goes = Generator[int, None, None]
ALL, HALF = 8, 4
"""Workers for which there are nodes: in both free UltraServers, or in one."""
PORT = 2222
"""The host port of other users' workers."""
PRIORITIES = {"attack-huge": 10**9, "attack-low": -(10**9)}
"""Priority classes of the cluster, in addition to its own."""
DEVICES = {"resources": {"limits": {"aws.amazon.com/neuron": "16"}}}
MOST = 256 << 10
"""Bytes of a Pod's annotations."""
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
MERGE, STRATEGIC = "merge-patch+json", "strategic-merge-patch+json"


@dataclass
class Tenant:
    """The user who attacks.

    Attributes:
        kubectl: The user's, in their namespace.
        weak: That of another user there, who may create Pods and nothing else.
        plain: A node that is in no UltraServer.
        free: The nodes of the two free UltraServers; a job gets the first four first.
        running: The job label of a job that runs.
        victim: The job label of the job that comes later.
        answers: The API server's answers to forged objects.
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
        """Creates Pods with false marks, without any other right."""
        self.answers += [self.weak.api.send("POST", PODS, pod, "application/json")[0] for pod in pods]

    def job(self, name: str, workers: int, bound: int = 0, **spec: Any) -> list[Object]:
        """Creates an MPIJob; returns its workers, when all exist and this many of them have a node."""
        self.kubectl.create(mpijob(workers, name=name, worker_spec=spec))
        return self.bound(name, workers, bound)

    def bound(self, name: str, workers: int, bound: int | None = None) -> list[Object]:
        """Returns the workers of a job, when all exist and this many of them have a node; by default all."""
        bound = workers if bound is None else bound
        there = [False] * (workers - bound) + [True] * bound
        pods = self.kubectl.wait_for(
            lambda pods: sorted("nodeName" in pod["spec"] for pod in pods["items"]) == there,
            *("pods", "-l", f"{JOB_NAME}={name},{ROLE}=worker"),
        )
        return list(pods["items"])

    def wait_for_event(self, text: str) -> None:
        """Waits until an Event contains a text, if the guard let the objects be created."""
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
    """Returns affinity that keeps workers of any job off, by each of the terms."""
    selector = {"labelSelector": {"matchLabels": {ROLE: "worker"}}, "topologyKey": key}
    required = [selector | term for term in terms]
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def what_once_stopped_the_fleet(tenant: Tenant) -> Goes:
    """Creates a few Pods of each sort of `hostile`."""
    tenant.forge(*(forged(tenant.plain, tenant.free[0], number) for number in range(40)))
    tenant.wait_for_event(f"with the label '{nodes.INSTANCE_TYPE}': the rule table has none")
    yield ALL


def a_quota_that_lets_some_workers_be(tenant: Tenant) -> Goes:
    """Creates three Pods of a job of eight, older than all others."""
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "few"}}
    tenant.kubectl.create(quota | {"spec": {"hard": {"pods": "3"}}})
    tenant.kubectl.create(mpijob(ALL, name="rationed"))
    tenant.kubectl.wait_for(lambda pods: len(pods["items"]) == 3, "pods")
    yield ALL


def annotations_without_room(tenant: Tenant) -> Goes:
    """Creates a job with a worker whose annotations have no room for another, older than all others."""
    for number in range(ALL):
        pod = claiming(f"full-{number}", place(ALL, 4, job="evil.full"), **GATED)
        pod["spec"]["containers"][0] |= DEVICES
        annotations = pod["metadata"]["annotations"]
        if number == HALF:
            size = sum(map(len, ("pad", *annotations, *annotations.values())))
            annotations["pad"] = "x" * (MOST - 20 - size)
        tenant.forge(pod)
    tenant.wait_for_event(f"at most {MOST_ANNOTATIONS}, so that its unit has room")
    yield ALL


def a_host_port(tenant: Tenant) -> Goes:
    """Creates a Pod without devices that has the port of other workers on one node."""
    listening = ordinary("port", nodeName=tenant.free[0])
    listening["spec"]["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": PORT}]
    tenant.forge(listening)
    yield HALF


def jobs_again_and_again(tenant: Tenant) -> Goes:
    """Creates jobs that each take all nodes, without end: the next waits when the last is deleted."""
    tenant.job("again-0", ALL, ALL)
    ended = threading.Event()

    def again() -> None:
        for number in itertools.count(1):
            theirs = [("pods", "-l", f"{JOB_NAME}=again-{number - at},{ROLE}=worker") for at in (0, 1)]
            tenant.kubectl.create(mpijob(ALL, name=f"again-{number}"))
            tenant.kubectl.wait_for(lambda pods: len(pods["items"]) == ALL, *theirs[0])
            tenant.kubectl.delete("mpijob", f"again-{number - 1}")
            tenant.kubectl.delete(*theirs[1], at_once=True)
            if ended.is_set():
                return

    with ThreadPoolExecutor(1) as pool, contextlib.ExitStack() as ending:
        ending.callback(pool.submit(again).result)
        ending.callback(ended.set)
        yield ALL


def workers_that_disagree(tenant: Tenant) -> Goes:
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


def names_of_others_jobs(tenant: Tenant) -> Goes:
    """Creates Pods with the marks of workers and launchers of a running job, and of a later one."""
    for number, job in enumerate((tenant.running, tenant.victim) * 2):
        where = GATED if number % 2 else {"nodeName": tenant.plain}
        for index, role in enumerate(("worker", "worker", "launcher")):
            marks = place(HALF, 4, job=job) if role == "worker" else {JOB: job}
            pod = claiming(f"n{number}-{index}", marks, **where)
            pod["metadata"]["labels"] = {JOB: job, LOOSE: "", ROLE: role, JOB_NAME: job.partition(".")[2]}
            tenant.forge(pod)
    yield ALL


def names_of_workers_to_come(tenant: Tenant) -> Goes:
    """Creates two Pods with names of a job's later workers; one of them has that job's marks."""
    job = mpijob(HALF, name="taken")
    job["spec"]["runPolicy"] = {"suspend": True}
    made = tenant.kubectl.create(job)
    owner = {key: made[key] for key in ("apiVersion", "kind")} | {"controller": True}
    names = {key: made["metadata"][key] for key in ("name", "uid")}
    owned, other = (ordinary(f"taken-worker-{at}", nodeName=tenant.plain) for at in (1, 2))
    owned["metadata"]["ownerReferences"] = [owner | names]
    tenant.forge(owned, other)
    tenant.kubectl.run(
        "patch", "mpijob/taken", "--type=merge", "-p", '{"spec": {"runPolicy": {"suspend": false}}}'
    )
    tenant.wait_for_event('Resource "taken-worker-2"')
    yield ALL


def every_verb(tenant: Tenant) -> Goes:
    """Writes to the user's own Pods in all ways: a waiting job's, with annotations as if it held a zone."""
    pods = tenant.job("waits", ALL + HALF)
    annotations = place(HALF, 2, nodes.INSTANCE_TYPE) | {JOB: tenant.running}
    marks = {"metadata": {"annotations": annotations, "labels": {JOB: tenant.running}}}
    ways: list[tuple[str, object, str]] = [
        ("", marks, MERGE),
        ("", marks, STRATEGIC),
        ("", [{"op": "replace", "path": "/metadata/annotations", "value": annotations}], "json-patch+json"),
        ("?fieldManager=m&force=true", {"apiVersion": "v1", "kind": "Pod", **marks}, "apply-patch+yaml"),
        ("", None, "json"),
    ]
    for door in ("", "/status"):
        for query, body, kind in ways:
            pod = pods.pop()
            where = f"/{pod['metadata']['name']}{door}{query}"
            pod["metadata"]["annotations"] |= annotations
            tenant.answers.append(tenant.send("PATCH" if body else "PUT", where, body or pod, kind))
    waits, gone = (pod["metadata"]["name"] for pod in pods)
    bare = ordinary("bare", schedulerName="absent")
    bare["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    tenant.send("POST", "", bare)
    target = {"target": {"kind": "Node", "name": tenant.free[0]}}
    binding = target | {"metadata": marks["metadata"] | {"name": "bare"}}
    tenant.answers.append(tenant.send("POST", "/bare/binding", binding))
    debug = {"spec": {"ephemeralContainers": [{"name": "debug", "image": "example.invalid/debug"}]}}
    larger = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "100"}}}]}}
    sent = [
        tenant.send("POST", f"/{waits}/binding", target | {"metadata": {"name": waits}}),  # it has a gate
        tenant.send("PATCH", "/bare/ephemeralcontainers", debug, STRATEGIC),
        tenant.send("PATCH", "/bare/resize", larger, STRATEGIC),
        tenant.send("POST", f"/{waits}/eviction", {"metadata": {"name": waits}}),
        tenant.send("DELETE", f"/{gone}"),
        tenant.send("DELETE", f"?labelSelector={JOB_NAME}%3Dwaits,{ROLE}%3Dworker"),
    ]
    bound, *rest = sent
    assert bound in {409, 403}, "it has a gate, and the guard lets schedulers bind only"
    assert rest == [200, 200, 201, 200, 200], rest
    yield ALL


def pods_that_end_for_ever(tenant: Tenant) -> Goes:
    """Ends Pods of a job that ran, others without devices on all free nodes, and some that wait."""
    pods = [ordinary(f"e-{at}", nodeName=on) for at, on in enumerate(tenant.free)]
    pods += [claiming(f"g-{at}", place(HALF, 4, job="evil.gone"), **GATED) for at in range(HALF)]
    tenant.forge(*pods)
    for name in [pod["metadata"]["name"] for pod in (*tenant.job("ends", HALF, HALF), *pods)]:
        tenant.send("PATCH", f"/{name}", {"metadata": {"finalizers": [FOR_EVER]}}, MERGE)
        tenant.send("DELETE", f"/{name}")
    yield HALF


def ended_pods_that_stay(tenant: Tenant) -> Goes:
    """Ends Pods that had all devices of the free nodes; finalizers keep the objects."""
    for number, name in enumerate(tenant.free):
        pod = ordinary(f"over-{number}", nodeName=name)
        pod["metadata"]["finalizers"] = [FOR_EVER]
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
        ended = {"status": {"phase": "Failed" if number % 2 else "Succeeded"}}
        tenant.answers.append(tenant.send("PATCH", f"/over-{number}/status", ended, MERGE))
        tenant.send("DELETE", f"/over-{number}")
    yield ALL


def another_scheduler(tenant: Tenant) -> Goes:
    """Creates a job and Pods for all devices, before all others; their scheduler does not exist."""
    tenant.job("waits", HALF, schedulerName="absent")
    for number, name in enumerate(tenant.free):
        first, *_ = PRIORITIES
        pod = ordinary(f"o-{number}", schedulerName="absent", priorityClassName=first)
        pod["spec"] |= {"nodeSelector": {HOSTNAME: name}}
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
    yield HALF


def odd_priorities(tenant: Tenant) -> Goes:
    """Creates jobs and Pods that wait for missing nodes, before all others and after."""
    for number, priority in enumerate((*PRIORITIES, "system-node-critical")):
        tenant.job(f"odd-{number}", ALL + HALF, priorityClassName=priority)
        pod = claiming(f"p-{number}", place(400, 4, job="evil.p"), priorityClassName=priority, **GATED)
        pod["spec"]["containers"][0] |= DEVICES
        tenant.forge(pod)
    yield ALL


def a_place_that_is_kept(tenant: Tenant) -> Goes:
    """Creates Pods that suit no node; their status nominates nodes."""
    for number, name in enumerate(tenant.free):
        pod = ordinary(f"s-{number}", nodeSelector={"no": "such-node"})
        pod["spec"]["containers"][0] |= DEVICES
        tenant.send("POST", "", pod)
        status = {"status": {"nominatedNodeName": name}}
        tenant.answers.append(tenant.send("PATCH", f"/s-{number}/status", status, MERGE))
    yield ALL


def a_zone_that_repels(tenant: Tenant) -> Goes:
    """Creates a Pod whose anti-affinity keeps every worker off the zone."""
    affinity = repelling({"namespaceSelector": {}})
    tenant.forge(ordinary("repels", nodeName=tenant.plain, affinity=affinity))
    yield ALL


def nodes_that_repel(tenant: Tenant) -> Goes:
    """Creates Pods on all free nodes, whose anti-affinity keeps workers off these or their UltraServers."""
    for number, name in enumerate(tenant.free):
        key = (HOSTNAME, nodes.SERVER_ID_4)[number % 2]
        pod = ordinary(f"r-{number}", nodeName=name, affinity=repelling({"namespaceSelector": {}}, key=key))
        if number % 3 == 0:  # which no plugin of that node offers, so that a kubelet starts it
            pod["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neurondevice": "1"}}
        tenant.forge(pod)
    yield ALL


def workers_without_devices(tenant: Tenant) -> Goes:
    """Creates a job on all free UltraServers that uses nothing: its labels must not block them."""
    chosen = {"nodeSelector": {nodes.INSTANCE_TYPE: nodes.TRN2U}}
    tenant.kubectl.create(mpijob(ALL, name="idle", resource=None, worker_spec=chosen))
    tenant.bound("idle", ALL)
    yield ALL


def one_core_that_repels(tenant: Tenant) -> Goes:
    """Creates a Pod with one device on the UltraServer that a job of two would choose first."""
    term = {"labelSelector": {}, "namespaceSelector": {}}
    core = ordinary("core", affinity=repelling(term, key=nodes.SERVER_ID_4))
    core["spec"]["nodeSelector"] = {HOSTNAME: tenant.free[0]}
    core["spec"]["containers"][0]["resources"] = {"limits": {"aws.amazon.com/neuron": "1"}}
    tenant.forge(core)
    if 403 not in tenant.answers:
        tenant.kubectl.wait_for(lambda pod: "nodeName" in pod["spec"], "pod", "core")
    yield 2


Attack = Callable[[Tenant], Goes]
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
"""Attacks that the guard refuses; only the guard stops the last two, and `a_place_that_is_kept`."""
