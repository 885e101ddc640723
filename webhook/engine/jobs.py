"""Defines `Job`: an object that a workload row describes, with its groups of pods."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Final

from contract import keys
from contract.placement import ContractError, Placement, Placer, read
from webhook.engine.groups import Group
from webhook.engine.outcome import Fault
from webhook.objects.templates import is_glob, matches, permits
from webhook.objects.tree import Json, canonical, get, get_map, text_of
from webhook.rows.conditions import Devices
from webhook.rows.families import Family, JobShape
from webhook.rows.table import Table
from webhook.rows.workloads import ANY, WORKER, Workload

_GROUP_LABEL_VALUE: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
"""Matches a usual value of the label `Workload.group`, which separates the jobs of one object."""


@dataclass(eq=False)
class Job:
    """An object of a workload, and what the table determines about it.

    Attributes:
        object: The object without the webhook's earlier additions.
        namespace: The namespace of the object.
        family: The family of machines for the job.
        groups: The groups that have a pod template.
        nodes: The number of nodes that the job takes at the same time.
        is_numbered: Whether each worker has its own number, from 0.
        opt_in: The result of `reading.read_opt_in`.
        off_rules: The names of the rules that this evaluation leaves out. For the answer, these are the rules
            in mode off or shadow.
        is_candidate: Whether the table places the job. Only candidates have a shape.
        shape: The shape of a candidate whose workload takes nodes; None for other objects, such as a Pod.
        uid: The uid of the first review of a job without a name; empty for a job with a name.
        job_label: The value of the job label; empty without a shape.
        placer: The placer of the job, which rules can set, or of a Pod's placement. None until it is known,
            and for an object with neither a shape nor a placement.
        devices: How the workers get their devices.
        missing_placeholders: Placeholders of the workload's rules for which the job has no value; empty for
            a job without a shape.
        faults: The faults of the job, by kind.
        values: A function that returns the values of placeholders. Its first call computes them.
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
    is_numbered: bool
    opt_in: bool | str | None
    off_rules: frozenset[str] = frozenset()
    is_candidate: bool = False
    shape: JobShape | None = None
    uid: str = ""
    job_label: str = ""
    placer: Placer | None = None
    devices: Devices = "none"
    missing_placeholders: frozenset[str] = frozenset()
    faults: Mapping[str, Sequence[Fault]] = field(default_factory=dict)
    values: Callable[[], Mapping[str, Json]] = dict
    _fields: dict[str, str] = field(default_factory=dict, init=False)

    @cached_property
    def by_role(self) -> Mapping[str, Sequence[Group]]:
        """The groups by role. `WORKER` has the groups of this role, then all other groups that take nodes."""
        groups_by_role: defaultdict[str, Sequence[Group]] = defaultdict(tuple, {ANY: self.groups})
        for group in self.groups:
            groups_by_role[group.role] = [*groups_by_role[group.role], group]
        if self.workload.takes_nodes:
            other_groups = [group for group in self.groups if group.takes_nodes and group.role != WORKER]
            groups_by_role[WORKER] = [*groups_by_role[WORKER], *other_groups]
        return groups_by_role

    @cached_property
    def text(self) -> str:
        """The object as JSON. A search for a word that is not in this text can be skipped."""
        return canonical(self.object)

    def field(self, name: str) -> str:
        """Returns the text of a workload's field. The field is read only once."""
        if (text := self._fields.get(name)) is None:
            text = self._fields[name] = self.workload.fields[name].text(self.object)
        return text

    @cached_property
    def roles(self) -> tuple[str, ...]:
        """The roles that have a pod template, including `ANY`."""
        return tuple([role for role, groups in self.by_role.items() if groups])

    @cached_property
    def is_pod(self) -> bool:
        """Whether the object is a Pod, which is its own template."""
        return () in map(attrgetter("path"), self.groups)

    @cached_property
    def workers(self) -> int:
        """The number of pods that run at the same time in groups with the role worker."""
        return count_at_once([group for group in self.groups if group.role == WORKER])

    @property
    def has_workers(self) -> bool:
        """Whether the job takes nodes and, if it has groups with the role worker, these groups have pods."""
        return self.nodes > 0 and (self.workers > 0 or all(group.role != WORKER for group in self.groups))

    def instance_types(self, role: str = WORKER) -> Sequence[str]:
        """Returns the family's instance types for the pods of a role; see `find_permitted_types`."""
        return find_permitted_types(self.table, self.family, self.by_role[role])

    @property
    def user_devices(self) -> Devices:
        """How the workers get their devices without the additions of rules."""
        kinds = {group.devices for group in self.by_role[WORKER]}
        if len(kinds) == 1:
            return kinds.pop()
        groups = (group for group in self.groups if group.takes_nodes)
        idle_counts = [max(group.replicas, 1) for group in groups if group.devices in {"none", "unknown"}]
        return "mixed" if sum(idle_counts) <= 1 else "some"

    @cached_property
    def placement(self) -> Placement | None:
        """A Pod's placement, by annotation or else workload row; None if invalid, and for other objects."""
        if not self.is_pod:
            return None
        try:
            return read(self.metadata) or self.workload.place
        except ContractError:
            return None

    @property
    def block(self) -> str | None:
        """A Pod's block, as NUMBER or GROUP-NUMBER; None if the job has one block or blocks of one worker.

        Also None if the Pod has no valid placement, number or group label.
        """
        placement, metadata = self.placement, self.metadata
        pod = {"metadata": metadata, "spec": get(self.object, ("spec",))}
        try:
            number = placement.number(pod) if placement else None
        except ContractError:
            return None
        if not placement or number is None or placement.size == 1 or placement.workers <= placement.size:
            return None
        block, group = str(number // placement.size), metadata["labels"].get(placement.group, "")
        if not placement.group:
            return block
        # If the label is missing or has an unusual value, the block might not be a valid label value.
        return f"{group}-{block}" if _GROUP_LABEL_VALUE.fullmatch(group) else None

    @cached_property
    def metadata(self) -> dict[str, Json]:
        """The name, labels and annotations of the object, as texts. Any user may have written them."""
        labels, annotations = (
            {key: text_of(value) for key, value in get_map(self.object, ("metadata", kind)).items()}
            for kind in ("labels", "annotations")
        )
        return {"name": self.name, "labels": labels, "annotations": annotations}

    def placement_of(self, group: Group) -> Placement | None:
        """Returns the placement annotation for the pods of a group; None without a shape or a placer."""
        if not (self.shape and self.placer):
            return None
        unit = self.shape.topology_key or keys.HOSTNAME
        return Placement(
            self.placer, self.nodes, self.shape.node_config, unit, group.index, self.workload.group
        )

    def peer_labels(self, label_value: str) -> Mapping[str, str]:
        """Returns labels that all workers of the job have, and that no other pods of the namespace have.

        ``label_value`` is the value of the job label; empty if no rule sets this label.
        """
        values = {"$(job.name)": self.name}
        if self.name and self.workload.peers:
            return {key: values.get(value, value) for key, value in self.workload.peers.items()}
        return {keys.JOB: label_value} if label_value else {}


def find_permitted_types(table: Table, family: Family, groups: Sequence[Group]) -> Sequence[str]:
    """Returns the family's instance types (names or globs) that the node selections of all groups permit.

    If the family has globs, names that the groups choose come first. If a group does not permit the
    family's other node labels, the result is empty.
    """
    selections = [group.selection for group in groups if group.selection.selector or group.selection.terms]
    if not selections:
        return family.instance_types
    types, labels = family.instance_types, table.candidates.instance_type_labels
    if any(map(is_glob, family.instance_types)):
        chosen_types = chain.from_iterable(group.chosen_types for group in groups)
        types = (*dict.fromkeys(name for name in chosen_types if matches(name, types)), *types)
    labels_by_type = {name: dict.fromkeys(labels, (name,)) for name in types}
    return [
        name
        for name, labels in labels_by_type.items()
        if all(permits(selection, {**family.node_labels, **labels}) for selection in selections)
    ]


def choose_family(table: Table, groups: Sequence[Group]) -> Family:
    """Returns the enabled family that fits the groups best; if several fit equally, the first of them.

    Compares whether all groups permit the family's nodes, then whether a group takes or selects a node of the
    family, and then whether a group requests devices of the family.
    """
    if len(table.enabled_families) == 1:
        return table.enabled_families[0]

    def rank(family: Family) -> tuple[bool, bool, bool]:
        needs_node = any(group.node_reason_of(family) or group.selects_type_of(family) for group in groups)
        has_request = any(group.amounts.get(name) for group in groups for name in family.whole_node)
        return bool(find_permitted_types(table, family, groups)), needs_node, has_request

    return max(table.enabled_families, key=rank)


def count_at_once(groups: Iterable[Group]) -> int:
    """Returns the maximum number of pods of the groups that exist at the same time.

    The pods of groups that start later exist only after the pods of the other groups have ended.
    """
    early = late = 0
    for group in groups:
        early, late = (early, late + group.replicas) if group.starts_later else (early + group.replicas, late)
    return max(early, late)
