"""The nodes and pods that the commands examine. Pure: `listing` reads the nodes and pods."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Final

from common.times import EARLIEST
from contract.keys import NODE_IDS, ULTRASERVER
from kubectl_ultraserver.table import Table, read
from placement.decide.allocation import Allocation, allocations
from placement.decide.cluster import display_name
from placement.decide.members import Examiner, Member
from placement.decide.plan import Tuning
from placement.decide.topology import Topology
from placement.observe.inventory import Inventory
from placement.observe.model import Node, Pod

MODE: Final = ULTRASERVER + "mode"
"""The node label with the modes that a node supports, joined by ``_``."""


@dataclass(frozen=True)
class Fleet:
    """The nodes of the cluster, and the pods that use or may use them."""

    topology: Topology  # all nodes
    # The pods on UltraServer nodes and nodes with devices; and the pods without a node that have the gate, a
    # placement annotation or a fault.
    pods: tuple[Pod, ...]
    job_names: dict[str, str] = field(default_factory=dict)  # the name of a pod's job, by the pod's uid
    unseen: str = ""  # a sentence about what could not be listed; empty if everything was listed
    table: Table = field(default_factory=lambda: read(None))  # the installation's rule table
    inventory: Inventory = field(default_factory=Inventory)  # the device claims and devices
    now: datetime = EARLIEST  # the time of the listing

    @cached_property
    def examiner(self) -> Examiner:
        """The placement program's `Examiner` of the pods, which decides which annotations are trusted."""
        units, bound = self.table.units, Tuning().bound
        return Examiner(self.pods, self.inventory, self.topology, units, self.now, bound)

    def claimed_configs(self, pod: Pod) -> dict[str, int]:
        """Returns the node config of each device claim of a pod, by the name of its template or of the claim.

        The node config is 0 if the claim has none, or if the claim was not read.
        """
        configs = dict[str, int]()
        for template, name in pod.claims:
            claim = self.inventory.claims.get((pod.namespace, name))
            configs[template or name] = claim.mode if claim else 0
        return configs

    @cached_property
    def claims_by_node(self) -> dict[str, tuple[str, ...]]:
        """The names of the device claims that have devices of a node, by the node's name."""
        by_node: defaultdict[str, list[str]] = defaultdict(list)
        for claim in self.claimed_devices:
            by_node[claim.node].append(display_name(claim.claim).removeprefix("claim "))
        return {node: tuple(sorted(names)) for node, names in by_node.items()}

    @cached_property
    def claimed_devices(self) -> tuple[Allocation, ...]:
        """The devices that are allocated to device claims."""
        return tuple(allocations(self.inventory, self.topology.nodes, self.pods))

    def is_ultraserver_node(self, node: Node) -> bool:
        """Returns whether a node is an UltraServer node, even if its UltraServer does not work."""
        return (
            MODE in node.labels
            or not node.labels.keys().isdisjoint(self.table.units.labels)
            or node.labels.get(self.table.type_label) in self.table.types
        )

    def has_unit_or_devices(self, node: Node) -> bool:
        """Returns whether a node is an UltraServer node or has devices of a family."""
        return self.is_ultraserver_node(node) or not self.table.units.devices.isdisjoint(node.allocatable)

    @property
    def shown_labels(self) -> list[str]:
        """The node labels in outputs: each unit's id and node id, the smallest unit first, and the mode."""
        units = reversed(self.table.units.labels)
        return [*(label for key in units for label in (key, NODE_IDS.get(key)) if label), MODE]

    @cached_property
    def holders_by_node(self) -> dict[str, dict[str, list[Member]]]:
        """The holders of each node, and the pods of each holder, as the placement program finds them.

        A holder is a job, a pod without a job (``pod NAMESPACE/NAME``), or a device claim without a pod.
        """
        holders: dict[str, dict[str, list[Member]]] = {}
        for pod in self.pods:
            member = self.examiner.member_of(pod)
            if pod.node and (member.placement is not None or member.uses_devices):
                job = self.job_names.get(pod.uid)
                holder = f"{pod.namespace}/{job}" if job else f"pod {pod.namespace}/{pod.name}"
                holders.setdefault(pod.node, {}).setdefault(holder, []).append(member)
        for claim in self.claimed_devices:
            if claim.is_orphaned:
                holders.setdefault(claim.node, {})[display_name(claim.claim)] = []
        return holders


def node_number(node: Node, key: str) -> str:
    """Returns a node's id in the unit that the label ``key`` forms; empty if the node has no id."""
    return node.labels.get(NODE_IDS.get(key, ""), "")
