"""Explains why Kueue does not admit a job, from the job's Workload.

The fields are those of Kueue 0.15 (``apis/kueue/v1beta2``); ``v1beta1`` has the same ones.
"""

import json
from collections.abc import Iterator
from typing import Final

from kube.api import Object
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import at, condition, holds, labels, maps, metadata, name_of, text

QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""Label of a job that waits in a LocalQueue."""
GATES: Final = "kueue.x-k8s.io/"
"""Prefix of Kueue's scheduling gates."""
_TOPOLOGY: Final = (
    "kubectl ultraserver topology: which jobs hold which UltraServer, and which nodes are broken"
)


def owned(workload: Object, called: JobName, uid: object = None) -> bool:
    """Returns whether a Workload belongs to a job, by the job's uid or, without one, by its name."""
    return any(
        owner.get("uid") == uid if uid else called.means(owner.get("name"), owner.get("kind"))
        for owner in maps(workload, "metadata", "ownerReferences")
    )


def queued(case: Case) -> Iterator[Finding]:
    """Yields findings about what a job waits for in a queue."""
    uid = metadata(case.job).get("uid")
    workloads = [each for each in case.workloads if owned(each, case.called, uid)]
    queue = labels(case.job).get(QUEUE, "")
    for workload in workloads:
        yield from _held(case, workload)
    if workloads or not case.suspended:
        return
    if not queue:
        policy = "runPolicy" if at(case.job, "spec", "runPolicy", "suspend") else ""
        release = {"spec": {policy: {"suspend": False}} if policy else {"suspend": False}}
        field = f"spec.{policy}.suspend" if policy else "spec.suspend"
        called = f"{case.kind} {case.called.name}"
        remedy = f"kubectl -n {case.namespace} patch {called} --type merge -p '{json.dumps(release)}'"
        text_ = f"is suspended ({field}), and by no queue"
        yield Finding("job", case.called.name, text_, (), remedy)
    elif not case.kueue:
        yield Finding("queue", queue, "is named by the job, but Kueue is not installed in this cluster")
    else:
        group = text(case.job.get("apiVersion")).partition("/")[0]
        remedy = f"check that Kueue runs and that its integrations list {group}/{case.kind}"
        yield Finding("queue", queue, "has no Workload for the job yet", (), remedy)


def _held(case: Case, workload: Object) -> Iterator[Finding]:
    """Yields findings about a Workload that is not admitted and not finished."""
    admitted, reserved = (holds(workload, kind) for kind in ("Admitted", "QuotaReserved"))
    if holds(workload, "Finished") or (admitted and not holds(workload, "Evicted")):
        return
    queue = text(workload, "spec", "queueName")
    before = condition(workload, "Evicted") if holds(workload, "Evicted") else {}
    evicted = f"evicted: {before.get('reason')}: {text(before.get('message'))}".rstrip(": ")
    details = (evicted,) if before else ()
    if at(workload, "spec", "active") is False:
        yield Finding("queue", queue, f"Workload {name_of(workload)} is deactivated (spec.active)", details)
    elif reserved:
        checks = [
            f"admission check {check.get('name')}: {check.get('state')}: {text(check.get('message'))}"
            for check in maps(workload, "status", "admissionChecks")
            if check.get("state") != "Ready"
        ]
        why = "has reserved the job's quota, and waits for admission checks"
        yield Finding("queue", queue, why, (*checks, *details))
    else:
        why = text(condition(workload, "QuotaReserved"), "message") or "has not looked at the job yet"
        # For both Kueue reports that the quota is not reserved; if nodes are missing it names the topology.
        lack = 'topology "' in why
        describe = f"kubectl -n {case.namespace} describe localqueue {queue}"
        what, remedy = ("nodes", _TOPOLOGY) if lack else ("quota", describe)
        yield Finding("queue", queue, f"waits for {what}: {why}", details, remedy)
