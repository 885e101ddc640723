"""What pods say, as far as it counts: about its place a pod says what whoever could write it claims.

A pod that is not believed holds what it truly has, its node and its devices, and nothing more. It counts for
no job; who looks at it is told why.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from contract.keys import PLACE
from contract.place import Place, Placer
from placement.decide.topology import Topology
from placement.observe.model import JobKey, Pod, Units

_PLANNED: Final = re.compile(r"(?<!\S)([0-9]{1,6})=(\S{1,63})(?!\S)", re.ASCII)


def planned(pods: Sequence[Pod], now: datetime, bound: timedelta) -> Sequence[Pod]:
    """The pods; those behind the gate with the units that an unfinished opening has for them.

    A plan counts for as long as an opened job may take, for pods that were there, and for a block of which
    nothing stands elsewhere: a pod that came later was recreated, its unit may be why.
    """
    plans: dict[tuple[JobKey, int], tuple[str, datetime]] = {}
    for pod in pods:
        if pod.opened is not None and not pod.deleting and abs(now - pod.opened) < bound:
            for block, unit in _PLANNED.findall(pod.plan):
                plans[pod.key, int(block)] = unit, pod.opened
    if not plans:
        return pods
    stands = {(pod.key, pod.block) for pod in pods if pod.place and (pod.node or pod.opened)}

    def due(pod: Pod) -> str:
        if not (pod.gated and pod.place):
            return ""
        unit, since = plans.get((pod.key, pod.block), ("", now))
        return unit if pod.created <= since and (pod.key, pod.block) not in stands else ""

    return [replace(pod, due=unit) if (unit := due(pod)) else pod for pod in pods]


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
        return "it asks for no Neuron devices: it does not need a place"
    node = nodes.nodes.get(pod.node)
    if node is not None and place.unit not in node.labels:
        return f"it is on node {node.name}, which has no label {place.unit}: that is in no unit"
    return None
