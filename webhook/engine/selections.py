"""Finds requirements of a job's author and the table that no nodes can meet together."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from common.pointers import field_name
from contract import keys
from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.objects.templates import REQUIRED, matches, values_of
from webhook.objects.tree import Json, Path, map_at, maps_at, text_of
from webhook.rows.families import JobShape
from webhook.rows.workloads import WORKER

_TERMS: Final[Mapping[str, Path]] = {
    "podAntiAffinity": ("spec", "affinity", "podAntiAffinity", REQUIRED),
    "podAffinity": ("spec", "affinity", "podAffinity", REQUIRED),
    "spread": ("spec", "topologySpreadConstraints"),
}
_WIDER: Final = ("topology.kubernetes.io/*", "failure-domain.beta.kubernetes.io/*", "topology.k8s.aws/*")
"""Labels that have the same value on all nodes of a unit."""


def cluster_labels(job: Job) -> str:
    """Returns the labels by which a job selects nodes without a type, and which the table does not know."""
    selecting = [group for group in job.of[WORKER] if group.selection.selector or group.selection.terms]
    if not selecting:
        return ""
    untyped = [group.selection for group in selecting if not group.chosen_types]
    wanted = job.table.candidates
    units = (unit.label for unit in job.family.units)
    known = (*wanted.instance_type_labels, *job.family.node_labels, *units, *wanted.other_labels)
    labels = chain.from_iterable(chain(nodes.selector, *(nodes.terms or ())) for nodes in untyped)
    return ", ".join(islice((key for key in dict.fromkeys(labels) if not matches(key, known)), 5))


def contradictions(job: Job, shape: JobShape, identity: str) -> Iterator[str]:
    """Yields the requirements of a job's author and its shape that no nodes can meet together."""
    for group in job.of[WORKER]:
        if not {"affinity", "nodeSelector", "topologySpreadConstraints"}.isdisjoint(group.spec):
            chosen = group.selection
            # The number of values of a label that the pods need.
            least = {keys.HOSTNAME: group.replicas} if group.node_reason else {}
            if shape.topology_key:
                least[shape.topology_key] = -(-group.replicas // shape.node_config)
            own = {key: () for key in least if key in chosen.selector}
            terms = [{**own, **term} for term in chosen.terms or ({},)]
            # With several terms, each pod may meet another one.
            least = {key: max(1, number) if len(terms) == 1 else 1 for key, number in least.items()}
            selected = chosen.selector
            lacking = [
                [key for key, of in term.items() if not _open(of, selected.get(key), least.get(key, 0))]
                for term in terms
            ]
            if all(lacking):
                needed = least.get(key := lacking[0][0], 1)
                few = "no value" if needed == 1 else f"fewer than {needed} values"
                yield f"its node selector, required affinity and shape leave {few} of label {key}"
            yield from _against(job, group, shape, identity)


def _open(expressions: Sequence[Json], selected: Json, units: int) -> bool:
    """Returns whether expressions and a selector permit as many values of a label as pods need units."""
    wanted = [{*values_of([item])} for item in expressions if item.get("operator") == "In"]
    wanted += [{selected}] if isinstance(selected, str) else []
    if any(item.get("operator") == "DoesNotExist" for item in expressions):
        return not wanted and not units
    barred = [keys.NO_SERVER, *values_of(expressions, "NotIn")]
    return not wanted or len(set.intersection(*wanted).difference(barred)) >= max(units, 1)


def _against(job: Job, group: Group, shape: JobShape, identity: str) -> Iterator[str]:
    """Yields terms that split a unit's workers, require other pods, or put several workers on one node."""
    size = shape.node_config
    for kind, at, term, own, others in _terms(job, group, identity):
        parted = {
            "podAntiAffinity": own,
            "podAffinity": others or (own and size < job.nodes),
            "spread": own and _spreads(term, size) and _counts_other_nodes(term),
        }
        key = text_of(term.get("topologyKey") or "")
        wider = kind == "podAntiAffinity" and size > 1 and matches(key, _WIDER)
        if parted[kind] and (wider or key == shape.topology_key):
            yield f"{size} of its workers cannot have one {shape.topology_key} to themselves by {at}"
        elif own and kind == "podAffinity" and key == keys.HOSTNAME and group.node_reason and job.nodes > 1:
            yield f"its workers need a node each, and have to share one by {at}"


def units_apart(job: Job) -> Iterator[str]:
    """Yields spread constraints that separate the workers of a unit, unless they select one unit."""
    if shape := job.shape:
        terms = (term for group in job.of[WORKER] for term in _terms(job, group, job.identity))
        for kind, at, term, own, _ in terms:
            apart = kind == "spread" and own and term.get("topologyKey") == shape.topology_key
            if apart and _spreads(term, shape.node_config) and not _counts_other_nodes(term):
                yield at


def _spreads(constraint: Json, size: int) -> bool:
    """Returns whether a spread constraint requires fewer Pods than this on a unit, if others have none."""
    required = constraint.get("whenUnsatisfiable") != "ScheduleAnyway"
    return required and constraint.get("maxSkew") in range(size)


def _counts_other_nodes(constraint: Json) -> bool:
    """Returns whether a spread constraint counts nodes that the Pod's own selector leaves out."""
    return constraint.get("nodeAffinityPolicy") == "Ignore" or constraint.get("minDomains") not in (None, 1)


def _terms(job: Job, group: Group, identity: str) -> Iterator[tuple[str, str, Json, bool, bool]]:
    """Yields the author's terms with kind and field, and whether one selects all workers, and other pods."""
    ours = {**job.peers(identity), keys.JOB: identity}
    labels = {**map_at(group.template, ("metadata", "labels")), **ours}
    naming = {key for key, value in ours.items() if value in {job.name, identity}}
    for kind, place in _TERMS.items():
        for index, term in enumerate(maps_at(group.template, place)):
            meets = [
                (key, _meets(job.name, labels.get(key), operator, values))
                for key, operator, values in _expressions(term)
            ]
            own = isinstance(term.get("labelSelector"), dict) and all(met for _, met in meets)
            others = any(key in naming and not met for key, met in meets)
            yield kind, field_name((*group.path, *place, index)), term, own, others


def _expressions(term: Json) -> Iterator[tuple[str, Json, list[Json]]]:
    """Yields key, operator and values of a term's selector for pods."""
    for key, value in map_at(term, ("labelSelector", "matchLabels")).items():
        yield key, "In", [value]
    for item in maps_at(term, ("labelSelector", "matchExpressions")):
        yield str(item.get("key")), item.get("operator"), [*values_of([item], item.get("operator"))]


def _meets(name: str, value: Json, operator: Json, values: list[Json]) -> bool:
    """Returns whether a worker has such a value; an unknown label is assumed to have the job's name."""
    there = (name if value is None else value) in values
    known = value is not None or there
    return {"In": there, "NotIn": known and not there, "Exists": known}.get(str(operator), False)
