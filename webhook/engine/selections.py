"""Whether nodes can meet what a job's author and the table ask of them together."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from common.pointers import field_name
from contract import keys
from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.objects.templates import listed, matches
from webhook.objects.tree import Json, Path, map_at, maps_at
from webhook.rows.families import Fitted
from webhook.rows.workloads import WORKER

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_TERMS: Final[Mapping[str, Path]] = {
    "podAntiAffinity": ("spec", "affinity", "podAntiAffinity", _REQUIRED),
    "podAffinity": ("spec", "affinity", "podAffinity", _REQUIRED),
    "spread": ("spec", "topologySpreadConstraints"),
}


def cluster_labels(job: Job) -> str:
    """The labels by which a job selects nodes without a type, and of which the table knows nothing."""
    untyped = [group.selection for group in job.of[WORKER] if not group.chosen_types]
    if not any(one.selector or one.terms for one in untyped):
        return ""
    wanted = job.table.candidates
    known = (*wanted.type_labels, *job.family.node_labels, *wanted.other_labels)
    labels = chain.from_iterable(chain(one.selector, *(one.terms or ())) for one in untyped)
    return ", ".join(islice((key for key in dict.fromkeys(labels) if not matches(key, known)), 5))


def contradictions(job: Job, shape: Fitted, identity: str) -> Iterator[str]:
    """What no nodes can meet of that which the author of a job and its shape require."""
    for group in job.of[WORKER] if shape.topology_key else ():
        if not {"affinity", "nodeSelector", "topologySpreadConstraints"}.isdisjoint(group.spec):
            chosen = group.selection
            unit = {shape.topology_key: ()} if shape.topology_key in chosen.selector else {}
            terms = [{**unit, **term} for term in chosen.terms or ({},)]
            # Of several terms each pod may meet another.
            units = max(1, -(-group.replicas // shape.node_config)) if len(terms) == 1 else 1
            least, selected = {shape.topology_key: units}, chosen.selector
            none = job.family.no_unit
            lacking = [
                [key for key, of in term.items() if not _open(of, selected.get(key), least.get(key, 0), none)]
                for term in terms
            ]
            if all(lacking):
                few = "no value" if least.get(key := lacking[0][0], 1) == 1 else f"fewer than {units} values"
                yield f"its node selector, required affinity and shape leave {few} of label {key}"
            yield from _against(job, group, shape, identity)


def _open(expressions: Sequence[Json], selected: Json, units: int, no_unit: str) -> bool:
    """Whether expressions and a selector leave a value of a label, or as many as pods need units."""
    wanted = [{*listed([one])} for one in expressions if one.get("operator") == "In"]
    wanted += [{selected}] if isinstance(selected, str) else []
    if any(one.get("operator") == "DoesNotExist" for one in expressions):
        return not wanted and not units
    barred = [no_unit, *listed(expressions, "NotIn")]
    return not wanted or len(set.intersection(*wanted).difference(barred)) >= max(units, 1)


def _against(job: Job, group: Group, shape: Fitted, identity: str) -> Iterator[str]:
    """Required terms on the shape's topology key that part the workers of a unit, or bring in others."""
    ours, size = {**job.peers(identity), keys.JOB: identity}, shape.node_config
    labels = {**map_at(group.template, ("metadata", "labels")), **ours}
    naming = {key for key, value in ours.items() if value in {job.name, identity}}
    for kind, place in _TERMS.items():
        for index, term in enumerate(maps_at(group.template, place)):
            meets = [(key, _meets(job.name, labels.get(key), *said)) for key, *said in _said(term)]
            own = isinstance(term.get("labelSelector"), dict) and all(met for _, met in meets)
            others = any(key in naming and not met for key, met in meets)
            wrong = {
                "podAntiAffinity": own,
                "podAffinity": others or (own and size < job.nodes),
                "spread": own
                and term.get("whenUnsatisfiable") != "ScheduleAnyway"
                and term.get("maxSkew") in range(size),
            }
            if wrong[kind] and term.get("topologyKey") == shape.topology_key:
                at = field_name((*group.path, *place, index))
                yield f"{size} of its workers cannot have one {shape.topology_key} to themselves by {at}"


def _said(term: Json) -> Iterator[tuple[str, Json, list[Json]]]:
    """Key, operator and values of what a term selects pods by."""
    for key, value in map_at(term, ("labelSelector", "matchLabels")).items():
        yield key, "In", [value]
    for item in maps_at(term, ("labelSelector", "matchExpressions")):
        yield str(item.get("key")), item.get("operator"), [*listed([item], item.get("operator"))]


def _meets(name: str, value: Json, operator: Json, values: list[Json]) -> bool:
    """Whether a worker has such a value; of a label that is not known it has the job's name."""
    there = (name if value is None else value) in values
    known = value is not None or there
    return {"In": there, "NotIn": known and not there, "Exists": known}.get(str(operator), False)
