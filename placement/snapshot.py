"""Writes the inputs of a decision as JSON, from which `placement.replay` repeats the decision. Pure.

The JSON has only the fields of `placement.observe`'s objects: no command, no environment variable, no Secret.
"""

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from contract.keys import DRIVER, GATE, NO_NODE, NO_SERVER, NODE_IDS
from placement.decide.fit import INTEGER
from placement.decide.members import PLAN_ENTRY
from placement.observe.inventory import Claim, DeviceClass
from placement.observe.model import HIDDEN, MARKS, Device, EndedWorker, Guarantee, Node, Pod, UnitSettings

# Fields whose values contain no names. The keys of maps, such as label keys, are never replaced.
NAMELESS_FIELDS: Final = frozenset(
    {"release", "kinds", "placement", "key", "operator", "effect", "created"}
    | {"attributes", "conditions", "resource", "resources", "on_failure"}
)
# Values that have the same meaning in every cluster, and so are not hidden.
_PUBLIC: Final = frozenset({"", DRIVER, NO_SERVER, NO_NODE})


@dataclass(frozen=True)
class Snapshot:
    """The inputs of a decision."""

    release: str  # the release that took the snapshot
    taken: datetime
    complete: bool  # whether the user could list all pods and claims
    units: UnitSettings
    nodes: tuple[Node, ...]  # the nodes with their devices
    pods: tuple[Pod, ...]
    ended: tuple[EndedWorker, ...]
    # Each entry has a namespace, which may be empty, a name, and the object.
    classes: tuple[tuple[tuple[str, str], DeviceClass], ...]
    claims: tuple[tuple[tuple[str, str], Claim], ...]


def as_json(snapshot: Snapshot, *, hidden: bool = False) -> Any:  # noqa: ANN401 - JSON
    """Returns a snapshot as JSON, without the labels that no decision reads.

    If ``hidden``, numbers replace all names and label values, except `_PUBLIC` and label values that node
    affinity compares as numbers. Equal names stay equal and names keep their order, because decisions depend
    on both. A pod's name keeps the number at its end, for people.
    """
    reduced = _without_unread_labels(snapshot)
    if not hidden:
        return _json_of(reduced, str)
    namespaces = {pod.namespace for pod in reduced.pods} | {namespace for (namespace, _), _ in reduced.claims}
    reduced = replace(reduced, units=_without_globs(reduced.units, namespaces))
    public = _PUBLIC | _compared_numbers(reduced)
    names: dict[str, str] = {}
    _json_of(reduced, lambda name: names.setdefault(name, ""))
    width = len(str(len(names)))
    for number, name in enumerate(sorted(names)):
        names[name] = name if name in public else f"n{number:0{width}}"
    return _json_of(reduced, names.__getitem__)


def _without_unread_labels(snapshot: Snapshot) -> Snapshot:
    """Returns a snapshot with only the labels that its pods select, and the labels of units and jobs."""
    node_keys, pod_keys = {*snapshot.units.kinds, *NODE_IDS.values()}, {HIDDEN, *MARKS}
    for pod in snapshot.pods:
        expressions = (item for term in pod.demand.terms or () for item in term.labels)
        node_keys.update(pod.demand.selector, (item.key for item in expressions))
        node_keys.update(apart.key for apart in pod.apart)
        pod_keys.update(item.key for apart in pod.apart for item in apart.labels or ())

    def with_keys(labels: Mapping[str, str], keys: set[str]) -> Mapping[str, str]:
        return {key: value for key, value in labels.items() if key in keys}

    nodes = tuple(replace(node, labels=with_keys(node.labels, node_keys)) for node in snapshot.nodes)
    pods = tuple(replace(pod, labels=with_keys(pod.labels, pod_keys)) for pod in snapshot.pods)
    return replace(snapshot, nodes=nodes, pods=pods)


def _compared_numbers(snapshot: Snapshot) -> set[str]:
    """Returns the numbers that node affinity compares with the operators Gt and Lt."""
    demands = {pod.demand for pod in snapshot.pods}
    items = [item for demand in demands for term in demand.terms or () for item in term.labels]
    comparisons = [item for item in items if item.operator in ("Gt", "Lt")]
    keys = {item.key for item in comparisons}
    values = {value for item in comparisons for value in item.values}
    values |= {node.labels.get(key, "") for node in snapshot.nodes for key in keys}
    return {value for value in values if INTEGER.fullmatch(value)}


def _without_globs(units: UnitSettings, namespaces: Collection[str]) -> UnitSettings:
    """Returns units whose guarantees have namespaces in place of globs, because globs match no hidden name.

    A guarantee that applies to no namespace keeps one glob, which is then hidden as a name.
    """
    guarantees = (
        replace(row, namespaces=tuple(sorted(filter(row.includes, namespaces))) or row.namespaces[:1])
        for row in units.guarantees
    )
    return replace(units, guarantees=tuple(guarantees))


def _json_of(value: Any, rename: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON of any shape
    """Returns a value as JSON; ``rename`` returns the replacement of each name."""
    if isinstance(value, str):
        return rename(value)
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return f"PT{value.total_seconds()}S"
    if isinstance(value, Mapping):
        return {key: _json_of(item, rename) for key, item in value.items()}
    if is_dataclass(value):
        return {item.name: _json_of_field(value, item.name, rename) for item in fields(value) if item.init}
    if names := getattr(value, "_fields", ()):
        return {field: _json_of_field(value, field, rename) for field in names}
    if isinstance(value, frozenset):
        return sorted((_json_of(item, rename) for item in value), key=str)
    return [_json_of(item, rename) for item in value] if isinstance(value, tuple) else value


def _json_of_field(value: object, field: str, rename: Callable[[str], str]) -> Any:  # noqa: ANN401 - JSON of any shape
    """Returns a field as JSON. `rename` replaces all names, including names inside a text."""
    item = getattr(value, field)
    match value, field:
        case Device(), "key":
            driver, pool, device = re.fullmatch("device ([^/]*)/(.*)/([^/]*)", item).groups()  # type: ignore[union-attr]
            return f"device {rename(driver)}/{rename(pool)}/{rename(device)}"
        case UnitSettings(), "devices":
            return sorted(item)
        case Guarantee(), "unit":
            return item
        case _ if field in NAMELESS_FIELDS:
            return _json_of(item, str)
        case Pod(), "name":
            # `rename` gets the whole name, so that hidden names sort like the real names. Then the number is
            # added, because people need it.
            hidden, (_, dash, number) = rename(item), item.rpartition("-")
            return f"{hidden}-{number}" if hidden != item and dash and number.isdecimal() else hidden
        case Pod(), "plan":
            return " ".join(f"{block}={rename(unit)}" for block, unit in PLAN_ENTRY.findall(item))
        case Pod(), "gates":
            return [gate if gate == GATE else rename(gate) for gate in item]
        case _, "fault" if item:
            return [item[0], *_json_of(item[1:], rename)]
    return _json_of(item, rename)
