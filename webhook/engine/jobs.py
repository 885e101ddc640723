"""A job: an object that a workload row describes, and its groups of pods."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import Final

from common.computed import computed
from contract import keys
from contract.place import ContractError, Place, Placer, read
from webhook.engine.groups import Group
from webhook.engine.outcome import Fault
from webhook.objects.templates import admits, matches
from webhook.objects.tree import Json, get, map_at, text_of, try_dumps
from webhook.rows.conditions import Devices
from webhook.rows.families import Family, JobShape
from webhook.rows.table import Table
from webhook.rows.workloads import ANY, WORKER, Workload

_GROUP: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
"""The number of a group."""


@dataclass(eq=False)
class Job:
    """An object of a workload, and what the table determines about it.

    Attributes:
        object: The object without the webhook's earlier additions.
        namespace: The namespace of its creation.
        family: The family of machines for the job.
        groups: The groups with a pod template.
        nodes: The number of nodes that it takes at once.
        numbered: Whether each worker has its own number, from 0.
        opted: Whether it is opted in (True), out (False), or neither; a text is an error in its mark.
        off: Names of the rules that are off for it.
        candidate: Whether it is a candidate of the table; only candidates have a shape.
        shape: None for an object that is not a job itself, and for a job that is not a candidate.
        uid: The uid of the first review of one without a name.
        identity: The value of the job label; empty without a shape.
        placer: Who chooses the nodes of a job, or of a Pod by its own annotation; None if not known yet.
        devices: How the workers get their devices.
        lacking: Placeholders that rules use and that have no value, as far as they are known.
        faults: What is wrong with it, by kind of fault.
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
    shape: JobShape | None = None
    uid: str = ""
    identity: str = ""
    placer: Placer | None = None
    devices: Devices = "none"
    lacking: frozenset[str] = frozenset()
    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict)
    _fields: dict[str, str] = field(default_factory=dict, init=False)

    @computed
    def of(self) -> Mapping[str, Sequence[Group]]:
        """The groups for a rule's role, by role; those of workers come first."""
        every: defaultdict[str, Sequence[Group]] = defaultdict(tuple, {ANY: self.groups})
        for group in self.groups:
            every[group.role] = [*every[group.role], group]
        if self.workload.takes_nodes:
            others = [group for group in self.groups if group.takes_nodes and group.role != WORKER]
            every[WORKER] = [*every[WORKER], *others]
        return every

    @computed
    def text(self) -> bytes | None:
        """The object as JSON (`quick`), to skip a search: a word that is not in it is in no field."""
        return try_dumps(self.object)

    def field(self, name: str) -> str:
        """Returns the text of a workload's field, which is read once."""
        if (text := self._fields.get(name)) is None:
            text = self._fields[name] = self.workload.fields[name].text(self.object)
        return text

    @computed
    def roles(self) -> tuple[str, ...]:
        """The roles with a pod template."""
        return tuple([role for role, groups in self.of.items() if groups])

    @computed
    def is_pod(self) -> bool:
        """Whether it is a Pod, which is its own template."""
        return () in map(attrgetter("path"), self.groups)

    @computed
    def workers(self) -> int:
        """The number of pods in the groups called worker that run at once."""
        return at_once([group for group in self.groups if group.role == WORKER])

    @property
    def has_workers(self) -> bool:
        """Whether it takes nodes; a job with a group called worker needs pods in that group."""
        return self.nodes > 0 and (self.workers > 0 or all(group.role != WORKER for group in self.groups))

    def instance_types(self, role: str = WORKER) -> Sequence[str]:
        """Returns the family's instance types that all pods of a role permit, the pods' own choice first."""
        return open_types(self.table, self.family, self.of[role])

    @property
    def own_devices(self) -> Devices:
        """How the workers get their devices by the user's own fields."""
        ways = {group.devices for group in self.of[WORKER]}
        if len(ways) == 1:
            return ways.pop()
        takers = (group for group in self.groups if group.takes_nodes)
        idle = [max(group.replicas, 1) for group in takers if group.devices in {"none", "unknown"}]
        return "mixed" if sum(idle) <= 1 else "some"

    @computed
    def place(self) -> Place | None:
        """The placement annotation of a Pod; None for another object, or if it cannot be read."""
        if not self.is_pod:
            return None
        try:
            return read(self.texts) or self.workload.place
        except ContractError:
            return None

    @property
    def block(self) -> str | None:
        """The block of a Pod in its job; None if there is only one, or if the Pod has no number."""
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
        # Without the label, or with an unusual one, the block might not be a valid label value.
        return f"{group}-{block}" if _GROUP.fullmatch(group) else None

    @computed
    def texts(self) -> dict[str, Json]:
        """Name, labels and annotations, which any user may have written."""
        labels, annotations = (
            {key: text_of(value) for key, value in map_at(self.object, ("metadata", kind)).items()}
            for kind in ("labels", "annotations")
        )
        return {"name": self.name, "labels": labels, "annotations": annotations}

    def placed(self, group: Group) -> Place | None:
        """Returns the placement annotation for the pods of a group; None without a placer."""
        if not (self.shape and self.placer):
            return None
        unit = self.shape.topology_key or keys.HOSTNAME
        return Place(self.placer, self.nodes, self.shape.node_config, unit, group.index, self.workload.group)

    def peers(self, identity: str) -> Mapping[str, str]:
        """Returns labels that all its workers have, and no other pods of its namespace.

        The identity is the value of the job label; empty if no rule sets it.
        """
        named = {"$(job.name)": self.name}
        if self.name and self.workload.peers:
            return {key: named.get(value, value) for key, value in self.workload.peers.items()}
        return {keys.JOB: identity} if identity else {}


def open_types(table: Table, family: Family, groups: Sequence[Group]) -> Sequence[str]:
    """Returns the instance types of the family that all pods of the groups permit.

    None of them if the pods' own selection by another label excludes the family's nodes.
    """
    selections = [group.selection for group in groups if group.selection.selector or group.selection.terms]
    if not selections:
        return family.instance_types
    types, labels = family.instance_types, table.candidates.instance_type_labels
    if family.has_type_globs:
        chosen = chain.from_iterable(group.chosen_types for group in groups)
        types = (*dict.fromkeys(name for name in chosen if matches(name, types)), *types)
    of_type = {name: dict.fromkeys(labels, (name,)) for name in types}
    return [
        name
        for name, labels in of_type.items()
        if all(admits(part, {**family.node_labels, **labels}) for part in selections)
    ]


def family_of(table: Table, groups: Sequence[Group]) -> Family:
    """Returns the first family that the groups permit, preferring the one that they request most clearly."""
    if len(table.families_on) == 1:
        return table.families_on[0]

    def preference(family: Family) -> tuple[bool, bool, bool]:
        needs = any(group.node_reason_of(family) or group.selects_type_of(family) for group in groups)
        some = any(group.amounts.get(name) for group in groups for name in family.whole_node)
        return bool(open_types(table, family, groups)), needs, some

    return max(table.families_on, key=preference)


def at_once(groups: Iterable[Group]) -> int:
    """Returns how many pods of the groups exist at once; those of `later` groups follow the others' end."""
    first = later = 0
    for group in groups:
        first, later = (first, later + group.replicas) if group.later else (first + group.replicas, later)
    return max(first, later)
