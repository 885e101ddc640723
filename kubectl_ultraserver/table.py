"""The units, kinds and placers of an installation: rows of its ConfigMap over the packaged ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from common.tablefiles import merged, ordered, packaged
from contract.place import PLACERS, Placer
from kube.api import Object
from kubectl_ultraserver.objects import mapped, text
from placement.observe.model import OFF, UNITS, Units, units_of

POD: Final = "v1/Pod"
OWN_LEVEL: Final = "$(shape.topologyKey)"
"""In the value ``kueueLevel``: each shape has its own level."""
_SECTIONS: Final = ("candidates", "families", "guarantees", "rules", "values", "workloads")


@dataclass(frozen=True)
class Table:
    """Rows of a rule table.

    Attributes:
        kinds: Kinds of job, as ``GROUP/VERSION/KIND``.
        units: By which node labels nodes make units, and how many.
        type_label: The node label with the instance type.
        types: Instance types of the families that are on.
        placers: Kueue and whole-job admission, if a row that is enforced names them.
        levels: Those of Topologies that it asks Kueue for.
    """

    kinds: Sequence[str] = ()
    units: Units = UNITS
    type_label: str = ""
    types: Sequence[str] = ()
    placers: frozenset[str] = frozenset()
    levels: frozenset[str] = frozenset()


def read(rules: Object | None) -> Table:
    """Returns the table of a ConfigMap; the packaged one without a ConfigMap, or if it cannot be read."""
    texts = mapped(rules, "data")
    try:
        return _read(tuple(text(texts, name) for name in ordered(texts)))
    except ValueError:
        return _read(())


@lru_cache(maxsize=8)
def _read(texts: tuple[str, ...]) -> Table:
    rows = merged((*packaged().values(), *texts), *_SECTIONS)
    kinds = (kind for row in rows["workloads"].values() for kind in row.get("kinds") or ())
    families = [row for row in rows["families"].values() if row.get("mode") not in OFF]
    types = (name for row in families for name in row.get("instanceTypes") or ())
    units = units_of(families, rows["guarantees"].values())
    placers = {
        PLACERS.get(row["placer"], row["placer"])
        for row in rows["rules"].values()
        if "placer" in row and row.get("mode", "enforce") == "enforce"
    }
    level = rows["values"]["kueueLevel"]
    levels = set(units.labels) if level == OWN_LEVEL else {level}
    return Table(
        tuple(dict.fromkeys(kind for kind in kinds if kind != POD)),
        units,
        rows["candidates"]["instanceTypeLabels"][0],
        tuple(dict.fromkeys(types)),
        frozenset(placers & {Placer.KUEUE, Placer.WHOLE_JOB}),
        frozenset(levels if Placer.KUEUE in placers else ()),
    )
