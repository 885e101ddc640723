"""How a job's pods are placed: what its templates are to say, and what a Pod says."""

import re
from collections.abc import Mapping
from typing import Final

from contract import keys, place
from contract.place import ContractError, Place, Placer
from webhook.engine.jobs import OpenGroup, OpenJob, is_pod
from webhook.objects.tree import Json, get, map_at, text_of
from webhook.rows.table import Shape

_GROUP: Final = re.compile(r"[0-9]{1,9}", re.ASCII)
"""The number of a group."""


def place_of(job: OpenJob, group: OpenGroup, shape: Shape, placer: Placer) -> Place:
    """How the pods of one of a job's groups are placed."""
    unit = shape.topology_key or keys.HOSTNAME
    return Place(placer, job.nodes(), shape.node_config, unit, group.index, job.workload.group)


def peers(job: OpenJob, identity: str) -> Mapping[str, str]:
    """Labels that all pods of a job that take nodes have, and no other pods of its namespace.

    The identity is the value of the job label; empty where no rule sets it.
    """
    named = {"$(job.name)": job.name}
    if job.name and job.workload.peers:
        return {key: named.get(value, value) for key, value in job.workload.peers.items()}
    return {keys.JOB: identity} if identity else {}


def said_by(job: OpenJob) -> Place | None:
    """The place of a Pod; None for what is not a Pod, or has none that can be read."""
    if not is_pod(job):
        return None
    metadata = _texts(job.object)
    try:
        return place.read(metadata) or job.workload.place
    except ContractError:
        return None


def block_of(pod: Json, found: Place) -> str | None:
    """Which block of its job a Pod belongs to; None where there is one only, or the Pod has no number."""
    metadata = _texts(pod)
    try:
        number = found.number({"metadata": metadata, "spec": get(pod, ("spec",))})
    except ContractError:
        return None
    if number is None or found.size == 1 or found.workers <= found.size:
        return None
    block, group = str(number // found.size), metadata["labels"].get(found.group, "")
    if not found.group:
        return block
    # Of a pod without the label, or with an odd one, the block could be no label.
    return f"{group}-{block}" if _GROUP.fullmatch(group) else None


def _texts(pod: Json) -> dict[str, Json]:
    """A Pod's name, labels and annotations, as anybody may have written them."""
    labels, annotations = (
        {key: text_of(value) for key, value in map_at(pod, ("metadata", kind)).items()}
        for kind in ("labels", "annotations")
    )
    name = map_at(pod, ("metadata",)).get("name")
    return {"name": name if isinstance(name, str) else "", "labels": labels, "annotations": annotations}
