"""Why Kueue holds a job: its Workload, its queue, and the queue's ClusterQueue.

The fields are those of Kueue 0.15 (``apis/kueue/v1beta2``); ``v1beta1``, which it serves as well, has the
same ones.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kubectl_ultraserver.findings import Finding
from kubectl_ultraserver.objects import at, condition, holds, labels, maps, metadata, name_of, number, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube.api import Object
    from kubectl_ultraserver.findings import Case
    from kubectl_ultraserver.names import JobName

QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""Label of a job that is to wait in a LocalQueue."""
GATES: Final = "kueue.x-k8s.io/"
"""Prefix of Kueue's scheduling gates."""
_TOPOLOGY: Final = (
    "kubectl ultraserver topology: who is on which UltraServer, and what is wrong with its nodes"
)


def owned(workload: Object, called: JobName, uid: object = None) -> bool:
    """Whether a Workload is of a job: by the job's uid, or by what it is called where that is not known."""
    return any(
        owner.get("uid") == uid if uid else called.means(owner.get("name"), owner.get("kind"))
        for owner in maps(workload, "metadata", "ownerReferences")
    )


def queued(case: Case) -> Iterator[Finding]:
    """What a job waits for in a queue; nothing for one that Kueue does not hold."""
    uid = metadata(case.job).get("uid")
    found = [each for each in case.workloads if owned(each, case.work.called, uid)]
    queue = labels(case.job).get(QUEUE, "")
    for workload in found:
        yield from _held(case, workload)
    if found or not case.suspended:
        return
    if not queue:
        policy = "runPolicy" if at(case.job, "spec", "runPolicy", "suspend") else ""
        release = {"spec": {policy: {"suspend": False}} if policy else {"suspend": False}}
        field = f"spec.{policy}.suspend" if policy else "spec.suspend"
        called = f"{case.work.kind} {case.work.called.name}"
        remedy = f"kubectl -n {case.work.namespace} patch {called} --type merge -p '{json.dumps(release)}'"
        text_ = f"is suspended ({field}), and by no queue"
        yield Finding("job", case.work.called.name, text_, (), remedy)
    elif not case.kueue:
        yield Finding("queue", queue, "is named by the job, but Kueue is not installed in this cluster")
    else:
        missing = queue not in case.queues
        text_ = "does not exist in the job's namespace" if missing else "has no Workload for the job yet"
        group = text(case.job.get("apiVersion")).partition("/")[0]
        remedy = f"see that Kueue runs and that its integrations list {group}/{case.work.kind}"
        yield Finding("queue", queue, text_, (), _queues(case) if missing else remedy)


def _held(case: Case, workload: Object) -> Iterator[Finding]:
    """Why a Workload is not admitted; nothing for one that is, or is finished."""
    admitted, reserved = (holds(workload, kind) for kind in ("Admitted", "QuotaReserved"))
    if holds(workload, "Finished") or (admitted and not holds(workload, "Evicted")):
        return
    queue = text(workload, "spec", "queueName")
    details = [*_history(workload), *_local(case, queue)]
    if at(workload, "spec", "active") is False:
        yield Finding(
            "queue", queue, f"Workload {name_of(workload)} is deactivated (spec.active)", tuple(details)
        )
    elif reserved:
        checks = [
            f"admission check {check.get('name')}: {check.get('state')}: {text(check.get('message'))}"
            for check in maps(workload, "status", "admissionChecks")
            if check.get("state") != "Ready"
        ]
        why = "has reserved the job's quota, and waits for admission checks"
        yield Finding("queue", queue, why, (*checks, *details))
    else:
        said = condition(workload, "QuotaReserved")
        why = text(said, "message") or "has not looked at the job yet"
        # Kueue says of both that the quota is not reserved; of nodes that lack it names the topology.
        lack = 'topology "' in why
        what, remedy = ("nodes", _TOPOLOGY) if lack else ("quota", _queues(case, queue))
        yield Finding("queue", queue, f"waits for {what}: {why}", tuple(details), remedy)


def _history(workload: Object) -> Iterator[str]:
    """What was done to it before."""
    for kind in ("Evicted", "Preempted", "Requeued"):
        said = condition(workload, kind)
        wanted = "False" if kind == "Requeued" else "True"
        if said.get("status") == wanted:
            name = "not requeued" if kind == "Requeued" else kind.lower()
            yield f"{name}: {said.get('reason')}: {text(said.get('message'))}".rstrip(": ")
    if again := text(workload, "status", "requeueState", "requeueAt"):
        yield f"queued again at {again}"


def _local(case: Case, name: str) -> Iterator[str]:
    """What is the matter with a queue, and with the ClusterQueue behind it."""
    queue = case.queues.get(name)
    if queue is None:
        yield f"LocalQueue {name} does not exist in namespace {case.work.namespace}"
        return
    behind = text(queue, "spec", "clusterQueue")
    if said := _inactive(queue):
        yield f"LocalQueue {name} is not active: {said}"
    found = case.cluster_queues.get(behind)
    if found is None:
        return
    if said := _inactive(found):
        yield f"ClusterQueue {behind} is not active: {said}"
    counts = [(key, number(found, "status", f"{key}Workloads")) for key in ("pending", "admitted")]
    yield f"ClusterQueue {behind}: {', '.join(f'{count} {key}' for key, count in counts)}"
    yield from _used(found)


def _used(cluster_queue: Object) -> Iterator[str]:
    """What is taken of its quotas."""
    quotas = {
        (text(flavor, "name"), text(item, "name")): item.get("nominalQuota")
        for group in maps(cluster_queue, "spec", "resourceGroups")
        for flavor in maps(group, "flavors")
        for item in maps(flavor, "resources")
    }
    for flavor in maps(cluster_queue, "status", "flavorsReservation"):
        name = text(flavor, "name")
        for item in maps(flavor, "resources"):
            resource = text(item, "name")
            quota = quotas.get((name, resource), "?")
            yield f"flavor {name}: {item.get('total')} of {quota} {resource} reserved"


def _inactive(queue: Object) -> str:
    said = condition(queue, "Active")
    policy = text(queue, "spec", "stopPolicy")
    if policy not in ("", "None"):
        return f"stopPolicy is {policy}"
    return f"{said.get('reason')}: {text(said.get('message'))}" if said.get("status") == "False" else ""


def _queues(case: Case, name: str = "") -> str:
    if not name:
        there = ", ".join(sorted(case.queues)) or "none"
        return f"LocalQueues of namespace {case.work.namespace}: {there}"
    return f"kubectl -n {case.work.namespace} describe localqueue {name}"
