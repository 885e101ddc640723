"""Why a pod cannot be placed even if all units were free: its fields cannot be read, compared or believed."""

from typing import Final

from contract.keys import PLACE
from contract.place import Placer
from placement.decide.topology import Topology
from placement.observe.model import Pod, Units
from placement.observe.read import MOST_ANNOTATIONS, MOST_CLAIMS, MOST_CONDITIONS, MOST_GATES, MOST_TEXT
from placement.observe.selectors import MOST_COMPARED

TEXTS: Final = {
    # Problems of the pod's own fields.
    "place": "{}",
    "gates": f"it has {{}} scheduling gates: at most {MOST_GATES} are looked at",
    "conditions": (
        "its node selector, node affinity and tolerations have {} parts of {} characters: "
        f"at most {MOST_CONDITIONS} parts of {MOST_TEXT} characters are compared"
    ),
    "annotations": f"its annotations have {{}} bytes: at most {MOST_ANNOTATIONS}, so that its unit has room",
    "labels": f"its labels have {{}} characters: at most {MOST_TEXT} are looked at",
    "claims": f"it has {{}} resourceClaims: at most {MOST_CLAIMS} are looked at",
    # Problems of its claims.
    "lost": "claims cannot be followed: {}",
    "shared": (
        "claim {} is one for all pods that name it: use a resourceClaimTemplateName, so that each has its own"
    ),
    "unmade": "no claim was created from {} yet: its Events say why",
    "of": "{}: {}",
    "class": "{}: there is no DeviceClass {}",
    "mode": "{} has ultraserverMode {}, and the job has node config {}: use one of the same",
    "asks": "its claims have {} requests for devices: at most {} are compared; use counts",
    "requests": f"it has {{}} requests and comparisons: at most {MOST_COMPARED} are looked at",
    "choices": "its request {} has firstAvailable: say exactly",
    "selector": (
        "its selector {!r} is not understood: only comparisons with == are, and && between them, "
        f"up to {MOST_COMPARED}"
    ),
    # Reasons for which its placement annotation is not believed.
    "units": f"annotation {PLACE} names units of {{}} nodes by the label {{!r}}: there are none here",
    "devices": "it asks for no {}: it does not need a place",
    "unlabelled": "it is on node {}, which has no label {}: that is in no unit",
}


def text(kind: str, *values: object) -> str:
    """Returns a `Fault` in words."""
    return TEXTS[kind].format(*(text(*value) if isinstance(value, tuple) else value for value in values))


def doubt(pod: Pod, topology: Topology, units: Units, *, neuron: bool) -> str:
    """Returns why a worker's placement annotation is not believed; empty if it is."""
    place = pod.place
    if place is None:
        return ""
    kind = units.kinds.get(place.unit)
    if kind is None or not kind.takes(place.size):
        return text("units", place.size, place.unit[:80])
    if not (neuron or pod.claims) and place.placer is Placer.WHOLE_JOB:
        return text("devices", kind.resource)
    node = topology.nodes.get(pod.node) if pod.node else None
    if node is not None and place.unit not in node.labels:
        return text("unlabelled", node.name, place.unit)
    return ""
