"""The Pods of a job that does not exist yet, in the form of a decision's input."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import product
from typing import Any

from common.pointers import get, get_map
from contract.keys import GATE, PLACE
from contract.place import NAME, Index, Place, Placer, Term
from kube.api import Object
from placement.observe.model import Pod
from placement.observe.read import read_pod


def coming(  # noqa: PLR0913, PLR0917 - all that the Pods of a job depend on
    namespace: str,
    name: str,
    workers: Sequence[Object],
    place: Place,
    sets: int,
    priorities: Mapping[str, int],
    now: datetime,
) -> list[Pod]:
    """Returns the workers that an operator would create for a job. The name of each ends with its number.

    Args:
        namespace: The namespace of the job.
        name: Its name.
        workers: The worker Pods of one group, as admission would store them, without names.
        place: The placement annotation of the first.
        sets: The number of groups, each of which is a job for whole-job admission.
        priorities: The value of each priority class by name. The default class has an empty name.
        now: When they are created.
    """
    placed = replace(place, placer=Placer.WHOLE_JOB, index=Index((Term(NAME),)))
    pods = []
    for group, (number, worker) in product(range(sets), enumerate(workers)):
        own_group = {place.group: str(group)} if place.group else {}
        labels = get_map(worker, ("metadata", "labels")) | own_group
        marks = {
            "labels": labels,
            "annotations": get_map(worker, ("metadata", "annotations")) | {PLACE: str(placed)},
        }
        own = f"{name}-{group}-{number}"
        spec = {**_as_created(get_map(worker, ("spec",)), labels), "schedulingGates": [{"name": GATE}]}
        priority = priorities.get(spec.get("priorityClassName") or "", 0)
        claimed = [
            {"name": entry["name"], "resourceClaimName": f"{own}-{entry['name']}"}
            for entry in spec.get("resourceClaims") or ()
        ]
        raw = {
            "metadata": {"namespace": namespace, "name": own, "uid": f"{namespace}/{own}"} | marks,
            "spec": spec | {"priority": priority},
            "status": {"resourceClaimStatuses": claimed},
        }
        pod = read_pod(raw)
        pods += [replace(pod, job=pod.job or name, created=now)] if pod else []
    return pods


def _as_created(spec: Mapping[str, Any], labels: Mapping[str, Any]) -> Object:
    """Returns a Pod's spec with what the API server adds to anti-affinity terms with `mismatchLabelKeys`."""
    key = "requiredDuringSchedulingIgnoredDuringExecution"
    terms: list[Object] = []
    for term in get(spec, ("affinity", "podAntiAffinity", key)) or ():
        others = [each for each in term.get("mismatchLabelKeys") or () if each in labels]
        more = [{"key": each, "operator": "NotIn", "values": [labels[each]]} for each in others]
        selector = term.get("labelSelector") or {}
        every: Iterable[Object] = [*(selector.get("matchExpressions") or ()), *more]
        terms.append({**term, "labelSelector": {**selector, "matchExpressions": every}} if more else term)
    if not terms:
        return dict(spec)
    affinity = spec["affinity"]
    apart = {**affinity["podAntiAffinity"], key: terms}
    return {**spec, "affinity": {**affinity, "podAntiAffinity": apart}}
