"""A group of a job: equal pods of one template, with the nodes and devices that the template requests."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from common.computed import computed
from common.pointers import field_name
from common.quantities import amounts, requests
from common.texts import cut
from contract import keys
from contract.place import Index
from webhook.engine.ssh import ssh_of
from webhook.objects.record import Record
from webhook.objects.templates import (
    Selection,
    admits,
    chosen_types,
    is_requested,
    main_container,
    matches,
    selection,
)
from webhook.objects.tree import Json, Path, as_list, get, map_at, maps_at
from webhook.rows.conditions import Devices, ranges
from webhook.rows.families import NODE, Claimed, Family
from webhook.rows.table import Table
from webhook.rows.workloads import Group as GroupRow
from webhook.rows.workloads import Workload


class Claim(NamedTuple):
    """An entry of a template's ``resourceClaims`` (Kubernetes, "Dynamic Resource Allocation").

    Attributes:
        place: The path of its name in the template.
        name: The name of the ResourceClaimTemplate or, if the pods share one, of the ResourceClaim.
        takes: What the table has about the template; None if it has nothing, and for a shared claim.
        shared: Whether all pods have the same claim.
    """

    place: Path
    name: str
    takes: Claimed | None
    shared: bool = False


@dataclass(eq=False)
class Group:
    """A group of a job that has a pod template.

    Attributes:
        row: The row of the table.
        path: The path of the template in the object.
        role: The row's role, or its other role.
        template: The template without the webhook's earlier additions.
        record: The record of these; None if there is no valid one.
        user_marks: The webhook's marks that the user wrote, by their JSON pointers in the template.
        record_ignored: Whether its record is ignored, because it names more than the webhook can have added.
        replicas: The number of its pods.
        takes_nodes: Whether each of them takes a node.
        index: Where to find a pod's number; None if pods have none.
        numbered: Whether every number from 0 exists once.
        later: Whether its pods are created after those of other groups have ended.
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
    record_ignored: bool = False
    replicas: int = 1
    takes_nodes: bool = False
    index: Index | None = None
    numbered: bool = False
    later: bool = False
    family: Family = field(init=False)

    @property
    def key(self) -> str:
        """The annotation of the record on the template; a Pod also has its template's."""
        return keys.ADDED if self.path else keys.ADDED_TO_POD

    @computed
    def spec(self) -> dict[str, Json]:
        """The pod's spec; empty if there is none."""
        return map_at(self.template, ("spec",))

    @computed
    def main(self) -> Mapping[str, Json]:
        """The container that the operator uses, or that requests devices; empty if there is none."""
        return main_container(self.template, self.workload.main_container, self.table.resources)

    @computed
    def ssh(self) -> Mapping[str, Json]:
        """The main container's settings of ssh, as values of placeholders."""
        return ssh_of(self.main)

    @computed
    def amounts(self) -> Mapping[str, int]:
        """A pod's request of each resource, in thousandths."""
        return requests(self.spec)

    @computed
    def selection(self) -> Selection:
        """The template's node selection."""
        return selection(self.template)

    @computed
    def chosen_types(self) -> Collection[str]:
        """The instance types that a pod's selector or affinity names; none if any type is permitted."""
        wanted, labels = self.selection, self.table.candidates.instance_type_labels
        return chosen_types(wanted, labels) if wanted.selector or wanted.terms else ()

    @computed
    def selects_type(self) -> bool:
        """Whether the node selector names an instance type of the family."""
        return self.selects_type_of(self.family)

    def selects_type_of(self, family: Family) -> bool:
        """Returns whether the node selector names an instance type of a family."""
        named = map(self.selection.selector.get, self.table.candidates.instance_type_labels)
        return any(isinstance(name, str) and matches(name, family.instance_types) for name in named)

    @computed
    def claims(self) -> tuple[Claim, ...]:
        """The device claims of a pod, in the template's order."""
        return self.claims_of(self.family)

    def claims_of(self, family: Family) -> tuple[Claim, ...]:
        """Returns the device claims with what a family has about them."""
        return tuple(self._claims(family.claims)) if "resourceClaims" in self.spec else ()

    def _claims(self, by_name: Mapping[str, Claimed]) -> Iterator[Claim]:
        for index, entry in enumerate(maps_at(self.spec, ("resourceClaims",))):
            place = ("spec", "resourceClaims", index)
            name, shared = entry.get("resourceClaimTemplateName"), entry.get("resourceClaimName")
            if isinstance(name, str) and name:
                known = (takes for pattern, takes in by_name.items() if matches(name, (pattern,)))
                yield Claim((*place, "resourceClaimTemplateName"), name, next(known, None))
            elif isinstance(shared, str) and shared:
                yield Claim((*place, "resourceClaimName"), shared, None, shared=True)

    @computed
    def shared_claim(self) -> Claim | None:
        """The first claim that all pods share."""
        return next((claim for claim in self.claims if claim.shared), None)

    @computed
    def requested_resource(self) -> str | None:
        """The first of the family's resources that a pod requests, in any amount."""
        for name in self.family.whole_node if self.amounts else ():
            if self.amounts.get(name):
                return name
        return None

    def containers(self, *kinds: str) -> Iterator[tuple[Path, Mapping[str, Json]]]:
        """Yields the containers in the given lists, each with its path in the object."""
        for kind in kinds:
            items = self.spec.get(kind)
            for index, container in enumerate(items if isinstance(items, list) else ()):
                if isinstance(container, dict):
                    yield (*self.path, "spec", kind, index), container

    def requested(self, name: str) -> tuple[str, Json]:
        """Returns the field that requests a resource first, and its value."""
        for at, container in self.containers("containers", "initContainers"):
            for part in ("limits", "requests"):
                if name in (amounts := map_at(container, ("resources", part))):
                    return field_name((*at, "resources", part, name)), amounts[name]
        return field_name((*self.path, "spec", "resources")), None

    @computed
    def node_reason(self) -> str | None:
        """Why a pod takes a whole node, by its requests or claims; None if it does not.

        Also None if pods share a claim in addition: its devices may be on another node.
        """
        return self.node_reason_of(self.family)

    def node_reason_of(self, family: Family) -> str | None:
        """Returns the same for the machines of a family."""
        for name, whole in family.whole_node.items():
            if is_requested(self.amounts, name, whole.at_least, whole.at_most):
                return f"ask for {name}"
        claims = self.claims_of(family)
        for claim in () if any(claim.shared for claim in claims) else claims:
            amount = claim.takes.takes if claim.takes else 0
            if amount == NODE or (amount and amount >= family.device[1]):
                return f"claim a node by the template {cut(claim.name)}"
        return None

    @property
    def partial_claim_reason(self) -> str | None:
        """Why a pod's claims are less than a whole node; None if it has none, or claims a node."""
        if claim := self.shared_claim:
            return f"share the claim {claim.name}: for a node each, use a resourceClaimTemplateName"
        for claim in self.claims:
            if claim.takes is None:
                return (
                    f"claim by the template {claim.name}, which the table does not know: if it is for "
                    f"the family's devices, add it to the claims of {self.family.name}"
                )
            return f"claim less than a node by the template {claim.name}"
        return None

    @computed
    def devices(self) -> Devices:
        """How a pod gets its devices."""
        if self.requested_resource:
            own: Devices = "requested"
        elif any(claim.takes and claim.takes.node_config for claim in self.claims):
            own = "configured"
        else:
            own = "claimed" if any(not claim.shared for claim in self.claims) else "none"
        if self.shared_claim:
            # Whole-job admission does not know the node of a claim of several pods.
            return "unknown" if own == "none" else "shared"
        return own

    def unsupported(self, resources: Sequence[str]) -> Mapping[str, str]:
        """Returns placeholders for the first request for a resource in an amount that no type accepts.

        Empty if all requests can be met, or if the table does not know all types.
        """
        named, counts = self.chosen_types, self.table.device_counts
        # Only the few known types are examined, so that a long list of types costs nothing.
        if not named or any(name not in counts for name in named):
            return {}
        labels = self.table.candidates.instance_type_labels
        types = [name for name in named if admits(self.selection, dict.fromkeys(labels, (name,)))]
        accepted = sorted({count for name in types for count in counts[name]})
        for place, amount in self._requests(resources) if types else ():
            if amount not in accepted:
                return {
                    "devices.instanceType": " or ".join(types),
                    "devices.asked": str(amount),
                    "devices.accepted": ranges(accepted),
                    "devices.place": field_name((*self.path, *place)),
                }
        return {}

    def _requests(self, resources: Sequence[str]) -> Iterator[tuple[Path, int]]:
        """Yields path and number of every request for one of the resources; fractions are left out."""
        for kind in ("containers", "initContainers"):
            for index, container in enumerate(as_list(self.spec.get(kind), ("spec", kind))):
                for name in resources:
                    for part in ("limits", "requests"):
                        amount, rest = divmod(amounts(get(container, ("resources", part))).get(name, 0), 1000)
                        if amount and not rest:
                            yield ("spec", kind, index, "resources", part, name), amount
