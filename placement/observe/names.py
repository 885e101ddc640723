"""What the job of a pod may be called: by its operator's labels, its owner, and the webhook's label."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from contract import place
from contract.keys import TRAINING

NAME_LABELS: Final = (
    TRAINING + "job-name",
    "jobset.sigs.k8s.io/jobset-name",
    "leaderworkerset.sigs.k8s.io/name",
    "batch.kubernetes.io/job-name",
)
"""Labels by which operators say which job a pod is of."""


def names_of(metadata: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Of a pod's metadata: kind, in lower case and empty where it is not known, and name."""
    owned = [owner for owner in metadata.get("ownerReferences") or () if owner.get("controller")]
    owners = {str(owner.get("name") or ""): str(owner.get("kind") or "").lower() for owner in owned}
    marks = metadata.get("labels") or {}
    for key in NAME_LABELS:
        if name := marks.get(key):
            of_mpi = marks.get(TRAINING + "operator-name") == "mpi-operator"
            yield owners.get(name) or ("mpijob" if of_mpi else ""), name
    for name, kind in owners.items():
        yield kind, name
    if found := place.job(metadata):
        # The label of every job but an MPIJob says the kind after the name.
        said = found.removeprefix(f"{metadata.get('namespace')}.")
        yield "", re.sub(r"_[^_/]+[.][^_/]+$", "", said)
