"""What was listed, made into what the commands look at. Pure: `listing` fills it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from contract import place as contract
from contract.keys import NEURON, NODE_IDS, TRAINING, ULTRASERVER
from contract.place import ContractError, Place
from kube.api import Object
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import at, labels, maps, metadata, name_of, number, templates, text
from placement.believe import believed
from placement.claims import Inventory
from placement.cluster import shown
from placement.model import Node, Pod, Taken
from placement.plan import Policy
from placement.read import ENDED, read_pod
from placement.topology import UNITS, Topology
from webhook.objects.tree import map_at
from webhook.rows.table import Table
from webhook.rules.files import ordered
from webhook.rules.load import load_default, load_texts
from webhook.rules.problems import TableError

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
MODE: Final = ULTRASERVER + "mode"
"""The node label with the modes that a node supports, joined by ``_``."""
LAUNCHERS: Final = ("launcher", "master")
"""What operators call the role of a pod that starts the others."""


def table_of(rules: Object | None) -> tuple[Table, str, str]:
    """The rule table of a ConfigMap, or the packaged one; what it is called, and why it is not the former.

    Args:
        rules: The installation's; None where there is none, empty where it may not be read.
    """
    why = "does not exist" if rules is None else "may not be read"
    if texts := map_at(rules, ("data",)):
        try:
            table = load_texts([(name, text(texts[name])) for name in ordered(texts)], "rules")
        except TableError:
            why = "is invalid"
        else:
            return table, "the rule table", ""
    return load_default(), "the packaged table", f"; the installation's rule table {why}"


@dataclass(frozen=True)
class Fleet:
    """The nodes, and the pods on them.

    Attributes:
        topology: All nodes.
        pods: The pods that have not ended, as far as they stand on nodes with Neuron devices, or wait.
        owners: For each pod's uid the name of its job, where it has one.
        unseen: What could not be listed and why that matters, in a sentence; empty where all was.
        table: The installation's rule table, or the packaged one.
        inventory: What there is of claims.
        now: The time.
    """

    topology: Topology
    pods: tuple[Pod, ...]
    owners: dict[str, str] = field(default_factory=dict)
    unseen: str = ""
    table: Table = field(default_factory=load_default)
    inventory: Inventory = field(default_factory=Inventory)
    now: datetime = EARLIEST

    def claiming(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods with what they claim and have."""
        return self.inventory.pods(pods, self.now, Policy().bound)

    def wishes(self, pod: Pod) -> dict[str, int]:
        """By what a pod claims, templates or claims, the node config that the driver is told; 0 for none."""
        found = dict[str, int]()
        for entry, template, name in pod.claims:
            made = self.inventory.by_entry.get((pod.namespace, pod.uid, entry))
            made = made or self.inventory.claims.get((pod.namespace, name))
            found[template or name] = made.mode if made else 0
        return found

    @cached_property
    def claims(self) -> dict[str, tuple[str, ...]]:
        """By node the claims that have devices there."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for taken in self.taken:
            found[taken.node].append(shown(taken.claim).removeprefix("claim "))
        return {node: tuple(sorted(names)) for node, names in found.items()}

    @cached_property
    def taken(self) -> tuple[Taken, ...]:
        """Who has which devices by claims."""
        return tuple(self.inventory.taken(self.topology.nodes, self.pods))

    @cached_property
    def units(self) -> dict[str, int]:
        """By node label how many nodes make a unit, the largest first: those of the table and the usual."""
        rows = {shape.topology_key: shape.node_config for shape in self.table.shapes if shape.topology_key}
        return dict(sorted((dict(UNITS) | rows).items(), key=lambda unit: -unit[1]))

    def has(self, node: Node) -> bool:
        """Whether a node is of an UltraServer, working or not."""
        rows = self.table.candidates
        return (
            MODE in node.labels
            or any(size > 1 and key in node.labels for key, size in self.units.items())
            or node.labels.get(rows.instance_type_label) in rows.instance_types
        )

    def may_take(self, node: Node) -> bool:
        """Whether jobs of the kinds that are looked at here may go to a node."""
        return self.has(node) or any(name.startswith(NEURON) for name in node.allocatable)

    @property
    def shown(self) -> list[str]:
        """The node labels that say which units a node is in, the smallest first, and which modes it has."""
        units = (key for key, size in reversed(self.units.items()) if size > 1)
        return [*(label for key in units for label in (key, NODE_IDS.get(key)) if label), MODE]

    @cached_property
    def tenants(self) -> dict[str, dict[str, list[Pod]]]:
        """For each node who has Neuron devices or a place there, as far as that is believed, by which pods.

        That is a job, or for a pod of none ``pod NAMESPACE/NAME``, or a claim without a pod.
        """
        units = frozenset(self.units.items())
        found: dict[str, dict[str, list[Pod]]] = {}
        for pod in (believed(pod, self.topology, units) for pod in self.pods):
            if pod.node and (pod.place is not None or pod.neuron):
                job = self.owners.get(pod.uid)
                who = f"{pod.namespace}/{job}" if job else f"pod {pod.namespace}/{pod.name}"
                found.setdefault(pod.node, {}).setdefault(who, []).append(pod)
        for taken in self.taken:
            if taken.stranger:
                found.setdefault(taken.node, {})[shown(taken.claim)] = []
        return found


@dataclass(frozen=True)
class Work:
    """A job and its pods.

    Attributes:
        called: How it was asked for.
        namespace: Its namespace.
        job: The object; None where it is of no kind in the table, or may not be read.
        pods: Its pods, ended ones as well, by name.
        fleet: The cluster.
    """

    called: JobName
    namespace: str
    job: Object | None
    pods: tuple[Object, ...]
    fleet: Fleet

    @property
    def kind(self) -> str:
        """What kubectl calls its kind; ``job`` where that is not known."""
        return self.called.kind or text(self.job, "kind").lower() or "job"

    @property
    def title(self) -> str:
        """``mpijob team-b/train``."""
        return f"{self.kind} {self.namespace}/{self.called.name}"

    @property
    def makers(self) -> set[str]:
        """The names of what makes its pods: itself, and what it makes for that."""
        owners = (owner for pod in self.pods for owner in maps(pod, "metadata", "ownerReferences"))
        return {self.called.name, f"{self.called.name}-launcher", *(text(owner, "name") for owner in owners)}

    @cached_property
    def raw(self) -> dict[str, Object]:
        """The pods as the API server has them, by name."""
        return {name_of(raw): raw for raw in self.pods}

    @cached_property
    def workers(self) -> tuple[Pod, ...]:
        """The pods that take nodes, by number: they have a place, or where that lacks ask for devices."""
        found: list[Pod] = []
        numbers: defaultdict[str, set[int]] = defaultdict(set)
        raws = sorted(self.pods, key=_has_ended)
        for raw, seen in zip(raws, self.fleet.claiming(map(_read, raws)), strict=True):
            pod = seen
            if pod.place is None and not (pod.problem or pod.neuron):
                continue
            taken = numbers[pod.job]
            if pod.place is None or pod.place.index is None:  # one is as good as the other
                pod = replace(pod, number=len(taken))
            # A Job's pod that has failed is still there beside the one in its place.
            followed = pod.place and (pod.number in taken or pod.number >= pod.place.workers)
            if not (_has_ended(raw) and followed):
                taken.add(pod.number)
                found.append(pod)
        return tuple(sorted(found, key=lambda pod: (pod.job, pod.number, pod.name)))

    @cached_property
    def jobs(self) -> Mapping[str, tuple[Pod, ...]]:
        """The workers by what is placed as one: all of an object, or of a LeaderWorkerSet each group."""
        found: defaultdict[str, tuple[Pod, ...]] = defaultdict(tuple)
        for pod in self.workers:
            found[pod.job] += (pod,)
        return found

    @property
    def launchers(self) -> list[Object]:
        """The pods that start the job and take no node; the newest last."""
        own = {pod.name for pod in self.workers}
        found = [raw for raw in self.pods if starts(raw) and name_of(raw) not in own]
        return sorted(found, key=lambda pod: text(pod, "metadata", "creationTimestamp"))

    @cached_property
    def place(self) -> Place | None:
        """What admission wrote on its pods, or on its templates; None for a job that it did not change."""
        found = (_place(raw) for raw in (*self.pods, *templates(self.job)))
        return next((place for place in found if place), None)

    @property
    def wanted(self) -> int:
        """How many pods are to take nodes.

        Of an MPIJob without a place the number of its workers, for it says itself what is missing.
        """
        if self.place:
            return self.place.workers * max(len(self.jobs), 1)
        return max(number(self.job, "spec", "mpiReplicaSpecs", "Worker", "replicas"), len(self.workers))

    def node(self, worker: Pod) -> Node | None:
        """A worker's node; None where it is bound to none, or to one that is gone."""
        return self.fleet.topology.nodes.get(worker.node)


def starts(raw: Object) -> bool:
    """Whether its operator says of a pod that it starts the others."""
    return labels(raw).get(TRAINING + "job-role") in LAUNCHERS


def node_number(node: Node, key: str) -> str:
    """A node's number in its unit, as its label says it."""
    return node.labels.get(NODE_IDS.get(key, ""), "")


def _place(raw: Object) -> Place | None:
    try:
        return contract.read(metadata(raw))
    except ContractError:  # of a pod it is its `problem`
        return None


def _has_ended(raw: Object) -> bool:
    return at(raw, "status", "phase") in ENDED


def _read(raw: Object) -> Pod:
    """A pod; one that has ended as it was, for it is still of the job."""
    pod = read_pod(raw | {"status": {}} if _has_ended(raw) else raw)
    if pod is None:
        raise LookupError(f"pod {name_of(raw)} has ended")
    return pod
