"""What pods say, as far as it counts: about its place a pod says what whoever could write it claims.

A pod that is not believed holds what it truly has, its node and its devices, and nothing more. It counts for
no job; who looks at it is told why.
"""

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from contract.keys import PLACE
from contract.place import Place, Placer
from placement.model import Ended, JobKey, Pod, Taken
from placement.topology import Topology, Units

Seen = Pod | Ended | Taken
"""What a decision is made from, beside nodes."""

_PLANNED: Final = re.compile(r"(?<!\S)([0-9]{1,6})=(\S{1,63})(?!\S)", re.ASCII)


def planned(pods: Iterable[Seen], now: datetime, bound: timedelta) -> list[Seen]:
    """What is seen; pods behind the gate with the units that an unfinished opening has for them.

    A plan counts for as long as an opened job may take, and for a block of which nothing stands elsewhere.
    """
    seen = list(pods)
    plans: defaultdict[JobKey, dict[int, str]] = defaultdict(dict)
    for pod in seen:
        if isinstance(pod, Pod) and pod.plan and pod.opened and not pod.deleting and now - pod.opened < bound:
            plans[pod.key].update((int(block), unit) for block, unit in _PLANNED.findall(pod.plan))
    if not plans:
        return seen
    of_jobs = [pod for pod in seen if isinstance(pod, Pod) and pod.key in plans]
    stands = {(pod.key, pod.block) for pod in of_jobs if pod.node or pod.opened}
    due = {
        pod.uid: replace(pod, due=plans[pod.key].get(pod.block, ""))
        for pod in of_jobs
        if pod.gated and pod.place and (pod.key, pod.block) not in stands
    }
    return [due.get(pod.uid, pod) if isinstance(pod, Pod) else pod for pod in seen]


def believed(pod: Pod, nodes: Topology, units: Units) -> Pod:
    """A pod as it was read, or, where it is not believed, as one of no job with a `problem`."""
    why = pod.place and _doubt(pod, pod.place, nodes, units)
    return replace(pod, job="", place=None, problem=why) if why else pod


def _doubt(pod: Pod, place: Place, nodes: Topology, units: Units) -> str | None:
    if (place.unit, place.size) not in units:
        return (
            f"annotation {PLACE} names units of {place.size} nodes by the label {place.unit[:80]!r}: "
            "there are none here"
        )
    if place.placer is Placer.GATE and not (pod.neuron or pod.claims):
        return "it asks for no Neuron devices: it has no need of a place"
    node = nodes.nodes.get(pod.node)
    if node is not None and place.unit not in node.labels:
        return f"it is on node {node.name}, which has no label {place.unit}: that is in no unit"
    return None
