"""The nodes and pods that the commands examine. This module is pure: `listing` reads them."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Final

from contract.keys import NODE_IDS, ULTRASERVER
from kubectl_ultraserver.table import Table, read
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
        pods: The pods that have not ended and are on nodes with Neuron devices, or wait.
        owners: The name of a pod's job by the pod's uid, for pods of jobs.
        unseen: A sentence on what could not be listed; empty if everything was.
        table: The installation's rule table.
        inventory: The device claims and devices.
        now: The time.
    """

    topology: Topology
    pods: tuple[Pod, ...]
    owners: dict[str, str] = field(default_factory=dict)
    unseen: str = ""
    table: Table = field(default_factory=lambda: read(None))
    inventory: Inventory = field(default_factory=Inventory)
    now: datetime = EARLIEST

    @cached_property
    def belief(self) -> Belief:
        """The facts about pods that the placement program would trust."""
        units, bound = self.table.units, Tuning().bound
        return Belief(self.pods, self.inventory, self.topology, units, self.now, bound)

    def claimed_configs(self, pod: Pod) -> dict[str, int]:
        """Returns the node config, or 0, in each of a pod's device claims, by template or claim."""
        configs = dict[str, int]()
        for template, name in pod.claims:
            claim = self.inventory.claims.get((pod.namespace, name))
            configs[template or name] = claim.mode if claim else 0
        return configs

    @cached_property
    def claims(self) -> dict[str, tuple[str, ...]]:
        """The device claims that have devices of a node, by node."""
        by_node: defaultdict[str, list[str]] = defaultdict(list)
        for claim in self.taken:
            by_node[claim.node].append(shown(claim.claim).removeprefix("claim "))
        return {node: tuple(sorted(names)) for node, names in by_node.items()}

    @cached_property
    def taken(self) -> tuple[Taken, ...]:
        """The devices that are in use by device claims."""
        return tuple(taken(self.inventory, self.topology.nodes, self.pods))

    def has(self, node: Node) -> bool:
        """Returns whether a node is in an UltraServer, working or not."""
        return (
            MODE in node.labels
            or not node.labels.keys().isdisjoint(self.table.units.labels)
            or node.labels.get(self.table.type_label) in self.table.types
        )

    def may_take(self, node: Node) -> bool:
        """Returns whether a node is in a unit or has devices of a family."""
        return self.has(node) or not self.table.units.devices.isdisjoint(node.allocatable)

    @property
    def shown(self) -> list[str]:
        """The node labels of units, the smallest first, and of modes."""
        units = reversed(self.table.units.labels)
        return [*(label for key in units for label in (key, NODE_IDS.get(key)) if label), MODE]

    @cached_property
    def holders(self) -> dict[str, dict[str, list[Member]]]:
        """The holders of each node, with their pods, as far as the placement program trusts these.

        A holder is a job, or ``pod NAMESPACE/NAME`` without a job, or a device claim without a pod.
        """
        holders: dict[str, dict[str, list[Member]]] = {}
        for pod in self.pods:
            member = self.belief.of(pod)
            if pod.node and (member.place is not None or member.neuron):
                job = self.owners.get(pod.uid)
                who = f"{pod.namespace}/{job}" if job else f"pod {pod.namespace}/{pod.name}"
                holders.setdefault(pod.node, {}).setdefault(who, []).append(member)
        for claim in self.taken:
            if claim.stranger:
                holders.setdefault(claim.node, {})[shown(claim.claim)] = []
        return holders


def node_number(node: Node, key: str) -> str:
    """Returns a node's number in its unit, from its label."""
    return node.labels.get(NODE_IDS.get(key, ""), "")
