"""Why workers have no node: gated by the placement program or another, or not placed by the scheduler.

What keeps each UltraServer from being used is looked up as the placement program does it, for jobs without
the program too: as if the pods that have no node waited for it.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from common.times import time_of
from contract.keys import GATE
from contract.place import Placer
from kube.api import Object
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.kueue import GATES as KUEUES
from kubectl_ultraserver.objects import NAME, at, condition, name_of, text
from kubectl_ultraserver.verify import few
from placement.decide.choose import Ranking
from placement.decide.decide import decide
from placement.decide.plan import Decision, Tuning, Waiting
from placement.decide.reasons import causes, listed
from placement.observe.model import COMPONENT, Pod
from placement.observe.read import read_ended, read_pod

SILENT: Final = timedelta(minutes=1)
"""After so long without a renewal nobody holds a Lease."""
UNMADE: Final = "FailedResourceClaimCreation"
"""The reason of the Event about a pod whose claims could not be made."""
GRACE: Final = timedelta(seconds=15)
"""A job that is younger may just not have been looked at."""


def unplaced(case: Case) -> Iterator[Finding]:
    """Why pods of a job have no node."""
    pods = [pod for raw in case.pods if (pod := read_pod(raw)) and not pod.node and not pod.deleting]
    if gated := [pod for pod in pods if pod.gated]:
        yield from _gated(case, gated)
    foreign: dict[str, list[str]] = {}
    for pod in pods:
        if pod.gates and not pod.gated:
            foreign.setdefault(pod.gates[0], []).append(pod.name)
    for gate, names in foreign.items():
        who = "Kueue" if gate.startswith(KUEUES) else "whoever set it"
        yield Finding("pod", names[0], f"{few(names)}: scheduling gate {gate}, which {who} must remove")
    free = {pod.name for pod in pods if not pod.gates}
    lacking = [worker for worker in case.workers if worker.name in free]
    if lacking:
        yield from _unscheduled(case, lacking)
    launchers = [raw for raw in case.launchers if name_of(raw) in free]
    for raw in launchers if not lacking else ():
        said = text(condition(raw, "PodScheduled"), "message")
        yield Finding("pod", name_of(raw), f"the launcher has no node: {said or 'it was not looked at yet'}")


def _gated(case: Case, pods: Sequence[Pod]) -> Iterator[Finding]:
    """Why the placement program does not open a job; of several groups each by itself."""
    keys = {pod.key for pod in pods}
    decision = decision_of(case, case.fleet.pods, Tuning().patience)
    told = [text(event, "message") for event in case.told([pod.name for pod in pods], component=COMPONENT)]
    silent = silence(case.lease, case.fleet.now)
    for waiting in decision.waiting:
        if waiting.job.key in keys:
            why, details = reason(case, decision, waiting)
            yield Finding("program", COMPONENT, f"keeps the job: {why}", details)
    age = case.fleet.now - min(pod.created for pod in pods)
    for opening in decision.openings:
        if opening.job.key not in keys:
            continue
        there = " ".join(opening.units) or "where its workers are"
        if silent:
            yield Finding("program", COMPONENT, f"would admit the job to {there}")
        elif age < GRACE:
            yield Finding("program", COMPONENT, f"is about to admit the job to {there}")
        else:
            last = tuple(f"it said: {said}" for said in dict.fromkeys(told))
            text_ = f"could admit the job to {there}, and has not: it has stalled, or decides otherwise"
            remedy = f"kubectl -n {NAME} logs deployment/{COMPONENT}"
            yield Finding("program", COMPONENT, text_, last, remedy)
    if silent:
        yield Finding("program", COMPONENT, silent, (), f"kubectl -n {NAME} get pods")


def silence(lease: Object | None, now: datetime) -> str:
    """That the program does not run; empty where it does, or nobody may say.

    Args:
        lease: Its Lease; None where there is none, empty where it may not be read.
        now: The time.
    """
    if lease is None:
        return "does not run: there is no Lease of it, and pods with its gate keep waiting"
    renewed = time_of(at(lease, "spec", "renewTime"))
    if renewed and now - renewed > SILENT:
        holder = text(lease, "spec", "holderIdentity") or "nobody"
        return f"does not run: its Lease was last renewed at {renewed:%H:%M:%S} UTC by {holder}"
    return ""


def _unscheduled(case: Case, lacking: Sequence[Pod]) -> Iterator[Finding]:
    """What the scheduler says about pods, and what it cannot say: what keeps each UltraServer from them."""
    said = dict[str, list[str]]()
    for worker in lacking:
        raw = case.raw[worker.name]
        found = condition(raw, "PodScheduled")
        who = text(raw, "spec", "schedulerName") or "default-scheduler"
        if worker.claims and (problem := case.problem(worker)):
            why = problem
        elif found.get("status") == "False":
            why = text(found, "message") or text(found, "reason") or "no reason given"
        else:
            new = case.fleet.now - worker.created < GRACE
            why = f"scheduler {who} has not looked at it" + ("" if new else ": is it running?")
        said.setdefault(why, []).append(worker.name)
    for why, names in said.items():
        told = (event for event in case.told(names) if text(event, "reason") == UNMADE)
        details = tuple(dict.fromkeys(text(event, "message") for event in told))
        yield Finding("pod", names[0], f"{few(names)}: {why}", details)
    for job in dict.fromkeys(worker.job for worker in lacking):
        yield from _unplaced(case, case.jobs[job])


def _unplaced(case: Case, workers: Sequence[Pod]) -> Iterator[Finding]:
    """Where a job with a place could go: what it needs, then what keeps each unit from it."""
    own = [
        replace(
            pod,
            job=pod.job or case.called.name,
            place=replace(pod.place, placer=Placer.GATE),
            gates=() if pod.node else (GATE,),
            opened=pod.opened if pod.pin else None,
        )
        for pod in workers
        if pod.place and not pod.deleting
    ]
    keys, uids = {pod.key for pod in own}, {pod.uid for pod in own}
    others = (pod for pod in case.fleet.pods if pod.uid not in uids and not pod.gated)
    decision = decision_of(case, [*others, *own], timedelta.max)
    for waiting in decision.waiting:
        if waiting.job.key in keys and not waiting.job.trouble():
            yield Finding("ultraserver", case.called.name, *reason(case, decision, waiting))
    for opening in decision.openings:
        if opening.job.key in keys:
            there = " ".join(opening.units) or "where the others are"
            text_ = f"by nodes and devices there is room for it: {there}; something else keeps its pods off"
            yield Finding("ultraserver", case.called.name, text_)


def decision_of(case: Case, pods: Iterable[Pod], patience: timedelta) -> Decision:
    """What the placement program decides, of what it would see now."""
    fleet = case.fleet
    ended = (found for raw in case.pods if (found := read_ended(raw)))
    tuning = Tuning(patience=patience, units=frozenset(fleet.units.items()))
    return decide(fleet.topology, [*pods, *ended], fleet.now, tuning, inventory=fleet.inventory)


def reason(case: Case, decision: Decision, waiting: Waiting) -> tuple[str, tuple[str, ...]]:
    """Why a job waits: in short, and what keeps each unit from it, and which nodes are in none."""
    job, fleet = waiting.job, case.fleet
    if not waiting.why.startswith("needs "):  # it is not the units that it waits for
        return waiting.why, ()
    demands = tuple(dict.fromkeys(member.demand for member in job.unpinned))
    found = list(causes(decision.cluster, Ranking(decision.cluster, job.place, demands), job))
    lines = [f"{unit}: {cause.detail}" for unit, cause in found]
    if job.place.size > 1:
        lines += [
            f"node {node.name}: in no working UltraServer, label {job.place.unit} is "
            f"{node.labels.get(job.place.unit) or 'missing'}"
            for node in fleet.topology.nodes.values()
            if fleet.has(node) and node.unit(job.place.unit) is None
        ]
    # What the details say at length is not said twice.
    return waiting.why.removesuffix(f"; {listed(found)}"), tuple(lines)
