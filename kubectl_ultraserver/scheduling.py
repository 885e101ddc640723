"""Explains why workers have no node: because of a scheduling gate, or because of the scheduler.

The placement program's code finds the reason why a job gets no unit. Even if the job has another placer than
``whole-job``, its pods without a node are examined as if they waited for the placement program.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from common.texts import join_names
from common.times import time_of
from contract.keys import GATE
from contract.placement import Placer
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.kueue import GATE_PREFIX as KUEUE_GATES
from kubectl_ultraserver.objects import at, condition, name_of, text_at
from placement.decide.choose import Ranking
from placement.decide.decide import Scene
from placement.decide.plan import Decision, Tuning, Waiting
from placement.decide.reasons import causes
from placement.messages import Reason
from placement.observe.model import COMPONENT, EndedWorker, Pod
from placement.observe.read import read_pod

LEASE_TIMEOUT: Final = timedelta(minutes=1)
"""The time without a renewal after which the holder of a Lease is assumed to have stopped."""
CLAIM_NOT_CREATED: Final = "FailedResourceClaimCreation"
"""The reason of the Event for a pod whose device claims cannot be created."""
GRACE: Final = timedelta(seconds=15)
"""The age until which it is normal that a program has not read a new job yet."""


def explain_unplaced(case: Case) -> Iterator[Finding]:
    """Yields findings about pods of a job that have no node."""
    pods = [pod for raw in case.pods if (pod := read_pod(raw)) and not pod.node and not pod.deleting]
    if gated_pods := [pod for pod in pods if pod.gated]:
        yield from _explain_gate(case, gated_pods)
    names_by_gate: dict[str, list[str]] = {}
    for pod in pods:
        if pod.gates and not pod.gated:
            names_by_gate.setdefault(pod.gates[0], []).append(pod.name)
    for gate, names in names_by_gate.items():
        owner = "Kueue" if gate.startswith(KUEUE_GATES) else "its owner"
        problem = messages.foreign_gate(join_names(names), gate, owner)
        yield Finding("foreign-gate", "pod", names[0], problem)
    names_without_gates = {pod.name for pod in pods if not pod.gates}
    workers_without_gates = [worker for worker in case.workers if worker.name in names_without_gates]
    if workers_without_gates:
        yield from _explain_no_node(case, workers_without_gates)
    launchers = [raw for raw in case.launchers if name_of(raw) in names_without_gates]
    for raw in launchers if not workers_without_gates else ():
        reason = text_at(condition(raw, "PodScheduled"), "message") or messages.NOT_TRIED
        problem = messages.launcher_without_node(reason)
        yield Finding("launcher-without-node", "pod", name_of(raw), problem)


def _explain_gate(case: Case, pods: Sequence[Pod]) -> Iterator[Finding]:
    """Yields findings about why the placement program does not admit the jobs of these pods."""
    pod_keys = {pod.key for pod in pods}
    decision = scene_of(case.fleet, [*case.fleet.pods, *case.ended_workers]).decision()
    events = case.events_about([pod.name for pod in pods], component=COMPONENT)
    event_texts = dict.fromkeys(text_at(event, "message") for event in events)
    stopped_reason = why_stopped(case.lease, case.fleet.now)
    for waiting in decision.waiting:
        if waiting.job.key in pod_keys:
            problem, details = reason_and_details(case, decision, waiting)
            text = messages.not_admitted(problem)
            yield Finding("not-admitted", "program", COMPONENT, text, details)
    age = case.fleet.now - min(pod.created for pod in pods)
    for admission in decision.admissions:
        if admission.job.key not in pod_keys:
            continue
        units = " ".join(admission.units) or messages.WHERE_WORKERS_ARE
        if stopped_reason:
            yield Finding("would-admit", "program", COMPONENT, messages.would_admit(units))
        elif age < GRACE:
            yield Finding("will-admit", "program", COMPONENT, messages.will_admit(units))
        else:
            text, details = messages.could_admit(units), tuple(map(messages.last_event, event_texts))
            yield Finding("could-admit", "program", COMPONENT, text, details, messages.LOGS)
    if stopped_reason:
        yield Finding("placement-stopped", "program", COMPONENT, stopped_reason, (), messages.GET_PODS)


def why_stopped(lease: Object | None, now: datetime) -> str:
    """Returns why the placement program is assumed not to run; empty if the program runs or may run.

    Args:
        lease: The program's Lease; None if it does not exist, empty if the user may not read it.
        now: The time.
    """
    if lease is None:
        return messages.NO_LEASE
    renewed = time_of(at(lease, "spec", "renewTime"))
    if renewed and now - renewed > LEASE_TIMEOUT:
        return messages.old_lease(renewed, text_at(lease, "spec", "holderIdentity"))
    return ""


def _explain_no_node(case: Case, workers: Sequence[Pod]) -> Iterator[Finding]:
    """Yields the scheduler's reasons why workers have no node, and the findings of `_explain_units`."""
    names_by_problem = dict[tuple[messages.Code, str], list[str]]()
    for worker in workers:
        pod = case.pod_objects[worker.name]
        status = condition(pod, "PodScheduled")
        scheduler = text_at(pod, "spec", "schedulerName") or "default-scheduler"
        problem: tuple[messages.Code, str]
        if worker.claims and (claim_problem := case.problem(worker)):
            problem = "claims-unusable", claim_problem
        elif status.get("status") == "False":
            reason = text_at(status, "message") or text_at(status, "reason") or messages.NO_REASON
            problem = "unschedulable", reason
        else:
            is_new = case.fleet.now - worker.created < GRACE
            problem = "not-scheduled", messages.not_scheduled(scheduler, is_new=is_new)
        names_by_problem.setdefault(problem, []).append(worker.name)
    for (code, text), names in names_by_problem.items():
        events = (event for event in case.events_about(names) if event.get("reason") == CLAIM_NOT_CREATED)
        details = tuple(dict.fromkeys(text_at(event, "message") for event in events))
        yield Finding(code, "pod", names[0], f"{join_names(names)}: {text}", details)
    for job in dict.fromkeys(worker.job for worker in workers):
        yield from _explain_units(case, case.workers_by_job[job])


def _explain_units(case: Case, workers: Sequence[Pod]) -> Iterator[Finding]:
    """Yields a finding: the job gets too few units (``details`` has reasons), or enough units are free."""
    own_pods = [
        replace(
            pod,
            job=pod.job or case.reference.name,
            placement=replace(pod.placement, placer=Placer.WHOLE_JOB),
            gates=() if pod.node else (GATE,),
            admitted_at=pod.admitted_at if pod.pin else None,
        )
        for pod in workers
        if pod.placement and not pod.deleting
    ]
    own_keys, own_uids = {pod.key for pod in own_pods}, {pod.uid for pod in own_pods}
    other_pods = (pod for pod in case.fleet.pods if pod.uid not in own_uids and not pod.gated)
    scene = scene_of(case.fleet, [*other_pods, *own_pods, *case.ended_workers], reserves=False)
    decision = scene.decision()
    for waiting in decision.waiting:
        if waiting.job.key in own_keys and not waiting.job.obstacle:
            problem, details = reason_and_details(case, decision, waiting)
            yield Finding("too-few-units", "job", case.reference.name, problem, details)
    for admission in decision.admissions:
        if admission.job.key in own_keys:
            text = messages.enough_nodes(" ".join(admission.units) or messages.WHERE_WORKERS_ARE)
            yield Finding("enough-units", "job", case.reference.name, text)


def scene_of(fleet: Fleet, pods: Iterable[Pod | EndedWorker], *, reserves: bool = True) -> Scene:
    """Returns the input of the decision that the placement program would make with these pods."""
    tuning = Tuning(reserves=reserves, units=fleet.table.units)
    return Scene(fleet.topology, tuple(pods), fleet.now, tuning, inventory=fleet.inventory)


def reason_and_details(case: Case, decision: Decision, waiting: Waiting) -> tuple[str, tuple[str, ...]]:
    """Returns why a job waits, with lines about units that it does not get and about nodes in no unit."""
    job, fleet = waiting.job, case.fleet
    if not waiting.shortage and waiting.reason is not Reason.NODES:  # the job does not wait for units
        return waiting.why, ()
    ranking = Ranking(decision.cluster, job.placement, job.demands)
    lines = [f"{unit}: {cause.detail}" for unit, cause in causes(decision.cluster, ranking, job)]
    if job.placement.size > 1:
        label = job.placement.unit
        lines += [
            messages.node_outside(node.name, label, node.labels.get(label) or "missing")
            for node in fleet.topology.nodes.values()
            if fleet.is_ultraserver_node(node) and node.unit(label) is None
        ]
    return waiting.text(reserved=True), tuple(lines)
