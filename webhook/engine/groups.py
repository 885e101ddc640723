"""A group of a job: equal pods of one template, and what that says about nodes and devices."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from common.pointers import field_name
from common.quantities import amounts, requests
from common.texts import cut
from contract import keys
from contract.place import Index
from webhook.engine.ssh import ssh_of
from webhook.objects.templates import (
    Selection,
    admits,
    chosen_types,
    main_container,
    matches,
    selection,
    takes,
)
from webhook.objects.tree import Json, Path, as_list, get, map_at, maps_at
from webhook.rows.conditions import Devices, ranges
from webhook.rows.families import NODE, Claimed, Family
from webhook.rows.table import Table
from webhook.rows.workloads import Group as GroupRow
from webhook.rows.workloads import Workload
from webhook.undo.record import Record


class Claim(NamedTuple):
    """An entry of a template's ``resourceClaims`` (Kubernetes, "Dynamic Resource Allocation").

    Attributes:
        place: of what names it, in the template.
        name: of the ResourceClaimTemplate; of the ResourceClaim, where the pods share one.
        takes: what the table knows of the template; None where it knows nothing, and of a shared claim.
        shared: whether all pods have the same claim.
    """

    place: Path
    name: str
    takes: Claimed | None
    shared: bool = False


@dataclass(eq=False)
class Group:
    """A group of a job that has a pod template.

    Attributes:
        row: by which it was found.
        path: of the template in the object.
        role: that of the row, or its other one.
        template: without what the webhook added earlier.
        record: of what it added; None where there is none that counts.
        claimed: what the author wrote that is the webhook's own, by its place in the template.
        overdone: whether a record is ignored as it names more than the webhook can have added.
        replicas: number of its pods.
        takes_nodes: whether each of them takes a node.
        index: where a pod's number is; None where pods have none.
        numbered: whether every number from 0 is there, and each once.
        later: whether its pods are created when those of other groups have ended.
        family: the machines that the job is for.
    """

    table: Table
    workload: Workload
    row: GroupRow
    path: Path
    template: Json
    role: str = ""
    record: Record | None = None
    claimed: Mapping[str, Json] = field(default_factory=dict)
    overdone: bool = False
    replicas: int = 1
    takes_nodes: bool = False
    index: Index | None = None
    numbered: bool = False
    later: bool = False
    family: Family = field(init=False)

    @property
    def key(self) -> str:
        """The annotation that tells what was added to a template; a Pod carries its template's as well."""
        return keys.ADDED if self.path else keys.ADDED_TO_POD

    @cached_property
    def spec(self) -> dict[str, Json]:
        """The pod's spec; empty where there is none."""
        return map_at(self.template, ("spec",))

    @cached_property
    def main(self) -> Mapping[str, Json]:
        """The container that the operator means, or that asks for devices; empty where there is none."""
        return main_container(self.template, self.workload.main_container, self.table.resources)

    @cached_property
    def ssh(self) -> Mapping[str, Json]:
        """What the main container says of ssh, as values of placeholders."""
        return ssh_of(self.main)

    @cached_property
    def asked(self) -> Mapping[str, int]:
        """Thousandths of each resource that a pod asks for."""
        return requests(self.spec)

    @cached_property
    def selection(self) -> Selection:
        """How the template selects nodes."""
        return selection(self.template)

    @cached_property
    def chosen_types(self) -> Collection[str]:
        """The instance types that a pod's selector or affinity names; none of them if any type will do."""
        wanted, labels = self.selection, self.table.candidates.type_labels
        return chosen_types(wanted, labels) if wanted.selector or wanted.terms else ()

    @cached_property
    def selects_type(self) -> bool:
        """Whether the node selector names an instance type of the family."""
        return self.selects_type_of(self.family)

    def selects_type_of(self, family: Family) -> bool:
        """Whether the node selector names an instance type of a family."""
        named = map(self.selection.selector.get, self.table.candidates.type_labels)
        return any(isinstance(name, str) and matches(name, family.instance_types) for name in named)

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """What a pod claims, in the template's order."""
        return self.claims_of(self.family)

    def claims_of(self, family: Family) -> tuple[Claim, ...]:
        """The same, as a family has it."""
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

    @cached_property
    def shared_claim(self) -> Claim | None:
        """The first claim that all pods have in common."""
        return next((claim for claim in self.claims if claim.shared), None)

    @cached_property
    def asks_for(self) -> str | None:
        """The first of the family's resources that a pod asks for, of any amount."""
        for name in self.family.whole_node if self.asked else ():
            if self.asked.get(name):
                return name
        return None

    def containers(self, *kinds: str) -> Iterator[tuple[Path, Mapping[str, Json]]]:
        """The containers of some lists, each with its path in the object."""
        for kind in kinds:
            found = self.spec.get(kind)
            for index, container in enumerate(found if isinstance(found, list) else ()):
                if isinstance(container, dict):
                    yield (*self.path, "spec", kind, index), container

    def requested(self, name: str) -> tuple[str, Json]:
        """The field that asks for a resource first, and what it says."""
        for at, container in self.containers("containers", "initContainers"):
            for part in ("limits", "requests"):
                if name in (asked := map_at(container, ("resources", part))):
                    return field_name((*at, "resources", part, name)), asked[name]
        return field_name((*self.path, "spec", "resources")), None

    @cached_property
    def needs_node(self) -> str | None:
        """What a pod does that takes a whole node, by its requests or claims; None if nothing does.

        None as well where pods share a claim beside: what that has may be on another node.
        """
        return self.needs_node_of(self.family)

    def needs_node_of(self, family: Family) -> str | None:
        """The same, of the machines of a family."""
        for name, whole in family.whole_node.items():
            if takes(self.asked, name, whole):
                return f"ask for {name}"
        claims = self.claims_of(family)
        for claim in () if any(claim.shared for claim in claims) else claims:
            amount = claim.takes.takes if claim.takes else 0
            if amount == NODE or (amount and amount >= family.device[1]):
                return f"claim a node by the template {cut(claim.name)}"
        return None

    @property
    def claims_less(self) -> str | None:
        """Why what a pod claims is not a whole node; None where it claims nothing, or a node."""
        if claim := self.shared_claim:
            return f"share the claim {claim.name}: for a node each, use a resourceClaimTemplateName"
        for claim in self.claims:
            if claim.takes is None:
                return (
                    f"claim by the template {claim.name}, which the table does not know: where it "
                    "stands for Neuron devices, add it to the claims of {self.family.name}"
                )
            return f"claim less than a node by the template {claim.name}"
        return None

    @cached_property
    def devices(self) -> Devices:
        """How a pod gets its devices."""
        if self.asks_for:
            own: Devices = "requested"
        elif any(claim.takes and claim.takes.node_config for claim in self.claims):
            own = "configured"
        else:
            own = "claimed" if any(not claim.shared for claim in self.claims) else "none"
        if self.shared_claim:
            # Whole-job admission does not know where a claim of several pods is.
            return "unknown" if own == "none" else "shared"
        return own

    def unsupported(self, resources: Sequence[str]) -> Mapping[str, str]:
        """What placeholders say of the first request for one of the resources that no instance type accepts.

        Nothing where all can be met, or where the table does not know all of the types.
        """
        named, counts = self.chosen_types, self.table.device_counts
        # Those that are known are few: looking at each of the others would cost.
        if not named or any(name not in counts for name in named):
            return {}
        labels = self.table.candidates.type_labels
        types = [name for name in named if admits(self.selection, dict.fromkeys(labels, (name,)))]
        accepted = sorted({count for name in types for count in counts[name]})
        for place, asked in self._requests(resources) if types else ():
            if asked not in accepted:
                return {
                    "devices.instanceType": " or ".join(types),
                    "devices.asked": str(asked),
                    "devices.accepted": ranges(accepted),
                    "devices.place": field_name((*self.path, *place)),
                }
        return {}

    def _requests(self, resources: Sequence[str]) -> Iterator[tuple[Path, int]]:
        """Place and number of every request for one of the resources; a fraction is none."""
        for kind in ("containers", "initContainers"):
            for index, container in enumerate(as_list(self.spec.get(kind), ("spec", kind))):
                for name in resources:
                    for part in ("limits", "requests"):
                        asked, rest = divmod(amounts(get(container, ("resources", part))).get(name, 0), 1000)
                        if asked and not rest:
                            yield ("spec", kind, index, "resources", part, name), asked
