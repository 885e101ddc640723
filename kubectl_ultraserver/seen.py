"""What was listed, made into what the commands look at. Pure: `listing` fills it."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from contract.keys import NEURON, NODE_IDS, ULTRASERVER
from kubectl_ultraserver.table import Table
from placement.decide.allocation import Taken, taken
from placement.decide.believe import Belief, Member
from placement.decide.cluster import shown
from placement.decide.plan import Tuning
from placement.decide.topology import Topology
from placement.observe.inventory import Inventory
from placement.observe.model import Node, Pod

EARLIEST: Final = datetime.min.replace(tzinfo=UTC)
MODE: Final = ULTRASERVER + "mode"
"""The node label with the modes that a node supports, joined by ``_``."""


@dataclass(frozen=True)
class Fleet:
    """The nodes, and the pods on them.

    Attributes:
        topology: All nodes.
        pods: The pods that have not ended, as far as they stand on nodes with Neuron devices, or wait.
        owners: For each pod's uid the name of its job, where it has one.
        unseen: What could not be listed and why that matters, in a sentence; empty where all was.
        table: The installation's rule table.
        inventory: What there is of claims.
        now: The time.
    """

    topology: Topology
    pods: tuple[Pod, ...]
    owners: dict[str, str] = field(default_factory=dict)
    unseen: str = ""
    table: Table = field(default_factory=Table)
    inventory: Inventory = field(default_factory=Inventory)
    now: datetime = EARLIEST

    @cached_property
    def belief(self) -> Belief:
        """What the placement program would believe of pods."""
        units, bound = frozenset(self.units.items()), Tuning().bound
        return Belief(self.pods, self.inventory, self.topology, units, self.now, bound)

    def wishes(self, pod: Pod) -> dict[str, int]:
        """By what a pod claims, templates or claims, the node config that the driver is told; 0 for none."""
        found = dict[str, int]()
        for template, name in pod.claims:
            made = self.inventory.claims.get((pod.namespace, name))
            found[template or name] = made.mode if made else 0
        return found

    @cached_property
    def claims(self) -> dict[str, tuple[str, ...]]:
        """By node the claims that have devices there."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for claim in self.taken:
            found[claim.node].append(shown(claim.claim).removeprefix("claim "))
        return {node: tuple(sorted(names)) for node, names in found.items()}

    @cached_property
    def taken(self) -> tuple[Taken, ...]:
        """Who has which devices by claims."""
        return tuple(taken(self.inventory, self.topology.nodes, self.pods))

    @cached_property
    def units(self) -> dict[str, int]:
        """By node label how many nodes make a unit, the largest first: those of the table and the usual."""
        return dict(sorted(self.table.units, key=lambda unit: (-unit[1], unit[0])))

    def has(self, node: Node) -> bool:
        """Whether a node is of an UltraServer, working or not."""
        return (
            MODE in node.labels
            or any(size > 1 and key in node.labels for key, size in self.units.items())
            or node.labels.get(self.table.type_label) in self.table.types
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
    def tenants(self) -> dict[str, dict[str, list[Member]]]:
        """For each node who has Neuron devices or a place there, as far as that is believed, by which pods.

        That is a job, or for a pod of none ``pod NAMESPACE/NAME``, or a claim without a pod.
        """
        found: dict[str, dict[str, list[Member]]] = {}
        for pod in self.pods:
            member = self.belief.of(pod)
            if pod.node and (member.place is not None or member.neuron):
                job = self.owners.get(pod.uid)
                who = f"{pod.namespace}/{job}" if job else f"pod {pod.namespace}/{pod.name}"
                found.setdefault(pod.node, {}).setdefault(who, []).append(member)
        for claim in self.taken:
            if claim.stranger:
                found.setdefault(claim.node, {})[shown(claim.claim)] = []
        return found


def node_number(node: Node, key: str) -> str:
    """A node's number in its unit, as its label says it."""
    return node.labels.get(NODE_IDS.get(key, ""), "")
