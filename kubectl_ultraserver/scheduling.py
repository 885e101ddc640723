"""Why workers have no node: gated by the placement program or another, or not placed by the scheduler.

What keeps each UltraServer from being used is looked up as the placement program does it, for jobs without
the program too: as if the pods that have no node waited for it.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from common.times import time_of
from contract.keys import GATE
from contract.place import Placer
from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.kueue import GATES as KUEUES
from kubectl_ultraserver.objects import at, condition, name_of, text
from kubectl_ultraserver.verify import few
from placement.allocate import Allocator
from placement.choose import Shelf
from placement.cluster import Cluster
from placement.decide import decide
from placement.jobs import Job
from placement.model import COMPONENT
from placement.plan import Opening, Policy
from placement.read import read_pod
from placement.reasons import causes, explain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kubectl_ultraserver.findings import Case
    from kubectl_ultraserver.seen import Work
    from placement.model import Pod

SILENT: Final = timedelta(minutes=1)
"""A Lease that was not renewed for so long is nobody's."""
GRACE: Final = timedelta(seconds=15)
"""A job that is younger may just not have been looked at."""


def homeless(case: Case) -> Iterator[Finding]:
    """Why pods of a job have no node."""
    pods = [pod for raw in case.work.pods if (pod := read_pod(raw)) and not pod.node and not pod.deleting]
    if any(pod.gated for pod in pods):
        yield from _gated(case, [pod for pod in pods if pod.gated])
    foreign: dict[str, list[str]] = {}
    for pod in pods:
        if pod.gates and not pod.gated:
            foreign.setdefault(pod.gates[0], []).append(pod.name)
    for gate, names in foreign.items():
        who = "Kueue" if gate.startswith(KUEUES) else "whoever set it"
        yield Finding("pod", names[0], f"{few(names)}: scheduling gate {gate}, which {who} has to take off")
    free = {pod.name for pod in pods if not pod.gates}
    lacking = [worker for worker in case.work.workers if worker.name in free]
    if lacking:
        yield from _unscheduled(case, lacking)
    launchers = [raw for raw in case.work.launchers if name_of(raw) in free]
    for raw in launchers if not lacking else ():
        said = text(condition(raw, "PodScheduled").get("message"))
        yield Finding("pod", name_of(raw), f"the launcher has no node: {said or 'it was not looked at yet'}")


def _gated(case: Case, pods: Sequence[Pod]) -> Iterator[Finding]:
    """Why the placement program does not open a job; of several groups each by itself."""
    fleet, keys = case.work.fleet, {pod.key for pod in pods}
    decision = decide(fleet.topology, fleet.pods, case.now, Policy(units=frozenset(fleet.units.items())))
    told = [
        text(event.get("message")) for event in case.told([pod.name for pod in pods], component=COMPONENT)
    ]
    silent = _silent(case)
    for waiting in decision.waiting:
        if waiting.job.key in keys:
            details = _causes(decision.cluster, waiting.job, case.work)
            yield Finding("program", COMPONENT, f"keeps the job: {_headline(waiting.why, details)}", details)
    age = case.now - min(pod.created for pod in pods)
    for opening in decision.openings:
        if opening.job.key not in keys:
            continue
        there = " ".join(dict.fromkeys(pin.value for pin in opening.pins)) or "where its workers are"
        if silent:
            yield Finding("program", COMPONENT, f"would open the job onto {there}")
        elif age < GRACE:
            yield Finding("program", COMPONENT, f"is about to open the job onto {there}")
        else:
            last = tuple(f"it said: {said}" for said in dict.fromkeys(told))
            text_ = f"could open the job onto {there}, and has not: it stands still, or decides otherwise"
            remedy = "kubectl -n ultraserver-webhook logs deployment/ultraserver-placement"
            yield Finding("program", COMPONENT, text_, last, remedy)
    if silent:
        yield Finding("program", COMPONENT, silent, (), "kubectl -n ultraserver-webhook get pods")


def _silent(case: Case) -> str:
    """That the program does not run; empty where it does, or nobody may say."""
    if case.lease is None:
        return "does not run: there is no Lease of it, and pods with its gate wait for ever"
    renewed = time_of(at(case.lease, "spec", "renewTime"))
    if renewed and case.now - renewed > SILENT:
        holder = text(at(case.lease, "spec", "holderIdentity")) or "nobody"
        return f"does not run: its Lease was last renewed at {renewed:%H:%M:%S} UTC by {holder}"
    return ""


def _unscheduled(case: Case, lacking: Sequence[Pod]) -> Iterator[Finding]:
    """What the scheduler says about pods, and what it cannot say: what keeps each UltraServer from them."""
    work, said = case.work, dict[str, list[str]]()
    for worker in lacking:
        raw = work.raw[worker.name]
        found = condition(raw, "PodScheduled")
        who = text(at(raw, "spec", "schedulerName")) or "default-scheduler"
        if found.get("status") == "False":
            why = text(found.get("message")) or text(found.get("reason")) or "no reason given"
        else:
            new = case.now - worker.created < GRACE
            why = f"scheduler {who} has not looked at it" + ("" if new else ": is it running?")
        said.setdefault(why, []).append(worker.name)
    for why, names in said.items():
        yield Finding("pod", names[0], f"{few(names)}: {why}")
    for job in dict.fromkeys(worker.job for worker in lacking):
        if places := _places(work, work.jobs[job]):
            yield Finding("ultraserver", work.called.name, places[0], places[1:])


def _places(work: Work, workers: Sequence[Pod]) -> tuple[str, ...]:
    """Where a job with a place could go: what it needs, then what keeps each group from it."""
    own = [
        replace(
            pod,
            job=pod.job or work.called.name,
            place=replace(pod.place, placer=Placer.GATE),
            gates=() if pod.node else (GATE,),
            opened=pod.opened if pod.pin else None,
        )
        for pod in workers
        if pod.place and not pod.deleting
    ]
    uids = {pod.uid for pod in own}
    others = (pod for pod in work.fleet.believed if pod.uid not in uids)
    cluster = Cluster(work.fleet.topology, [*others, *own])
    job = Job((work.namespace, workers[0].job or work.called.name), tuple(own))
    if job.trouble() is not None:
        return ()
    found = Allocator(cluster).open(job, None, patient=True)
    if isinstance(found, Opening):
        there = " ".join(dict.fromkeys(pin.value for pin in found.pins)) or "where the others are"
        return (f"by nodes and devices there is room for it: {there}; something else keeps its pods off",)
    ((_, why),) = explain(cluster, [(job, found)])
    details = () if isinstance(found, str) else _causes(cluster, job, work)
    return _headline(why, details), *details


def _causes(cluster: Cluster, job: Job, work: Work) -> tuple[str, ...]:
    """What keeps each group from a job, and which nodes are in none."""
    demands = tuple(dict.fromkeys(pod.demand for pod in job.unpinned))
    if job.trouble() is not None or not demands:
        return ()
    found = causes(cluster, Shelf(cluster, job.place, demands), job)
    lines = [f"{unit}: {cause.detail}" for unit, cause in found]
    if job.place.size > 1:
        lines += [
            f"node {node.name}: in no working UltraServer, label {job.place.unit} is "
            f"{node.labels.get(job.place.unit) or 'missing'}"
            for node in work.fleet.topology.nodes.values()
            if work.fleet.has(node) and node.unit(job.place.unit) is None
        ]
    return tuple(lines)


def _headline(why: str, details: Sequence[str]) -> str:
    """A reason without what its details say at length."""
    if not details or not why.startswith("needs "):
        return why
    first = why.split("; ")
    return "; ".join(
        part
        for part in first[:3]
        if part.startswith(("needs ", "at most ", "what becomes")) or part.endswith(" free")
    )
