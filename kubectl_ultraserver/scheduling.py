"""Explains why workers have no node: a gate of the placement program or another, or the scheduler.

Why each UltraServer is not used is decided with the placement program's own code, including for jobs that do
not wait for that program, as if their pods without a node did.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from common.times import time_of
from contract.keys import GATE
from contract.place import Placer
from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.fleet import Fleet
from kubectl_ultraserver.kueue import GATES as KUEUES
from kubectl_ultraserver.objects import at, condition, name_of, text
from placement.decide.choose import Ranking
from placement.decide.decide import Scene
from placement.decide.plan import Decision, Tuning, Waiting
from placement.decide.reasons import causes
from placement.messages import Reason
from placement.observe.model import COMPONENT, Ended, Pod
from placement.observe.read import read_pod

SILENT: Final = timedelta(minutes=1)
"""Time without a renewal after which the holder of a Lease has ended."""
UNMADE: Final = "FailedResourceClaimCreation"
"""The reason of the Event about a pod whose device claims could not be created."""
GRACE: Final = timedelta(seconds=15)
"""Age until which programs may not have read a new job yet."""


def unplaced(case: Case) -> Iterator[Finding]:
    """Yields findings about pods of a job that have no node."""
    pods = [pod for raw in case.pods if (pod := read_pod(raw)) and not pod.node and not pod.deleting]
    if gated := [pod for pod in pods if pod.gated]:
        yield from _gated(case, gated)
    foreign: dict[str, list[str]] = {}
    for pod in pods:
        if pod.gates and not pod.gated:
            foreign.setdefault(pod.gates[0], []).append(pod.name)
    for gate, names in foreign.items():
        why = messages.foreign_gate(names, gate, kueue=gate.startswith(KUEUES))
        yield Finding("pod", names[0], why)
    free = {pod.name for pod in pods if not pod.gates}
    lacking = [worker for worker in case.workers if worker.name in free]
    if lacking:
        yield from _unscheduled(case, lacking)
    launchers = [raw for raw in case.launchers if name_of(raw) in free]
    for raw in launchers if not lacking else ():
        why = text(condition(raw, "PodScheduled"), "message")
        yield Finding("pod", name_of(raw), messages.launcher_without_node(why))


def _gated(case: Case, pods: Sequence[Pod]) -> Iterator[Finding]:
    """Yields findings about why the placement program does not admit a job, for each of its groups."""
    keys = {pod.key for pod in pods}
    decision = decision_of(case.fleet, [*case.fleet.pods, *case.over])
    events = case.events_about([pod.name for pod in pods], component=COMPONENT)
    texts = dict.fromkeys(text(event, "message") for event in events)
    silent = silence(case.lease, case.fleet.now)
    for waiting in decision.waiting:
        if waiting.job.key in keys:
            why, details = reason(case, decision, waiting)
            yield Finding("program", COMPONENT, messages.not_admitted(why), details)
    age = case.fleet.now - min(pod.created for pod in pods)
    for opening in decision.openings:
        if opening.job.key not in keys:
            continue
        there = opening.units
        if silent:
            yield Finding("program", COMPONENT, messages.would_admit(there))
        elif age < GRACE:
            yield Finding("program", COMPONENT, messages.will_admit(there))
        else:
            details = tuple(map(messages.last_event, texts))
            yield Finding("program", COMPONENT, messages.could_admit(there), details, messages.LOGS)
    if silent:
        yield Finding("program", COMPONENT, silent, (), messages.GET_PODS)


def silence(lease: Object | None, now: datetime) -> str:
    """Returns that the placement program does not run; empty if it runs, or if that is not known.

    Args:
        lease: Its Lease; None if there is none, empty if the user may not read it.
        now: The time.
    """
    if lease is None:
        return messages.NO_LEASE
    renewed = time_of(at(lease, "spec", "renewTime"))
    if renewed and now - renewed > SILENT:
        return messages.old_lease(renewed, text(lease, "spec", "holderIdentity"))
    return ""


def _unscheduled(case: Case, lacking: Sequence[Pod]) -> Iterator[Finding]:
    """Yields the scheduler's reasons, and why each UltraServer is not used, which it does not report."""
    reasons = dict[str, list[str]]()
    for worker in lacking:
        raw = case.raw[worker.name]
        scheduled = condition(raw, "PodScheduled")
        who = text(raw, "spec", "schedulerName") or "default-scheduler"
        if worker.claims and (problem := case.problem(worker)):
            why = problem
        elif scheduled.get("status") == "False":
            why = text(scheduled, "message") or text(scheduled, "reason") or messages.NO_REASON
        else:
            why = messages.not_scheduled(who, new=case.fleet.now - worker.created < GRACE)
        reasons.setdefault(why, []).append(worker.name)
    for why, names in reasons.items():
        events = (event for event in case.events_about(names) if text(event, "reason") == UNMADE)
        details = tuple(dict.fromkeys(text(event, "message") for event in events))
        yield Finding("pod", names[0], messages.of_pods(names, why), details)
    for job in dict.fromkeys(worker.job for worker in lacking):
        yield from _unplaced(case, case.jobs[job])


def _unplaced(case: Case, workers: Sequence[Pod]) -> Iterator[Finding]:
    """Yields what a job with a placement annotation needs, and why it does not get each unit."""
    own = [
        replace(
            pod,
            job=pod.job or case.called.name,
            place=replace(pod.place, placer=Placer.WHOLE_JOB),
            gates=() if pod.node else (GATE,),
            opened=pod.opened if pod.pin else None,
        )
        for pod in workers
        if pod.place and not pod.deleting
    ]
    keys, uids = {pod.key for pod in own}, {pod.uid for pod in own}
    others = (pod for pod in case.fleet.pods if pod.uid not in uids and not pod.gated)
    decision = decision_of(case.fleet, [*others, *own, *case.over], reserves=False)
    for waiting in decision.waiting:
        if waiting.job.key in keys and not waiting.job.obstacle:
            yield Finding("ultraserver", case.called.name, *reason(case, decision, waiting))
    for opening in decision.openings:
        if opening.job.key in keys:
            yield Finding("ultraserver", case.called.name, messages.room(opening.units))


def decision_of(fleet: Fleet, pods: Iterable[Pod | Ended], *, reserves: bool = True) -> Decision:
    """Returns the decision that the placement program would make now for these pods."""
    return scene_of(fleet, pods, reserves=reserves).decision()


def scene_of(fleet: Fleet, pods: Iterable[Pod | Ended], *, reserves: bool = True) -> Scene:
    """Returns what the placement program would see with these pods."""
    tuning = Tuning(reserves=reserves, units=fleet.table.units)
    return Scene(fleet.topology, tuple(pods), fleet.now, tuning, inventory=fleet.inventory)


def reason(case: Case, decision: Decision, waiting: Waiting) -> tuple[str, tuple[str, ...]]:
    """Returns why a job waits, and lines about each unit that it does not get and nodes in no unit."""
    job, fleet = waiting.job, case.fleet
    if not waiting.shortage and waiting.reason is not Reason.NODES:  # it does not wait for units
        return waiting.why, ()
    ranking = Ranking(decision.cluster, job.place, job.demands)
    lines = [f"{unit}: {cause.detail}" for unit, cause in causes(decision.cluster, ranking, job)]
    if job.place.size > 1:
        lines += [
            messages.node_outside(node.name, job.place.unit, node.labels.get(job.place.unit))
            for node in fleet.topology.nodes.values()
            if fleet.has(node) and node.unit(job.place.unit) is None
        ]
    return waiting.text(reserved=True), tuple(lines)
