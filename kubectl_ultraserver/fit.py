"""Predicts by placement's own decision which units a new job would get, or what it would wait for."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import jsonpatch

from contract.place import ContractError, Place, Placer, read
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.objects import at, metadata
from kubectl_ultraserver.scheduling import decision_of, reason, silence
from placement.decide.believe import Member
from placement.observe.coming import coming
from placement.observe.inventory import Claim, read_claim
from placement.observe.model import Pod


class Fit(NamedTuple):
    """Whether a job would start now.

    Attributes:
        fits: True if it would.
        units: The units that it would get, or, if another placer chooses them, could get.
        text: These units, or what it would wait for.
        details: The reason for each unit that it does not get, and what could not be read.
        pods: Its workers. The prediction for the next job of the same preview counts them.
    """

    fits: bool
    units: tuple[str, ...]
    text: str
    details: tuple[str, ...] = ()
    pods: tuple[Pod, ...] = ()


def fit(
    case: Case,
    parts: Iterable[Object],
    earlier: tuple[Pod, ...],
    priorities: Mapping[str, int],
    templates: Mapping[str, Object],
) -> Fit | None:
    """Returns whether a job would start if it were created now; None if it takes no whole nodes.

    Args:
        case: The job as it would be stored, and the cluster.
        parts: Its Pods, as the preview service returns them: one entry for all equal Pods.
        earlier: The Pods of jobs that would be created before it.
        priorities: The value of each priority class by name. The default class has an empty name.
        templates: The ResourceClaimTemplates of the job's namespace, by name.
    """
    try:
        place, own = _pods(case, parts, priorities, templates)
    except ContractError as error:
        return Fit(fits=False, units=(), text=str(error))
    if place is None:
        return None
    gate, keys, fleet = place.placer is Placer.WHOLE_JOB, {pod.key for pod in own}, case.fleet
    others = (pod for pod in fleet.pods if gate or not pod.gated)
    note = (messages.note(fleet.unseen),) if fleet.unseen else ()
    decision = decision_of(case.fleet, [*others, *earlier, *own], reserves=gate)
    for waiting in decision.waiting:
        if waiting.job.key in keys:
            why, details = reason(case, decision, waiting)
            return Fit(fits=False, units=(), text=messages.would_wait(why), details=details + note, pods=own)
    openings = (opening for opening in decision.openings if opening.job.key in keys)
    units = tuple(dict.fromkeys(unit for opening in openings for unit in opening.units))
    stopped = silence(case.lease, case.fleet.now) if gate else ""
    result = messages.fits(place.placer, units, stopped)
    return Fit(fits=not stopped, units=units, text=result, details=note, pods=own)


def _pods(
    case: Case, parts: Iterable[Object], priorities: Mapping[str, int], claims_of: Mapping[str, Object]
) -> tuple[Place | None, tuple[Pod, ...]]:
    """Returns the placement annotation of a job, and the workers that an operator would create for it."""
    patched = [(jsonpatch.apply_patch(part["pod"], part["preview"]["patch"]), part) for part in parts]
    workers = [
        (place, pod)
        for pod, part in patched
        if (place := read(metadata(pod)))
        for _ in range(part["first"], part["last"] + 1)
    ]
    if not workers:
        return None, ()
    place = workers[0][0]
    # Each replica of a LeaderWorkerSet is a job; other kinds have no groups.
    sets = at(case.job, "spec", "replicas") if place.group else 1
    own = [pod for _, pod in workers]
    groups = 1 if sets is None else sets
    pods = coming(case.namespace, case.called.name, own, place, groups, priorities, case.fleet.now)
    return place, _claiming(case.fleet, pods, claims_of)


def _claiming(fleet: Fleet, pods: Sequence[Pod], templates: Mapping[str, Object]) -> tuple[Pod, ...]:
    """Returns the pods, each with the devices that the claims created for it would request."""
    claims = {
        (pod.namespace, name): _claim(pod, templates[template])
        for pod in pods
        for template, name in pod.claims
        if template in templates
    }
    inventory = replace(fleet.inventory, claims={**fleet.inventory.claims, **claims})
    belief = replace(fleet, inventory=inventory).belief
    return tuple(_requesting(belief.claiming(pod), templates) for pod in pods)


def _claim(pod: Pod, template: Object) -> Claim:
    """Returns the device claim that kube-controller-manager would create for a pod."""
    owner = {"kind": "Pod", "uid": pod.uid}
    return read_claim({"metadata": {"ownerReferences": [owner]}, "spec": at(template, "spec", "spec")})


def _requesting(member: Member, templates: Mapping[str, Object]) -> Pod:
    """Returns the pod of a member, with the devices of its claims among its own requests."""
    pod = member.pod
    missing = next((template for template, _ in pod.claims if template and template not in templates), "")
    why = messages.no_template(missing, pod.namespace) if missing else member.problem
    fault = pod.fault or (("place", why) if why else None)
    return replace(pod, demand=member.demand, claims=pod.claims if fault else (), fault=fault)
