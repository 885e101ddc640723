"""Decides whether a job is a candidate: by opt-in, devices, node selection, owner, labels and tolerations."""

from collections.abc import Sequence

from common.texts import cut
from contract import keys
from webhook.engine import messages
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
        return True, messages.not_a_job(job.workload.name)
    groups = job.by_role[WORKER]
    if not groups:
        return False, _explain_no_template(job)
    if not job.has_workers:
        paths = [factor.path.name for group in groups for factor in group.row.replicas if factor.path]
        places = cut(" or ".join(dict.fromkeys(paths)))
        return False, messages.no_workers(places) if places else messages.NO_WORKERS
    if not job.instance_types():
        return False, _explain_exclusion(job)
    if job.opt_in:
        return True, messages.OPTED_IN
    is_candidate, reason = _decide_by_content(job, groups)
    if not is_candidate and any(find_annotation_or_label(group.template, keys.INJECT) for group in groups):
        reason = messages.in_template(reason)
    return is_candidate, reason


def _explain_no_template(job: Job) -> str:
    rows = [row for row in job.workload.groups if row.takes_nodes is True or row.role == WORKER]
    places = cut(" or ".join(dict.fromkeys(row.template.name for row in rows)))
    is_by_devices = any(row.takes_nodes == BY_DEVICES for row in rows)
    return messages.no_node(places) if is_by_devices else messages.no_worker_template(places)


def _decide_by_content(job: Job, groups: Sequence[Group]) -> tuple[bool, str]:
    """Returns whether a job that is not opted in or out is a candidate, and the reason."""
    if reason := _explain_elsewhere(job, groups):
        return False, reason + messages.OPTS_IN
    if reason := next(filter(None, [group.node_reason for group in groups]), None):
        return True, reason
    selects_type = any(group.selects_type_of(job.family) for group in groups)
    if resource := next(filter(None, [group.requested_resource for group in groups]), None):
        minimum = job.family.whole_node[resource].at_least
        is_less = any(0 < group.amounts.get(resource, 0) < 1000 * minimum for group in groups)
        if is_less or not selects_type:
            return False, messages.wrong_amount("less" if is_less else "more", minimum, resource)
    if selects_type:
        return True, messages.selects_type(job.family.name)
    if reason := next(filter(None, [group.partial_claim_reason for group in groups]), None):
        return False, cut(reason) + messages.OPTS_IN
    devices, no_device = job.family.whole_node, explain_no_device(job.table)
    requests = (group.find_request(name) for group in groups for name in group.amounts if name in devices)
    for field, amount in requests:
        return False, cut(messages.not_a_number(no_device, field, shown(amount, 40)))
    return False, no_device


def explain_no_device(table: Table) -> str:
    """Returns the reason why a job is not a candidate: its workers request no devices of enabled families."""
    devices = dict.fromkeys(family.device[0] for family in table.enabled_families)
    return messages.no_device(" or ".join(devices))


def _explain_elsewhere(job: Job, groups: Sequence[Group]) -> str | None:
    """Returns the owner, label or toleration by which a job is not for UltraServers; None if it has none."""
    elsewhere, metadata = job.table.candidates.elsewhere, get_map(job.object, ("metadata",))
    for owner in get_maps(metadata, ("ownerReferences",)) if "ownerReferences" in metadata else ():
        group, kind = text_of(owner.get("apiVersion")).partition("/")[0], text_of(owner.get("kind"))
        if matches(kind, elsewhere.owners.get(group, ())):
            return messages.created_by(cut(kind), group)
    labels = get_map(metadata, ("labels",))
    for key, values in elsewhere.labels.items() if labels else ():
        value = labels.get(key)
        if value is not None and matches(text_of(value), values):
            return messages.has_label(key, shown(value, 40))
    for spec in (group.spec for group in groups if "tolerations" in group.spec):
        for item in get_maps(spec, ("tolerations",)):
            taint, value = item.get("key"), text_of(item.get("value") or "")
            if isinstance(taint, str) and matches(value, elsewhere.tolerations.get(taint, ())):
                return messages.tolerates(cut(f"{taint}={value}" if value else taint))
    return None


def _explain_exclusion(job: Job) -> str:
    """Returns how the node selection of a job excludes the nodes of its family, or all nodes."""
    labels, family = job.table.candidates.instance_type_labels, job.family
    for selector in (group.selection.selector for group in job.by_role[WORKER]):
        types = {label: shown(selector[label], 40) for label in labels if label in selector}
        if len({*types.values()}) > 1:
            pairs = " and ".join(f"{label} {value}" for label, value in types.items())
            return messages.two_types(pairs)
    node_labels = {**dict.fromkeys(labels, family.instance_types), **family.node_labels}
    excluded = [
        f"{' and '.join(values)} ({label})"
        for label, values in node_labels.items()
        if not all(permits(group.selection, {label: values}) for group in job.by_role[WORKER])
    ]
    return messages.leaves_out(", ".join(excluded) or messages.all_labels(family.name))
