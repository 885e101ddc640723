"""What was listed, made into what the commands look at. Pure: `listing` fills it."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from contract.keys import NEURON, NODE_IDS, ULTRASERVER
from kubectl_ultraserver.table import Table
from placement.decide.believe import believed
from placement.decide.cluster import shown
from placement.decide.plan import Tuning
from placement.decide.topology import Topology
from placement.observe.claims import Inventory
from placement.observe.model import Node, Pod, Taken

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

    def claiming(self, pods: Iterable[Pod]) -> list[Pod]:
        """Pods with what they claim and have."""
        return self.inventory.pods(pods, self.now, Tuning().bound)

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


def node_number(node: Node, key: str) -> str:
    """A node's number in its unit, as its label says it."""
    return node.labels.get(NODE_IDS.get(key, ""), "")
