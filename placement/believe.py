"""What pods say, as far as it counts: about its place a pod says what whoever could write it claims.

A pod that is not believed holds what it truly has, its node and its devices, and nothing more. It counts for
no job; who looks at it is told why.
"""

import re
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

    A plan counts for as long as an opened job may take, for pods that were there, and for a block of which
    nothing stands elsewhere: who came later is made again, and its unit may be why.
    """
    seen = list(pods)
    plans: dict[tuple[JobKey, int], tuple[str, datetime]] = {}
    for pod in seen:
        if not isinstance(pod, Pod) or pod.opened is None or pod.deleting or abs(now - pod.opened) >= bound:
            continue
        for block, unit in _PLANNED.findall(pod.plan):
            plans[pod.key, int(block)] = unit, pod.opened
    if not plans:
        return seen
    of_blocks = [pod for pod in seen if isinstance(pod, Pod) and pod.place and (pod.key, pod.block) in plans]
    stands = {(pod.key, pod.block) for pod in of_blocks if pod.node or pod.opened}
    due: dict[str, Pod] = {}
    for pod in of_blocks:
        unit, since = plans[pod.key, pod.block]
        if pod.gated and pod.created <= since and (pod.key, pod.block) not in stands:
            due[pod.uid] = replace(pod, due=unit)
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
