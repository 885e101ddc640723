"""Explains why Kueue does not admit a job, from the job's Workload.

The fields are those of Kueue 0.15 (``apis/kueue/v1beta2``); ``v1beta1`` has the same ones.
"""

from collections.abc import Iterator
from typing import Final

from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.names import JobName
from kubectl_ultraserver.objects import at, condition, holds, labels, maps, metadata, name_of, text

QUEUE: Final = "kueue.x-k8s.io/queue-name"
"""Label of a job that waits in a LocalQueue."""
GATES: Final = "kueue.x-k8s.io/"
"""Prefix of Kueue's scheduling gates."""


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
        field = f"spec.{policy}.suspend" if policy else "spec.suspend"
        remedy = messages.resume(case.namespace, f"{case.kind} {case.called.name}", policy)
        yield Finding("job", case.called.name, messages.suspended(field), (), remedy)
    elif not case.kueue:
        yield Finding("queue", queue, messages.NO_KUEUE)
    else:
        group = text(case.job.get("apiVersion")).partition("/")[0]
        remedy = messages.integrations(f"{group}/{case.kind}")
        yield Finding("queue", queue, messages.NO_WORKLOAD, (), remedy)


def _held(case: Case, workload: Object) -> Iterator[Finding]:
    """Yields findings about a Workload that is not admitted and not finished."""
    admitted, reserved = (holds(workload, kind) for kind in ("Admitted", "QuotaReserved"))
    if holds(workload, "Finished") or (admitted and not holds(workload, "Evicted")):
        return
    queue = text(workload, "spec", "queueName")
    before = condition(workload, "Evicted") if holds(workload, "Evicted") else {}
    evicted = messages.kueue_evicted(before.get("reason"), text(before.get("message")))
    details = (evicted,) if before else ()
    if at(workload, "spec", "active") is False:
        yield Finding("queue", queue, messages.deactivated(name_of(workload)), details)
    elif reserved:
        checks = [
            messages.admission_check(check.get("name"), check.get("state"), text(check.get("message")))
            for check in maps(workload, "status", "admissionChecks")
            if check.get("state") != "Ready"
        ]
        yield Finding("queue", queue, messages.WAITS_FOR_CHECKS, (*checks, *details))
    else:
        why = text(condition(workload, "QuotaReserved"), "message") or messages.NOT_SEEN
        # For both Kueue reports that the quota is not reserved; if nodes are missing it names the topology.
        lack = 'topology "' in why
        describe = messages.describe_queue(case.namespace, queue)
        what, remedy = ("nodes", messages.TOPOLOGY) if lack else ("quota", describe)
        yield Finding("queue", queue, messages.waits_in_queue(what, why), details, remedy)
