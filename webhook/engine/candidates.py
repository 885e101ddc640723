"""Decides whether a job is a candidate: by opt-in, devices, node selection, owner, labels and tolerations."""

from collections.abc import Sequence

from common.texts import cut
from contract import keys
from webhook.engine.groups import Group
from webhook.engine.jobs import Job
from webhook.engine.reading import find_annotation_or_label
from webhook.objects.templates import matches, permits
from webhook.objects.tree import get_map, get_maps, shown, text_of
from webhook.rows.table import Table
from webhook.rows.workloads import BY_DEVICES, WORKER


def decide_candidacy(job: Job) -> tuple[bool, str]:
    """Returns whether a job that is not opted out is a candidate, and the reason (docs/jobs.md)."""
    if not job.workload.takes_nodes:
        return True, f"a {job.workload.name} is not a job: only rules for such objects apply"
    groups = job.by_role[WORKER]
    if not groups:
        return False, _explain_no_template(job)
    if not job.has_workers:
        return False, _explain_no_workers(groups)
    if not job.instance_types():
        return False, f"its own selection of nodes {_explain_exclusion(job)}"
    if job.opt_in:
        return True, f"opted in by {keys.INJECT}"
    is_candidate, reason = _decide_by_content(job, groups)
    if not is_candidate and any(find_annotation_or_label(group.template, keys.INJECT) for group in groups):
        reason = f"{reason} ({keys.INJECT} has an effect only in the job's metadata, not in its template's)"
    return is_candidate, reason


def _explain_no_template(job: Job) -> str:
    rows = [row for row in job.workload.groups if row.takes_nodes is True or row.role == WORKER]
    places = cut(" or ".join(dict.fromkeys(row.template.name for row in rows)))
    if any(row.takes_nodes == BY_DEVICES for row in rows):
        return f"no pod template at {places} asks for a node's devices or selects a family's instance type"
    return f"the job has no {WORKER} template: there is none at {places}"


def _explain_no_workers(groups: Sequence[Group]) -> str:
    paths = [factor.path.name for group in groups for factor in group.row.replicas if factor.path]
    places = cut(" or ".join(dict.fromkeys(paths)))
    return f"the job has no workers: {places} is missing or 0" if places else "the job has no workers"


def _decide_by_content(job: Job, groups: Sequence[Group]) -> tuple[bool, str]:
    """Returns whether a job that is not opted in or out is a candidate, and the reason."""
    hint = f"; {keys.INJECT} opts it in"
    if reason := _explain_elsewhere(job, groups):
        return False, reason + hint
    if need := next(filter(None, [group.node_reason for group in groups]), None):
        return True, f"its workers {need}"
    selects_type = any(group.selects_type_of(job.family) for group in groups)
    if resource := next(filter(None, [group.requested_resource for group in groups]), None):
        minimum = job.family.whole_node[resource].at_least
        is_less = any(0 < group.amounts.get(resource, 0) < 1000 * minimum for group in groups)
        if is_less or not selects_type:
            comparison = f"{'less' if is_less else 'more'} than the {minimum} {resource} that a node has"
            way_out = f"request {minimum}, or opt the job in with {keys.INJECT}"
            return False, f"its workers ask for {comparison}: {way_out}"
    if selects_type:
        return True, f"its workers select an instance type of family {job.family.name}"
    if claim_reason := next(filter(None, [group.partial_claim_reason for group in groups]), None):
        return False, cut(f"its workers {claim_reason}") + hint
    devices, no_device = job.family.whole_node, explain_no_device(job.table)
    requests = (group.find_request(name) for group in groups for name in group.amounts if name in devices)
    if field_and_amount := next(requests, None):
        field, amount = field_and_amount
        return False, cut(f"{no_device}: {field} is {shown(amount, 40)}; write a number, such as 16")
    return False, no_device


def explain_no_device(table: Table) -> str:
    """Returns the reason why a job is not a candidate: its workers request no devices of enabled families."""
    devices = dict.fromkeys(family.device[0] for family in table.enabled_families)
    return f"the workers request no {' or '.join(devices)}"


def _explain_elsewhere(job: Job, groups: Sequence[Group]) -> str | None:
    """Returns the owner, label or toleration by which a job is not for UltraServers; None if it has none."""
    elsewhere, metadata = job.table.candidates.elsewhere, get_map(job.object, ("metadata",))
    for owner in get_maps(metadata, ("ownerReferences",)) if "ownerReferences" in metadata else ():
        group, kind = text_of(owner.get("apiVersion")).partition("/")[0], text_of(owner.get("kind"))
        if matches(kind, elsewhere.owners.get(group, ())):
            return f"a {cut(kind)} of {group} created the job and chooses its nodes"
    purpose = "which is for other nodes than UltraServers"
    labels = get_map(metadata, ("labels",))
    for key, values in elsewhere.labels.items() if labels else ():
        value = labels.get(key)
        if value is not None and matches(text_of(value), values):
            return f"its label {key} is {shown(value, 40)}, {purpose}"
    for spec in (group.spec for group in groups if "tolerations" in group.spec):
        for item in get_maps(spec, ("tolerations",)):
            taint, value = item.get("key"), text_of(item.get("value") or "")
            if isinstance(taint, str) and matches(value, elsewhere.tolerations.get(taint, ())):
                return f"its workers tolerate {cut(f'{taint}={value}' if value else taint)}, {purpose}"
    return None


def _explain_exclusion(job: Job) -> str:
    """Returns how the node selection of a job excludes the nodes of its family, or all nodes."""
    labels, family = job.table.candidates.instance_type_labels, job.family
    for selector in (group.selection.selector for group in job.by_role[WORKER]):
        types = {label: shown(selector[label], 40) for label in labels if label in selector}
        if len({*types.values()}) > 1:
            pairs = " and ".join(f"{label} {value}" for label, value in types.items())
            return f"asks for two instance types at once, which no node has: {pairs}; take one out"
    node_labels = {**dict.fromkeys(labels, family.instance_types), **family.node_labels}
    excluded = [
        f"{' and '.join(values)} ({label})"
        for label, values in node_labels.items()
        if not all(permits(group.selection, {label: values}) for group in job.by_role[WORKER])
    ]
    return f"leaves out {', '.join(excluded) or f'nodes with all labels of family {family.name}'}"
