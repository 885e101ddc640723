"""Predicts, with the placement program's code, which units a new job would get, or why it would wait."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import jsonpatch

from contract.placement import ContractError, Placement, Placer, read
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.objects import at, metadata
from kubectl_ultraserver.scheduling import reason_and_details, scene_of, why_stopped
from placement.decide.members import Member
from placement.observe.coming import future_pods
from placement.observe.inventory import Claim, read_claim
from placement.observe.model import Pod


class Fit(NamedTuple):
    """Whether a job would start if it were created now."""

    fits: bool  # whether the job would start
    units: tuple[str, ...]  # the units that the job would get or, without whole-job admission, could get
    text: str  # a sentence with these units, or with the reason why the job would wait
    details: tuple[str, ...] = ()  # for each unit, why the job does not get it; and what was not examined
    pods: tuple[Pod, ...] = ()  # the job's workers; the prediction for the preview's next job includes them


def fit(
    case: Case,
    items: Iterable[Object],
    earlier_pods: tuple[Pod, ...],
    priorities: Mapping[str, int],
    claim_templates: Mapping[str, Object],
) -> Fit | None:
    """Returns whether a job would start if it were created now; None if the table does not place the job.

    Args:
        case: The job as it would be stored, and the cluster.
        items: The job's Pods as the preview service returns them: one item for consecutive equal Pods.
        earlier_pods: The Pods of the jobs that would be created before this job.
        priorities: The value of each priority class by name; an empty name has the default class's value.
        claim_templates: The ResourceClaimTemplates of the job's namespace, by name.
    """
    try:
        placement, pods = _workers(case, items, priorities, claim_templates)
    except ContractError as error:
        return Fit(fits=False, units=(), text=str(error))
    if placement is None:
        return None
    is_gated, worker_keys, fleet = placement.placer is Placer.WHOLE_JOB, {pod.key for pod in pods}, case.fleet
    other_pods = (pod for pod in fleet.pods if is_gated or not pod.gated)
    notes = (messages.note(fleet.unseen),) if fleet.unseen else ()
    decision = scene_of(fleet, [*other_pods, *earlier_pods, *pods], reserves=is_gated).decision()
    for waiting in decision.waiting:
        if waiting.job.key in worker_keys:
            why, details = reason_and_details(case, decision, waiting)
            text = messages.would_wait(why)
            return Fit(fits=False, units=(), text=text, details=details + notes, pods=pods)
    admissions = (admission for admission in decision.admissions if admission.job.key in worker_keys)
    units = tuple(dict.fromkeys(unit for admission in admissions for unit in admission.units))
    stopped_reason = why_stopped(case.lease, case.fleet.now) if is_gated else ""
    text = messages.fits(placement.placer, units, stopped_reason)
    return Fit(fits=not stopped_reason, units=units, text=text, details=notes, pods=pods)


def _workers(
    case: Case, items: Iterable[Object], priorities: Mapping[str, int], claim_templates: Mapping[str, Object]
) -> tuple[Placement | None, tuple[Pod, ...]]:
    """Returns a job's placement annotation, and the workers that an operator would create for the job."""
    workers: list[Object] = []
    for item in items:
        pod = jsonpatch.apply_patch(item["pod"], item["preview"]["patch"])
        workers += [pod] * (item["last"] + 1 - item["first"]) if read(metadata(pod)) else []
    placement = read(metadata(workers[0])) if workers else None
    if placement is None:
        return None, ()
    # Each replica of a LeaderWorkerSet is placed as a separate job. Other kinds have no `Placement.group`.
    replicas = at(case.job, "spec", "replicas") if placement.group else None
    job, groups = (case.namespace, case.reference.name), 1 if replicas is None else replicas
    pods = future_pods(*job, workers, placement, groups, priorities, case.fleet.now)
    return placement, _with_claims(case.fleet, pods, claim_templates)


def _with_claims(fleet: Fleet, pods: Sequence[Pod], claim_templates: Mapping[str, Object]) -> tuple[Pod, ...]:
    """Returns the pods, each with the devices that its claims would request."""
    claims = {
        (pod.namespace, name): _new_claim(pod, claim_templates[template])
        for pod in pods
        for template, name in pod.claims
        if template in claim_templates
    }
    inventory = replace(fleet.inventory, claims={**fleet.inventory.claims, **claims})
    examiner = replace(fleet, inventory=inventory).examiner
    return tuple(_with_requests(examiner.with_claims(pod), claim_templates) for pod in pods)


def _new_claim(pod: Pod, template: Object) -> Claim:
    """Returns the device claim that kube-controller-manager would create for a pod."""
    owner = {"kind": "Pod", "uid": pod.uid}
    return read_claim({"metadata": {"ownerReferences": [owner]}, "spec": at(template, "spec", "spec")})


def _with_requests(member: Member, claim_templates: Mapping[str, Object]) -> Pod:
    """Returns a member's pod with the devices that its claims request, or with the problem of a claim."""
    pod = member.pod
    missing_template = next((name for name, _ in pod.claims if name and name not in claim_templates), "")
    problem = messages.no_template(missing_template, pod.namespace) if missing_template else member.problem
    fault = pod.fault or (("placement", problem) if problem else None)
    return replace(pod, demand=member.demand, claims=pod.claims if fault else (), fault=fault)
