"""What was listed, made into what the commands look at. Pure: `listing` fills it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from contract.keys import (
    HOSTNAME,
    INSTANCE_TYPE,
    NEURON,
    NODE_CONFIG,
    NODE_IDS,
    SERVER_2,
    SERVER_4,
    TRAINING,
    ULTRASERVER,
)
from contract.place import Place, Placer
from kubectl_ultraserver.objects import at, containers, labels, maps, metadata, name_of, number, text
from placement.cluster import Cluster
from placement.read import read_pod

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kube.api import Object
    from kubectl_ultraserver.names import JobName
    from placement.model import Node, Pod
    from placement.topology import Topology

MODE: Final = ULTRASERVER + "mode"
"""The node label with the modes that a node supports, joined by ``_``."""
KEYS: Final = {4: SERVER_4, 2: SERVER_2, 1: HOSTNAME}
"""For each node config the label whose value the nodes of a unit share."""
CONFIG_VARIABLE: Final = "NEURON_ULTRASERVER_NODE_CONFIG"
_INSTANCE_TYPE: Final = re.compile(r"(ml\.)?trn2u\..+")
_LAST_NUMBER: Final = re.compile(r"-([0-9]{1,6})$", re.ASCII)


def in_ultraserver(node: Node) -> bool:
    """Whether a node is of an UltraServer, working or not."""
    return (
        any(key in node.labels for key in (MODE, SERVER_4, SERVER_2))
        or _INSTANCE_TYPE.fullmatch(node.labels.get(INSTANCE_TYPE, "")) is not None
    )


def takes_neuron(node: Node) -> bool:
    """Whether jobs of the kinds that are looked at here may go to a node."""
    return in_ultraserver(node) or any(name.startswith(NEURON) for name in node.allocatable)


@dataclass(frozen=True)
class Fleet:
    """The nodes, and the pods on them.

    Attributes:
        topology: All nodes.
        pods: The pods that have not ended, as far as they stand on nodes with Neuron devices, or wait.
        owners: For each pod's uid the name of its job, where it has one.
        unseen: What could not be listed and why that matters, in a sentence; empty where all was.
    """

    topology: Topology
    pods: tuple[Pod, ...]
    owners: dict[str, str] = field(default_factory=dict)
    unseen: str = ""

    @cached_property
    def cluster(self) -> Cluster:
        """Who holds which node."""
        return Cluster(self.topology, self.pods)

    def tenant(self, pod: Pod) -> str:
        """The job of a pod for people; ``pod NAMESPACE/NAME`` where it is of none."""
        job = self.owners.get(pod.uid)
        return f"{pod.namespace}/{job}" if job else f"pod {pod.namespace}/{pod.name}"

    @cached_property
    def tenants(self) -> dict[str, dict[str, list[Pod]]]:
        """For each node the jobs whose pods on it hold Neuron devices or a place, and these pods."""
        found: dict[str, dict[str, list[Pod]]] = {}
        for pod in self.pods:
            if pod.node and (pod.place is not None or pod.demand.neuron):
                found.setdefault(pod.node, {}).setdefault(self.tenant(pod), []).append(pod)
        return found


@dataclass(frozen=True)
class Worker:
    """A pod that takes a node.

    Attributes:
        raw: As the API server has it.
        pod: As a decision sees it; None once it has ended.
        index: Its number in the job.
        node: Its node; None where it is bound to none, or to one that is gone.
    """

    raw: Object
    pod: Pod | None
    index: int
    node: Node | None

    @property
    def name(self) -> str:
        """Its name."""
        return name_of(self.raw)

    @property
    def bound(self) -> str:
        """The name of the node that it is bound to; empty where it is not."""
        return text(at(self.raw, "spec", "nodeName"))

    def label(self, key: str) -> str:
        """A label of its node; empty where there is none."""
        return self.node.labels.get(key, "") if self.node else ""


@dataclass(frozen=True)
class Work:
    """A job and its pods.

    Attributes:
        called: How it was asked for.
        namespace: Its namespace.
        job: The MPIJob; None for other kinds.
        pods: Its pods, ended ones as well, by name.
        fleet: The cluster.
    """

    called: JobName
    namespace: str
    job: Object | None
    pods: tuple[Object, ...]
    fleet: Fleet

    @property
    def title(self) -> str:
        """``mpijob team-b/train``."""
        kind = self.called.kind or ("mpijob" if self.job else "job")
        return f"{kind} {self.namespace}/{self.called.name}"

    @cached_property
    def workers(self) -> tuple[Worker, ...]:
        """The pods that take nodes, by number."""
        found = [self._worker(raw) for raw in self.pods if takes_node(raw)]
        return tuple(sorted(found, key=lambda worker: (worker.index, worker.name)))

    @property
    def launchers(self) -> list[Object]:
        """The pods that start the job; the newest last."""
        found = [pod for pod in self.pods if labels(pod).get(TRAINING + "job-role") in ("launcher", "master")]
        return sorted(found, key=lambda pod: text(metadata(pod).get("creationTimestamp")))

    @cached_property
    def wanted(self) -> int:
        """How many pods are to take nodes."""
        said = [worker.pod.place.workers for worker in self.workers if worker.pod and worker.pod.place]
        if said:
            return max(said)
        asked = number(at(self.job, "spec", "mpiReplicaSpecs", "Worker", "replicas")) or 0
        ranks = 1 if at(self.job, "spec", "runLauncherAsWorker") is True else 0
        return max(asked + ranks, len(self.workers))

    @cached_property
    def size(self) -> int:
        """The node config: what the pods say, or the job; else as the packaged table has it."""
        if place := next(
            (worker.pod.place for worker in self.workers if worker.pod and worker.pod.place), None
        ):
            return place.size
        templates = [
            at(self.job, "spec", "mpiReplicaSpecs", role, "template") for role in ("Worker", "Launcher")
        ]
        found = [*self.pods, *maps(templates), *([self.job] if self.job else [])]
        if said := next((size for raw in found if (size := config_of(raw))), None):
            return said
        # Terms for a job that the webhook did not see are for whole UltraServers, which it may not fill.
        named = {key for raw in found for key in _topology_keys(raw)}
        kept = next((size for size in (4, 2) if KEYS[size] in named), None)
        if kept and (self.job is None or self.wanted % kept == 0):
            return kept
        return next(size for size in (4, 2, 1) if self.wanted % size == 0)

    @property
    def key(self) -> str:
        """The node label that makes units of its node config."""
        said = (worker.pod.place.unit for worker in self.workers if worker.pod and worker.pod.place)
        return next(said, KEYS.get(self.size, HOSTNAME))

    def placed(self, worker: Worker) -> Pod | None:
        """A worker with the place that it would have if placement were to find it one."""
        if worker.pod is None:
            return None
        wanted = max(self.wanted, worker.index + 1)
        place = worker.pod.place or Place(Placer.GATE, wanted, self.size, self.key)
        return replace(worker.pod, place=replace(place, placer=Placer.GATE), number=worker.index)

    def _worker(self, raw: Object) -> Worker:
        pod = read_pod(raw)
        node = self.fleet.topology.nodes.get(text(at(raw, "spec", "nodeName")))
        index = pod.number if pod and pod.place and pod.place.index else index_of(raw)
        return Worker(raw, pod, index, node)


def takes_node(raw: Object) -> bool:
    """Whether a pod of a job is one of those that take nodes."""
    marks = labels(raw)
    if "worker" in (marks.get(TRAINING + "job-role"), marks.get(TRAINING + "replica-type")):
        return True
    pod = read_pod(raw)
    return pod is not None and (pod.place is not None or pod.demand.neuron)


def index_of(raw: Object) -> int:
    """A worker's number by the operator's label, or at the end of its name."""
    said = labels(raw).get(TRAINING + "replica-index", "")
    if said.isascii() and said.isdecimal():
        return int(said[:6])
    found = _LAST_NUMBER.search(name_of(raw))
    return int(found[1]) if found else 0


def config_of(raw: Object) -> int | None:
    """The node config that a pod, a template or a job says; None where it says none."""
    spec = raw.get("spec")
    said = [labels(raw, "annotations").get(NODE_CONFIG, ""), labels(raw).get(NODE_CONFIG, "")]
    for container in containers(spec):
        said += [
            text(item.get("value"))
            for item in maps(container.get("env"))
            if item.get("name") == CONFIG_VARIABLE
        ]
    return next((int(value) for value in said if value in ("1", "2", "4")), None)


def _topology_keys(raw: Object) -> Iterable[str]:
    """The topology labels that a pod's terms, or Kueue's annotations, name."""
    affinity = at(raw, "spec", "affinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        for when in ("required", "preferred"):
            for term in maps(at(affinity, kind, f"{when}DuringSchedulingIgnoredDuringExecution")):
                yield text(at(term, "podAffinityTerm", "topologyKey") or term.get("topologyKey"))
    for key, value in labels(raw, "annotations").items():
        if key.startswith("kueue.x-k8s.io/podset-"):
            yield value


def node_number(node: Node, key: str) -> str:
    """A node's number in its unit, as its label says it."""
    return node.labels.get(NODE_IDS.get(key, ""), "")
