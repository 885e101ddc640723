"""What a pod template claims (Kubernetes, "Dynamic Resource Allocation"), as far as the table knows it."""

from collections.abc import Iterator
from typing import NamedTuple

from contract.keys import NEURON
from webhook.objects.templates import matches
from webhook.objects.tree import Json, Path, maps_at
from webhook.rows.workloads import NODE, Candidates, Claimed


class Claim(NamedTuple):
    """An entry of a template's ``resourceClaims``.

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


def claims(wanted: Candidates, template: Json) -> Iterator[Claim]:
    """What a template claims, in its order."""
    for index, entry in enumerate(maps_at(template, ("spec", "resourceClaims"))):
        place = ("spec", "resourceClaims", index)
        name, shared = entry.get("resourceClaimTemplateName"), entry.get("resourceClaimName")
        if isinstance(name, str) and name:
            known = (takes for pattern, takes in wanted.claims.items() if matches(name, (pattern,)))
            yield Claim((*place, "resourceClaimTemplateName"), name, next(known, None))
        elif isinstance(shared, str) and shared:
            yield Claim((*place, "resourceClaimName"), shared, None, shared=True)


def claimed_node(wanted: Candidates, template: Json) -> str | None:
    """The ResourceClaimTemplate by which a template claims a whole node; None where it claims less.

    None as well where its pods share a claim beside: what that has may be on another node.
    """
    found = list(claims(wanted, template))
    for claim in () if any(claim.shared for claim in found) else found:
        takes = claim.takes.takes if claim.takes else 0
        if takes == NODE or (takes and takes >= wanted.whole_node.get(NEURON, 0)):
            return claim.name
    return None


def left_alone(wanted: Candidates, template: Json) -> str | None:
    """Why what a template claims is not a whole node; None where it claims nothing."""
    for claim in sorted(claims(wanted, template), key=lambda claim: not claim.shared):
        if claim.shared:
            return (
                f"its workers share the claim {claim.name}: for a node each, use a resourceClaimTemplateName"
            )
        if claim.takes is None:
            return (
                f"its workers claim by the template {claim.name}, which the table does not know: where it "
                "stands for Neuron devices, add it to candidates.claims"
            )
        return f"its workers claim less than a node by the template {claim.name}"
    return None
