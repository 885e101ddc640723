"""Explains from a job's Workload why Kueue does not admit the job.

The fields are from Kueue 0.15 (``apis/kueue/v1beta2``). ``v1beta1`` has the same fields.
"""

from collections.abc import Iterator
from typing import Final

from kube.api import Object
from kubectl_ultraserver import messages
from kubectl_ultraserver.findings import Case, Finding
from kubectl_ultraserver.names import JobReference
from kubectl_ultraserver.objects import at, condition, is_true, labels, maps_at, metadata, name_of, text_at

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""The label of a job with the name of its LocalQueue."""
GATE_PREFIX: Final = "kueue.x-k8s.io/"
"""The prefix of Kueue's scheduling gates."""


def is_owned(workload: Object, reference: JobReference, uid: object = None) -> bool:
    """Returns whether a job owns a Workload, by the job's uid or, without ``uid``, by its kind and name."""
    return any(
        owner.get("uid") == uid if uid else reference.is_owner(owner.get("name"), owner.get("kind"))
        for owner in maps_at(workload, "metadata", "ownerReferences")
    )


def explain_kueue(case: Case) -> Iterator[Finding]:
    """Yields findings about what a queued or suspended job waits for."""
    uid = metadata(case.job).get("uid")
    workloads = [workload for workload in case.workloads if is_owned(workload, case.reference, uid)]
    queue = labels(case.job).get(QUEUE_LABEL, "")
    for workload in workloads:
        yield from _explain_workload(case, workload)
    if workloads or not case.is_suspended:
        return
    if not queue:
        policy = "runPolicy" if at(case.job, "spec", "runPolicy", "suspend") else ""
        field = f"spec.{policy}.suspend" if policy else "spec.suspend"
        remedy = messages.resume(case.namespace, f"{case.kind} {case.reference.name}", policy)
        yield Finding("suspended", "job", case.reference.name, messages.suspended(field), (), remedy)
    elif not case.has_kueue:
        yield Finding("no-kueue", "queue", queue, messages.NO_KUEUE)
    else:
        group = text_at(case.job.get("apiVersion")).partition("/")[0]
        remedy = messages.integrations(f"{group}/{case.kind}")
        yield Finding("no-workload", "queue", queue, messages.NO_WORKLOAD, (), remedy)


def _explain_workload(case: Case, workload: Object) -> Iterator[Finding]:
    """Yields findings about a Workload, except if it has finished, or is admitted and not evicted."""
    is_admitted, has_quota = (is_true(workload, kind) for kind in ("Admitted", "QuotaReserved"))
    if is_true(workload, "Finished") or (is_admitted and not is_true(workload, "Evicted")):
        return
    queue = text_at(workload, "spec", "queueName")
    eviction = condition(workload, "Evicted") if is_true(workload, "Evicted") else {}
    eviction_text = messages.kueue_evicted(eviction.get("reason"), text_at(eviction.get("message")))
    details = (eviction_text.rstrip(": "),) if eviction else ()
    if at(workload, "spec", "active") is False:
        yield Finding("deactivated", "queue", queue, messages.deactivated(name_of(workload)), details)
    elif has_quota:
        checks = [
            messages.admission_check(check.get("name"), check.get("state"), text_at(check.get("message")))
            for check in maps_at(workload, "status", "admissionChecks")
            if check.get("state") != "Ready"
        ]
        yield Finding("admission-checks", "queue", queue, messages.WAITS_FOR_CHECKS, (*checks, *details))
    else:
        why = text_at(condition(workload, "QuotaReserved"), "message") or messages.NOT_SEEN
        # QuotaReserved is also False if nodes are missing. Then Kueue's message names the topology.
        lacks_nodes = 'topology "' in why
        describe_command = messages.describe_queue(case.namespace, queue)
        resource, remedy = ("nodes", messages.TOPOLOGY) if lacks_nodes else ("quota", describe_command)
        problem = messages.waits_in_queue(resource, why)
        yield Finding("no-nodes" if lacks_nodes else "no-quota", "queue", queue, problem, details, remedy)
