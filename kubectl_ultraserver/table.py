"""The units, kinds and placers of an installation: its ConfigMap's rows, merged over the packaged rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from common.tablefiles import merge_texts, packaged_texts, table_file_names
from contract.placement import PLACERS, Placer
from kube.api import Object
from kubectl_ultraserver.objects import map_at, text_at
from placement.observe.model import OFF_MODES, UNITS, UnitSettings, units_of

POD: Final = "v1/Pod"
SHAPE_LEVEL: Final = "$(shape.topologyKey)"
"""The value of ``kueueLevel`` with which Kueue's level is the unit label of the shape."""
_SECTIONS: Final = ("candidates", "families", "guarantees", "rules", "values", "workloads")


@dataclass(frozen=True)
class Table:
    """The parts of a rule table that commands need."""

    kinds: Sequence[str] = ()  # the kinds of job, as ``GROUP/VERSION/KIND``
    units: UnitSettings = UNITS  # the node labels that form units, and the number of nodes in a unit
    type_label: str = ""  # the first label in the table's list of node labels with the instance type
    types: Sequence[str] = ()  # the instance types of the families whose mode is not ``off``
    # The placers ``kueue`` and ``whole-job``, each only if a rule in mode ``enforce`` names it.
    placers: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()  # the levels of Kueue's Topologies that the table uses


def read(rules: Object | None) -> Table:
    """Returns the table of a ConfigMap; the packaged table if there is no ConfigMap that can be read."""
    texts = map_at(rules, "data")
    try:
        return _read(tuple(text_at(texts, name) for name in table_file_names(texts)))
    except ValueError:
        return _read(())


@lru_cache(maxsize=8)
def _read(texts: tuple[str, ...]) -> Table:
    rows = merge_texts((*packaged_texts().values(), *texts), *_SECTIONS)
    kinds = (kind for row in rows["workloads"].values() for kind in row.get("kinds") or ())
    families = [row for row in rows["families"].values() if row.get("mode") not in OFF_MODES]
    instance_types = (instance_type for row in families for instance_type in row.get("instanceTypes") or ())
    units = units_of(families, rows["guarantees"].values())
    placers = {
        PLACERS.get(row["placer"], row["placer"])
        for row in rows["rules"].values()
        if "placer" in row and row.get("mode", "enforce") == "enforce"
    }
    level = rows["values"]["kueueLevel"]
    levels = set(units.labels) if level == SHAPE_LEVEL else {level}
    return Table(
        tuple(dict.fromkeys(kind for kind in kinds if kind != POD)),
        units,
        rows["candidates"]["instanceTypeLabels"][0],
        tuple(dict.fromkeys(instance_types)),
        frozenset(placers & {Placer.KUEUE, Placer.WHOLE_JOB}),
        frozenset(levels if Placer.KUEUE in placers else ()),
    )
