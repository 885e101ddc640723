"""Finds unknown node labels, and requirements of a user that conflict with a job's shape."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final

from common.pointers import field_name
from contract import keys
from webhook.engine import messages
from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.objects.templates import REQUIRED, matches, values_of
from webhook.objects.tree import Json, Path, get_map, get_maps, text_of
from webhook.rows.families import JobShape
from webhook.rows.workloads import WORKER

_TERM_PATHS: Final[Mapping[str, Path]] = {
    "podAntiAffinity": ("spec", "affinity", "podAntiAffinity", REQUIRED),
    "podAffinity": ("spec", "affinity", "podAffinity", REQUIRED),
    "spread": ("spec", "topologySpreadConstraints"),
}
_ZONES: Final = ("topology.kubernetes.io/*", "failure-domain.beta.kubernetes.io/*", "topology.k8s.aws/*")
"""Globs of node labels that have the same value on all nodes of a unit."""


def find_unknown_labels(job: Job) -> str:
    """Returns up to five node labels, comma-separated, that workers select and the table does not have.

    Leaves out the labels of templates that choose an instance type.
    """
    groups = [group for group in job.by_role[WORKER] if group.selection.selector or group.selection.terms]
    if not groups:
        return ""
    selections = [group.selection for group in groups if not group.chosen_types]
    candidates = job.table.candidates
    units = chain.from_iterable((unit.label, *unit.other_labels) for unit in job.family.units)
    names = (*candidates.instance_type_labels, *job.family.node_labels, *units, *candidates.other_labels)
    labels = chain.from_iterable(chain(item.selector, *(item.terms or ())) for item in selections)
    return ", ".join(islice((key for key in dict.fromkeys(labels) if not matches(key, names)), 5))


def find_contradictions(job: Job, shape: JobShape, label_value: str) -> Iterator[str]:
    """Yields messages about requirements of the user that no nodes can meet together with the job's shape.

    ``label_value`` is the value of the job label.
    """
    for group in job.by_role[WORKER]:
        if not {"affinity", "nodeSelector", "topologySpreadConstraints"}.isdisjoint(group.spec):
            selection = group.selection
            # For each label, the minimum number of its values on the nodes of the group's pods.
            counts = {keys.HOSTNAME: group.replicas} if group.node_reason else {}
            if shape.topology_key:
                counts[shape.topology_key] = -(-group.replicas // shape.node_config)
            selected_labels = {key: () for key in counts if key in selection.selector}
            terms = [{**selected_labels, **term} for term in selection.terms or ({},)]
            # If there are several terms, each pod may meet a different term.
            counts = {key: max(1, count) if len(terms) == 1 else 1 for key, count in counts.items()}
            selector = selection.selector
            failed_keys = [
                [
                    key
                    for key, items in term.items()
                    if not _permits(items, selector.get(key), counts.get(key, 0))
                ]
                for term in terms
            ]
            if all(failed_keys):
                minimum = counts.get(key := failed_keys[0][0], 1)
                yield messages.no_value_left(key) if minimum == 1 else messages.few_values_left(minimum, key)
            yield from _find_contradicting_terms(job, group, shape, label_value)


def _permits(expressions: Sequence[Json], selected_value: Json, count: int) -> bool:
    """Returns whether a label's expressions and its selected value permit ``count`` different values.

    A count of 0 also permits nodes without the label.
    """
    sets = [{*values_of([item])} for item in expressions if item.get("operator") == "In"]
    sets += [{selected_value}] if isinstance(selected_value, str) else []
    if any(item.get("operator") == "DoesNotExist" for item in expressions):
        return not sets and not count
    excluded_values = [keys.NO_SERVER, *values_of(expressions, "NotIn")]
    return not sets or len(set.intersection(*sets).difference(excluded_values)) >= max(count, 1)


def _find_contradicting_terms(job: Job, group: Group, shape: JobShape, label_value: str) -> Iterator[str]:
    """Yields messages about terms that separate the workers of a block, or join them with other pods."""
    size = shape.node_config
    for kind, field, term, selects_workers, selects_others in _find_terms(job, group, label_value):
        contradicts_by_kind = {
            "podAntiAffinity": selects_workers,
            "podAffinity": selects_others or (selects_workers and size < job.nodes),
            "spread": selects_workers and _is_strict_spread(term, size) and _counts_other_nodes(term),
        }
        key = text_of(term.get("topologyKey") or "")
        is_on_one_node = kind == "podAffinity" and key == keys.HOSTNAME
        is_wider = kind == "podAntiAffinity" and size > 1 and matches(key, _ZONES)
        if contradicts_by_kind[kind] and (is_wider or key == shape.topology_key):
            yield messages.not_alone(field, size, shape.topology_key)
        elif selects_workers and is_on_one_node and group.node_reason and job.nodes > 1:
            yield messages.one_node(field)


def find_separating_constraints(job: Job) -> Iterator[str]:
    """Yields the fields of spread constraints that can separate the workers of a block.

    They do not separate workers whose node selector names a unit, as after whole-job admission.
    """
    if shape := job.shape:
        key, workers = shape.topology_key, job.by_role[WORKER]
        groups = (group for group in workers if key not in group.selection.selector)
        terms = (term for group in groups for term in _find_terms(job, group, job.job_label))
        for kind, field, term, selects_workers, _ in terms:
            is_spread = kind == "spread" and selects_workers and term.get("topologyKey") == key
            if is_spread and _is_strict_spread(term, shape.node_config) and not _counts_other_nodes(term):
                yield field


def _is_strict_spread(constraint: Json, size: int) -> bool:
    """Returns whether a constraint permits fewer than ``size`` Pods on a unit while other units are empty."""
    is_required = constraint.get("whenUnsatisfiable") != "ScheduleAnyway"
    return is_required and constraint.get("maxSkew") in range(size)


def _counts_other_nodes(constraint: Json) -> bool:
    """Returns whether a spread constraint counts nodes that a selector excludes, or needs several domains."""
    return constraint.get("nodeAffinityPolicy") == "Ignore" or constraint.get("minDomains") not in (None, 1)


def _find_terms(job: Job, group: Group, label_value: str) -> Iterator[tuple[str, str, Json, bool, bool]]:
    """Yields the kind, the field and the content of each term of the user, and then two booleans.

    The first is whether the term selects the workers of the group, the second whether it selects pods of
    another job.
    """
    job_labels = {**job.peer_labels(label_value), keys.JOB: label_value}
    labels = {**get_map(group.template, ("metadata", "labels")), **job_labels}
    identifying_keys = {key for key, value in job_labels.items() if value in {job.name, label_value}}
    for kind, path in _TERM_PATHS.items():
        for index, term in enumerate(get_maps(group.template, path)):
            results = [
                (key, _is_met(job.name, labels.get(key), operator, values))
                for key, operator, values in _read_expressions(term)
            ]
            has_selector = isinstance(term.get("labelSelector"), dict)
            selects_workers = has_selector and all(is_met for _, is_met in results)
            selects_others = any(key in identifying_keys and not is_met for key, is_met in results)
            yield kind, field_name((*group.path, *path, index)), term, selects_workers, selects_others


def _read_expressions(term: Json) -> Iterator[tuple[str, Json, list[Json]]]:
    """Yields key, operator and values of each requirement in the label selector of a term."""
    for key, value in get_map(term, ("labelSelector", "matchLabels")).items():
        yield key, "In", [value]
    for item in get_maps(term, ("labelSelector", "matchExpressions")):
        yield str(item.get("key")), item.get("operator"), [*values_of([item], item.get("operator"))]


def _is_met(name: str, value: Json, operator: Json, values: list[Json]) -> bool:
    """Returns whether a label value meets a requirement. The operator may set a missing label to ``name``."""
    is_listed = (name if value is None else value) in values
    exists = value is not None or is_listed
    return {"In": is_listed, "NotIn": exists and not is_listed, "Exists": exists}.get(str(operator), False)
