"""Creates the Pods of a job that does not exist yet, as inputs of a decision."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import Any

from common.pointers import get, get_map
from contract.keys import GATE, PLACEMENT
from contract.placement import NAME, Index, Placement, Placer, Summand
from kube.api import Object
from placement.observe.model import Pod
from placement.observe.read import read_pod


def future_pods(  # noqa: PLR0913, PLR0917 - all that the Pods of a job depend on
    namespace: str,
    name: str,
    workers: Sequence[Object],
    placement: Placement,
    group_count: int,
    priorities: Mapping[str, int],
    now: datetime,
) -> list[Pod]:
    """Returns the workers that an operator would create for a job, gated and with the placer `WHOLE_JOB`.

    Each name ends with the number of the worker in ``workers``.

    Args:
        namespace: The namespace of the job.
        name: The name of the job.
        workers: The workers (of a LeaderWorkerSet: of one group) with the webhook's changes, without names.
        placement: The placement annotation of the first worker.
        group_count: The number of groups of a LeaderWorkerSet (each group is admitted as a job); else 1.
        priorities: The value of each priority class by name. The default class has an empty name.
        now: The creation time of the Pods.
    """
    whole_job_placement = replace(placement, placer=Placer.WHOLE_JOB, index=Index((Summand(NAME),)))
    pods = []
    for group, (number, worker) in product(range(group_count), enumerate(workers)):
        group_label = {placement.group: str(group)} if placement.group else {}
        labels = get_map(worker, ("metadata", "labels")) | group_label
        annotations = get_map(worker, ("metadata", "annotations")) | {PLACEMENT: str(whole_job_placement)}
        pod_name = f"{name}-{group}-{number}"
        spec = {**_as_created(get_map(worker, ("spec",)), labels), "schedulingGates": [{"name": GATE}]}
        priority = priorities.get(spec.get("priorityClassName") or "", 0)
        statuses = [
            {"name": entry["name"], "resourceClaimName": f"{pod_name}-{entry['name']}"}
            for entry in spec.get("resourceClaims") or ()
        ]
        identity = {"namespace": namespace, "name": pod_name, "uid": f"{namespace}/{pod_name}"}
        raw = {
            "metadata": identity | {"labels": labels, "annotations": annotations},
            "spec": spec | {"priority": priority},
            "status": {"resourceClaimStatuses": statuses},
        }
        pod = read_pod(raw)
        pods += [replace(pod, job=pod.job or name, created=now)] if pod else []
    return pods


def _as_created(spec: Mapping[str, Any], labels: Mapping[str, Any]) -> Object:
    """Returns a spec with the expressions that the API server adds for `mismatchLabelKeys`."""
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    terms: list[Object] = []
    for term in get(spec, ("affinity", "podAntiAffinity", key)) or ():
        mismatch_keys = [label for label in term.get("mismatchLabelKeys") or () if label in labels]
        added = [{"key": label, "operator": "NotIn", "values": [labels[label]]} for label in mismatch_keys]
        selector = term.get("labelSelector") or {}
        expressions: Iterable[Object] = [*(selector.get("matchExpressions") or ()), *added]
        terms.append(
            {**term, "labelSelector": {**selector, "matchExpressions": expressions}} if added else term
        )
    if not terms:
        return dict(spec)
    affinity = spec["affinity"]
    anti_affinity = {**affinity["podAntiAffinity"], key: terms}
    return {**spec, "affinity": {**affinity, "podAntiAffinity": anti_affinity}}
