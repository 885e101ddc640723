"""Defines `Group`: the pods of a job that have one template, with the nodes and devices that they request."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import NamedTuple

from common.pointers import field_name
from common.quantities import amounts, requests
from common.texts import cut
from contract import keys
from contract.placement import Index
from webhook.engine import messages
from webhook.engine.ssh import read_ssh
from webhook.objects.record import Record
from webhook.objects.templates import Selection, main_container, matches, permits, read_selection, types_of
from webhook.objects.tree import Json, Path, get, get_map, get_maps
from webhook.rows.conditions import Devices, describe_numbers
from webhook.rows.families import NODE, Claimed, Family
from webhook.rows.table import Table
from webhook.rows.workloads import Group as GroupRow
from webhook.rows.workloads import Workload


class Claim(NamedTuple):
    """An entry of a template's ``resourceClaims`` (Kubernetes, "Dynamic Resource Allocation").

    Attributes:
        path: The path, in the template, of the field that contains the name.
        name: The name of the ResourceClaimTemplate or, for a shared claim, of the ResourceClaim.
        row: The family's row about the ResourceClaimTemplate; None if there is none, or for a shared claim.
        is_shared: Whether all pods share the claim.
    """

    path: Path
    name: str
    row: Claimed | None
    is_shared: bool = False


@dataclass(eq=False)
class Group:
    """A group of a job that has a pod template.

    Attributes:
        row: The row of the table about the group.
        path: The path of the template in the object.
        role: The role of the row; `HELPER` if ``takesNodes`` of the row is ``devices`` and the pods take no
            node.
        template: The template without the webhook's earlier additions.
        record: The record of the earlier additions; None if the template has no valid record.
        user_marks: The user's values of fields that only the webhook may set, by JSON pointer.
        is_record_ignored: Whether the template has a record whose removal exceeds the budget.
        replicas: The number of pods in the group.
        takes_nodes: Whether each pod takes a node.
        index: How to compute a pod's number; None if the pods have no number.
        is_numbered: Whether there are as many numbers as pods, so that each pod has its own number, from 0.
        starts_later: Whether the pods are created after the pods of other groups have ended.
        family: The family of machines for the job.
    """

    table: Table
    workload: Workload
    row: GroupRow
    path: Path
    template: Json
    role: str = ""
    record: Record | None = None
    user_marks: Mapping[str, Json] = field(default_factory=dict)
    is_record_ignored: bool = False
    replicas: int = 1
    takes_nodes: bool = False
    index: Index | None = None
    is_numbered: bool = False
    starts_later: bool = False
    family: Family = field(init=False)

    @property
    def record_key(self) -> str:
        """The key of the record's annotation. A Pod has another key, as it also has its template's record."""
        return keys.ADDED if self.path else keys.ADDED_TO_POD

    @cached_property
    def spec(self) -> dict[str, Json]:
        """The pod's spec; empty if there is none."""
        return get_map(self.template, ("spec",))

    @cached_property
    def main_container(self) -> Mapping[str, Json]:
        """The container that `templates.main_container` chooses; empty if there are no containers."""
        return main_container(self.template, self.workload.main_container, self.table.resources)

    @cached_property
    def ssh(self) -> Mapping[str, Json]:
        """The main container's settings for ssh, as values of placeholders."""
        return read_ssh(self.main_container)

    @cached_property
    def amounts(self) -> Mapping[str, int]:
        """The amount of each resource that a pod requests, in thousandths."""
        return requests(self.spec)

    @cached_property
    def selection(self) -> Selection:
        """The template's node selection."""
        return read_selection(self.template)

    @cached_property
    def chosen_types(self) -> Collection[str]:
        """The instance types that a pod's selector or affinity names; see `templates.types_of`."""
        selection, type_labels = self.selection, self.table.candidates.instance_type_labels
        return types_of(selection, type_labels) if selection.selector or selection.terms else ()

    def selects_type_of(self, family: Family) -> bool:
        """Returns whether the node selector names an instance type of a family."""
        types = map(self.selection.selector.get, self.table.candidates.instance_type_labels)
        return any(isinstance(name, str) and matches(name, family.instance_types) for name in types)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The device claims of a pod, in the template's order."""
        return self.claims_of(self.family)

    def claims_of(self, family: Family) -> tuple[Claim, ...]:
        """Returns the device claims, with a family's rows about them."""
        return tuple(self._find_claims(family.claims)) if "resourceClaims" in self.spec else ()

    def _find_claims(self, rows: Mapping[str, Claimed]) -> Iterator[Claim]:
        for index, entry in enumerate(get_maps(self.spec, ("resourceClaims",))):
            path = ("spec", "resourceClaims", index)
            name, shared_name = entry.get("resourceClaimTemplateName"), entry.get("resourceClaimName")
            if isinstance(name, str) and name:
                matching_rows = (row for pattern, row in rows.items() if matches(name, (pattern,)))
                yield Claim((*path, "resourceClaimTemplateName"), name, next(matching_rows, None))
            elif isinstance(shared_name, str) and shared_name:
                yield Claim((*path, "resourceClaimName"), shared_name, None, is_shared=True)

    @cached_property
    def shared_claim(self) -> Claim | None:
        """The first claim that all pods share; None if they share no claim."""
        return next((claim for claim in self.claims if claim.is_shared), None)

    @cached_property
    def requested_resource(self) -> str | None:
        """The first of the family's resources that a pod requests, in any amount; None without a request."""
        for name in self.family.whole_node if self.amounts else ():
            if self.amounts.get(name):
                return name
        return None

    def containers(self, *list_names: str) -> Iterator[tuple[Path, Mapping[str, Json]]]:
        """Yields the containers in the lists with these names, each with its path in the object."""
        for list_name in list_names:
            items = self.spec.get(list_name)
            for index, container in enumerate(items if isinstance(items, list) else ()):
                if isinstance(container, dict):
                    yield (*self.path, "spec", list_name, index), container

    def find_request(self, name: str) -> tuple[str, Json]:
        """Returns the first container field that requests a resource, and the amount.

        If no container requests the resource, returns the field of the pod's resources and None.
        """
        for path, container in self.containers("containers", "initContainers"):
            for part in ("limits", "requests"):
                if name in (amounts := get_map(container, ("resources", part))):
                    return field_name((*path, "resources", part, name)), amounts[name]
        return field_name((*self.path, "spec", "resources")), None

    @cached_property
    def node_reason(self) -> str | None:
        """The result of `node_reason_of` for the group's family."""
        return self.node_reason_of(self.family)

    def node_reason_of(self, family: Family) -> str | None:
        """Returns why a pod takes a whole node of a family, by its requests or claims; None if it does not.

        If a claim is shared, all claims are ignored, because shared devices may be on another node.
        """
        for name, amount_range in family.whole_node.items():
            if amount_range.is_requested(self.amounts.get(name, 0)):
                return messages.asks_for(name)
        claims = self.claims_of(family)
        for claim in () if any(claim.is_shared for claim in claims) else claims:
            amount = claim.row.takes if claim.row else 0
            if amount == NODE or (amount and amount >= family.device[1]):
                return messages.claims_node(cut(claim.name))
        return None

    @property
    def partial_claim_reason(self) -> str | None:
        """Why the claims of a pod without a `node_reason` are not for a whole node; None without claims."""
        if claim := self.shared_claim:
            return messages.shares_claim(claim.name)
        for claim in self.claims:
            if claim.row is None:
                return messages.claims_unknown(claim.name, self.family.name)
            return messages.claims_less(claim.name)
        return None

    @cached_property
    def devices(self) -> Devices:
        """How a pod gets its devices."""
        if self.requested_resource:
            devices: Devices = "requested"
        elif any(claim.row and claim.row.node_config for claim in self.claims):
            devices = "configured"
        else:
            devices = "claimed" if any(not claim.is_shared for claim in self.claims) else "none"
        if self.shared_claim:
            # The placement program cannot find out the node of a claim that several pods share.
            return "unknown" if devices == "none" else "shared"
        return devices

    def describe_unsupported_request(self, resources: Sequence[str]) -> Mapping[str, str]:
        """Returns values of placeholders about the first request that no permitted instance type accepts.

        Empty if there is no such request, if the template chooses no instance type, or if the table has no
        device counts for one of the types.
        """
        chosen_types, counts = self.chosen_types, self.table.device_counts
        # A type without device counts ends the search, so that a long list of types costs nothing.
        if not chosen_types or any(name not in counts for name in chosen_types):
            return {}
        labels = self.table.candidates.instance_type_labels
        types = [name for name in chosen_types if permits(self.selection, dict.fromkeys(labels, (name,)))]
        accepted_counts = sorted({count for name in types for count in counts[name]})
        for path, container in self.containers("containers", "initContainers") if types else ():
            for name, part in product(resources, ("limits", "requests")):
                amount, rest = divmod(amounts(get(container, ("resources", part))).get(name, 0), 1000)
                if amount and not rest and amount not in accepted_counts:
                    return {
                        "devices.instanceType": " or ".join(types),
                        "devices.asked": str(amount),
                        "devices.accepted": describe_numbers(accepted_counts),
                        "devices.place": field_name((*path, "resources", part, name)),
                    }
        return {}
