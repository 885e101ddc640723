"""A job: what a workload row finds in an object, and its groups of pods."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import chain
from typing import Final

from contract import keys
from contract.place import ContractError, Place, Placer, read
from webhook.engine.groups import Group
from webhook.engine.outcome import Fault
from webhook.objects.templates import admits, matches
from webhook.objects.tree import Json, get, map_at, quick, text_of
from webhook.rows.conditions import Devices
from webhook.rows.families import Family, Fitted
from webhook.rows.table import Table
from webhook.rows.workloads import ANY, WORKER, Workload

_GROUP: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
"""The number of a group."""


@dataclass(eq=False)
class Job:
    """An object opened by a workload row, and what the table makes of it.

    Attributes:
        object: without what the webhook added earlier.
        namespace: where it is being created.
        family: the machines that it is for.
        groups: its groups that have a template.
        nodes: how many it takes at once.
        numbered: whether each pod that takes a node has a number of its own, from 0.
        opted: whether it is opted in (True), out (False), or neither; as text, what is wrong with its mark.
        off: names of the rules that are switched off for it.
        candidate: whether the table's candidates are such objects; only those have a shape.
        shape: None for what is not a job of its own, and for what is not a candidate.
        uid: of the review in which one without a name was first seen.
        identity: value of the job label; empty without a shape.
        placer: who finds the nodes of a job, or of a Pod by its own word; None while that is not known.
        devices: how the workers get their devices.
        lacking: placeholders that rules quote and there is nothing for, as far as they are known.
        faults: what is wrong with it, by its sort.
    """

    table: Table
    workload: Workload
    object: Json
    name: str
    generate_name: str
    namespace: str
    family: Family
    groups: Sequence[Group]
    nodes: int
    numbered: bool
    opted: bool | str | None
    off: frozenset[str] = frozenset()
    candidate: bool = False
    shape: Fitted | None = None
    uid: str = ""
    identity: str = ""
    placer: Placer | None = None
    devices: Devices = "none"
    lacking: frozenset[str] = frozenset()
    faults: Mapping[str, Fault] = field(default_factory=dict)

    @cached_property
    def of(self) -> Mapping[str, Sequence[Group]]:
        """The groups that a rule for a role is for, by the role; a worker's own come first."""
        every = defaultdict[str, Sequence[Group]](tuple, {ANY: self.groups})
        for group in self.groups:
            every[group.role] = [*every[group.role], group]
        if self.workload.takes_nodes:
            others = [group for group in self.groups if group.takes_nodes and group.role != WORKER]
            every[WORKER] = [*every[WORKER], *others]
        return every

    @cached_property
    def text(self) -> bytes | None:
        """The object as JSON, as of `quick`: a word that is nowhere in it is in no field."""
        return quick(self.object)

    @cached_property
    def field(self) -> Callable[[str], str]:
        """The text of one of the workload's fields, read once."""
        fields, obj = self.workload.fields, self.object
        return cache(lambda name: fields[name].text(obj))

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that the job has a template for."""
        return tuple([role for role, groups in self.of.items() if groups])

    @cached_property
    def is_pod(self) -> bool:
        """Whether it is a Pod, which is its own template."""
        return () in [group.path for group in self.groups]

    @cached_property
    def workers(self) -> int:
        """Number of pods in the groups called worker, of those that run at once."""
        return at_once([group for group in self.groups if group.role == WORKER])

    @property
    def has_workers(self) -> bool:
        """Whether it takes nodes; one with a group called worker needs pods in that."""
        return self.nodes > 0 and (self.workers > 0 or all(group.role != WORKER for group in self.groups))

    def instance_types(self, role: str = WORKER) -> Sequence[str]:
        """The family's instance types that all pods of a role leave open, the pods' own choice first."""
        return open_types(self.table, self.family, self.of[role])

    @property
    def own_devices(self) -> Devices:
        """How the workers get their devices by what the author wrote."""
        ways = {group.devices for group in self.of[WORKER]}
        if len(ways) == 1:
            return ways.pop()
        takers = (group for group in self.groups if group.takes_nodes)
        idle = [max(group.replicas, 1) for group in takers if group.devices in {"none", "unknown"}]
        return "mixed" if sum(idle) <= 1 else "some"

    @cached_property
    def place(self) -> Place | None:
        """The place of a Pod; None for what is not a Pod, or has none that can be read."""
        if not self.is_pod:
            return None
        try:
            return read(self.texts) or self.workload.place
        except ContractError:
            return None

    @property
    def block(self) -> str | None:
        """Which block of its job a Pod belongs to; None where there is one only, or it has no number."""
        place, metadata = self.place, self.texts
        try:
            number = (
                place.number({"metadata": metadata, "spec": get(self.object, ("spec",))}) if place else None
            )
        except ContractError:
            return None
        if not place or number is None or place.size == 1 or place.workers <= place.size:
            return None
        block, group = str(number // place.size), metadata["labels"].get(place.group, "")
        if not place.group:
            return block
        # Of a pod without the label, or with an odd one, the block could be no label.
        return f"{group}-{block}" if _GROUP.fullmatch(group) else None

    @cached_property
    def texts(self) -> dict[str, Json]:
        """Name, labels and annotations, as anybody may have written them."""
        labels, annotations = (
            {key: text_of(value) for key, value in map_at(self.object, ("metadata", kind)).items()}
            for kind in ("labels", "annotations")
        )
        return {"name": self.name, "labels": labels, "annotations": annotations}

    def placed(self, group: Group) -> Place | None:
        """How the pods of a group are placed; None while nobody places them."""
        if not (self.shape and self.placer):
            return None
        unit = self.shape.topology_key or keys.HOSTNAME
        return Place(self.placer, self.nodes, self.shape.node_config, unit, group.index, self.workload.group)

    def peers(self, identity: str) -> Mapping[str, str]:
        """Labels that all its pods that take nodes have, and no other pods of its namespace.

        The identity is the value of the job label; empty where no rule sets it.
        """
        named = {"$(job.name)": self.name}
        if self.name and self.workload.peers:
            return {key: named.get(value, value) for key, value in self.workload.peers.items()}
        return {keys.JOB: identity} if identity else {}


def open_types(table: Table, family: Family, groups: Sequence[Group]) -> Sequence[str]:
    """The instance types of a family that all pods of some groups leave open.

    None of them, where the pods' own selection by another label leaves out its nodes.
    """
    selections = [one for group in groups if (one := group.selection).selector or one.terms]
    if not selections:
        return family.instance_types
    types, labels = family.instance_types, table.candidates.type_labels
    if family.other_types:
        chosen = chain.from_iterable(group.chosen_types for group in groups)
        types = (*dict.fromkeys(name for name in chosen if matches(name, types)), *types)
    of_type = {name: dict.fromkeys(labels, (name,)) for name in types}
    return [
        name
        for name, labels in of_type.items()
        if all(admits(part, {**family.node_labels, **labels}) for part in selections)
    ]


def family_of(table: Table, groups: Sequence[Group]) -> Family:
    """The first family whose machines the groups leave open, and ask for most clearly."""
    if len(table.on) == 1:
        return table.on[0]

    def asked(family: Family) -> tuple[bool, bool, bool]:
        needs = any(group.needs_node_of(family) or group.selects_type_of(family) for group in groups)
        some = any(group.asked.get(name) for group in groups for name in family.whole_node)
        return bool(open_types(table, family, groups)), needs, some

    return max(table.on, key=asked)


def at_once(groups: Iterable[Group]) -> int:
    """How many pods of some groups there are at once."""
    first = later = 0
    for group in groups:
        first, later = (first, later + group.replicas) if group.later else (first + group.replicas, later)
    return max(first, later)
