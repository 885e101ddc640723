"""Which workers are believed: what a pod says about its place is a claim of whoever could write it.

A pod that is not believed holds what it truly has, its node and its devices, and nothing more. It counts for
no job; who looks at it is told why.
"""

from dataclasses import replace

from contract.keys import PLACE
from contract.place import Place, Placer
from placement.model import Pod
from placement.topology import Topology, Units


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
