"""Finds the names of a pod's job: in labels of the operator, in the owner, and in the job label."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from contract import placement
from contract.keys import TRAINING

NAME_LABELS: Final = (
    TRAINING + "job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "batch.kubernetes.io/job-name",
)
"""Labels of operators whose value is the name of a pod's job."""


def names_of(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields pairs of the kind (in lower case, or empty if unknown) and a name of a pod's job."""
    controllers = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    owners = {str(owner.get("name") or ""): str(owner.get("kind") or "").lower() for owner in controllers}
    labels = metadata.get("labels") or {}
    for key in NAME_LABELS:
        if name := labels.get(key):
            is_mpi = labels.get(TRAINING + "operator-name") == "mpi-operator"
            yield owners.get(name) or ("mpijob" if is_mpi else ""), name
    for name, kind in owners.items():
        yield kind, name
    if name := placement.job_id(metadata):
        # In the job label of every job except an MPIJob, the kind comes after the name.
        job_name = name.removeprefix(f"{metadata.get('namespace')}.")
        yield "", re.sub(r"_[^_/]+[.][^_/]+$", "", job_name)
