"""What an installation's rule table says of units, kinds and placers: the rows of its ConfigMap. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from common.tablefiles import merged, ordered
from contract.place import PLACERS, Placer
from kube.api import Object
from kubectl_ultraserver.objects import mapped, text
from placement.observe.model import UNITS, Units, units_of

KINDS: Final = (
    "kubeflow.org/v2beta1/MPIJob",
    "kubeflow.org/v1/MPIJob",
    "batch.tensorstack.dev/v1beta1/MPIJob",
    "kubeflow.org/v1/PyTorchJob",
    "batch/v1/Job",
    "jobset.x-k8s.io/v1alpha2/JobSet",
    "leaderworkerset.x-k8s.io/v1/LeaderWorkerSet",
)
TYPE_LABEL: Final = "node.kubernetes.io/instance-type"
TYPES: Final = ("trn2u.48xlarge", "ml.trn2u.48xlarge")
OFF: Final = {
    **dict.fromkeys(("kueue-chooses-nodes", "kueue-chooses-topology"), Placer.KUEUE),
    "whole-job-workers": Placer.WHOLE_JOB,
}
"""What the packaged table has, which others do not repeat; the placers are of rows that are off."""
_SECTIONS: Final = ("candidates", "families", "rules", "values", "workloads")


@dataclass(frozen=True)
class Table:
    """Rows of a rule table.

    Attributes:
        kinds: Kinds of job, as ``GROUP/VERSION/KIND``.
        units: By which node labels nodes make units, and how many.
        type_label: The node label with the instance type.
        types: Instance types of UltraServers.
        placers: The placers of the rows that are enforced.
        levels: Those of Topologies that it asks Kueue for.
    """

    kinds: Sequence[str] = KINDS
    units: Units = UNITS
    type_label: str = TYPE_LABEL
    types: Sequence[str] = TYPES
    placers: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()


def read(rules: Object | None) -> Table:
    """Returns what the ConfigMap says, with what every table has; only that where it cannot be read."""
    texts = mapped(rules, "data")
    try:
        rows = merged((text(texts, name) for name in ordered(texts)), *_SECTIONS)
    except ValueError:
        return Table()
    kinds = (kind for row in rows["workloads"].values() for kind in row.get("kinds") or ())
    families = rows["families"].values()
    types = (name for row in families for name in row.get("instanceTypes") or ())
    units = units_of(families)
    placers = frozenset(
        PLACERS.get(row.get("placer"), row.get("placer", OFF.get(name, "")))
        for name, row in rows["rules"].items()
        if row.get("mode", name not in OFF and "enforce") == "enforce"
    ) - {""}
    level = rows["values"].get("kueueLevel")  # without it, of each shape its own
    levels = {level} if level else set(units.labels)
    return Table(
        tuple(dict.fromkeys((*KINDS, *kinds))),
        units,
        rows["candidates"].get("instanceTypeLabel", TYPE_LABEL),
        tuple(dict.fromkeys((*types, *TYPES))),
        placers,
        frozenset(levels if Placer.KUEUE in placers else ()),
    )
