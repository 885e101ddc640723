"""Writes the input of a decision as JSON, from which `placement.replay` repeats the decision. Pure.

It has the fields of `placement.observe.model`, and nothing else of an object: no command, variable or Secret.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from contract.keys import DRIVER, GATE, NO_NODE, NO_SERVER, NODE_IDS
from placement.decide.believe import PLANNED
from placement.decide.fit import INTEGER
from placement.observe.inventory import Claim, DeviceClass
from placement.observe.model import HIDDEN, MARKS, Device, Ended, Guarantee, Node, Pod, Units

# Fields without names. The keys of maps, such as those of labels, are none, either.
KEPT: Final = frozenset(
    {"release", "kinds", "place", "key", "operator", "effect", "created"}
    | {"attributes", "conditions", "resource", "resources", "on_failure"}
)
# Values that mean the same in every cluster.
_PUBLIC: Final = frozenset({"", DRIVER, NO_SERVER, NO_NODE})


@dataclass(frozen=True)
class Snapshot:
    """The input of a decision."""

    release: str  # the release that took the snapshot
    taken: datetime
    complete: bool  # whether all pods and claims could be listed
    units: Units
    nodes: tuple[Node, ...]  # with their devices
    pods: tuple[Pod, ...]
    ended: tuple[Ended, ...]
    # Each after its namespace, which may be empty, and its name.
    classes: tuple[tuple[tuple[str, str], DeviceClass], ...]
    claims: tuple[tuple[tuple[str, str], Claim], ...]


def as_json(snapshot: Snapshot, *, hidden: bool = False) -> Any:  # noqa: ANN401 - JSON
    """Returns a snapshot as JSON, without the labels that no decision reads.

    If names are hidden, numbers replace all names and label values. Their order, and which are equal, stays,
    because decisions depend on it; so does the number at the end of a pod's name. Numbers that node affinity
    compares stay as they are.
    """
    kept = _selected(snapshot)
    if not hidden:
        return _plain(kept, str)
    namespaces = {pod.namespace for pod in kept.pods} | {namespace for (namespace, _), _ in kept.claims}
    kept = replace(kept, units=_resolved(kept.units, namespaces))
    public = _PUBLIC | _compared(kept)
    names: dict[str, str] = {}
    _plain(kept, lambda name: names.setdefault(name, ""))
    width = len(str(len(names)))
    for number, name in enumerate(sorted(names)):
        names[name] = name if name in public else f"n{number:0{width}}"
    return _plain(kept, names.__getitem__)


def _selected(snapshot: Snapshot) -> Snapshot:
    """Returns a snapshot with those labels only that its pods select, and those of units."""
    of_nodes, of_pods = {*snapshot.units.kinds, *NODE_IDS.values()}, {HIDDEN, *MARKS}
    for pod in snapshot.pods:
        expressions = (item for term in pod.demand.terms or () for item in term.labels)
        of_nodes.update(pod.demand.selector, (item.key for item in expressions))
        of_nodes.update(apart.key for apart in pod.apart)
        of_pods.update(item.key for apart in pod.apart for item in apart.labels or ())

    def some(labels: Mapping[str, str], keys: set[str]) -> Mapping[str, str]:
        return {key: value for key, value in labels.items() if key in keys}

    nodes = tuple(replace(node, labels=some(node.labels, of_nodes)) for node in snapshot.nodes)
    pods = tuple(replace(pod, labels=some(pod.labels, of_pods)) for pod in snapshot.pods)
    return replace(snapshot, nodes=nodes, pods=pods)


def _compared(snapshot: Snapshot) -> set[str]:
    """Returns the numbers that node affinity compares by their size."""
    demands = {pod.demand for pod in snapshot.pods}
    items = [item for demand in demands for term in demand.terms or () for item in term.labels]
    by_size = [item for item in items if item.operator in ("Gt", "Lt")]
    keys = {item.key for item in by_size}
    values = {value for item in by_size for value in item.values}
    values |= {node.labels.get(key, "") for node in snapshot.nodes for key in keys}
    return {value for value in values if INTEGER.fullmatch(value)}


def _resolved(units: Units, namespaces: Collection[str]) -> Units:
    """Returns units with the namespaces of guarantees in place of globs, which match no hidden name.

    A guarantee without any keeps one glob, which is hidden as a name is.
    """
    guarantees = (
        replace(row, namespaces=tuple(sorted(filter(row.includes, namespaces))) or row.namespaces[:1])
        for row in units.guarantees
    )
    return replace(units, guarantees=tuple(guarantees))


def _plain(value: Any, name: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON of any shape
    """Returns a value as JSON, with each of its names replaced."""
    if isinstance(value, str):
        return name(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds()}S"
    if isinstance(value, Mapping):
        return {key: _plain(item, name) for key, item in value.items()}
    if is_dataclass(value):
        return {field.name: _field(value, field.name, name) for field in fields(value) if field.init}
    if names := getattr(value, "_fields", ()):
        return {field: _field(value, field, name) for field in names}
    if isinstance(value, frozenset):
        return sorted((_plain(item, name) for item in value), key=str)
    return [_plain(item, name) for item in value] if isinstance(value, tuple) else value


def _field(value: object, field: str, name: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON of any shape
    """Returns a field as JSON; some have names as parts of a text."""
    item = getattr(value, field)
    match value, field:
        case Device(), "key":
            driver, pool, device = re.fullmatch("device ([^/]*)/(.*)/([^/]*)", item).groups()  # type: ignore[union-attr]
            return f"device {name(driver)}/{name(pool)}/{name(device)}"
        case Units(), "devices":
            return sorted(item)
        case Guarantee(), "unit":
            return item
        case _ if field in KEPT:
            return _plain(item, str)
        case Pod(), "name":
            # Not the base alone: `a-1-1` sorts before `a-2`, and `a` before `a-1`.
            hidden, (_, dash, number) = name(item), item.rpartition("-")
            return f"{hidden}-{number}" if hidden != item and dash and number.isdecimal() else hidden
        case Pod(), "plan":
            return " ".join(f"{block}={name(unit)}" for block, unit in PLANNED.findall(item))
        case Pod(), "gates":
            return [gate if gate == GATE else name(gate) for gate in item]
        case _, "fault" if item:
            return [item[0], *_plain(item[1:], name)]
    return _plain(item, name)
